"""How a batch job changes its target table, and the statements that do so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.errors import InvalidStatement
from headrace.grammar.lexer import code_tokens
from headrace.grammar.quoting import quote_name, unquote_name
from headrace.model.run import BatchTarget, WriteMode

OVERWRITE_CONF = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
"""Configuration of the statement that overwrites only the partitions in its rows."""
_COUNT = "`headrace rows of key`"


def parse_write(text: str) -> tuple[WriteMode, tuple[str, ...]]:
    """Return the mode and the merge keys of `append`, `overwrite-partitions` or `merge on (…)`.

    Raise InvalidStatement for anything else.
    """
    word = text.strip().casefold()
    if word in {WriteMode.APPEND, WriteMode.OVERWRITE_PARTITIONS}:
        return WriteMode(word), ()
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
    return WriteMode.MERGE, tuple(map(unquote_name, keys))


def create_statement(target: BatchTarget, query: str) -> str:
    """Return the statement that creates a table for the rows of a query, without rows."""
    columns = _list_names(target.partition_by)
    partitions = f" PARTITIONED BY ({columns})" if columns else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {_name(target)}{partitions} AS\n"
        f"SELECT * FROM (\n{_trim(query)}\n) LIMIT 0"
    )


def partitions_statement(target: BatchTarget, query: str) -> str:
    """Return the query for the partitions that the rows of another query are in."""
    columns = _list_names(target.partition_by)
    return f"SELECT DISTINCT {columns} FROM (\n{_trim(query)}\n) ORDER BY {columns}"  # noqa: S608 - SQL of the user


def write_statement(target: BatchTarget, query: str) -> str:
    """Return the statement that writes the rows of a query to a table, by the names of columns.

    A NULL in a key of a merge equals another NULL, so that a second run finds the row of the first.

    An overwrite names the partition columns, so that Spark refuses a table with other ones: in a
    table without partitions, it would replace all rows.
    """
    table, query = _name(target), _trim(query)
    if target.write is WriteMode.APPEND:
        return f"INSERT INTO {table} BY NAME\n{query}"
    if target.write is WriteMode.OVERWRITE_PARTITIONS:
        partitions = _list_names(target.partition_by)
        return f"INSERT OVERWRITE {table} PARTITION ({partitions}) BY NAME\n{query}"
    names = [quote_name(key) for key in target.merge_keys]
    condition = " AND ".join(f"target.{name} <=> source.{name}" for name in names)
    return (
        f"MERGE INTO {table} AS target USING (\n{_refuse_repeated(names, query)}\n) AS source"
        f" ON {condition}\nWHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def _refuse_repeated(names: Sequence[str], query: str) -> str:
    """Return a query that fails if two rows of another have the same key, and names the key.

    Table formats name no key in their error, and insert both rows if the table has none of them.
    """
    keys = ", ".join(names)
    repeated = f"concat('Rows with the same key of the merge: ', to_json(struct({keys})))"
    counted = f"*, count(*) OVER (PARTITION BY {keys}) AS {_COUNT}"
    return (
        f"SELECT * EXCEPT ({_COUNT}) FROM (\nSELECT {counted} FROM (\n{query}\n)\n"  # noqa: S608 - SQL of the user
        f") WHERE IF({_COUNT} > 1, raise_error({repeated}), true)"
    )


def _name(target: BatchTarget) -> str:
    return ".".join(map(quote_name, target.name))


def _list_names(columns: Iterable[str]) -> str:
    return ", ".join(map(quote_name, columns))


def _trim(query: str) -> str:
    return query.strip().removesuffix(";")
