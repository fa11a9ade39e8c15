"""The statements of a load. They depend on the columns only: no value of a file is read as SQL.

Each row is a line of JSON, `{"f": 0, "n": 17, "c0": "1.5", …}`: the number of its file, its line in
the file, and the values of its columns. The lines come from a parameter, from a file that the
driver can read, or from a staging table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headrace.errors import InvalidRequest
from headrace.grammar.data_types import DataType
from headrace.grammar.quoting import quote_name, quote_string

_LINES = "(SELECT explode(split(:rows, chr(10))) AS row)"
_BY_FUNCTION = {"binary": "unbase64", "variant": "parse_json"}
"""Types whose values a function makes from a text, and not a CAST."""
_NOT_LOADABLE = ("void", "interval", "geometry", "geography", "object")
_SHOWN_MISFITS = 5


class LoadColumn(NamedTuple):
    """A column of the table."""

    field: str
    """Name of its values in the JSON, for example `c0`."""
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The table of a load, and those of its columns that the files have."""

    table: str
    """Name as it can stand in a statement."""
    columns: Sequence[LoadColumn]
    is_new: bool

    def __post_init__(self) -> None:
        """Check the types. Raises InvalidRequest if a column cannot be loaded."""
        for column in self.columns:
            if column.type.contains(*_NOT_LOADABLE):
                raise InvalidRequest(
                    f"The column {column.name} has the type {column.type.sql}, which cannot be "
                    "loaded from a file.",
                    hint="let Spark read the file, or leave out the column",
                )

    def write(self, source: str) -> str:
        """Return the statement that creates the table or inserts into it."""
        values = [
            f"{_convert(f'r.{column.field}', column.type)} AS {quote_name(column.name)}"
            for column in self.columns
        ]
        query = f"SELECT {', '.join(values)} FROM {self._parsed(source)}"  # noqa: S608
        if self.is_new:
            return f"CREATE TABLE {self.table} AS {query}"
        names = ", ".join(quote_name(column.name) for column in self.columns)
        return f"INSERT INTO {self.table} ({names}) {query}"

    def create_empty(self) -> str:
        """Return the statement that creates the table without rows."""
        columns = (f"{quote_name(column.name)} {column.type.sql}" for column in self.columns)
        return f"CREATE TABLE {self.table} ({', '.join(columns)})"

    def find_misfits(self, source: str, lengths: dict[str, int]) -> str | None:
        """Return the query for rows that do not fit; None if every text fits the types.

        Its columns are the number of the file, the line, the index of the first column that does
        not fit, the text of its value, and the number of all rows that do not fit.

        Args:
            lengths: Largest number of characters of columns that have one, by their names.
        """
        branches = []
        for index, column in enumerate(self.columns):
            value = f"r.{column.field}"
            misfit = _is_misfit(value, column.type)
            if column.name in lengths:
                misfit = f"char_length({value}) > {lengths[column.name]}"
            if misfit is not None:
                value = f"to_json({value})" if column.type.is_nested else value
                branches.append((index, misfit, value))
        if not branches:
            return None
        place = " ".join(f"WHEN {misfit} THEN {index}" for index, misfit, _ in branches)
        value = " ".join(f"WHEN {misfit} THEN {value}" for _, misfit, value in branches)
        return (
            "SELECT f, n, i, left(v, 100), count(*) OVER () FROM "  # noqa: S608
            f"(SELECT r.f AS f, r.n AS n, CASE {place} END AS i, CASE {value} END AS v "
            f"FROM {self._parsed(source)}) WHERE i IS NOT NULL ORDER BY f, n "
            f"LIMIT {_SHOWN_MISFITS}"
        )

    def _parsed(self, source: str) -> str:
        fields = [
            f"c{index}: {_json_type(column.type)}" for index, column in enumerate(self.columns)
        ]
        schema = quote_string(f"STRUCT<{', '.join(['f: INT', 'n: BIGINT', *fields])}>")
        return f"(SELECT from_json(row, {schema}, map('mode', 'FAILFAST')) AS r FROM {source})"  # noqa: S608


def from_parameter() -> str:
    """Return the source of lines that are the parameter `rows`."""
    return _LINES


def from_file(path: str) -> str:
    """Return the source of lines in a file that the driver can read."""
    name = quote_name(f"file:{path}")
    return f"(SELECT value AS row FROM text.{name})"  # noqa: S608


def from_table(name: str) -> str:
    """Return the source of lines in a staging table."""
    return name


def create_staging(name: str) -> str:
    """Return the statement that creates a staging table."""
    return f"CREATE TABLE {name} (row STRING)"


def stage_lines(name: str) -> str:
    """Return the statement that adds the lines of the parameter `rows` to a staging table."""
    return f"INSERT INTO {name} SELECT row FROM {_LINES}"  # noqa: S608


def drop_staging(name: str) -> str:
    """Return the statement that drops a staging table."""
    return f"DROP TABLE IF EXISTS {name}"


def _json_type(type_: DataType) -> str:
    """Return the type of a value in the JSON: every value that is not nested is a text."""
    children = [_json_type(child) for child in type_.children]
    match type_.name:
        case "array":
            return f"ARRAY<{children[0]}>"
        case "map":
            return f"MAP<STRING, {children[1]}>"
        case "struct":
            fields = (f"f{index}: {child}" for index, child in enumerate(children))
            return f"STRUCT<{', '.join(fields)}>"
    return "STRING"


def _convert(value: str, type_: DataType, depth: int = 0) -> str:
    """Return the expression that makes a value of the type from a value of the JSON."""
    if type_.name == "string":
        return value
    if not type_.contains(*_BY_FUNCTION):
        return f"CAST({value} AS {type_.sql})"
    if not type_.is_nested:
        return f"{_BY_FUNCTION[type_.base]}({value})"
    item = f"x{depth}"
    if type_.name == "array":
        return f"transform({value}, {item} -> {_convert(item, type_.children[0], depth + 1)})"
    if type_.name == "map":
        parts = zip(("key", "value"), type_.children, strict=True)
        pair = ", ".join(_convert(f"{item}.{part}", child, depth + 1) for part, child in parts)
        return f"map_from_entries(transform(map_entries({value}), {item} -> struct({pair})))"
    members = ", ".join(
        f"{quote_string(name)}, {_convert(f'{value}.f{index}', child, depth)}"
        for index, (name, child) in enumerate(zip(type_.fields, type_.children, strict=True))
    )
    return f"IF({value} IS NULL, NULL, named_struct({members}))"


def _is_misfit(value: str, type_: DataType, depth: int = 0) -> str | None:
    """Return the condition under which a value does not fit; None if each text fits."""
    item = f"x{depth}"
    match type_.name:
        case "array":
            inner = _is_misfit(item, type_.children[0], depth + 1)
            return inner and f"coalesce(exists({value}, {item} -> {inner}), false)"
        case "map":
            parts = zip(("key", "value"), type_.children, strict=True)
            inner = _any(_is_misfit(f"{item}.{part}", child, depth + 1) for part, child in parts)
            return inner and f"coalesce(exists(map_entries({value}), {item} -> {inner}), false)"
        case "struct":
            return _any(
                _is_misfit(f"{value}.f{index}", child, depth)
                for index, child in enumerate(type_.children)
            )
    if type_.base.startswith("string") or type_.base == "binary":
        return None  # the shell has checked base64
    attempt = f"try_parse_json({value})" if type_.base == "variant" else None
    attempt = attempt or f"try_cast({value} AS {type_.sql})"
    return f"({value} IS NOT NULL AND {attempt} IS NULL)"


def _any(conditions: Iterable[str | None]) -> str | None:
    """Return the disjunction of conditions; None if there are none."""
    present = [condition for condition in conditions if condition]
    return f"({' OR '.join(present)})" if present else None
