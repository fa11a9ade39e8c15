"""Contract of warm sessions: each is assigned once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.store import new_session, running_session

from headrace.errors import SessionNameExists
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState
from headrace.model.session import DriverLease, NewSession, SessionKind, SessionSpec
from headrace.store.database import Database
from headrace.store.sessions import sessions, takeovers, warm_sessions


def _new_warm(store: Database, *, running: bool = True, profile: str = "default") -> str:
    session_id = new_id("se")
    new = NewSession(
        id=session_id,
        owner=warm_sessions.UNASSIGNED_OWNER,
        spec=SessionSpec(profile=profile),
        warm=True,
    )
    with store.write("test") as tx:
        sessions.insert(tx, new, actor="no_1")
        epoch = takeovers.claim_launch(tx, session_id, node="no_1", seconds=60, token_hash="h")
        if running:
            state = SessionState.RUNNING
            assert sessions.transition(tx, session_id, state, actor="d", epoch=epoch)
    return session_id


def _assign(store: Database, *, name: str | None = None, profile: str = "default") -> str | None:
    new = NewSession(
        id=new_id("se"),
        owner="ada",
        name=name,
        spec=SessionSpec(profile=profile),
        kind=SessionKind.BATCH,
        idle_seconds=7,
        ttl_seconds=8,
    )
    with store.write("test") as tx:
        return warm_sessions.assign(tx, new)


def test_an_assigned_session_has_the_fields_of_the_new_session(store: Database) -> None:
    warm = _new_warm(store)
    with store.read() as tx:
        assert [session.id for session in warm_sessions.live(tx, "default")] == [warm]
        assert sessions.page(tx, owners=["ada"]) == []
    assert _assign(store, name="mine", profile="other") is None
    assert _assign(store, name="mine") == warm
    assert _assign(store) is None
    with store.read() as tx:
        session = sessions.get(tx, warm)
        assert warm_sessions.live(tx, "default") == []
        assert [session.id for session in sessions.page(tx, owners=["ada"])] == [warm]
    assert session is not None
    assert (session.name, session.kind, session.warm) == ("mine", SessionKind.BATCH, False)
    assert (session.idle_seconds, session.ttl_seconds) == (7, 8)
    assert (session.state, session.epoch) == (SessionState.RUNNING, 1)
    assert session.started_at is not None
    assert session.created_at >= session.started_at


def test_a_session_with_a_running_driver_is_assigned_first(store: Database) -> None:
    starting, running = _new_warm(store, running=False), _new_warm(store)
    assert [_assign(store), _assign(store), _assign(store)] == [running, starting, None]


def test_no_session_is_assigned_if_the_name_exists(store: Database) -> None:
    warm = _new_warm(store)
    new_session(store, owner="ada", name="mine")
    with pytest.raises(SessionNameExists):
        _assign(store, name="mine")
    assert _assign(store, name="other") == warm


def test_a_fenced_or_owned_session_is_not_assigned(store: Database) -> None:
    lost = _new_warm(store)
    with store.write("test") as tx:
        lease = DriverLease(lost, 1)
        assert takeovers.fence(tx, lease, actor="no_1", reason="it died", seconds=60) == 2
    running_session(store)
    assert _assign(store) is None


def test_each_warm_session_is_assigned_once_under_contention(store: Database) -> None:
    warm = {_new_warm(store) for _ in range(3)}
    ready = threading.Barrier(6)

    def assign(_: int) -> str | None:
        ready.wait()
        return _assign(store)

    with ThreadPoolExecutor(6) as pool:
        assigned = [session_id for session_id in pool.map(assign, range(6)) if session_id]
    # On PostgreSQL, a concurrent assignment may find none; no session is assigned twice.
    assert len(assigned) == len(set(assigned))
    assert set(assigned) <= warm
    remaining = list(iter(lambda: _assign(store), None))
    assert set(assigned) | set(remaining) == warm


def test_a_failed_warm_session_is_reported_for_some_time(store: Database) -> None:
    warm = _new_warm(store, running=False)
    with store.write("test") as tx:
        assert not warm_sessions.failed_recently(tx, "default", 60)
        assert sessions.transition(tx, warm, SessionState.FAILED, actor="no_1")
        assert warm_sessions.failed_recently(tx, "default", 60)
        assert not warm_sessions.failed_recently(tx, "other", 60)
        assert not warm_sessions.failed_recently(tx, "default", -1)


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({}, True),
        ({"kind": SessionKind.BATCH}, True),
        ({"kind": SessionKind.STREAMING}, False),
        ({"name": "mine"}, False),
        ({"pool": True}, False),
        ({"warm": True}, False),
        ({"spec": SessionSpec(profile="other")}, False),
    ],
)
def test_only_sessions_of_scripts_and_batches_call_for_a_warm_driver_at_their_end(
    store: Database, fields: dict[str, Any], counts: bool
) -> None:
    lease = running_session(store, **fields)
    with store.write("test") as tx:
        assert warm_sessions.is_unnamed_live(tx, "default") is counts
        assert not warm_sessions.unnamed_ended_within(tx, "default", 60)
        for state in (SessionState.CLOSING, SessionState.DEAD):
            assert sessions.transition(tx, lease.session_id, state, actor="no_1")
        assert not warm_sessions.is_unnamed_live(tx, "default")
        assert warm_sessions.unnamed_ended_within(tx, "default", 60) is counts
        assert not warm_sessions.unnamed_ended_within(tx, "default", -1)
