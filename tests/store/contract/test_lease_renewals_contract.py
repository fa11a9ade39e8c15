"""Renewals of the leases of many drivers in one transaction, on every store."""

from __future__ import annotations

from contextlib import closing

from sqlalchemy import text
from tests.support.store import running_session

from headrace.model.lifecycle import SessionState
from headrace.model.session import DriverLease
from headrace.store.database import Database
from headrace.store.sessions import lease_renewals, sessions


def _lease_until(store: Database, session_id: str) -> object:
    with store.read() as tx:
        session = sessions.get(tx, session_id)
    assert session is not None
    return session.lease_until


def test_the_leases_that_are_lost_are_left_out(store: Database) -> None:
    first, second, superseded, ended = (running_session(store) for _ in range(4))
    with store.write("test") as tx:
        assert sessions.transition(tx, ended.session_id, SessionState.FAILED, actor="test")
    older = DriverLease(superseded.session_id, superseded.epoch + 1)
    unknown = DriverLease("se_" + "0" * 32, 1)
    before = {lease: _lease_until(store, lease.session_id) for lease in (first, superseded, ended)}

    with store.write("test") as tx:
        renewed = lease_renewals.renew_all(tx, [first, older, ended, unknown, second], 3600)

    assert renewed == [first, second]
    assert _lease_until(store, first.session_id) != before[first]
    assert _lease_until(store, superseded.session_id) == before[superseded]
    assert _lease_until(store, ended.session_id) == before[ended]


def test_a_renewal_of_many_does_not_wait_for_a_session_that_is_locked(stoppable_url: str) -> None:
    with closing(Database.open(stoppable_url)) as store:
        free, locked = running_session(store), running_session(store)
        lock = text("SELECT 1 FROM sessions WHERE id = :id FOR UPDATE")
        with store.write("test") as holder:
            holder.execute(lock, {"id": locked.session_id})
            with store.write("test") as tx:
                assert lease_renewals.renew_all(tx, [locked, free], 3600) == [free]
