"""Times of a clock that wait for other conditions of their schedule, in a store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.followed_jobs import (
    DUE,
    FAILED,
    NOON,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    FollowedJobs,
)
from tests.support.table_transactions import STAGED

from headrace.control.jobs.batch_plans import start_schedule
from headrace.control.jobs.clock_conditions import describe_unmet
from headrace.model.run import CatchUp, Overlap, RunTrigger
from headrace.model.schedule import Schedule
from headrace.store.database import Database
from headrace.store.jobs import jobs as store_jobs
from headrace.store.jobs import runs, schedules, triggers

AFTER_LOAD = {"all": [{"every": "1h"}, {"after": ["load"]}]}
ON_CHANGE = {"on-change": ["d.t"], "settle": "0s"}
WITH_CHANGE = {"all": [{"every": "1h"}, ON_CHANGE]}
WAITS = "waits"


class Waiting(FollowedJobs):
    """Jobs of which `report` has a clock that waits."""

    def add_report(self, schedule: dict[str, Any] = AFTER_LOAD, **rules: Any) -> None:
        self.add("report", schedule=Schedule.model_validate(schedule), **rules)

    def summary(self, name: str = "report") -> list[tuple[int, str]]:
        """Return hour and state of the runs; a run that waits for conditions has that state."""
        return [
            (hour, WAITS if run.awaits_conditions and state is DUE else state)
            for (hour, state), run in zip(self.states(name), self.list(name), strict=True)
        ]

    def unmet(self) -> dict[int, str]:
        """Return what the runs of `report` wait for, by hour."""
        waiting = [run for run in self.list("report") if run.awaits_conditions]
        with self.store.read() as tx:
            texts = describe_unmet(tx, waiting)
        hours = [(run.times.logical_time - NOON).total_seconds() // 3600 for run in waiting]
        return {int(hour): texts[run.id] for hour, run in zip(hours, waiting, strict=True)}

    def start(self, name: str, hour: int) -> str:
        """Let the last run of an hour begin. Return its id."""
        [*_others, run] = [
            each for each in self.list(name) if each.times.logical_time == at_hour(hour)
        ]
        self.end(run.id, RUNNING)
        return run.id


def at_hour(hour: float) -> datetime:
    return NOON + timedelta(hours=hour)


@pytest.fixture
def jobs(store: Database) -> Waiting:
    made = Waiting(store)
    made.add("load")
    with store.write("test") as tx:
        # The test inserts its runs.
        schedules.pause(tx, made.ids["load"])
    return made


def test_a_time_waits_for_the_run_of_its_interval_and_keeps_its_own_times(jobs: Waiting) -> None:
    jobs.add_report()
    jobs.fire("report", 1)
    jobs.run("load", hour=1.25)
    assert jobs.summary() == [(1, WAITS)]
    assert jobs.unmet() == {1: "a run of load"}
    with jobs.store.read() as tx:
        # It is not in the queue of the job yet.
        assert runs.find_queue(tx, jobs.ids["report"]) == (0, None)
    run_id = jobs.run("load", hour=0.5)
    [run] = jobs.list("report")
    assert (run.state, run.has_turn, run.awaits_conditions) == (DUE, True, False)
    assert run.trigger is RunTrigger.SCHEDULE
    assert (run.times.interval_start, run.times.interval_end) == (NOON, at_hour(1))
    assert [each.run for each in run.inputs] == [run_id]
    # The run of the next interval has waited for its time.
    jobs.fire("report", 2)
    assert jobs.summary() == [(1, DUE), (2, DUE)]


def test_all_upstream_runs_of_an_interval_are_awaited_and_are_inputs_of_one_run(
    jobs: Waiting,
) -> None:
    jobs.add_report({"all": [{"every": "1h"}, {"after": ["load", "other"]}]})
    jobs.add("other")
    jobs.run("load", hour=0.25, hours=0.25)
    late = jobs.begin("load", hour=1, hours=0.75)
    jobs.run("other", hour=0.5)
    jobs.fire("report", 1)
    # The schedule of `other` has not come to the time: it may have another run of the interval.
    assert jobs.summary() == [(1, WAITS)]
    assert jobs.unmet() == {1: "runs of load and other for its interval that have not ended"}
    jobs.end(late)
    assert jobs.summary() == [(1, WAITS)]
    jobs.fire("other", 1)
    jobs.end(jobs.list("other")[-1].id)
    [run] = jobs.list("report")
    assert not run.awaits_conditions
    assert [each.job for each in run.inputs] == ["load", "other", "load", "other"]


def test_a_time_whose_upstream_run_fails_waits_for_its_repetition(jobs: Waiting) -> None:
    jobs.add_report()
    jobs.add("mail", "report")
    jobs.fire("report", 1)
    jobs.run("load", 1, FAILED)
    assert jobs.summary() == [(1, WAITS)]
    jobs.run("load", 1)
    [run] = jobs.list("report")
    jobs.end(run.id)
    assert jobs.states("mail") == [(1, DUE)]


def test_a_repetition_of_an_upstream_run_is_followed_by_exactly_one_more(jobs: Waiting) -> None:
    jobs.add_report()
    jobs.fire("report", 1)
    jobs.run("load", 1)
    jobs.run("load", 1)
    assert jobs.summary() == [(1, DUE)]
    jobs.start("report", 1)
    for _repetition in range(2):
        jobs.run("load", 1)
        assert jobs.summary() == [(1, RUNNING), (1, DUE)]
    # As with a backfill of times before the job existed.
    jobs.run("load", -3)
    [first, *_others] = jobs.list("report")
    assert (first.times.interval_start, first.times.logical_time) == (at_hour(-4), at_hour(-3))


@pytest.mark.parametrize("catch_up", [CatchUp.LAST, CatchUp.NONE])
def test_a_time_that_waits_is_passed_over_by_a_later_one_and_its_runs_are_kept_as_inputs(
    jobs: Waiting, catch_up: CatchUp
) -> None:
    jobs.add("other")
    with jobs.store.write("test") as tx:
        schedules.pause(tx, jobs.ids["other"])
    parts = [{"every": "1h"}, {"after": ["load", "other"]}]
    jobs.add_report({"all": parts}, catch_up=catch_up)
    for hour in (1, 2, 3):
        jobs.fire("report", hour)
    jobs.run("load", 1)
    live = jobs.begin("load", 2)
    jobs.run("load", 3)
    jobs.run("other", 3)
    # The upstream run of the second time has not ended.
    assert jobs.summary() == [(1, SKIPPED), (2, WAITS), (3, DUE)]
    [first, *_others] = jobs.list("report")
    assert f"started first, and `catch-up` is {catch_up}" in first.reason
    assert [each.job for each in first.inputs] == ["load"]
    jobs.end(live)
    jobs.run("other", 2)
    assert jobs.summary() == [(1, SKIPPED), (2, DUE), (3, DUE)]
    # No run that has not begun reads it.
    for hour in (2, 3):
        jobs.end(jobs.start("report", hour))
    jobs.run("other", 1)
    assert jobs.summary() == [(1, SKIPPED), (1, DUE), (2, SUCCEEDED), (3, SUCCEEDED)]


def test_with_catch_up_all_each_time_waits_for_its_own_conditions(jobs: Waiting) -> None:
    jobs.add_report(catch_up=CatchUp.ALL)
    for hour in (1, 2, 3):
        jobs.fire("report", hour)
    jobs.run("load", 3)
    jobs.run("load", 1)
    assert jobs.summary() == [(1, DUE), (2, WAITS), (3, DUE)]


def test_what_ends_late_for_a_skipped_time_is_read_by_the_one_that_waits(jobs: Waiting) -> None:
    jobs.add_report(catch_up=CatchUp.LAST)
    jobs.fire("report", 2.5)
    jobs.run("load", 1)
    assert jobs.summary() == [(1, SKIPPED), (2, WAITS)]
    assert [each.job for each in jobs.list("report")[0].inputs] == ["load"]
    # A repetition that a user wants is followed.
    jobs.run("load", 1)
    assert jobs.summary() == [(1, SKIPPED), (1, DUE), (2, WAITS)]


def test_times_that_wait_for_ever_do_not_stop_the_schedule(
    jobs: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("firing", "live_runs"):
        monkeypatch.setattr(f"headrace.control.jobs.{module}.MOST_WAITING", 3)
    monkeypatch.setattr("headrace.control.jobs.firing._SKIPPED_AT_ONCE", 2)
    jobs.add_report(catch_up=CatchUp.ALL)
    for hour in (1, 2, 3, 4, 4):
        jobs.fire("report", hour)
    assert jobs.summary() == [(1, SKIPPED), (2, SKIPPED), (3, WAITS), (4, WAITS)]
    jobs.run("load", 1)
    assert jobs.summary()[:2] == [(1, SKIPPED), (1, DUE)]


@pytest.mark.parametrize(
    ("catch_up", "states"),
    [(CatchUp.ALL, [DUE, WAITS]), (CatchUp.LAST, [SKIPPED, DUE])],
    ids=str,
)
def test_a_change_starts_one_of_the_times_that_wait_for_it(
    jobs: Waiting, catch_up: CatchUp, states: list[str]
) -> None:
    jobs.add_report(WITH_CHANGE, catch_up=catch_up)
    jobs.change()
    assert jobs.summary() == []
    last = jobs.change()
    jobs.fire("report", 1)
    [run] = jobs.list("report")
    assert [each.last_transaction for each in run.inputs] == [last]
    jobs.end(run.id)
    for hour in (2, 3):
        jobs.fire("report", hour)
    assert set(jobs.unmet().values()) == {"a change of d.t"}
    jobs.change()
    assert jobs.summary() == [(1, SUCCEEDED), (2, states[0]), (3, states[1])]


def test_a_run_and_a_change_start_one_run_when_both_are_new(jobs: Waiting) -> None:
    jobs.add_report({"all": [{"after": ["load"]}, ON_CHANGE]})
    jobs.run("load", 1)
    assert jobs.summary() == []
    jobs.run("load", 2)
    first = jobs.change()
    [run] = jobs.list("report")
    assert (run.times.interval_start, run.times.logical_time) == (NOON, at_hour(2))
    assert [(each.job, each.last_transaction) for each in run.inputs] == [
        ("load", None),
        ("load", None),
        (None, first),
    ]
    jobs.end(run.id)
    last = jobs.change()
    assert len(jobs.list("report")) == 1
    jobs.run("load", 3)
    [_run, later] = jobs.list("report")
    assert later.inputs[-1].after_transaction == first
    assert later.inputs[-1].last_transaction == last


def test_changes_of_two_tables_start_one_run_when_both_have_changed(jobs: Waiting) -> None:
    other = {"on-change": ["lake.ns.u"], "settle": "0s"}
    jobs.add_report({"all": [ON_CHANGE, other]})
    jobs.change()
    last = jobs.change()
    assert jobs.summary() == []
    with jobs.store.read() as tx:
        # A run needs the last change alone.
        assert [
            each.transaction_id for each in triggers.list_changes(tx, jobs.ids["report"], 9)
        ] == [last]
    jobs.change(STAGED.model_copy(update={"catalog": "lake", "target": "`ns`.`u`"}))
    [run] = jobs.list("report")
    assert {each.table for each in run.inputs} == {"d.t", "lake.ns.u"}


def test_conditions_within_conditions_are_alternatives(jobs: Waiting) -> None:
    jobs.add("other")
    nested = {"any": [{"all": [{"every": "1h"}, {"after": ["load"]}]}, {"after": ["other"]}]}
    jobs.add_report(nested)
    jobs.fire("report", 1)
    jobs.run("other", 0.5)
    assert jobs.summary() == [(0, DUE), (1, WAITS)]
    # A run of the same time meets the conditions of the one that waits.
    jobs.run("other", 1)
    assert jobs.summary() == [(0, DUE), (1, DUE)]
    either = {"all": [{"every": "1h"}, {"any": [{"after": ["load"]}, ON_CHANGE]}]}
    jobs.add("either", schedule=Schedule.model_validate(either))
    jobs.fire("either", 1)
    assert jobs.summary("either") == [(1, WAITS)]
    jobs.change()
    assert jobs.summary("either") == [(1, DUE)]


@pytest.mark.parametrize(
    ("overlap", "states"),
    [
        (Overlap.SKIP, [(1, RUNNING), (2, SKIPPED)]),
        (Overlap.CANCEL_PREVIOUS, [(1, RUNNING), (2, DUE)]),
    ],
    ids=str,
)
def test_overlaps_are_decided_when_the_conditions_are_met(
    jobs: Waiting, overlap: Overlap, states: list[tuple[int, str]]
) -> None:
    jobs.add_report(overlap=overlap)
    jobs.fire("report", 1)
    jobs.fire("report", 2)
    assert jobs.summary() == [(1, WAITS), (2, WAITS)]
    jobs.run("load", 1)
    jobs.start("report", 1)
    jobs.run("load", 2)
    assert jobs.summary() == states
    is_cancelled = jobs.list("report")[0].cancelled_by is not None
    assert is_cancelled is (overlap is Overlap.CANCEL_PREVIOUS)


def test_a_stopped_job_keeps_what_waits_and_another_schedule_ends_it(jobs: Waiting) -> None:
    jobs.add_report()
    jobs.fire("report", 1)
    job_id = jobs.ids["report"]
    with jobs.store.write("test") as tx:
        triggers.pause(tx, job_id)
    jobs.run("load", 1)
    assert jobs.summary() == [(1, WAITS)]
    with jobs.store.write("test") as tx:
        triggers.save(tx, job_id, owner="ada", sources=[], keeps=True)
    assert jobs.summary() == [(1, DUE)]
    jobs.fire("report", 2)
    with jobs.store.write("test") as tx:
        job, schedule = store_jobs.get(tx, job_id), schedules.find(tx, job_id)
        assert job is not None
        assert schedule is not None
        version = store_jobs.get_version(tx, schedule.version_id)
        assert version is not None
        assert version.spec.batch is not None
        rules = version.spec.batch.rules.model_copy(update={"schedule": Schedule(cron="@daily")})
        batch = version.spec.batch.model_copy(update={"rules": rules})
        spec = version.spec.model_copy(update={"batch": batch})
        start_schedule(tx, job, replace(version, spec=spec))
    second = next(run for run in jobs.list("report") if run.times.logical_time == at_hour(2))
    assert (second.state, "schedule was changed" in second.reason) == (SKIPPED, True)


def test_nodes_at_the_same_time_start_each_time_once(jobs: Waiting) -> None:
    names = [f"report{number}" for number in range(12)]
    for name in names:
        jobs.add(name, schedule=Schedule.model_validate(AFTER_LOAD))

    def fire_and_follow(hour: int) -> None:
        for name in names:
            jobs.fire(name, hour)
        jobs.follow()

    for hour in (1, 2, 3):
        jobs.run("load", hour)
    with ThreadPoolExecutor(3) as nodes:
        for done in [nodes.submit(fire_and_follow, 3) for _node in range(3)]:
            done.result()
    for name in names:
        listed = jobs.list(name)
        assert [run.repetition for run in listed] == [0, 0, 0]
        # Two times were missed.
        assert jobs.summary(name) == [(1, SKIPPED), (2, SKIPPED), (3, DUE)]
