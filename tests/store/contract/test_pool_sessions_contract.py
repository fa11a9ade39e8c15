"""Contract of pool sessions: one open one per owner and profile."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import IntegrityError
from tests.support.store import new_session, new_statement, running_session

from headrace.model.lifecycle import SessionState
from headrace.model.session import DriverLease
from headrace.store.database import Database
from headrace.store.sessions import sessions
from headrace.store.statements import statement_transitions


def _find(store: Database, owner: str = "ada", profile: str = "default") -> str | None:
    with store.read() as tx:
        return sessions.find_open_pool(tx, owner, profile)


def _claim(store: Database, lease: DriverLease) -> str | None:
    with store.write("test") as tx:
        claim = statement_transitions.claim_next(tx, lease)
    return None if claim is None else claim.statement.id


def test_a_pool_session_is_found_while_it_accepts_statements(store: Database) -> None:
    new_session(store, owner="ada")
    for state in (SessionState.CLOSING, SessionState.DEAD, SessionState.FAILED):
        new_session(store, state, owner="ada", pool=True)
    assert _find(store) is None
    pool = new_session(store, owner="ada", pool=True)
    assert _find(store) == pool
    assert _find(store, owner="bob") is None
    assert _find(store, profile="other") is None


@pytest.mark.parametrize("state", [SessionState.RUNNING, SessionState.RECOVERING])
def test_a_second_pool_session_is_refused(store: Database, state: SessionState) -> None:
    new_session(store, state, owner="ada", pool=True)
    new_session(store, owner="bob", pool=True)
    with pytest.raises(IntegrityError):
        new_session(store, owner="ada", pool=True)


def test_the_statements_of_a_pool_session_run_beside_each_other(store: Database) -> None:
    lease = running_session(store, parallelism=3, pool=True)
    waiting = [
        new_statement(store, lease.session_id, is_query=is_query)
        for is_query in (False, True, False, True)
    ]
    assert [_claim(store, lease) for _ in range(4)] == [*waiting[:3], None]
