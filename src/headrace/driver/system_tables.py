"""System tables of a statement: the names in its text, and a catalog with their rows."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headrace.driver.link import NodeLink
from headrace.driver.spark_version.system_catalog import install_catalogs, remove_catalogs
from headrace.errors import SystemTableUnavailable
from headrace.grammar.lexer import Token, TokenKind, code_tokens
from headrace.grammar.quoting import unquote_name
from headrace.model.system_tables import SYSTEM_CATALOG, SystemTable

_MISSING = {"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"}
_BEFORE_KIND = {"CREATE", "ALTER", "OR", "REPLACE", "GLOBAL", "TEMPORARY", "TEMP"}
_KEEPING = {"VIEW", "FUNCTION", "CACHE"}
"""Words that follow these at the begin of a statement whose query runs again later."""


@dataclass(frozen=True, slots=True)
class NamedTables:
    """The names in the catalog of system tables that a text has."""

    catalogs: set[str] = field(default_factory=set)
    """The name of the catalog, as the text writes it."""
    tables: set[SystemTable] = field(default_factory=set)
    others: list[str] = field(default_factory=list)
    """Names that belong to no system table."""


def find_names(text: str) -> NamedTables:
    """Return the system tables that a text may name, without a look at its grammar."""
    names = NamedTables()
    if SYSTEM_CATALOG not in text.casefold():
        return names
    before, tokens = None, list(code_tokens(text))
    for first, dot, second in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_inside, before = before is not None and before.word == ".", first
        catalog, table = _name_of(text, first), _name_of(text, second)
        if is_inside or dot.word != "." or catalog is None or table is None:
            continue
        if catalog.casefold() != SYSTEM_CATALOG:
            continue
        try:
            names.tables.add(SystemTable(table.casefold()))
            names.catalogs.add(catalog)
        except ValueError:
            names.others.append(table)
    return names


def _name_of(text: str, token: Token) -> str | None:
    written = text[token.start : token.end]
    if token.kind is TokenKind.WORD:
        return written
    return unquote_name(written) if written.startswith("`") else None


@contextmanager
def open_system_tables(session: SparkSession, text: str, link: NodeLink) -> Iterator[None]:
    """Let a session read the system tables that a statement names, until the statement ends.

    Raises:
        SystemTableUnavailable: The statement would read a system table again later, or names one
            that does not exist.
    """
    names = find_names(text)
    if names.tables:
        _check_is_read_once(text)
    installed = _install(session, names, link) if names.tables else []
    try:
        yield
    except AnalysisException as error:
        if not names.others or error.getCondition() not in _MISSING:
            raise
        raise SystemTableUnavailable(
            f"There is no table {SYSTEM_CATALOG}.{names.others[0]}. The system tables are"
            f" {', '.join(SystemTable)}. A table of your own database {SYSTEM_CATALOG} has to"
            " exist, and beside a system table it is named with its catalog."
        ) from error
    finally:
        remove_catalogs(session, installed)


def _check_is_read_once(text: str) -> None:
    words = (token.word for token in code_tokens(text))
    if next(word for word in words if word not in _BEFORE_KIND) in _KEEPING:
        raise SystemTableUnavailable(
            "A view, a function and a cached table cannot read system tables: their rows exist for"
            " one statement. Use CREATE TABLE … AS SELECT to keep them."
        )


def _install(session: SparkSession, names: NamedTables, link: NodeLink) -> list[str]:
    answer = link.read_system_tables(sorted(names.tables))
    tables = {str(name): _decode(data) for name, data in answer.tables.items()}
    return install_catalogs(session, sorted(names.catalogs), tables)


def _decode(data: str) -> pa.Table:
    with pa.ipc.open_stream(base64.b64decode(data)) as reader:
        return reader.read_all()
