"""Spare sessions in every store: each is taken once, by whoever comes first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.store import new_session, running_session

from headrace.errors import SessionNameExists
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState
from headrace.model.session import DriverLease, NewSession, SessionKind, SessionSpec
from headrace.store import sessions, takeovers, warm_sessions
from headrace.store.database import Database


def _spare(store: Database, *, running: bool = True, profile: str = "default") -> str:
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


def _take(store: Database, *, name: str | None = None, profile: str = "default") -> str | None:
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


def test_a_taken_session_is_its_takers_as_if_it_had_been_made_for_it(store: Database) -> None:
    warm = _spare(store)
    with store.read() as tx:
        assert [one.id for one in warm_sessions.live(tx, "default")] == [warm]
        assert sessions.page(tx, owner="ada") == []
    assert _take(store, name="mine", profile="other") is None
    assert _take(store, name="mine") == warm
    assert _take(store) is None
    with store.read() as tx:
        session = sessions.get(tx, warm)
        assert warm_sessions.live(tx, "default") == []
        assert [one.id for one in sessions.page(tx, owner="ada")] == [warm]
    assert session is not None
    assert (session.name, session.kind, session.warm) == ("mine", SessionKind.BATCH, False)
    assert (session.idle_seconds, session.ttl_seconds) == (7, 8)
    assert (session.state, session.epoch) == (SessionState.RUNNING, 1)
    assert session.started_at is not None
    assert session.created_at >= session.started_at


def test_one_whose_driver_is_up_goes_first(store: Database) -> None:
    starting, running = _spare(store, running=False), _spare(store)
    assert [_take(store), _take(store), _take(store)] == [running, starting, None]


def test_a_name_that_is_taken_takes_no_driver(store: Database) -> None:
    warm = _spare(store)
    new_session(store, owner="ada", name="mine")
    with pytest.raises(SessionNameExists):
        _take(store, name="mine")
    assert _take(store, name="other") == warm


def test_what_is_lost_or_somebodys_is_not_taken(store: Database) -> None:
    lost = _spare(store)
    with store.write("test") as tx:
        assert (
            takeovers.fence(tx, DriverLease(lost, 1), actor="no_1", reason="it died", seconds=60)
            == 2
        )
    running_session(store)
    assert _take(store) is None


def test_each_is_taken_once(store: Database) -> None:
    made = {_spare(store) for _ in range(3)}
    ready = threading.Barrier(6)

    def take(_: int) -> str | None:
        ready.wait()
        return _take(store)

    with ThreadPoolExecutor(6) as pool:
        found = [one for one in pool.map(take, range(6)) if one is not None]
    # On PostgreSQL, who meets another's choice may go away with none; nobody gets another's.
    assert len(found) == len(set(found))
    assert set(found) <= made
    left = list(iter(lambda: _take(store), None))
    assert set(found) | set(left) == made


def test_a_failed_start_is_remembered_for_a_while(store: Database) -> None:
    warm = _spare(store, running=False)
    with store.write("test") as tx:
        assert not warm_sessions.failed_recently(tx, "default", 60)
        assert sessions.transition(tx, warm, SessionState.FAILED, actor="no_1")
        assert warm_sessions.failed_recently(tx, "default", 60)
        assert not warm_sessions.failed_recently(tx, "other", 60)
        assert not warm_sessions.failed_recently(tx, "default", -1)
