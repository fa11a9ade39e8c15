"""When a job with `max-lag` runs, and what it keeps of the changes of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.freshness import (
    Freshness,
    choose_start,
    estimate_duration,
    find_read_until,
    list_failed,
    select_kept,
)
from headrace.model.lifecycle import RunState
from headrace.model.reasons import ReasonCode, explain_lag
from headrace.model.run import JobRun, RunTimes, RunTrigger, TableChange

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
LAG = timedelta(minutes=15)
UNATTAINABLE = (
    "The limit is unattainable while tables change all the time: `max-lag` is 15 min, and a run"
    " takes 8 min. The next run reads what changes during a run, so that changes can get 16 min"
    " old."
)
SUCCEEDED, FAILED = RunState.SUCCEEDED, RunState.FAILED
CHANGES = st.lists(
    st.tuples(st.integers(0, 4 * 3600), st.sampled_from("abc")), min_size=1, max_size=60
)


def _after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def _make_changes(drawn: Sequence[tuple[int, str]]) -> list[TableChange]:
    return [
        TableChange(source_key=key, transaction_id=f"tx_{number:03}", changed_at=_after(second))
        for number, (second, key) in enumerate(sorted(drawn))
    ]


def _simulate(
    changes: Sequence[TableChange], duration: timedelta
) -> list[tuple[datetime, datetime, TableChange]]:
    """Return start, end and oldest unread change of each run, by a node that looks all the time."""
    runs: list[tuple[datetime, datetime, TableChange]] = []
    rest, end = list(changes), NOON - timedelta(days=1)
    while rest:
        noted, start = list[TableChange](), datetime.max.replace(tzinfo=UTC)
        for change in rest:
            if noted and start < change.changed_at:
                break
            noted.append(change)
            start = max(choose_start(select_kept(noted, []), LAG, duration), end, change.changed_at)
        runs.append((start, start + duration, rest[0]))
        end = start + duration
        rest = [each for each in rest if each.changed_at > start]
    return runs


@given(CHANGES, st.integers(1, 6 * 60))
def test_each_change_is_read_in_time_if_a_run_takes_less_than_half_of_the_limit(
    drawn: list[tuple[int, str]], seconds: int
) -> None:
    duration = timedelta(seconds=seconds)
    for start, end, oldest in _simulate(_make_changes(drawn), duration):
        assert end - oldest.changed_at <= LAG
        # Not earlier than needed: many changes are read together.
        assert end - oldest.changed_at >= LAG - max(duration / 4, timedelta(seconds=5))
        assert start > oldest.changed_at


@given(CHANGES, st.lists(st.integers(0, 4 * 3600), max_size=4))
def test_the_changes_that_are_kept_tell_the_lag_and_what_to_read(
    drawn: list[tuple[int, str]], begins: list[int]
) -> None:
    changes = _make_changes(drawn)
    kept = select_kept(changes, map(_after, begins))
    for begin in (-1, *begins):
        first = [
            next((x for x in each if x.changed_at > _after(begin)), None)
            for each in (changes, kept)
        ]
        assert first[0] == first[1]
    assert {each.source_key: each for each in kept} == {each.source_key: each for each in changes}
    assert len(kept) <= 3 + 1 + len(begins)
    assert select_kept(kept, map(_after, begins)) == kept


@pytest.mark.parametrize(
    ("seconds", "start"), [([0], 5), ([0, 3], 8), (list(range(0, 120, 4)), 50)]
)
def test_a_run_of_unknown_duration_starts_when_the_tables_have_settled(
    seconds: list[int], start: int
) -> None:
    changes = _make_changes([(second, "a") for second in seconds])
    assert choose_start(changes, LAG, None) == _after(start)


def _run(state: RunState, minute: int, *, duration: int = 2, **changes: Any) -> JobRun:
    begin = NOON + timedelta(minutes=minute)
    run = JobRun(
        id="rn_1",
        job_id="jb_1",
        owner="ada",
        name="fresh",
        version_id="jv_1",
        state=state,
        trigger=RunTrigger.CONDITION,
        backfill_id=None,
        times=RunTimes(logical_time=begin, interval_start=begin, interval_end=begin),
        inputs=[],
        repetition=0,
        attempt=1,
        position=0,
        awaits_attempt=False,
        awaits_conditions=False,
        has_turn=True,
        parallelism=1,
        due_at=begin,
        connection_id=None,
        reason="",
        failure=None,
        cancelled_by=None,
        created_at=begin,
        started_at=begin,
        ended_at=begin + timedelta(minutes=duration),
    )
    return replace(run, **changes)


def test_the_longest_of_ten_runs_of_the_version_is_expected() -> None:
    recent = [
        _run(SUCCEEDED, 100, duration=50, trigger=RunTrigger.USER),
        _run(SUCCEEDED, 90, duration=40, attempt=2),
        _run(FAILED, 80, duration=30),
        *(_run(SUCCEEDED, 70, duration=each) for each in (1, 3, 2, 1, 1, 1, 1, 1, 1, 1, 9)),
    ]
    assert estimate_duration(recent, "jv_1") == timedelta(minutes=3)
    assert estimate_duration(recent, "jv_2") is None


def test_successful_runs_from_the_first_statement_on_have_read_what_was_changed_before_them() -> (
    None
):
    recent = [
        _run(FAILED, 50),
        _run(SUCCEEDED, 40, trigger=RunTrigger.REPAIR),
        _run(SUCCEEDED, 20),
        _run(SUCCEEDED, 30, trigger=RunTrigger.USER),
    ]
    assert find_read_until(recent) == NOON + timedelta(minutes=30)
    assert find_read_until(recent[:2]) is None


def test_runs_that_have_failed_since_the_last_success_of_the_version_count() -> None:
    failed = [_run(FAILED, 50), _run(RunState.CANCELLED, 40)]
    recent = [_run(RunState.RUNNING, 60), *failed, _run(SUCCEEDED, 30), _run(FAILED, 20)]
    assert list_failed(recent, "jv_1") == failed
    assert list_failed(recent, "jv_2") == []


@pytest.mark.parametrize(
    ("lag", "expected", "unwatched", "text"),
    [
        (5, 7, "", None),
        (5, None, "", None),
        (5, None, "t", "Its runs read t, whose changes do not count. Name all tables in `of`."),
        (16, None, "", "Its rows are 16 min behind its tables, and `max-lag` is 15 min."),
        (
            5,
            8,
            "",
            UNATTAINABLE,
        ),
    ],
    ids=["kept", "unknown", "unwatched", "exceeded", "unattainable"],
)
def test_a_limit_that_is_not_kept_is_explained_with_both_lengths_of_time(
    lag: int, expected: int | None, unwatched: str, text: str | None
) -> None:
    freshness = Freshness(
        max_lag=LAG,
        lag=timedelta(minutes=lag),
        expected=None if expected is None else timedelta(minutes=expected),
        unwatched=unwatched.split(),
    )
    reason = explain_lag(freshness)
    assert (None if reason is None else reason.text) == text
    assert reason is None or reason.code is ReasonCode.LAG
