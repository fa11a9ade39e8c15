"""Earlier times that run again with each new one, in a store."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.followed_jobs import (
    DUE,
    FAILED,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    FollowedJobs,
)

from headrace.model.lifecycle import RunState
from headrace.model.run import CatchUp, JobRun, Overlap, RunTrigger
from headrace.model.schedule import Schedule
from headrace.store.database import Database
from headrace.store.jobs import runs


class LookingBack(FollowedJobs):
    """Jobs of which `load` looks back."""

    def live(self, name: str = "load") -> list[JobRun]:
        return [run for run in self.list(name) if run.ended_at is None]

    def end_all(self, name: str = "load") -> None:
        """End all live runs in the order of their turns."""
        while begun := [run for run in self.live(name) if run.has_turn]:
            self.end(begun[0].id)

    def fire_and_end(self, *hours: float) -> None:
        for hour in hours:
            self.fire("load", hour)
            self.end_all()

    def repeated(self, hour: int) -> list[int]:
        """Return the hours that run again with a time."""
        return [
            each
            for (each, _state), run in zip(self.states("load"), self.list("load"), strict=True)
            if run.trigger is RunTrigger.LOOKBACK and run.due_at.hour == 12 + hour
        ]


@pytest.fixture
def jobs(store: Database) -> LookingBack:
    made = LookingBack(store)
    made.add("load", lookback=2, overlap=Overlap.SKIP)
    return made


def test_the_times_before_a_new_one_run_again_after_it_with_their_stored_intervals(
    jobs: LookingBack,
) -> None:
    jobs.fire_and_end(1)
    assert jobs.repeated(1) == []
    jobs.fire_and_end(2)
    assert jobs.repeated(2) == [1]
    jobs.fire_and_end(3)
    before = {run.times.logical_time: run.times for run in jobs.list("load")}
    jobs.fire("load", 4)
    new = next(run for run in jobs.live() if run.trigger is RunTrigger.SCHEDULE)
    others = [run for run in jobs.live() if run.trigger is RunTrigger.LOOKBACK]
    assert (new.has_turn, [run.has_turn for run in others]) == (True, [False, False])
    assert jobs.repeated(4) == [2, 3]
    assert [run.times for run in others] == [before[run.times.logical_time] for run in others]
    assert [run.repetition for run in others] == [2, 1]
    assert all([each.run for each in run.inputs] == [new.id] for run in others)
    assert {run.version_id for run in others} == {new.version_id}
    jobs.fire("load", 4)
    assert len(jobs.live()) == 3


def test_a_run_that_looks_back_neither_skips_a_new_time_nor_is_repeated_while_it_is_live(
    jobs: LookingBack,
) -> None:
    jobs.fire_and_end(1)
    jobs.fire("load", 2)
    [_repetition, new] = jobs.live()
    jobs.end(new.id)
    [repetition] = jobs.live()
    jobs.end(repetition.id, RUNNING)
    jobs.fire("load", 3)
    # The first time reads late data still.
    assert jobs.repeated(3) == [2]
    assert [(hour, state) for hour, state in jobs.states("load") if hour == 3] == [(3, DUE)]
    jobs.end(repetition.id)
    assert [run.trigger for run in jobs.live() if run.has_turn] == [RunTrigger.SCHEDULE]


@pytest.mark.parametrize(
    ("target", "hours"),
    [(FAILED, [1, 2]), (SUCCEEDED, [1, 2]), (SKIPPED, [1]), (RunState.CANCELLED, [1])],
    ids=str,
)
def test_times_that_were_skipped_or_cancelled_stay_so(
    jobs: LookingBack, target: RunState, hours: list[int]
) -> None:
    jobs.fire_and_end(1)
    jobs.fire("load", 2)
    [new] = [run for run in jobs.live() if run.trigger is RunTrigger.SCHEDULE]
    jobs.end(new.id, target)
    jobs.end_all()
    jobs.fire("load", 3)
    assert jobs.repeated(3) == hours


def test_skipped_times_do_not_look_back_and_missed_ones_are_repeated_once(
    jobs: LookingBack,
) -> None:
    jobs.fire_and_end(1)
    jobs.fire("load", 4.5)
    # Two times were missed and skipped.
    assert jobs.repeated(4) == []
    assert [state for _hour, state in jobs.states("load")] == [SUCCEEDED, SKIPPED, SKIPPED, DUE]
    jobs.add("all", catch_up=CatchUp.ALL, lookback=2)
    for hour in (1, 4.5):
        jobs.fire("all", hour)
        first = jobs.live("all")
        if hour == 1:
            jobs.end_all("all")
    # The times of the outage run for the first time.
    hours = [(run.times.logical_time.hour - 12, run.trigger) for run in first]
    assert hours == [
        (1, RunTrigger.LOOKBACK),
        *((hour, RunTrigger.SCHEDULE) for hour in (2, 3, 4)),
    ]


def test_jobs_that_follow_run_again_for_the_repeated_times(jobs: LookingBack) -> None:
    jobs.add("clean", "load")
    jobs.fire_and_end(1)
    assert jobs.states("clean") == [(1, DUE)]
    jobs.end_all("clean")
    jobs.fire_and_end(2)
    assert jobs.states("clean") == [(1, SUCCEEDED), (1, DUE), (2, DUE)]


def test_a_time_that_waits_for_conditions_looks_back_when_they_are_met(
    jobs: LookingBack,
) -> None:
    conditions: Any = {"all": [{"every": "1h"}, {"after": ["source"]}]}
    jobs.add("source", schedule=Schedule(after=["load"]))
    jobs.add("report", schedule=Schedule.model_validate(conditions), lookback=1)
    for hour in (1, 2):
        jobs.fire("report", hour)
        listed = jobs.list("report")
        assert [run.trigger for run in listed if run.ended_at is None] == [RunTrigger.SCHEDULE]
        jobs.run("source", hour)
        if hour == 1:
            jobs.end_all("report")
    assert [
        (hour, run.trigger)
        for (hour, _state), run in zip(jobs.states("report"), jobs.list("report"), strict=True)
    ] == [(1, RunTrigger.SCHEDULE), (1, RunTrigger.LOOKBACK), (2, RunTrigger.SCHEDULE)]


def test_an_old_time_with_many_repetitions_is_one_of_those_before(jobs: LookingBack) -> None:
    for hour in (1, 1, 1, 2, 3):
        jobs.run("load", hour)
    with jobs.store.read() as tx:
        previous = runs.find_previous(
            tx, jobs.ids["load"], before=jobs.list("load")[-1].times.logical_time, limit=2
        )
    assert [(run.times.logical_time.hour - 12, run.repetition) for run in previous] == [
        (2, 0),
        (1, 2),
    ]


def test_times_of_the_clock_alone_are_repeated(jobs: LookingBack) -> None:
    conditions: Any = {"any": [{"every": "1h"}, {"on-change": ["d.t"], "settle": "0s"}]}
    schedule = Schedule.model_validate(conditions)
    jobs.add("both", schedule=schedule, lookback=2, overlap=Overlap.QUEUE)
    for hour in (1, 2):
        jobs.fire("both", hour)
        jobs.end_all("both")
    # New files, too, start runs of which the clock knows nothing.
    for minute in (1, 2, 3):
        jobs.end(jobs.begin("both", 2 + minute / 60, trigger=RunTrigger.CONDITION))
    jobs.fire("both", 3)
    repeated = [run for run in jobs.live("both") if run.trigger is RunTrigger.LOOKBACK]
    assert [run.times.logical_time.hour - 12 for run in repeated] == [1, 2]
    assert {run.times.logical_time.minute for run in repeated} == {0}
