"""Every invariant sees what it is there for: rows that are well, and then one thing made wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.faults.invariants import Rows, submits_gave_one_statement, violations

from headrace.model.lifecycle import SessionState, StatementState, TransactionState

Event = dict[str, Any]
_DRIVER = "driver:se_1:1"
_SECOND = "driver:se_1:3"


def event(
    entity: str, source: str | None, target: str, actor: str = "no_1", **detail: Any
) -> Event:
    key = {"session": "se_1", "statement": "st_1", "transaction": "tx_1"}[entity]
    return {
        "entity": entity,
        "entity_id": key,
        "source": source,
        "target": target,
        "actor": actor,
        "detail": detail,
    }


def well() -> list[Event]:
    """A query whose first driver is lost."""
    return [
        event("session", None, "not_started", "ada"),
        event("statement", None, "waiting", "ada"),
        event("session", "not_started", "starting", epoch=1),
        event("session", "starting", "running", _DRIVER, epoch=1),
        event("statement", "waiting", "launched", _DRIVER),
        event("session", "running", "recovering", epoch=1, reason="killed"),
        event("statement", "launched", "waiting", reason="killed"),
        event("session", "recovering", "recovering", epoch=3),
        event("session", "recovering", "running", _SECOND, epoch=3),
        event("statement", "waiting", "launched", _SECOND),
        event("statement", "launched", "running", _SECOND),
        event("statement", "running", "success", _SECOND),
    ]


def rows(events: list[Event] | None = None, **changes: Any) -> Rows:
    """At rest after these events; changes are of the statement, or `session_…` of the session."""
    statement = {
        "id": "st_1",
        "state": StatementState.SUCCESS,
        "is_query": True,
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
        ours, key = (session, name[8:]) if name.startswith("session_") else (statement, name)
        ours[key] = value
    return Rows(
        events=events or well(),
        statements=[statement],
        sessions=[session],
        results=[{"statement_id": "st_1"}],
    )


def test_a_lost_driver_and_a_second_attempt_are_well() -> None:
    assert violations(rows()) == []


LATE = event("statement", "success", "failed")
ZOMBIE = event("statement", "launched", "running", _DRIVER)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (rows([*well(), LATE], state=StatementState.FAILED), "not allowed"),
        (rows(well()[:-1], state=StatementState.RUNNING), "has not ended"),
        (rows([*well()[:-1], event("statement", "launched", "success")]), "but was running"),
        (rows(well()[:-1]), "its last event says otherwise"),
        (rows([event("statement", None, "running"), *well()[2:]]), "began as running"),
        (rows([*well()[:10], ZOMBIE, well()[11]]), "the driver of epoch 1 brought"),
        (rows([*well()[:2], *well()[3:]]), "when epoch 0 had"),
        (rows([*well(), event("session", "running", "dead", epoch=1)]), "went back to epoch 1"),
        (rows([*well(), event("session", "running", "running")]), "not allowed"),
        (rows(session_state=SessionState.CLOSING), "is closing for ever"),
        (rows(session_state=SessionState.RECOVERING), "still answers for its driver"),
        (rows(session_condemned={"epoch": 1}), "that nobody has ended"),
        (rows(attempts=3), "was tried 3 times"),
        (rows(is_query=False), "was tried 2 times"),
        (rows(id="st_2"), "is a success without a result"),
        (rows(state=StatementState.FAILED), "has a result and is failed"),
    ],
)
def test_what_is_wrong_is_told(made: Rows, words: str) -> None:
    assert any(words in told for told in violations(made)), violations(made)


_TX = [
    event("transaction", None, "prepared", _SECOND),
    event("transaction", "prepared", "begun", _SECOND),
    event("transaction", "begun", "committing", _SECOND),
    event("transaction", "committing", "committed", _SECOND),
]


def creating(
    events: list[Event] = _TX, state: TransactionState = TransactionState.COMMITTED, **changes: Any
) -> Rows:
    """The same, of a CTAS."""
    made = [*well()[:11], *events, well()[11]]
    row = {"id": "tx_1", "statement_id": "st_1", "state": state}
    return replace(rows(made, is_query=False, **changes), transactions=[row])


def test_a_table_that_is_published_by_its_second_driver_is_well() -> None:
    assert violations(creating()) == []
    assert violations(creating(attempts=3)) == []


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (creating(_TX[:2], TransactionState.BEGUN), "is success, with 0 tables"),
        (creating(state=TransactionState.COMMITTING), "its last event says otherwise"),
        (creating(_TX[:2], TransactionState.BEGUN, attempts=3), "was tried 3 times"),
        (creating([_TX[0], *_TX[2:]]), "but was prepared"),
        (creating(state=TransactionState.COMMITTED, id="st_2"), "st_2 was tried 2 times"),
    ],
)
def test_a_table_that_does_not_agree_is_told(made: Rows, words: str) -> None:
    assert any(words in told for told in violations(made)), violations(made)


def test_a_submit_gives_one_statement_however_often_it_is_answered() -> None:
    stored = [{"text": "SELECT 1"}, {"text": "SELECT 2"}, {"text": "SELECT 2"}]
    assert not list(submits_gave_one_statement({"SELECT 1": ["st_1", "st_1"]}, stored))
    for wrong in ({"SELECT 1": ["st_1", "st_2"]}, {"SELECT 2": ["st_1"]}, {"SELECT 3": ["st_3"]}):
        assert list(submits_gave_one_statement(wrong, stored))
