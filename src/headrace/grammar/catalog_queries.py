"""The statements that list the names of catalogs, databases, tables, columns and functions."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NamedTuple

from headrace.grammar.quoting import quote_name


class NameKind(Enum):
    """Kinds of names that Spark lists."""

    CATALOGS = auto()
    DATABASES = auto()
    TABLES = auto()
    COLUMNS = auto()
    FUNCTIONS = auto()


class Lookup(NamedTuple):
    """A list of names."""

    kind: NameKind
    parent: tuple[str, ...] = ()
    """Parts of the name of the catalog, database or table; empty for the current one."""


class CatalogName(NamedTuple):
    """A name, and for a column its type."""

    text: str
    detail: str = ""


Rows = list[list[Any]]


def query_for(lookup: Lookup) -> str:
    """Return the statement whose rows hold the names of a lookup."""
    parent = ".".join(map(quote_name, lookup.parent))
    within = f" IN {parent}" if parent else ""
    match lookup.kind:
        case NameKind.CATALOGS:
            return "SHOW CATALOGS"
        case NameKind.DATABASES:
            return f"SHOW DATABASES{within}"
        case NameKind.TABLES:
            return f"SHOW TABLES{within}"
        case NameKind.COLUMNS:
            return f"DESCRIBE TABLE {parent}"
        case NameKind.FUNCTIONS:
            return "SHOW FUNCTIONS"


def names_in(kind: NameKind, rows: Rows) -> list[CatalogName]:
    """Return the names in the rows of the statement for a kind."""
    match kind:
        case NameKind.COLUMNS:
            return described_columns(rows)
        case NameKind.TABLES:
            return [CatalogName(row[1], "view" if row[2] is True else "table") for row in rows]
        case NameKind.FUNCTIONS:
            return [CatalogName(row[0], "function") for row in rows if str(row[0]).isidentifier()]
        case NameKind.CATALOGS:
            return [CatalogName(row[0], "catalog") for row in rows]
        case NameKind.DATABASES:
            return [CatalogName(row[0], "database") for row in rows]


def described_columns(rows: Rows) -> list[CatalogName]:
    """Return the columns in the rows of DESCRIBE TABLE, without the details that follow them."""
    columns = []
    for name, type_, *_ in rows:
        if not name or name.startswith("#"):
            break
        columns.append(CatalogName(name, type_))
    return columns
