"""Clauses that several statements of Headrace's own share: columns, options, name lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headrace.grammar.lexer import code_tokens
from headrace.grammar.quoting import quote_name, quote_string
from headrace.grammar.token_reader import TokenReader

Options = tuple[tuple[str, str], ...]
"""Keys and values of an OPTIONS clause, in order. No key occurs twice."""


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A declared column."""

    name: str
    type: str
    """Type in Spark's syntax, as written, with NOT NULL and COMMENT if given."""

    def to_sql(self) -> str:
        return f"{quote_name(self.name)} {self.type}"


class IntervalUnit(StrEnum):
    """Units of an interval."""

    MILLISECOND = "MILLISECOND"
    SECOND = "SECOND"
    MINUTE = "MINUTE"
    HOUR = "HOUR"
    DAY = "DAY"

    @property
    def milliseconds(self) -> int:
        return _MILLISECONDS[self]


_MILLISECONDS = {
    IntervalUnit.MILLISECOND: 1,
    IntervalUnit.SECOND: 1_000,
    IntervalUnit.MINUTE: 60_000,
    IntervalUnit.HOUR: 3_600_000,
    IntervalUnit.DAY: 86_400_000,
}
_MAX_MILLISECONDS = (1 << 63) - 1
"""Spark keeps the interval of a trigger as a 64-bit number of milliseconds."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A duration such as `5 MINUTES`."""

    count: int
    unit: IntervalUnit

    @property
    def milliseconds(self) -> int:
        return self.count * self.unit.milliseconds

    def to_sql(self) -> str:
        return f"{self.count} {self.unit}{'' if self.count == 1 else 'S'}"


def override_options(inherited: Options, own: Options) -> Options:
    """Return the options of both, where those of `own` win. Upper and lower case are equal."""
    keys = {key.lower() for key, _value in own}
    return (*(pair for pair in inherited if pair[0].lower() not in keys), *own)


def read_columns(reader: TokenReader) -> tuple[DeclaredColumn, ...]:
    """Read `(name type, …)`."""
    begin = reader.offset
    columns = reader.read_list(lambda: _read_column(reader))
    _check_unique(reader, begin, "column", (column.name for column in columns))
    return columns


def read_names(reader: TokenReader, meaning: str) -> tuple[str, ...]:
    """Read `(name, …)`."""
    begin = reader.offset
    names = reader.read_list(lambda: reader.read_identifier(meaning, may_be_blank=True))
    _check_unique(reader, begin, "column", names)
    return names


def read_options(reader: TokenReader) -> Options:
    """Read `('key' = 'value', …)`. A key may be a plain name with dots; `=` may be omitted."""
    begin = reader.offset
    options = reader.read_list(lambda: _read_option(reader))
    _check_unique(reader, begin, "option", (key for key, _ in options))
    return options


def read_interval(reader: TokenReader) -> Interval:
    """Read a duration such as `5 MINUTES`."""
    begin = reader.offset
    count = reader.read_count("a number")
    words = [word for unit in IntervalUnit for word in (f"{unit}S", unit.value)]
    unit = IntervalUnit(reader.read_word("a unit", words).removesuffix("S"))
    interval = Interval(count, unit)
    if interval.milliseconds > _MAX_MILLISECONDS:
        raise reader.error(f"The interval {interval.to_sql()} is too long.", offset=begin)
    return interval


def parse_qualified_name(text: str, meaning: str) -> tuple[str, ...]:
    """Parse a text that is a name such as `db.table`; return its parts. Raise InvalidStatement.

    Args:
        meaning: What the name names, for errors, for example `the name of a table`.
    """
    reader = TokenReader(text, list(code_tokens(text)))
    parts = reader.read_qualified_name(meaning)
    reader.expect_end()
    return parts


def columns_to_sql(columns: Iterable[DeclaredColumn]) -> str:
    """Return `(name type, …)`."""
    return f"({', '.join(column.to_sql() for column in columns)})"


def names_to_sql(names: Iterable[str]) -> str:
    """Return `(name, …)`."""
    return f"({', '.join(map(quote_name, names))})"


def pairs_to_sql(options: Options) -> str:
    """Return `('key' = 'value', …)`."""
    pairs = (f"{quote_string(key)} = {quote_string(value)}" for key, value in options)
    return f"({', '.join(pairs)})"


def options_to_sql(options: Options) -> str:
    """Return `OPTIONS ('key' = 'value', …)`."""
    return f"OPTIONS {pairs_to_sql(options)}"


def qualified_name_to_sql(parts: Iterable[str]) -> str:
    """Return a name such as `db.table`, with every part in backticks."""
    return ".".join(map(quote_name, parts))


def _read_column(reader: TokenReader) -> DeclaredColumn:
    name = reader.read_identifier("the name of a column", may_be_blank=True)
    return DeclaredColumn(
        name, reader.read_until(",", ")", meaning=f"the type of the column {name}")
    )


def _read_option(reader: TokenReader) -> tuple[str, str]:
    key = reader.read_option_key()
    reader.accept("=")
    return key, reader.read_option_value(f"the value of the option {key}")


def _check_unique(reader: TokenReader, offset: int, kind: str, names: Iterable[str]) -> None:
    """Raise an error if a name occurs twice, in upper or lower case."""
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise reader.error(f"The {kind} {name} is given twice.", offset=offset)
        seen.add(name.casefold())
