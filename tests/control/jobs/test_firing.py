"""Firings of schedules in a store: one run for each logical time, whatever was missed."""

from __future__ import annotations

import ast
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.batch_jobs import insert_batch_job, insert_batch_jobs, make_daily

from headrace.control.jobs import firing
from headrace.control.jobs.batch_plans import start_schedule
from headrace.control.jobs.firing import Schedules, fire, fire_last, make_times
from headrace.control.jobs.live_runs import start_next
from headrace.deploy.schedule import Firing
from headrace.model.lifecycle import RunState
from headrace.model.run import CatchUp, FiringRules, JobRun, Overlap, RunTrigger
from headrace.model.schedule import Schedule
from headrace.store import history
from headrace.store.clock import read_clock
from headrace.store.database import Database
from headrace.store.jobs import jobs, runs, schedules
from headrace.store.jobs.schedules import NextFiring

HOURLY = Schedule(cron="0 * * * *")
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def _rules(**values: Any) -> FiringRules:
    return FiringRules(**{"schedule": HOURLY, **values})


def _daily(now: datetime) -> Schedule:
    cron, _last = make_daily(now)
    return Schedule(cron=cron)


def _fire(store: Database, job_id: str, now: datetime) -> int:
    with store.write("test") as tx:
        schedule = schedules.lock(tx, job_id)
        assert schedule is not None
        return fire(tx, schedule, now)


def _context(store: Database) -> Any:
    return SimpleNamespace(database=store)


def _run_early(store: Database, job_id: str, trigger: RunTrigger) -> None:
    """Insert the run of 13:00 before the schedule fires it."""
    with store.write("test") as tx:
        schedule = schedules.lock(tx, job_id)
        assert schedule is not None
        at = NOON + timedelta(hours=1)
        runs.insert_run(
            tx,
            job_id,
            owner=schedule.owner,
            name=schedule.name,
            version_id=schedule.version_id,
            trigger=trigger,
            times=make_times(schedule, Firing(at, at), NOON),
            due_at=NOON,
            actor="ada",
        )


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
        start_next(tx, run.job_id, actor="test")


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
        firing = NextFiring(job_id, NOON, NOON + timedelta(hours=1))
        schedules.save_next_firings(tx, [firing])
    _fire(store, job_id, NOON + timedelta(hours=2))
    assert [run.times.logical_time.hour for run in _list(store, job_id)] == [13, 14]


def test_a_long_outage_is_fired_in_transactions_of_a_bounded_number_of_runs(
    store: Database,
) -> None:
    every_minute = Schedule.model_validate({"every": "1min"})
    job_id = insert_batch_job(store, _rules(schedule=every_minute), cursor=NOON)
    now = NOON + timedelta(minutes=450, seconds=30)
    counts = [_fire(store, job_id, now) for _transaction in range(6)]
    assert counts == [100, 100, 100, 100, 50, 0]
    listed = _list(store, job_id)
    assert [run.times.interval_end for run in listed[:-1]] == [
        run.times.interval_start for run in listed[1:]
    ]
    assert Counter(run.state for run in listed) == {RunState.SKIPPED: 449, RunState.DUE: 1}
    assert listed[-1].state is RunState.DUE


def test_a_queue_holds_no_runs_that_are_not_made_up_for(store: Database) -> None:
    every_minute = Schedule.model_validate({"every": "1min"})
    rules = _rules(schedule=every_minute, overlap=Overlap.QUEUE, catch_up=CatchUp.LAST)
    job_id = insert_batch_job(store, rules, cursor=NOON)
    for _transaction in range(5):
        _fire(store, job_id, NOON + timedelta(minutes=500, seconds=30))
    states = Counter(run.state for run in _list(store, job_id))
    # The last one, which is on time.
    assert states == {RunState.SKIPPED: 499, RunState.DUE: 1}


def test_each_of_a_thousand_jobs_that_are_due_at_once_fires_once_on_three_nodes(
    store: Database,
) -> None:
    with store.read() as tx:
        now = read_clock(tx.connection)
    cursor = now - timedelta(days=1)
    names = [f"job{number}" for number in range(1000)]
    job_ids = insert_batch_jobs(store, _rules(schedule=_daily(now)), cursor=cursor, names=names)
    with ThreadPoolExecutor(3) as nodes:
        for fired in [nodes.submit(Schedules(_context(store)).run) for _node in range(3)]:
            fired.result()
    with store.read() as tx:
        fired_jobs = Counter(run.job_id for run in runs.page(tx, owners=None, limit=5000))
    assert fired_jobs == Counter(job_ids)
    # 50 jobs at once. Each node may end with a transaction that finds fewer.
    assert store.write_counts["schedule.fire"] <= 1000 / 50 + 2 * 3


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_deployment_or_migration_in_the_second_of_a_firing_fires_nothing_twice(
    store: Database, is_before: bool
) -> None:
    with store.read() as tx:
        now = read_clock(tx.connection)
    rules = _rules(schedule=_daily(now))
    job_id = insert_batch_job(store, rules, cursor=now - timedelta(days=1))
    if not is_before:
        Schedules(_context(store)).run()
    with store.write("test") as tx:
        job, schedule = jobs.get(tx, job_id), schedules.lock(tx, job_id)
        assert job is not None
        assert schedule is not None
        version = jobs.get_version(tx, schedule.version_id)
        assert version is not None
        start_schedule(tx, job, version)
    store.migrate()
    Schedules(_context(store)).run()
    assert len(_list(store, job_id)) == 1


def test_a_node_that_was_away_fires_no_run_again_that_was_deleted_meanwhile(
    store: Database,
) -> None:
    job_id = insert_batch_job(store, _rules(catch_up=CatchUp.ALL), cursor=NOON)
    _fire(store, job_id, NOON + timedelta(hours=2, minutes=30))
    for run in _list(store, job_id):
        _end(store, run.id, RunState.SUCCEEDED)
    with store.write("test") as tx:
        assert history.delete_jobs(tx, 0.0, 100)["runs"] == 2
    assert _fire(store, job_id, NOON + timedelta(hours=2, minutes=30)) == 0
    assert _list(store, job_id) == []


def test_a_run_before_its_time_is_kept_until_the_schedule_has_passed_the_time(
    store: Database,
) -> None:
    job_id = insert_batch_job(store, _rules(), cursor=NOON)
    _run_early(store, job_id, RunTrigger.USER)
    _end(store, _list(store, job_id)[0].id, RunState.SUCCEEDED)
    for hour, deleted in ((0, 0), (1, 1)):
        _fire(store, job_id, NOON + timedelta(hours=hour))
        with store.write("test") as tx:
            assert history.count_old(tx, 0.0)["runs"] == deleted
            assert history.delete_jobs(tx, 0.0, 100)["runs"] == deleted


@pytest.mark.parametrize("trigger", [RunTrigger.USER, RunTrigger.BACKFILL], ids=str)
def test_a_time_that_runs_already_does_not_fire_beside_it(
    store: Database, trigger: RunTrigger
) -> None:
    job_id = insert_batch_job(store, _rules(overlap=Overlap.QUEUE), cursor=NOON)
    _run_early(store, job_id, trigger)
    _fire(store, job_id, NOON + timedelta(hours=1))
    [run] = _list(store, job_id)
    assert (run.trigger, run.times.interval_start) == (trigger, NOON)


def test_a_firing_that_is_not_committed_leaves_neither_a_run_nor_a_moved_cursor(
    store: Database,
) -> None:
    job_id = insert_batch_job(store, _rules(), cursor=NOON)
    with pytest.raises(InterruptedError), store.write("test") as tx:
        schedule = schedules.lock(tx, job_id)
        assert schedule is not None
        assert fire(tx, schedule, NOON + timedelta(hours=1)) == 1
        raise InterruptedError
    assert _list(store, job_id) == []
    assert _fire(store, job_id, NOON + timedelta(hours=1)) == 1


def test_a_weekly_job_fires_each_week_although_no_node_lives_for_a_week(store: Database) -> None:
    weekly = Schedule(cron="0 12 * * 1")
    job_id = insert_batch_job(store, _rules(schedule=weekly), cursor=NOON)
    counts = [_fire(store, job_id, NOON + timedelta(days=day)) for day in range(1, 22)]
    assert [day for day, count in enumerate(counts, start=1) if count] == [7, 14, 21]


def test_a_changed_schedule_leaves_no_gap_although_more_runs_are_due_than_may_wait(
    store: Database,
) -> None:
    every_minute = Schedule.model_validate({"every": "1min"})
    rules = _rules(schedule=every_minute, catch_up=CatchUp.ALL)
    job_id = insert_batch_job(store, rules, cursor=NOON)
    with store.write("test") as tx:
        schedule = schedules.lock(tx, job_id)
        assert schedule is not None
        fire_last(tx, schedule, NOON + timedelta(minutes=300))
    listed = _list(store, job_id)
    assert [run.times.interval_end for run in listed[:-1]] == [
        run.times.interval_start for run in listed[1:]
    ]
    assert (listed[-1].state, listed[-1].times.logical_time) == (
        RunState.SKIPPED,
        NOON + timedelta(minutes=300),
    )
    assert "schedule was changed" in listed[-1].reason


def test_the_clock_of_a_node_decides_neither_what_is_due_nor_about_leases() -> None:
    package = Path(firing.__file__).parents[2]
    modules = [
        package / "control/jobs/firing.py",
        package / "control/jobs/live_runs.py",
        package / "control/jobs/operation_runner.py",
        *(package / "control/runs").glob("*.py"),
        *(package / "store/jobs").glob("*.py"),
        package / "store/operations.py",
    ]
    calls = {
        ast.unparse(call.func)
        for module in modules
        for call in ast.walk(ast.parse(module.read_text()))
        if isinstance(call, ast.Call)
    }
    assert calls.isdisjoint({"datetime.now", "datetime.utcnow", "time.time", "date.today"})


def test_nothing_fires_twice_if_the_clock_of_the_store_is_set_back(store: Database) -> None:
    with store.read() as tx:
        fired_until = read_clock(tx.connection) + timedelta(hours=1)
    rules = _rules(schedule=Schedule(every=timedelta(minutes=1)), catch_up=CatchUp.ALL)
    job_id = insert_batch_job(store, rules, cursor=fired_until)
    Schedules(_context(store)).run()
    assert _list(store, job_id) == []


def test_nodes_that_fire_at_the_same_time_insert_each_run_once(store: Database) -> None:
    with store.read() as tx:
        now = read_clock(tx.connection)
    every_second = Schedule.model_validate({"every": "1s"})
    rules = _rules(schedule=every_second, catch_up=CatchUp.ALL)
    cursor = (now - timedelta(seconds=20)).replace(microsecond=0)
    job_ids = [
        insert_batch_job(store, rules, cursor=cursor, name=f"job{number}") for number in range(30)
    ]
    with ThreadPoolExecutor(3) as nodes:
        for fired in [nodes.submit(Schedules(_context(store)).run) for _node in range(3)]:
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
    Schedules(_context(store)).run()
    assert _list(store, broken) == []
    assert len(_list(store, good)) in {1, 2, 3}
    with store.read() as tx:
        parked = schedules.find(tx, broken)
    assert parked is not None
    assert parked.cursor == cursor
    assert parked.next_at is not None
    assert parked.next_at > now
