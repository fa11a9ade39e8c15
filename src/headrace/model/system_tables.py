"""The system tables that SQL can read in a session: `headrace.statements` and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

SYSTEM_CATALOG = "headrace"
MAX_SYSTEM_ROWS = 10_000
"""Largest number of rows of a system table. It has the newest ones."""
MAX_SHOWN_TEXT = 2_000
"""Largest number of characters of a text in a system table."""


class SystemTable(StrEnum):
    """The system tables."""

    STATEMENTS = "statements"
    RUNS = "runs"
    STREAMS = "streams"
    EVENTS = "events"
    LINEAGE = "lineage"


class ColumnType(StrEnum):
    """Types of columns, by Spark's names."""

    TEXT = "STRING"
    TEXTS = "ARRAY<STRING>"
    NUMBER = "BIGINT"
    FLAG = "BOOLEAN"
    INSTANT = "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """A column of a system table."""

    name: str
    type: ColumnType


def _columns(**types: ColumnType) -> Sequence[SystemColumn]:
    return tuple(SystemColumn(name, type_) for name, type_ in types.items())


_TEXT, _NUMBER, _INSTANT = ColumnType.TEXT, ColumnType.NUMBER, ColumnType.INSTANT

SYSTEM_COLUMNS: Mapping[SystemTable, Sequence[SystemColumn]] = {
    SystemTable.STATEMENTS: _columns(
        id=_TEXT,
        session_id=_TEXT,
        state=_TEXT,
        statement=_TEXT,
        is_query=ColumnType.FLAG,
        attempts=_NUMBER,
        rows_written=_NUMBER,
        error_code=_TEXT,
        error=_TEXT,
        created_at=_INSTANT,
        started_at=_INSTANT,
        ended_at=_INSTANT,
    ),
    SystemTable.RUNS: _columns(
        id=_TEXT,
        job=_TEXT,
        state=_TEXT,
        trigger=_TEXT,
        logical_time=_INSTANT,
        interval_start=_INSTANT,
        interval_end=_INSTANT,
        attempt=_NUMBER,
        reason=_TEXT,
        error_code=_TEXT,
        error=_TEXT,
        created_at=_INSTANT,
        started_at=_INSTANT,
        ended_at=_INSTANT,
    ),
    SystemTable.STREAMS: _columns(
        id=_TEXT,
        name=_TEXT,
        session_id=_TEXT,
        state=_TEXT,
        last_batch=_NUMBER,
        failures=_NUMBER,
        error_code=_TEXT,
        error=_TEXT,
        created_at=_INSTANT,
        started_at=_INSTANT,
        ended_at=_INSTANT,
    ),
    SystemTable.EVENTS: _columns(
        entity=_TEXT,
        entity_id=_TEXT,
        source=_TEXT,
        target=_TEXT,
        at=_INSTANT,
        actor=_TEXT,
        detail=_TEXT,
    ),
    SystemTable.LINEAGE: _columns(
        statement_id=_TEXT,
        job=_TEXT,
        run_id=_TEXT,
        direction=_TEXT,
        table_name=_TEXT,
        catalog=_TEXT,
        location=_TEXT,
        columns=ColumnType.TEXTS,
        at=_INSTANT,
    ),
}
