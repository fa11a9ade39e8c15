"""How the schedule of a batch job stands: what fires next, what waits, what ran last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfoNotFoundError

from headrace.deploy.schedule import Firing, list_firings
from headrace.model.run import JobRun, JobSchedule, RunTimes

_FIRINGS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """The schedule of a job, as a node shows it."""

    schedule: JobSchedule
    firings: list[Firing]
    """The next ones; none of a schedule that is paused or that the clock does not start."""
    problem: str | None
    """Why the node cannot compute the schedule."""
    waiting: int
    """Runs that wait for their turn."""
    last_runs: list[JobRun]
    """By their logical times, the earliest first."""
    run_now: RunTimes | None
    """Times of a run that a user starts now; None: the schedule cannot be computed."""
    repeated: JobRun | None
    """The last run of these times; None: there is none."""


def preview_firings(schedule: JobSchedule) -> tuple[list[Firing], str | None]:
    """Return the next firings of a schedule, or why they are not known."""
    clock = schedule.rules.clock
    if clock is None or schedule.next_at is None:
        return [], None
    try:
        return list(islice(list_firings(clock, schedule.cursor), _FIRINGS)), None
    except (ZoneInfoNotFoundError, ValueError, OverflowError) as error:
        return [], f"This node cannot compute the schedule: {error}."


@dataclass(frozen=True, slots=True)
class RunGap:
    """Time between two runs for which no run exists."""

    start: datetime
    end: datetime


def list_strip(found: Sequence[JobRun]) -> list[JobRun | RunGap]:
    """Return the last run of each logical time, and what no run covers between them.

    Args:
        found: Runs of one job by logical time and repetition, the earliest first.
    """
    last = {run.times.logical_time: run for run in found}
    strip: list[JobRun | RunGap] = []
    end: datetime | None = None
    for run in last.values():
        times = run.times
        # A run of a user without a schedule has no interval.
        has_interval = times.interval_start < times.interval_end
        if end is not None and has_interval and end < times.interval_start:
            strip.append(RunGap(end, times.interval_start))
        strip.append(run)
        end = times.interval_end
    return strip
