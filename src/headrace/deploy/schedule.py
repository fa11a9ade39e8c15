"""When a batch job starts: the schedule of a manifest, and the instants at which it fires.

An instant at which a schedule of time fires is the logical time of a run. The intervals of the runs
tile the time: each begins at the logical time of the run before, and ends at its own.

The rules of cron are those of Debian, by the library cronsim. A job at a fixed time of day fires
once per local day: at the first instant after a gap of the clock, and in the first of two equal
hours. A job with `*` in the field of the minute or the hour fires by elapsed time, in both hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Annotated, Self
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from headrace.deploy.script_statements import TextProblem
from headrace.model.job import JobName
from headrace.text.durations import Duration

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTEST = timedelta(seconds=1)
_LONGEST_LIST = 100
"""Largest number of jobs or tables in a condition."""
_LOOK_BACK = [timedelta(days=days) for days in (1, 8, 32, 366, 8 * 366, 51 * 366)]
"""Spans in which the firing before an instant is looked for. No schedule is silent for 50 years."""
_SHOWN_AT_CHANGE = 12
_YEAR = timedelta(days=366)
_STEP = timedelta(hours=6)
"""Time between two looks at the offset of a zone. No zone has two changes within it."""


class CronProblem(TextProblem):
    """A schedule is not accepted."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__("invalid_schedule", message, hint=hint)


@dataclass(frozen=True, slots=True)
class Firing:
    """An instant at which a schedule fires."""

    instant: datetime
    """The logical time, UTC."""
    local: datetime
    """The same instant in the zone of the schedule."""
    is_shifted: bool = False
    """Whether the local time of the schedule does not exist on that day: the run is after the gap
    of the clock."""


def _check_cron(text: str) -> str:
    expression = _ALIASES.get(text.strip().lower(), text)
    fields = expression.split()
    if len(fields) != _FIELDS:
        raise CronProblem(
            f"{text[:100]!r} is not a cron expression: its five fields are minute, hour, day of"
            " month, month and day of week.",
            hint=f"For example `30 2 * * *`, or one of {', '.join(_ALIASES)}.",
        )
    try:
        never = next(CronSim(expression, _EPOCH), None) is None
    except CronSimError as error:
        raise CronProblem(
            f"{text[:100]!r} is not a cron expression: {str(error).lower()}.",
            hint="Fields have numbers, names of months and days, `*`, `,`, `-`, `/`, `L` and `#`.",
        ) from error
    if never:
        raise CronProblem(
            f"{text[:100]!r} never fires: no date fits it.", hint="Check day and month."
        )
    return " ".join(fields)


def _check_zone(name: str) -> str:
    if name not in available_timezones():
        near = [
            each for each in sorted(available_timezones()) if name.casefold() in each.casefold()
        ]
        raise CronProblem(
            f"There is no time zone {name[:100]!r}.",
            hint=f"Did you mean {near[0]}?" if near else "For example Europe/Berlin, or UTC.",
        )
    return name


def _check_every(duration: timedelta) -> timedelta:
    if duration < _SHORTEST:
        raise CronProblem("`every` is at least 1s.")
    return duration


class Schedule(BaseModel):
    """When a job starts: exactly one condition. `all` and `any` combine several."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.rstrip("_").replace("_", "-"),
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )

    cron: Annotated[str, AfterValidator(_check_cron)] | None = None
    """Five fields as in cron, or a name such as `@daily`."""
    timezone: Annotated[str, AfterValidator(_check_zone)] | None = None
    """Time zone of `cron`, for example `Europe/Berlin`; default: UTC."""
    every: Annotated[Duration, AfterValidator(_check_every)] | None = None
    """Elapsed time between two runs. They are at multiples of it since 1970-01-01 00:00 UTC."""
    after: Annotated[list[JobName], Field(min_length=1, max_length=_LONGEST_LIST)] | None = None
    """Jobs. A run starts when each has a new run that has succeeded."""
    on_change: Annotated[list[str], Field(min_length=1, max_length=_LONGEST_LIST)] | None = None
    """Tables. A run starts when one of them has new data."""
    on_files: str | None = None
    """A location. A run starts when it has new files."""
    all_: Annotated[list[Schedule], Field(min_length=1, max_length=_LONGEST_LIST)] | None = None
    """Conditions that must all have been met since the last run."""
    any_: Annotated[list[Schedule], Field(min_length=1, max_length=_LONGEST_LIST)] | None = None
    """Conditions of which one starts a run."""

    @model_validator(mode="after")
    def _check_conditions(self) -> Self:
        given = [key for key in CONDITIONS if getattr(self, key) is not None]
        keys = ", ".join(f"`{_to_key(key)}`" for key in CONDITIONS)
        if len(given) != 1:
            which = " and ".join(f"`{_to_key(key)}`" for key in given)
            problem = f"has {which}" if given else "has no condition"
            raise CronProblem(
                f"The schedule {problem}. It needs exactly one of {keys}.",
                hint="Combine conditions with `all` or `any`.",
            )
        if self.timezone is not None and self.cron is None:
            raise CronProblem("`timezone` only goes with `cron`.")
        return self

    @property
    def zone(self) -> tzinfo:
        """Time zone in which the schedule is read."""
        return UTC if self.timezone in {None, "UTC"} else ZoneInfo(self.timezone)

    @property
    def is_of_time(self) -> bool:
        """Whether the clock alone starts the job."""
        return self.cron is not None or self.every is not None

    def list_parts(self) -> list[Schedule]:
        """Return the conditions that `all` and `any` combine; without them, the schedule itself."""
        parts = self.all_ or self.any_
        return [self] if parts is None else [part for each in parts for part in each.list_parts()]


CONDITIONS = ("cron", "every", "after", "on_change", "on_files", "all_", "any_")
"""Names of the fields of a schedule that start a run."""


def _to_key(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def find_next(schedule: Schedule, after: datetime) -> Firing | None:
    """Return the first firing of a schedule of time after an instant.

    None: it does not fire within the next 50 years.
    """
    return next(list_firings(schedule, after), None)


def list_firings(schedule: Schedule, after: datetime) -> Iterator[Firing]:
    """Yield the firings of a schedule of time after an instant, oldest first."""
    assert schedule.is_of_time
    if schedule.every is not None:
        yield from _list_elapsed(schedule.every, after)
    else:
        yield from _list_cron(schedule, after)


def find_last(schedule: Schedule, before: datetime) -> Firing | None:
    """Return the last firing of a schedule of time before an instant, or None."""
    for span in _LOOK_BACK:
        found = None
        for firing in list_firings(schedule, before - span):
            if firing.instant >= before:
                break
            found = firing
        if found is not None:
            return found
    return None


def _list_elapsed(every: timedelta, after: datetime) -> Iterator[Firing]:
    count = (after - _EPOCH) // every
    while True:
        count += 1
        instant = _EPOCH + count * every
        yield Firing(instant, instant)


def _list_cron(schedule: Schedule, after: datetime) -> Iterator[Firing]:
    assert schedule.cron is not None
    expression = _ALIASES.get(schedule.cron, schedule.cron)
    last = after.astimezone(UTC)
    # In an hour that is repeated, cronsim may return a time that has passed.
    for local in CronSim(expression, last.astimezone(schedule.zone)):
        instant = local.astimezone(UTC)
        if instant > last:
            last = instant
            at = instant.astimezone(schedule.zone)
            yield Firing(instant, at, not _fits(expression, at))


def _fits(expression: str, local: datetime) -> bool:
    """Return whether the time on the clock is one that the expression names."""
    wall = local.replace(tzinfo=None)
    return next(CronSim(expression, wall - timedelta(seconds=1)), None) == wall


@dataclass(frozen=True, slots=True)
class Preview:
    """What a plan shows of a schedule of time."""

    firings: list[Firing]
    """The next ones."""
    at_change: list[Firing]
    """Those of the day of the next change of the clock; nothing if the zone has none."""
    warnings: list[str]


def preview(schedule: Schedule, now: datetime, count: int = 5) -> Preview:
    """Return the next firings of a schedule of time, and those around a change of the clock."""
    firings = list(islice(list_firings(schedule, now), count))
    changes = _find_changes(schedule.zone, now)
    at_change = _list_between(schedule, *_day_around(changes[0])) if changes else []
    warnings = [] if firings else ["The schedule does not fire within the next 50 years."]
    for change in changes:
        warnings += _find_silent_gap(schedule, change)
    return Preview(firings, at_change[:_SHOWN_AT_CHANGE], warnings)


def _day_around(change: datetime) -> tuple[datetime, datetime]:
    return change - timedelta(hours=12), change + timedelta(hours=12)


def _list_between(schedule: Schedule, start: datetime, end: datetime) -> list[Firing]:
    firings = list[Firing]()
    for firing in list_firings(schedule, start):
        if firing.instant > end or len(firings) == _SHOWN_AT_CHANGE:
            break
        firings.append(firing)
    return firings


def _find_changes(zone: tzinfo, now: datetime) -> list[datetime]:
    """Return the instants of the next year at which the offset of a zone changes, UTC."""
    changes = []
    start = now.astimezone(UTC)
    end = start + _YEAR
    while start < end:
        later = start + _STEP
        if _offset(zone, start) != _offset(zone, later):
            changes.append(_bisect(zone, start, later))
        start = later
    return changes


def _bisect(zone: tzinfo, start: datetime, end: datetime) -> datetime:
    """Return the first instant, in seconds, with the offset of `end`."""
    before = _offset(zone, start)
    while end - start > timedelta(seconds=1):
        middle = start + (end - start) / 2
        if _offset(zone, middle) == before:
            start = middle
        else:
            end = middle
    return end.replace(microsecond=0)


def _offset(zone: tzinfo, instant: datetime) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _find_silent_gap(schedule: Schedule, change: datetime) -> list[str]:
    """Return a warning if the schedule names times that a change of the clock skips, and no other.

    Cron fires by elapsed time if the minute or the hour is `*`, so that no run takes their place.
    """
    if schedule.cron is None:
        return []
    zone = schedule.zone
    last, first = (change - timedelta(seconds=1)).astimezone(zone), change.astimezone(zone)
    gap_start = (last + timedelta(seconds=1)).replace(tzinfo=None)
    gap_end = first.replace(tzinfo=None)
    if gap_end <= gap_start:
        return []
    skipped = next(CronSim(schedule.cron, gap_start - timedelta(seconds=1)), None)
    if skipped is None or skipped >= gap_end:
        return []
    next_one = find_next(schedule, change - timedelta(seconds=1))
    if next_one is not None and next_one.instant - change < timedelta(hours=1):
        return []
    warning = (
        f"On {gap_start:%Y-%m-%d} the clock of {schedule.timezone} skips {gap_start:%H:%M} to"
        f" {gap_end:%H:%M}, and with it the runs of that time. A fixed minute would run at"
        f" {gap_end:%H:%M}."
    )
    return [warning]
