"""Runs that follow runs of other jobs, in a store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import insert, update
from tests.support.followed_jobs import DUE, FAILED, NOON, RUNNING, SKIPPED, SUCCEEDED, FollowedJobs

from headrace.control.jobs.trigger_checks import list_sources
from headrace.model.lifecycle import RunState
from headrace.model.run import CatchUp, FiringRules, RunTrigger
from headrace.model.schedule import Schedule
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.jobs import runs, triggers
from headrace.store.tables import job_schedules, upstream_runs


@pytest.fixture
def jobs(store: Database) -> FollowedJobs:
    return FollowedJobs(store)


def test_a_run_follows_with_the_times_of_the_one_that_has_succeeded(jobs: FollowedJobs) -> None:
    jobs.add("load")
    jobs.add("clean", "LOAD")
    run_id = jobs.run("load", hour=3)
    [run] = jobs.list("clean")
    assert (run.state, run.trigger, run.has_turn) == (DUE, RunTrigger.CONDITION, True)
    assert run.times.logical_time == run.times.interval_end == NOON + timedelta(hours=3)
    assert run.times.interval_start == NOON + timedelta(hours=2)
    assert [(each.job, each.run) for each in run.inputs] == [("load", run_id)]
    assert jobs.list("clean") == [run]


def test_each_time_of_a_backfill_is_followed(jobs: FollowedJobs) -> None:
    jobs.add("load")
    jobs.add("clean", "load")
    for hour in (2, 1, 3):
        jobs.run("load", hour)
    assert jobs.states("clean") == [(1, DUE), (2, DUE), (3, DUE)]


@pytest.mark.parametrize("target", [FAILED, RunState.CANCELLED, SKIPPED])
def test_a_time_that_has_not_succeeded_is_a_gap_until_a_repetition_succeeds(
    jobs: FollowedJobs, target: RunState
) -> None:
    jobs.add("load")
    jobs.add("clean", "load")
    jobs.add("report", "clean")
    run_id = jobs.run("load", 1, target)
    [gap] = jobs.list("clean")
    assert (gap.state, gap.reason) == (SKIPPED, f"The run {run_id} of load is {target}.")
    [next_gap] = jobs.list("report")
    assert (next_gap.state, next_gap.inputs[0].run) == (SKIPPED, gap.id)
    jobs.run("load", 1, target)
    assert jobs.states("clean") == [(1, SKIPPED)]
    jobs.run("load", 1)
    [_gap, repeated] = jobs.list("clean")
    assert (repeated.state, repeated.repetition) == (DUE, 1)
    jobs.end(repeated.id)
    assert jobs.states("report") == [(1, SKIPPED), (1, DUE)]


@pytest.mark.parametrize(
    ("is_begun", "states"),
    [("due", [DUE]), ("running", [RUNNING, DUE]), ("ended", [SUCCEEDED, DUE])],
)
def test_repetitions_of_a_time_are_followed_by_one_run_that_begins_afterwards(
    jobs: FollowedJobs, is_begun: str, states: list[RunState]
) -> None:
    jobs.add("load")
    jobs.add("clean", "load")
    jobs.run("load", 1)
    [run] = jobs.list("clean")
    if is_begun != "due":
        jobs.end(run.id, RUNNING if is_begun == "running" else SUCCEEDED)
    for _repetition in range(2):
        jobs.run("load", 1)
        jobs.follow()
    listed = jobs.list("clean")
    assert [each.state for each in listed] == states
    assert sum(len(each.inputs) for each in listed) == 3
    assert [each.has_turn for each in listed][-1] is (is_begun != "running")


def test_a_run_waits_for_all_jobs_and_its_interval_spans_theirs(jobs: FollowedJobs) -> None:
    jobs.add("day")
    jobs.add("hour")
    jobs.add("report", "day", "hour")
    for hour in (-1, 0):
        jobs.run("hour", hour)
    late = jobs.begin("hour", 1)
    jobs.run("day", 1, hours=24)
    assert jobs.list("report") == []
    jobs.end(late)
    [run] = jobs.list("report")
    assert run.times.logical_time == NOON + timedelta(hours=1)
    assert run.times.interval_start == NOON - timedelta(hours=23)
    assert [each.job for each in run.inputs].count("hour") == 3
    jobs.run("hour", 2)
    assert len(jobs.list("report")) == 1


def test_times_of_two_backfills_meet_in_any_order(jobs: FollowedJobs) -> None:
    jobs.add("left")
    jobs.add("right")
    jobs.add("join", "left", "right")
    for name, hour in [("left", 1), ("right", 2), ("left", 3), ("left", 2), ("right", 1)]:
        jobs.run(name, hour)
    assert jobs.states("join") == [(1, DUE), (2, DUE)]
    jobs.run("right", 3, FAILED)
    assert jobs.states("join")[2:] == [(3, SKIPPED)]
    jobs.run("right", 3)
    assert jobs.states("join")[3:] == [(3, DUE)]


def test_jobs_without_a_clock_are_followed_when_each_has_run(jobs: FollowedJobs) -> None:
    jobs.add("one")
    jobs.add("two")
    jobs.add("both", "one", "two")
    for hour in (1, 2):
        jobs.run("one", hour, hours=0)
    jobs.run("two", 5, hours=0)
    [run] = jobs.list("both")
    assert (len(run.inputs), run.times.logical_time) == (3, NOON + timedelta(hours=5))


@pytest.mark.parametrize(
    ("catch_up", "states"),
    [
        (CatchUp.ALL, [DUE, DUE, DUE]),
        (CatchUp.LAST, [SKIPPED, SKIPPED, DUE]),
        (CatchUp.NONE, [SKIPPED, SKIPPED, SKIPPED]),
    ],
)
def test_runs_that_end_while_a_job_is_stopped_are_made_up_for_as_it_wants(
    jobs: FollowedJobs, store: Database, catch_up: CatchUp, states: list[RunState]
) -> None:
    jobs.add("load")
    jobs.add("clean", "load", catch_up=catch_up)
    with store.write("test") as tx:
        triggers.pause(tx, jobs.ids["clean"])
    for hour in (1, 2, 3):
        jobs.run("load", hour)
    assert jobs.list("clean") == []
    with store.write("test") as tx:
        triggers.save(tx, jobs.ids["clean"], owner="ada", sources=[], keeps=True)
    assert [state for _hour, state in jobs.states("clean")] == states


def test_runs_beyond_those_that_may_wait_keep_their_place(
    jobs: FollowedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("conditions", "live_runs"):
        monkeypatch.setattr(f"headrace.control.jobs.{module}.MOST_WAITING", 2)
    jobs.add("load")
    jobs.add("clean", "load")
    for hour in (1, 2, 3):
        jobs.run("load", hour)
    [first, _second] = jobs.list("clean")
    jobs.end(first.id)
    jobs.run("load", 4)
    assert jobs.states("clean") == [(1, SUCCEEDED), (2, DUE), (3, DUE)]


def test_nodes_that_follow_at_the_same_time_insert_each_run_once(jobs: FollowedJobs) -> None:
    jobs.add("load")
    for number in range(25):
        jobs.add(f"clean{number}", "load")
    for hour in range(3):
        jobs.run("load", hour)
    with ThreadPoolExecutor(3) as nodes:
        for done in [nodes.submit(jobs.follow) for _node in range(3)]:
            done.result()
    for number in range(25):
        assert jobs.states(f"clean{number}") == [(0, DUE), (1, DUE), (2, DUE)]


def test_each_of_several_conditions_starts_a_run_and_one_time_has_one(jobs: FollowedJobs) -> None:
    parts = [{"every": "1h"}, {"after": ["load"]}, {"on-change": ["d.t"], "settle": "0s"}]
    jobs.add("load")
    jobs.add("report", schedule=Schedule.model_validate({"any": parts}))
    jobs.fire("report", 1)
    run_id = jobs.run("load", hour=1)
    [run] = jobs.list("report")
    assert (run.trigger, [each.run for each in run.inputs]) == (RunTrigger.SCHEDULE, [run_id])
    jobs.run("load", hour=1.5)
    assert [each.trigger for each in jobs.list("report")][1:] == [RunTrigger.CONDITION]
    jobs.change()
    # The run that waits reads the table when it begins.
    waiting = jobs.list("report")[1]
    assert [(each.job, each.table) for each in waiting.inputs] == [("load", None), (None, "d.t")]


def test_a_run_that_waits_keeps_the_inputs_of_all_conditions_that_are_met_at_once(
    jobs: FollowedJobs,
) -> None:
    parts = [{"after": ["load"]}, {"on-change": ["d.t"], "settle": "0s"}]
    jobs.add("load")
    jobs.add("report", schedule=Schedule.model_validate({"any": parts}))
    first = jobs.run("load", 1)
    assert len(jobs.list("report")) == 1
    second, change = jobs.run("load", 1), jobs.change()
    [run] = jobs.list("report")
    assert [each.run or each.last_transaction for each in run.inputs] == [first, second, change]


@pytest.mark.parametrize(
    "schedule",
    [None, Schedule(after=["load"]), Schedule(max_lag=timedelta(minutes=15), of=["d.t"])],
    ids=["manual", "deleted", "max-lag"],
)
def test_an_end_that_is_noted_while_the_job_is_changed_starts_no_run(
    jobs: FollowedJobs, store: Database, schedule: Schedule | None
) -> None:
    jobs.add("load")
    jobs.add("clean", schedule=schedule)
    sources = list_sources(schedule) if schedule is not None and schedule.max_lag else []
    run_id = jobs.run("load", 1)
    with store.write("test") as tx:
        triggers.save(tx, jobs.ids["clean"], owner="ada", sources=sources, keeps=False)
        # The transaction of the end has read the former sources, and ends later.
        row = {"job_id": jobs.ids["clean"], "run_id": run_id, "is_missed": False}
        tx.execute(insert(upstream_runs).values(**row, ready_at=clock()))
    assert jobs.list("clean") == []
    with store.read() as tx:
        assert runs.list_upstream(tx, jobs.ids["clean"], 10) == []


def test_an_end_waits_for_a_node_that_can_read_the_schedule(
    jobs: FollowedJobs, store: Database
) -> None:
    jobs.add("load")
    jobs.add("clean", "load")
    with store.write("test") as tx:
        change = update(job_schedules).where(job_schedules.c.job_id == jobs.ids["clean"])
        tx.execute(change.values(rules=FiringRules()))
    jobs.run("load", 1)
    assert jobs.list("clean") == []
    with store.read() as tx:
        assert len(runs.list_upstream(tx, jobs.ids["clean"], 10)) == 1


def test_a_job_sees_the_last_run_of_each_job_among_many_that_wait(
    jobs: FollowedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.control.jobs.run_notes._MOST_ENDS", 5)
    jobs.add("minutely")
    jobs.add("daily")
    jobs.add("report", "minutely", "daily")
    for hour in range(1, 8):
        jobs.run("minutely", hour)
        # No end is ready all the time, whichever are read.
        assert jobs.list("report") == []
    jobs.wake("report")
    assert jobs.list("report") == []
    jobs.run("minutely", 8)
    jobs.run("daily", 8, hours=2)
    [run] = jobs.list("report")
    assert len(run.inputs) == 3
    assert run.times.interval_start == NOON + timedelta(hours=6)


def test_the_last_of_many_missed_runs_is_made_up_for(
    jobs: FollowedJobs, store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.control.jobs.conditions.MOST_WAITING", 2)
    jobs.add("load")
    jobs.add("clean", "load", catch_up=CatchUp.LAST)
    with store.write("test") as tx:
        triggers.pause(tx, jobs.ids["clean"])
    for hour in range(1, 6):
        jobs.run("load", hour)
    with store.write("test") as tx:
        triggers.save(tx, jobs.ids["clean"], owner="ada", sources=[], keeps=True)
    assert [state for _hour, state in jobs.states("clean")] == [*4 * [SKIPPED], DUE]
