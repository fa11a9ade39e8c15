"""The database's clock, which decides every expiry.

PostgreSQL provides `clock_timestamp()`. A SQLite file belongs to one process, which registers its
own clock there as the SQL function CLOCK_FUNCTION, in microseconds since 1970.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Float,
    literal,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

CLOCK_FUNCTION = "headrace_clock"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Instant(TypeDecorator[datetime]):
    """An aware UTC datetime with microseconds: timestamptz, or an integer on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(BigInteger() if dialect.name == "sqlite" else self.impl)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        return (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if dialect.name == "sqlite":
            return _EPOCH + timedelta(microseconds=value)
        assert isinstance(value, datetime)
        return value.astimezone(UTC)


class clock(FunctionElement[datetime]):  # noqa: N801 - it reads as the SQL function it stands for
    """The database's current time, plus an offset in seconds (a number or a bound parameter)."""

    type = Instant()
    inherit_cache = True
    name = "clock"

    def __init__(self, offset_seconds: Any = 0.0) -> None:
        offset = offset_seconds
        if isinstance(offset, int | float):
            offset = literal(float(offset), Float())
        super().__init__(offset)


@compiles(clock, "postgresql")
def _compile_for_postgresql(element: clock, compiler: SQLCompiler, **options: Any) -> str:
    offset = compiler.process(element.clauses, **options)
    return f"(clock_timestamp() + make_interval(secs => {offset}))"


@compiles(clock, "sqlite")
def _compile_for_sqlite(element: clock, compiler: SQLCompiler, **options: Any) -> str:
    offset = compiler.process(element.clauses, **options)
    return f"({CLOCK_FUNCTION}() + CAST(({offset}) * 1000000 AS INTEGER))"


class seconds_between(FunctionElement[float]):  # noqa: N801 - it reads as an SQL function
    """Seconds from an instant to a later one, each a column or the clock."""

    type = Float()
    inherit_cache = True
    name = "seconds_between"


@compiles(seconds_between, "postgresql")
def _compile_time_for_postgresql(
    element: seconds_between, compiler: SQLCompiler, **options: Any
) -> str:
    start, end = (compiler.process(each, **options) for each in element.clauses)
    return f"CAST(EXTRACT(EPOCH FROM {end} - {start}) AS DOUBLE PRECISION)"


@compiles(seconds_between, "sqlite")
def _compile_time_for_sqlite(
    element: seconds_between, compiler: SQLCompiler, **options: Any
) -> str:
    start, end = (compiler.process(each, **options) for each in element.clauses)
    return f"(({end} - {start}) / 1000000.0)"


class current_minute(FunctionElement[int]):  # noqa: N801 - it reads as an SQL function
    """Number of the minute of the database's clock, since 1970."""

    type = BigInteger()
    inherit_cache = True
    name = "current_minute"


@compiles(current_minute, "postgresql")
def _compile_minute_for_postgresql(
    _element: current_minute, _compiler: SQLCompiler, **_options: Any
) -> str:
    return "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) / 60) AS BIGINT)"


@compiles(current_minute, "sqlite")
def _compile_minute_for_sqlite(
    _element: current_minute, _compiler: SQLCompiler, **_options: Any
) -> str:
    return f"({CLOCK_FUNCTION}() / 60000000)"


def seconds_since(instant: ColumnElement[Any]) -> seconds_between:
    """Return the seconds from an instant to the database's current time.

    Compare an age with a duration of a row in this way: to subtract the duration from the current
    time would fail for a very long duration, and with it the query for all other rows.
    """
    return seconds_between(instant, clock())


def read_process_clock() -> int:
    """Return the microseconds since 1970: the value of CLOCK_FUNCTION."""
    return time.time_ns() // 1000


def read_clock(connection: Connection) -> datetime:
    """Return the database's current time."""
    now: datetime = connection.execute(select(clock())).scalar_one()
    return now
