"""Contract of state transitions: the store applies those of the lifecycles, and no others."""

from __future__ import annotations

import pytest
from tests.support.store import LOST, new_session, new_statement, read_changes

from headrace.model.lifecycle import (
    NODE,
    SESSION,
    STATEMENT,
    NodeState,
    SessionState,
    StatementState,
)
from headrace.store import events, nodes
from headrace.store.database import Database
from headrace.store.sessions import sessions
from headrace.store.statements import statement_transitions, statements


def _transitions(store: Database, entity_id: str) -> list[tuple[str | None, str]]:
    with store.read() as tx:
        return [(event.source, event.target) for event in read_changes(tx, entity_id=entity_id)]


@pytest.mark.parametrize("source", StatementState)
def test_a_statement_changes_only_as_its_lifecycle_allows(
    store: Database, source: StatementState
) -> None:
    session_id = new_session(store)
    for target in StatementState:
        statement_id = new_statement(store, session_id, source)
        before = _transitions(store, statement_id)
        with store.write("test") as tx:
            applied = statement_transitions.transition(
                tx, statement_id, target, actor="test", failure=LOST
            )
        with store.read() as tx:
            after = statements.get(tx, statement_id)
        assert after is not None
        assert applied is STATEMENT.allows(source, target), f"{source} → {target}"
        assert after.state is (target if applied else source)
        assert after.failure == (LOST if applied else None)
        assert (after.ended_at is not None) is (after.state in STATEMENT.terminal)
        assert _transitions(store, statement_id) == before + ([(source, target)] if applied else [])


@pytest.mark.parametrize("source", SessionState)
def test_a_session_changes_only_as_its_lifecycle_allows(
    store: Database, source: SessionState
) -> None:
    for target in SessionState:
        session_id = new_session(store, source)
        before = _transitions(store, session_id)
        with store.write("test") as tx:
            applied = sessions.transition(tx, session_id, target, actor="test", failure=LOST)
        with store.read() as tx:
            after = sessions.get(tx, session_id)
        assert after is not None
        assert applied is SESSION.allows(source, target), f"{source} → {target}"
        assert after.state is (target if applied else source)
        assert after.failure == (LOST if applied else None)
        assert (after.ended_at is not None) is (after.state in SESSION.terminal)
        assert _transitions(store, session_id) == before + ([(source, target)] if applied else [])


@pytest.mark.parametrize(
    ("source", "path"),
    [
        (NodeState.UP, []),
        (NodeState.DRAINING, [NodeState.DRAINING]),
        (NodeState.GONE, [NodeState.GONE]),
    ],
)
def test_a_node_changes_only_as_its_lifecycle_allows(
    store: Database, source: NodeState, path: list[NodeState]
) -> None:
    for target in NodeState:
        with store.write("test") as tx:
            nodes.register(tx, f"no_{target}", address="http://a", version="1", seconds=60)
            for step in path:
                assert nodes.transition(tx, f"no_{target}", step, actor="test")
        with store.write("test") as tx:
            applied = nodes.transition(tx, f"no_{target}", target, actor="test")
        with store.read() as tx:
            after = next(node for node in nodes.page(tx) if node.id == f"no_{target}")
        assert applied is NODE.allows(source, target)
        assert after.state is (target if applied else source)


def test_a_transition_of_an_unknown_entity_is_not_applied(store: Database) -> None:
    with store.write("test") as tx:
        assert not statement_transitions.transition(tx, "st_x", StatementState.FAILED, actor="test")
        assert not sessions.transition(tx, "se_x", SessionState.FAILED, actor="test")
        assert not nodes.transition(tx, "no_x", NodeState.GONE, actor="test")
        assert statement_transitions.request_cancel(tx, "st_x", actor="test") is None
    with store.read() as tx:
        assert events.read(tx, after=None, limit=10) == []


def test_a_transaction_that_is_rolled_back_leaves_no_change_and_no_event(store: Database) -> None:
    session_id = new_session(store)
    before = _transitions(store, session_id)
    with pytest.raises(LookupError), store.write("test") as tx:
        assert sessions.transition(tx, session_id, SessionState.CLOSING, actor="test")
        raise LookupError
    with store.read() as tx:
        session = sessions.get(tx, session_id)
    assert session is not None
    assert session.state is SessionState.NOT_STARTED
    assert _transitions(store, session_id) == before
