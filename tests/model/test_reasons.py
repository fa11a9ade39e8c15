"""Kinds of reasons."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.model.failure import Failure
from headrace.model.lifecycle import RunState
from headrace.model.reasons import MEANINGS, ReasonCode, explain_run
from headrace.model.run import JobRun, RunTimes, RunTrigger
from headrace.model.statement import WaitCode


def test_every_kind_has_a_meaning_and_every_wait_is_a_kind() -> None:
    assert list(MEANINGS) == list(ReasonCode)
    assert [ReasonCode(code).value for code in WaitCode] == list(WaitCode)


NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
RUN_BASE = JobRun(
    id="rn_1",
    job_id="jb_1",
    owner="ada",
    name="load",
    version_id="jv_1",
    state=RunState.DUE,
    trigger=RunTrigger.SCHEDULE,
    backfill_id=None,
    times=RunTimes(logical_time=NOW, interval_start=NOW - timedelta(hours=1), interval_end=NOW),
    inputs=[],
    repetition=0,
    attempt=0,
    position=0,
    awaits_attempt=True,
    awaits_conditions=False,
    has_turn=True,
    parallelism=1,
    due_at=NOW,
    connection_id=None,
    reason="",
    failure=None,
    cancelled_by=None,
    created_at=NOW,
    started_at=None,
    ended_at=None,
)
RUNNING = {"state": RunState.RUNNING, "attempt": 1, "awaits_attempt": False}
RUN_REASONS: dict[str, tuple[dict[str, Any], ReasonCode, str]] = {
    "due": ({}, ReasonCode.DUE, "It is next: a node begins it."),
    "delay": (
        {"due_at": NOW + timedelta(minutes=3)},
        ReasonCode.DELAY,
        "It is due in 3 min: its job has a delay.",
    ),
    "no turn": ({"has_turn": False}, ReasonCode.RUN_BEFORE, "It waits for another run of its job."),
    "cancelled before its turn": (
        {"cancelled_by": "bob"},
        ReasonCode.CANCELLING,
        "It is being cancelled by bob.",
    ),
    "no statement": (RUNNING, ReasonCode.STATEMENT, "Its statement is being submitted."),
    "cancelled while it runs": (
        {**RUNNING, "cancelled_by": "bob"},
        ReasonCode.CANCELLING,
        "It is being cancelled by bob: its statement has not ended.",
    ),
    "retry due": (
        {**RUNNING, "awaits_attempt": True},
        ReasonCode.RETRY,
        "Attempt 2 is due.",
    ),
    "skipped": (
        {"state": RunState.SKIPPED, "reason": "The job was deleted."},
        ReasonCode.SKIPPED,
        "The job was deleted.",
    ),
    "failed": (
        {"state": RunState.FAILED, "failure": Failure(code="x", message="No table.")},
        ReasonCode.FAILED,
        "No table.",
    ),
}


@pytest.mark.parametrize("name", RUN_REASONS)
def test_a_run_has_a_reason_until_it_has_succeeded(name: str) -> None:
    changes, code, text = RUN_REASONS[name]
    reason = explain_run(replace(RUN_BASE, **changes), NOW)
    assert reason is not None
    assert (reason.code, reason.text) == (code, text)
    assert explain_run(replace(RUN_BASE, state=RunState.SUCCEEDED), NOW) is None
