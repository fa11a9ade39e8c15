"""Firings of schedules in a store: one run for each logical time, whatever was missed."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.batch_jobs import insert_batch_job

from headrace.control.jobs import firing
from headrace.control.jobs.firing import Schedules, fire
from headrace.model.lifecycle import RunState
from headrace.model.run import CatchUp, FiringRules, JobRun, Overlap, RunTrigger
from headrace.model.schedule import Schedule
from headrace.store.clock import read_clock
from headrace.store.database import Database
from headrace.store.jobs import runs, schedules

HOURLY = Schedule(cron="0 * * * *")
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def _rules(**values: Any) -> FiringRules:
    return FiringRules(**{"schedule": HOURLY, **values})


def _fire(store: Database, job_id: str, now: datetime) -> None:
    with store.write("test") as tx:
        schedule = schedules.lock(tx, job_id)
        assert schedule is not None
        fire(tx, schedule, now)


def _list(store: Database, job_id: str) -> list[JobRun]:
    with store.read() as tx:
        return runs.page(tx, owners=None, job_id=job_id, limit=5000)[::-1]


def _summary(store: Database, job_id: str) -> list[tuple[str, RunState, bool]]:
    return [
        (f"{run.times.logical_time:%H:%M}", run.state, run.has_turn) for run in _list(store, job_id)
    ]


def _end(store: Database, run_id: str, target: RunState) -> None:
    with store.write("test") as tx:
        run = runs.lock(tx, run_id)
        assert run is not None
        runs.begin_attempt(tx, run, position=0, connection_id="cn_x", actor="test")
        begun = runs.lock(tx, run_id)
        assert begun is not None
        runs.end(tx, begun, target, actor="test")
        firing.start_next(tx, run.job_id, actor="test")


def test_a_run_has_the_interval_between_two_firings(store: Database) -> None:
    job_id = insert_batch_job(store, _rules(), cursor=NOON)
    _fire(store, job_id, NOON + timedelta(hours=1, seconds=3))
    [run] = _list(store, job_id)
    assert run.times.interval_start == NOON
    assert run.times.interval_end == run.times.logical_time == NOON + timedelta(hours=1)
    assert (run.state, run.trigger, run.has_turn) == (RunState.DUE, RunTrigger.SCHEDULE, True)
    assert run.times.tzdata
    _fire(store, job_id, NOON + timedelta(hours=1, seconds=4))
    assert len(_list(store, job_id)) == 1


@pytest.mark.parametrize(
    ("catch_up", "states"),
    [
        (CatchUp.ALL, [RunState.DUE] * 4),
        (CatchUp.LAST, [*[RunState.SKIPPED] * 3, RunState.DUE]),
        (CatchUp.NONE, [RunState.SKIPPED] * 4),
    ],
)
def test_each_missed_time_has_a_run(
    store: Database, catch_up: CatchUp, states: list[RunState]
) -> None:
    job_id = insert_batch_job(store, _rules(catch_up=catch_up), cursor=NOON)
    _fire(store, job_id, NOON + timedelta(hours=4, minutes=30))
    listed = _list(store, job_id)
    assert [run.state for run in listed] == states
    assert [run.times.interval_end for run in listed[:-1]] == [
        run.times.interval_start for run in listed[1:]
    ]
    skipped = [run.reason for run in listed if run.state is RunState.SKIPPED]
    assert all(f"`catch-up` is {catch_up}" in reason for reason in skipped)


def test_a_run_on_time_reads_what_missed_ones_would_have_read(store: Database) -> None:
    job_id = insert_batch_job(store, _rules(catch_up=CatchUp.LAST), cursor=NOON)
    _fire(store, job_id, NOON + timedelta(hours=3, seconds=5))
    assert _summary(store, job_id) == [
        ("13:00", RunState.SKIPPED, False),
        ("14:00", RunState.SKIPPED, False),
        ("15:00", RunState.DUE, True),
    ]


def test_many_missed_times_are_one_run_that_says_so(store: Database) -> None:
    every_second = Schedule.model_validate({"every": "1s"})
    job_id = insert_batch_job(store, _rules(schedule=every_second), cursor=NOON)
    _fire(store, job_id, NOON + timedelta(days=2))
    gap, last = _list(store, job_id)
    assert (gap.state, gap.times.interval_start) == (RunState.SKIPPED, NOON)
    assert "more than 1,000" in gap.reason
    assert last.times.interval_start == gap.times.interval_end
    assert last.times.logical_time == NOON + timedelta(days=2)


def test_all_missed_times_run_in_turns_however_many_they_are(store: Database) -> None:
    every_minute = Schedule.model_validate({"every": "1min"})
    rules = _rules(schedule=every_minute, catch_up=CatchUp.ALL)
    job_id = insert_batch_job(store, rules, cursor=NOON)
    now = NOON + timedelta(minutes=250)
    for _round in range(3):
        _fire(store, job_id, now)
    listed = _list(store, job_id)
    assert Counter(run.state for run in listed) == {RunState.DUE: 100}
    assert [run.has_turn for run in listed] == [True, *[False] * 99]
    _end(store, listed[0].id, RunState.SUCCEEDED)
    _fire(store, job_id, now)
    after = _list(store, job_id)
    assert len(after) == 101
    assert [run.has_turn for run in after[:3]] == [True, True, False]


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (Overlap.SKIP, [("14:00", RunState.SKIPPED, False)]),
        (Overlap.QUEUE, [("14:00", RunState.DUE, False)]),
        (Overlap.CANCEL_PREVIOUS, [("14:00", RunState.DUE, False)]),
    ],
)
def test_overlaps_are_decided_when_the_run_is_due(
    store: Database, overlap: Overlap, expected: list[tuple[str, RunState, bool]]
) -> None:
    job_id = insert_batch_job(store, _rules(overlap=overlap), cursor=NOON)
    for hour in (1, 2):
        _fire(store, job_id, NOON + timedelta(hours=hour))
    assert _summary(store, job_id) == [("13:00", RunState.DUE, True), *expected]
    first, second = _list(store, job_id)
    assert (first.cancelled_by is not None) is (overlap is Overlap.CANCEL_PREVIOUS)
    if overlap is Overlap.SKIP:
        assert first.id in second.reason


def test_a_time_that_a_user_has_run_before_does_not_fire_again(store: Database) -> None:
    job_id = insert_batch_job(store, _rules(), cursor=NOON)
    _fire(store, job_id, NOON + timedelta(hours=1))
    with store.write("test") as tx:
        schedule = schedules.lock(tx, job_id)
        assert schedule is not None
        # As after a restore of the store: the cursor is behind its runs.
        schedules.advance(
            tx, job_id, cursor=schedule.cursor, to=NOON, next_at=NOON + timedelta(hours=1)
        )
    _fire(store, job_id, NOON + timedelta(hours=2))
    assert [run.times.logical_time.hour for run in _list(store, job_id)] == [13, 14]


def test_nodes_that_fire_at_the_same_time_insert_each_run_once(store: Database) -> None:
    with store.read() as tx:
        now = read_clock(tx.connection)
    every_second = Schedule.model_validate({"every": "1s"})
    rules = _rules(schedule=every_second, catch_up=CatchUp.ALL)
    cursor = (now - timedelta(seconds=20)).replace(microsecond=0)
    job_ids = [
        insert_batch_job(store, rules, cursor=cursor, name=f"job{number}") for number in range(30)
    ]
    context: Any = SimpleNamespace(database=store)
    with ThreadPoolExecutor(3) as nodes:
        for fired in [nodes.submit(Schedules(context).run) for _node in range(3)]:
            fired.result()
    for job_id in job_ids:
        times = [run.times.logical_time for run in _list(store, job_id)]
        assert len(times) == len(set(times)) >= 20
        assert times[0] == cursor + timedelta(seconds=1)


def test_a_schedule_that_cannot_be_computed_does_not_stop_others(store: Database) -> None:
    with store.read() as tx:
        now = read_clock(tx.connection)
    cursor = now - timedelta(hours=2)
    removed = FiringRules(schedule=Schedule(cron="0 * * * *", timezone="Europe/Atlantis"))
    broken = insert_batch_job(store, removed, cursor=cursor, name="broken")
    good = insert_batch_job(store, _rules(), cursor=cursor, name="good")
    context: Any = SimpleNamespace(database=store)
    Schedules(context).run()
    assert _list(store, broken) == []
    assert len(_list(store, good)) in {1, 2, 3}
    with store.read() as tx:
        parked = schedules.find(tx, broken)
    assert parked is not None
    assert parked.cursor == cursor
    assert parked.next_at is not None
    assert parked.next_at > now
