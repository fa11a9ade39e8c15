"""The last hours of a streaming query, minute by minute: what a node keeps and shows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import reduce
from typing import Any

from headrace.model.stream_query import QueryProgress

HISTORY_MINUTES = 360
"""Minutes that are kept for each query."""
MAX_SUM = 2**53 - 1
"""Largest number in a minute: JSON has it exactly. A larger sum is cut."""


_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Range of the instants that a driver can have measured."""


class BatchPart(StrEnum):
    """A part of the time of a batch, by Spark's name for it in snake case."""

    LATEST_OFFSET = "latest_offset"
    GET_BATCH = "get_batch"
    QUERY_PLANNING = "query_planning"
    WAL_COMMIT = "wal_commit"
    ADD_BATCH = "add_batch"
    COMMIT_OFFSETS = "commit_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMinute:
    """The batches of a query that its driver has reported within one minute.

    The minute is that of the database's clock.
    """

    minute: int
    """Number of the minute since 1970."""
    batches: int
    input_rows: int
    milliseconds: int
    """Duration of all batches together."""
    slowest_milliseconds: int
    """Duration of the slowest batch."""
    latest_offset: int
    """Milliseconds of this part, as of the following, of all batches together."""
    get_batch: int
    query_planning: int
    wal_commit: int
    add_batch: int
    commit_offsets: int
    watermark_gap: int | None
    """Largest number of milliseconds by which the watermark was behind the start of a batch."""
    backlog: int | None
    """Largest number of records that the sources had not read yet; None: no source says so."""
    state_rows: int
    """As of the last batch, as is `state_bytes`."""
    state_bytes: int

    @property
    def at(self) -> datetime:
        """Begin of the minute."""
        return minute_start(self.minute)

    @property
    def parts(self) -> dict[BatchPart, int]:
        """Milliseconds of all batches together, by part."""
        return {part: getattr(self, part) for part in BatchPart}

    def count_seconds(self, now: datetime) -> float:
        """Return how much of the minute has passed, at least a second."""
        return min(60.0, max(1.0, (now - self.at).total_seconds()))


SUMS = ("batches", "input_rows", "milliseconds", *BatchPart)
"""Fields of a minute that are added when further batches are reported."""
LARGEST = ("slowest_milliseconds", "watermark_gap", "backlog")
"""Fields of which the largest value stays."""
LATEST = ("state_rows", "state_bytes")
"""Fields of which the last value stays."""


class InterruptionKind(StrEnum):
    """Why a query did not run for a time."""

    STARTING = "starting"
    DRIVER_DOWN = "driver_down"
    BACKING_OFF = "backing_off"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """A time in which a query did not run."""

    kind: InterruptionKind
    began_at: datetime
    ended_at: datetime | None
    """None: it has not ended."""
    cause: str | None


class MarkKind(StrEnum):
    """What a mark in the history of a query stands for."""

    ATTEMPT = "attempt"
    RUN = "run"
    VERSION = "version"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMark:
    """A moment from which a query may have behaved in another way."""

    kind: MarkKind
    at: datetime
    text: str


def minute_start(minute: int) -> datetime:
    """Return the begin of a minute, by its number since 1970."""
    return datetime.fromtimestamp(minute * 60, UTC)


def minute_of(instant: datetime) -> int:
    """Return the number of the minute of an instant since 1970."""
    return int(instant.timestamp() // 60)


def summarize_batches(batches: Sequence[QueryProgress]) -> QueryMinute:
    """Return the sums of some batches, oldest first, as those of the minute 0."""
    return reduce(_join, map(_to_minute, batches))


def join_minutes(minutes: Iterable[QueryMinute]) -> list[QueryMinute]:
    """Return the minutes of all attempts of a query, oldest first, one for each number.

    Args:
        minutes: Minutes, those of later attempts behind those of earlier ones.
    """
    joined: dict[int, QueryMinute] = {}
    for each in minutes:
        before = joined.get(each.minute)
        joined[each.minute] = each if before is None else _join(before, each)
    return [joined[number] for number in sorted(joined)]


def _join(first: QueryMinute, second: QueryMinute) -> QueryMinute:
    values: dict[str, Any] = {
        name: cut_sum(getattr(first, name) + getattr(second, name)) for name in SUMS
    }
    for name in LARGEST:
        known = [
            value for value in (getattr(first, name), getattr(second, name)) if value is not None
        ]
        values[name] = max(known, default=None)
    return replace(second, **values)


def cut_sum(value: int) -> int:
    """Return a number that a minute can hold. A driver may report any number."""
    return min(value, MAX_SUM)


def _to_minute(batch: QueryProgress) -> QueryMinute:
    return QueryMinute(
        minute=0,
        batches=1,
        input_rows=cut_sum(batch.input_rows),
        milliseconds=cut_sum(batch.milliseconds),
        slowest_milliseconds=cut_sum(batch.milliseconds),
        watermark_gap=find_watermark_gap(batch),
        backlog=sum_backlog(batch.lag),
        state_rows=cut_sum(batch.state_rows),
        state_bytes=cut_sum(batch.state_bytes),
        **{part.value: cut_sum(batch.parts.get(part, 0)) for part in BatchPart},
    )


def sum_backlog(lag: Mapping[str, object]) -> int | None:
    """Return how many records are not read yet, of all sources that say so; None: none does."""
    counts = [
        int(min(value, MAX_SUM))
        for value in lag.values()
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    ]
    return cut_sum(sum(counts)) if counts else None


def find_watermark_gap(batch: QueryProgress) -> int | None:
    """Return by how many milliseconds the watermark is behind; None without a watermark.

    Spark says 1970 until the first row has set the watermark.
    """
    at, watermark = parse_instant(batch.at), parse_instant(batch.watermark)
    if at is None or watermark is None or watermark.timestamp() <= 0:
        return None
    return cut_sum(max(0, (at - watermark) // timedelta(milliseconds=1)))


def parse_instant(text: str | None) -> datetime | None:
    """Return the instant that a driver has written; None if it is none.

    An instant before 1970 or after 2199 counts as none: those at the ends of the calendar have no
    equivalent in other time zones.
    """
    try:
        instant = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    instant = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant
    return instant if _EARLIEST <= instant < _LATEST else None
