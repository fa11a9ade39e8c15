"""Tests of the invariants: each one passes correct rows and reports one fault in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.faults.invariants import (
    Rows,
    check_healthy_drivers_keep_their_leases,
    check_submits_are_idempotent,
    find_violations,
)

from headrace.model.lifecycle import (
    DeploymentState,
    JobState,
    OperationState,
    SavepointState,
    SessionState,
    StatementState,
    StreamState,
    TransactionState,
)

Event = dict[str, Any]
_FIRST_DRIVER = "driver:se_1:1"
_SECOND_DRIVER = "driver:se_1:3"
_IDS = {
    "session": "se_1",
    "statement": "st_1",
    "transaction": "tx_1",
    "stream": "sq_1",
    "job": "jo_1",
    "deployment": "dp_1",
    "operation": "op_1",
    "savepoint": "sp_1",
}


def make_event(
    entity: str, source: str | None, target: str, actor: str = "no_1", **detail: Any
) -> Event:
    key = _IDS[entity]
    return {
        "entity": entity,
        "entity_id": key,
        "source": source,
        "target": target,
        "actor": actor,
        "detail": detail,
    }


EVENTS = [
    make_event("session", None, "not_started", "ada"),
    make_event("statement", None, "waiting", "ada"),
    make_event("session", "not_started", "starting", epoch=1),
    make_event("session", "starting", "running", _FIRST_DRIVER, epoch=1),
    make_event("statement", "waiting", "launched", _FIRST_DRIVER),
    make_event("session", "running", "recovering", epoch=1, reason="killed"),
    make_event("statement", "launched", "waiting", reason="killed"),
    make_event("session", "recovering", "recovering", epoch=3),
    make_event("session", "recovering", "running", _SECOND_DRIVER, epoch=3),
    make_event("statement", "waiting", "launched", _SECOND_DRIVER),
    make_event("statement", "launched", "running", _SECOND_DRIVER),
    make_event("statement", "running", "success", _SECOND_DRIVER),
]
"""The events of a query whose first driver is lost."""


def make_rows(events: list[Event] = EVENTS, **changes: Any) -> Rows:
    """Return the rows after these events.

    Changes apply to the statement, or to the session if their name begins with `session_`.
    """
    statement = {
        "id": "st_1",
        "state": StatementState.SUCCESS,
        "is_query": True,
        "command": None,
        "note": None,
        "attempts": 2,
        "text": "SELECT 1",
    }
    session = {
        "id": "se_1",
        "state": SessionState.RUNNING,
        "lease_until": "later",
        "warm": False,
        "fenced_driver": None,
    }
    for name, value in changes.items():
        column = name.removeprefix("session_")
        row = statement if column == name else session
        assert column in row
        row[column] = value
    return Rows(
        events=events,
        statements=[statement],
        sessions=[session],
        results=[{"statement_id": "st_1"}],
    )


def test_a_query_that_is_retried_after_its_driver_was_lost_violates_nothing() -> None:
    assert find_violations(make_rows()) == []


FAILED_AFTER_SUCCESS = make_event("statement", "success", "failed")
REPORT_OF_LOST_DRIVER = make_event("statement", "launched", "running", _FIRST_DRIVER)
SUCCESS_AFTER_LAUNCHED = make_event("statement", "launched", "success")
OLD_EPOCH = make_event("session", "running", "dead", epoch=1)
REPEATED_RUNNING = make_event("session", "running", "running")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (make_rows([*EVENTS, FAILED_AFTER_SUCCESS], state=StatementState.FAILED), "not allowed"),
        (make_rows(EVENTS[:-1], state=StatementState.RUNNING), "has not ended"),
        (make_rows([*EVENTS[:-1], SUCCESS_AFTER_LAUNCHED]), "but was running"),
        (make_rows(EVENTS[:-1]), "is success, but its last event is running"),
        (make_rows([make_event("statement", None, "running"), *EVENTS[2:]]), "began as running"),
        (make_rows([*EVENTS[:10], REPORT_OF_LOST_DRIVER, EVENTS[11]]), "the driver of epoch 1"),
        (make_rows([*EVENTS[:2], *EVENTS[3:]]), "when session se_1 was at epoch 0"),
        (make_rows([*EVENTS, OLD_EPOCH]), "went back to epoch 1"),
        (make_rows([*EVENTS, REPEATED_RUNNING]), "not allowed"),
        (make_rows(session_state=SessionState.CLOSING), "stays in state closing"),
        (make_rows(session_state=SessionState.RECOVERING), "still has a lease"),
        (make_rows(session_fenced_driver={"epoch": 1}), "has a fenced driver"),
        (make_rows(attempts=3), "has 3 attempts"),
        (make_rows(is_query=False), "has 2 attempts"),
        (make_rows(id="st_2"), "is success, without a result"),
        (make_rows(state=StatementState.FAILED), "is failed, with a result"),
    ],
)
def test_each_violation_is_reported(rows: Rows, message: str) -> None:
    violations = find_violations(rows)
    assert any(message in violation for violation in violations), violations


_TRANSACTION = [
    make_event("transaction", None, "prepared", _SECOND_DRIVER),
    make_event("transaction", "prepared", "begun", _SECOND_DRIVER),
    make_event("transaction", "begun", "committing", _SECOND_DRIVER),
    make_event("transaction", "committing", "committed", _SECOND_DRIVER),
]


def make_ctas_rows(
    events: list[Event] = _TRANSACTION,
    state: TransactionState = TransactionState.COMMITTED,
    **changes: Any,
) -> Rows:
    """Return the rows of a CTAS whose transaction has these events and this state."""
    rows = make_rows([*EVENTS[:11], *events, EVENTS[11]], is_query=False, **changes)
    return replace(rows, transactions=[{"id": "tx_1", "statement_id": "st_1", "state": state}])


def test_a_table_that_the_second_driver_publishes_violates_nothing() -> None:
    assert find_violations(make_ctas_rows()) == []
    assert find_violations(make_ctas_rows(attempts=3)) == []


_NOTHING = "Nothing was done: `t` already exists."
_ABORTED = [
    *_TRANSACTION[:2],
    make_event("transaction", "begun", "aborting", _SECOND_DRIVER),
    make_event("transaction", "aborting", "aborted", _SECOND_DRIVER),
]


def test_a_table_that_another_statement_has_created_meanwhile_violates_nothing() -> None:
    rows = make_ctas_rows(_ABORTED, TransactionState.ABORTED, note=_NOTHING)
    assert find_violations(rows) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (make_ctas_rows(_TRANSACTION[:2], TransactionState.BEGUN), "is success, with 0 tables"),
        (make_ctas_rows(note=_NOTHING), "is success, with 1 tables"),
        (make_ctas_rows(state=TransactionState.COMMITTING), "but its last event is committed"),
        (make_ctas_rows(_TRANSACTION[:2], TransactionState.BEGUN, attempts=3), "has 3 attempts"),
        (make_ctas_rows([_TRANSACTION[0], *_TRANSACTION[2:]]), "but was prepared"),
        (make_ctas_rows(state=TransactionState.COMMITTED, id="st_2"), "st_2 has 2 attempts"),
    ],
)
def test_a_table_that_does_not_match_its_statement_is_reported(rows: Rows, message: str) -> None:
    violations = find_violations(rows)
    assert any(message in violation for violation in violations), violations


_STREAM = [
    make_event("stream", None, "starting", "ada"),
    make_event("stream", "starting", "running", _SECOND_DRIVER),
]
_STOPPED = [
    make_event("stream", "running", "stopping", "ada"),
    make_event("stream", "stopping", "stopped", _SECOND_DRIVER),
]
_PAUSE = [
    make_event("stream", "running", "stopping", "ada"),
    make_event("stream", "stopping", "paused", _SECOND_DRIVER),
]
_END_OF_PAUSE = [*_PAUSE, make_event("stream", "paused", "stopped", _SECOND_DRIVER)]
_FAILED = [make_event("stream", "running", "failed", _SECOND_DRIVER)]


def make_stream_rows(events: list[Event], state: StreamState) -> Rows:
    """Return the rows of the query of a statement, with the events of its end."""
    query = {
        "id": "sq_1",
        "name": "q",
        "state": state,
        "session_id": "se_1",
        "statement_id": "st_1",
        "last_error": None,
    }
    rows = make_rows([*EVENTS, *_STREAM, *events], is_query=False, command="SAVE STREAM")
    return replace(rows, stream_queries=[query])


def test_a_stopped_query_violates_nothing_although_its_statement_was_retried() -> None:
    assert find_violations(make_stream_rows(_STOPPED, StreamState.STOPPED)) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (make_stream_rows([], StreamState.RUNNING), "the query q has not ended: running"),
        (make_stream_rows(_FAILED, StreamState.FAILED), "the query q failed"),
        (make_stream_rows(_STOPPED[1:], StreamState.STOPPED), "but was running"),
        (
            make_stream_rows(_END_OF_PAUSE, StreamState.STOPPED),
            f"{_SECOND_DRIVER} ended the pause of the query sq_1",
        ),
    ],
)
def test_a_query_that_does_not_end_as_its_users_want_is_reported(rows: Rows, message: str) -> None:
    violations = find_violations(rows)
    assert any(message in violation for violation in violations), violations


_JOB = [
    make_event("deployment", None, "checking"),
    make_event("deployment", "checking", "planned"),
    make_event("operation", None, "pending"),
    make_event("operation", "pending", "claimed"),
    make_event("deployment", "planned", "applying"),
    make_event("job", None, "deploying"),
    make_event("savepoint", None, "copying"),
    make_event("savepoint", "copying", "verified"),
    make_event("job", "deploying", "stopped"),
    make_event("deployment", "applying", "applied"),
    make_event("operation", "claimed", "done"),
]


def make_job_rows(events: list[Event] = _JOB, **changes: Any) -> Rows:
    """Return the rows of a job with these events. Changes apply to the job, or as named."""
    job = {"id": "jo_1", "name": "j", "state": JobState.STOPPED, "change_id": None}
    savepoint = {"id": "sp_1", "place": "p", "state": SavepointState.VERIFIED}
    deployment = {"id": "dp_1", "state": DeploymentState.APPLIED}
    for name, value in changes.items():
        {"savepoint": savepoint, "deployment": deployment}.get(name, job).update(value)
    return replace(
        make_rows([*EVENTS, *events]),
        jobs=[job],
        deployments=[deployment],
        operations=[{"id": "op_1", "state": OperationState.DONE}],
        savepoints=[savepoint],
    )


def test_a_deployed_and_stopped_job_violates_nothing() -> None:
    assert find_violations(make_job_rows()) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (make_job_rows(job={"change_id": "ch_1"}), "in the change ch_1"),
        (make_job_rows(_JOB[:8], job={"state": JobState.DEPLOYING}), "the job j is deploying"),
        (
            make_job_rows(_JOB[:9], deployment={"state": DeploymentState.APPLYING}),
            "dp_1 has not ended: applying",
        ),
        (
            make_job_rows(_JOB[:7], savepoint={"state": SavepointState.COPYING}),
            "the savepoint p is copying",
        ),
        (make_job_rows(_JOB[:-1]), "its last event is claimed"),
        (make_job_rows([*_JOB[:9], *_JOB[10:]]), "deployment dp_1 is applied, but its last event"),
    ],
)
def test_a_job_that_is_left_half_way_is_reported(rows: Rows, message: str) -> None:
    violations = find_violations(rows)
    assert any(message in violation for violation in violations), violations


def test_a_text_that_became_two_statements_is_reported() -> None:
    stored = [{"text": "SELECT 1"}, {"text": "SELECT 2"}, {"text": "SELECT 2"}]
    assert not list(check_submits_are_idempotent({"SELECT 1": ["st_1", "st_1"]}, stored))
    for answers in (
        {"SELECT 1": ["st_1", "st_2"]},
        {"SELECT 2": ["st_1"]},
        {"SELECT 3": ["st_3"]},
    ):
        assert list(check_submits_are_idempotent(answers, stored))


def test_a_takeover_of_a_running_driver_is_reported_where_no_driver_is_harmed() -> None:
    events = [{**event, "id": number} for number, event in enumerate(EVENTS)]
    takeover = next(event["id"] for event in events if event["target"] == "recovering")
    rows = make_rows(events)
    (violation,) = check_healthy_drivers_keep_their_leases(rows, after=takeover - 1)
    assert "session se_1 lost its lease: killed" in violation
    assert not list(check_healthy_drivers_keep_their_leases(rows, after=takeover))
