"""Contract of the statements that a node executes: they run in order with those of the driver."""

from __future__ import annotations

from tests.support.store import new_statement, running_session

from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import NewStatement, StatementSpec
from headrace.store import node_statements, statement_transitions, statements
from headrace.store.database import Database


def test_a_local_statement_is_runnable_when_no_live_statement_precedes_it(store: Database) -> None:
    lease = running_session(store)
    first = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    own = new_id("st")
    with store.write("test") as tx:
        new = NewStatement(
            id=own,
            session_id=lease.session_id,
            owner="ada",
            spec=StatementSpec(text="x", kind=SessionKind.LOCAL),
        )
        statements.insert(tx, new, actor="ada")
    last = new_statement(store, lease.session_id)

    def find_runnable() -> list[str]:
        with store.read() as tx:
            assert node_statements.runnable(tx, "se_x", 10) == []
            assert node_statements.runnable(tx, lease.session_id, 10) == node_statements.runnable(
                tx, None, 10
            )
            return node_statements.runnable(tx, None, 10)

    assert find_runnable() == []
    with store.write("test") as tx:
        assert statement_transitions.transition(tx, first, StatementState.SUCCESS, actor="test")
        # Statements after a local one wait for it.
        assert statement_transitions.claim_next(tx, lease) is None
    assert find_runnable() == [own]
    with store.write("test") as tx:
        assert statement_transitions.transition(tx, own, StatementState.SUCCESS, actor="test")
        claimed = statement_transitions.claim_next(tx, lease)
    assert claimed is not None
    assert claimed.id == last
    assert find_runnable() == []
