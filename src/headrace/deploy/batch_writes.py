"""How a batch job changes its target table, and the statements that do so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headrace.errors import InvalidStatement
from headrace.grammar.lexer import code_tokens
from headrace.grammar.quoting import quote_name, unquote_name


class WriteMode(StrEnum):
    """How the rows of a run change a table."""

    APPEND = "append"
    OVERWRITE_PARTITIONS = "overwrite-partitions"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class BatchWrite:
    """A way to write, with the key of a merge."""

    mode: WriteMode
    keys: tuple[str, ...] = ()


OVERWRITE_CONF = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
"""Configuration of the statement that overwrites only the partitions in its rows."""


def parse_write(text: str) -> BatchWrite:
    """Parse `append`, `overwrite-partitions` or `merge on (column, …)`.

    Raise InvalidStatement for anything else.
    """
    word = text.strip().casefold()
    if word in {WriteMode.APPEND, WriteMode.OVERWRITE_PARTITIONS}:
        return BatchWrite(WriteMode(word))
    tokens = [text[token.start : token.end] for token in code_tokens(text)]
    words = [token.casefold() for token in tokens]
    if words[:3] != ["merge", "on", "("] or words[-1:] != [")"]:
        raise InvalidStatement(
            f"`write` is {text[:100]!r}, and must be `append`, `overwrite-partitions` or"
            " `merge on (column, …)`."
        )
    keys, commas = tokens[3:-1:2], words[4:-1:2]
    if not keys or any(comma != "," for comma in commas) or len(commas) != len(keys) - 1:
        raise InvalidStatement("`merge on` needs the names of columns, separated by commas.")
    return BatchWrite(WriteMode.MERGE, tuple(map(unquote_name, keys)))


def write_statement(target: tuple[str, ...], query: str, write: BatchWrite) -> str:
    """Return the statement that writes the rows of a query to a table, by the names of columns.

    A NULL in a key of a merge equals another NULL, so that a second run finds the row of the first.
    """
    table = ".".join(map(quote_name, target))
    query = query.strip().removesuffix(";")
    if write.mode is WriteMode.APPEND:
        return f"INSERT INTO {table} BY NAME\n{query}"
    if write.mode is WriteMode.OVERWRITE_PARTITIONS:
        return f"INSERT OVERWRITE {table} BY NAME\n{query}"
    names = [quote_name(key) for key in write.keys]
    condition = " AND ".join(f"target.{name} <=> source.{name}" for name in names)
    return (
        f"MERGE INTO {table} AS target USING (\n{query}\n) AS source ON {condition}\n"
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
