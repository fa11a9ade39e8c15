"""When a batch job starts: the schedule of a manifest, and the instants at which it fires.

An instant at which a schedule of time fires is the logical time of a run. The intervals of the runs
tile the time: each begins at the logical time of the run before, and ends at its own.

The rules of cron are those of Debian, by the library cronsim. A job at a fixed time of day fires
once per local day: at the first instant after a gap of the clock, and in the first of two equal
hours. A job with `*` in the field of the minute or the hour fires by elapsed time, in both hours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice

from cronsim import CronSim, CronSimError

from headrace.deploy.script_statements import TextProblem
from headrace.errors import InvalidStatement
from headrace.grammar.clauses import parse_qualified_name
from headrace.grammar.quoting import quote_name
from headrace.model.schedule import Schedule
from headrace.model.time_zones import list_zones
from headrace.text.readable import describe_duration

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
_LOOK_BACK = [timedelta(days=days) for days in (1, 8, 32, 366, 8 * 366, 51 * 366)]
"""Spans in which the firing before an instant is looked for. No schedule is silent for 50 years."""
_SHOWN_AT_CHANGE = 12
_MOST_LEVELS = 3
"""Levels of `all` and `any` within each other."""
_MOST_COMBINATIONS = 100
"""Combinations of conditions. A node checks each one for each end of a run and each change."""
_DEFAULT_PLACE = ("spark_catalog", "default")
"""Catalog and database of a name without them, in a connection of a run."""
_MOST_PARTS = 3
"""Parts of the name of a table."""
_YEAR = timedelta(days=366)
_STEP = timedelta(hours=6)
"""Time between two looks at the offset of a zone. No zone has two changes within it."""


class ScheduleProblem(TextProblem):
    """A schedule is not accepted.

    Args:
        keys: Keys that lead to the condition that is wrong.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, keys: Sequence[int | str] = ()
    ) -> None:
        super().__init__("invalid_schedule", message, hint=hint, keys=keys)


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


def _read_expression(text: str) -> str:
    return _ALIASES.get(text.strip().lower(), text)


def _check_cron(text: str) -> None:
    expression = _read_expression(text)
    fields = expression.split()
    if len(fields) != _FIELDS:
        raise ScheduleProblem(
            f"{text[:100]!r} is not a cron expression: its five fields are minute, hour, day of"
            " month, month and day of week.",
            hint=f"For example `30 2 * * *`, or one of {', '.join(_ALIASES)}.",
        )
    try:
        never = next(CronSim(expression, _EPOCH), None) is None
    except CronSimError as error:
        raise ScheduleProblem(
            f"{text[:100]!r} is not a cron expression: {str(error).lower()}.",
            hint="Fields have numbers, names of months and days, `*`, `,`, `-`, `/`, `L` and `#`.",
        ) from error
    if never:
        raise ScheduleProblem(
            f"{text[:100]!r} never fires: no date fits it.", hint="Check day and month."
        )


def _check_zone(name: str) -> None:
    if name not in list_zones():
        near = [each for each in sorted(list_zones()) if name.casefold() in each.casefold()]
        raise ScheduleProblem(
            f"There is no time zone {name[:100]!r}.",
            hint=f"Did you mean {near[0]}?" if near else "For example Europe/Berlin, or UTC.",
        )


def check_schedule(schedule: Schedule) -> None:
    """Raise ScheduleProblem for an expression, a name or a combination that is not possible."""
    for part in schedule.list_parts():
        if part.cron is not None:
            _check_cron(part.cron)
        if part.timezone is not None:
            _check_zone(part.timezone)
    _check_levels(schedule)
    _check_clocks(schedule)
    _check_files(schedule)
    _check_lag(schedule)
    _check_names(schedule)
    if schedule.count_combinations() > _MOST_COMBINATIONS:
        raise ScheduleProblem(
            f"The schedule has {schedule.count_combinations():,} combinations of conditions, and"
            f" at most {_MOST_COMBINATIONS} are possible.",
            hint="Name several tables in one `on-change`, or deploy several jobs.",
        )


def _check_levels(schedule: Schedule) -> None:
    """Raise ScheduleProblem for lists of conditions within too many others."""
    for keys, part in schedule.walk():
        # The keys have the name and the position of each list.
        if part.parts and len(keys) // 2 >= _MOST_LEVELS:
            raise ScheduleProblem(
                f"`all` and `any` can be nested at most {_MOST_LEVELS} levels deep.",
                keys=keys,
            )


def _check_clocks(schedule: Schedule) -> None:
    """Raise ScheduleProblem for a second clock: a job has one sequence of logical times."""
    clocks = [keys for keys, part in schedule.walk() if part.is_of_time]
    if len(clocks) > 1:
        raise ScheduleProblem(
            "The schedule has two clocks, and a job has the logical times of one.",
            hint="Keep one `cron` or `every`, or deploy two jobs.",
            keys=clocks[1],
        )


def _check_files(schedule: Schedule) -> None:
    """Raise ScheduleProblem for a second location: a run reads the files of one."""
    locations = [keys for keys, part in schedule.walk() if part.on_files is not None]
    if len(locations) > 1:
        raise ScheduleProblem(
            "The schedule has two `on-files`, and a run reads the files of one location.",
            hint="Follow the directory above, or deploy two jobs.",
            keys=locations[1],
        )


def _check_lag(schedule: Schedule) -> None:
    """Raise ScheduleProblem for a `max-lag` beside other conditions."""
    for keys, part in schedule.walk():
        if keys and part.max_lag is not None:
            raise ScheduleProblem(
                "`max-lag` is not combined with other conditions: it chooses the start of each"
                " run.",
                hint="Write `schedule: {max-lag: 15min}`, or leave `max-lag` out.",
                keys=keys,
            )


def _check_names(schedule: Schedule) -> None:
    """Raise ScheduleProblem for a job or a table that two conditions name: a run uses it once."""
    named = set[str]()
    for keys, part in schedule.walk():
        # The name of a job has no backtick.
        own = {name.casefold() for name in part.after or []}
        own |= {_read_table(name, keys) for name in part.on_change or part.of or []}
        twice = sorted(named & own)
        if twice:
            raise ScheduleProblem(
                f"Two conditions name {twice[0]}.",
                hint="Name each job and each table in one condition.",
                keys=keys,
            )
        named |= own


def _read_table(name: str, keys: Sequence[int | str]) -> str:
    try:
        return to_table_key(name)
    except InvalidStatement as error:
        raise ScheduleProblem(error.message, hint=error.hint, keys=keys) from error


def to_table_key(name: str) -> str:
    """Return the text that transactions of a table have. A name of two parts has no catalog.

    Raise InvalidStatement unless it is the name of a table.
    """
    try:
        parts = parse_qualified_name(name, "the name of a table")
    except InvalidStatement:
        parts = ()
    if not 1 <= len(parts) <= _MOST_PARTS:
        raise InvalidStatement(
            f"{name[:100]!r} is not the name of a table.",
            hint="Write one to three parts, as `table`, `database.table` or"
            " `catalog.database.table`.",
        )
    catalog, *rest = (*_DEFAULT_PLACE[: _MOST_PARTS - len(parts)], *parts)
    return f"{catalog}.{'.'.join(map(quote_name, rest))}".casefold()


def describe_schedule(schedule: Schedule | None) -> str:
    """Return a schedule in words: `At 02:30 every day, Europe/Berlin`."""
    if schedule is None:
        return "Only users start it"
    if not schedule.parts:
        return _describe_condition(schedule)
    word = "and" if schedule.all_ else "or"
    texts = [_describe_part(part) for part in schedule.parts]
    first, *others = texts
    return f", {word} ".join([first, *(text[:1].lower() + text[1:] for text in others)])


def _describe_part(schedule: Schedule) -> str:
    text = describe_schedule(schedule)
    return f"({text[:1].lower()}{text[1:]})" if len(schedule.parts) > 1 else text


def _describe_condition(schedule: Schedule) -> str:
    if schedule.cron is not None:
        cron = CronSim(_read_expression(schedule.cron), _EPOCH)
        return f"{cron.explain()}, {schedule.timezone or 'UTC'}"
    if schedule.every is not None:
        return f"Every {describe_duration(schedule.every.total_seconds())}"
    if schedule.after is not None:
        return f"After {' and '.join(schedule.after)}"
    if schedule.on_change is not None:
        return f"When {' or '.join(schedule.on_change)} changes"
    if schedule.max_lag is not None:
        lag = describe_duration(schedule.max_lag.total_seconds())
        return f"At most {lag} behind {' and '.join(schedule.list_tables())}"
    return f"When {schedule.on_files} has new files"


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
    expression = _read_expression(schedule.cron)
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
    skipped = next(CronSim(_read_expression(schedule.cron), gap_start - timedelta(seconds=1)), None)
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
