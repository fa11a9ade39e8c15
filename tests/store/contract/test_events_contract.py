"""The event log: complete, in order, and never read past a commit that is still to come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.store import new_session, new_statement

from headrace.errors import InvalidRequest
from headrace.model.event import Event
from headrace.model.lifecycle import SessionState
from headrace.model.session import DriverLease
from headrace.store import events, sessions
from headrace.store.database import Database


def _read(store: Database, after: str | None = None, limit: int = 1000) -> list[Event]:
    with store.read() as tx:
        return events.read(tx, after=after, limit=limit)


def test_an_event_says_who_did_what_when(store: Database) -> None:
    session_id = new_session(store)
    with store.write("test") as tx:
        state = SessionState.CLOSING
        assert sessions.transition(tx, session_id, state, actor="bob", detail={"why": "bored"})
    made, closed = _read(store)
    assert (made.entity, made.entity_id, made.source) == ("session", session_id, None)
    assert (made.target, made.actor, made.detail) == ("not_started", "ada", {})
    assert (closed.source, closed.target) == ("not_started", "closing")
    assert (closed.actor, closed.detail) == ("bob", {"why": "bored"})
    assert made.at < closed.at


def test_reading_goes_on_after_a_cursor(store: Database) -> None:
    session_id = new_session(store)
    made = [new_statement(store, session_id) for _ in range(5)]
    everything = _read(store)
    assert [event.entity_id for event in everything] == [session_id, *made]
    cursor, seen = None, []
    while page := _read(store, cursor, limit=2):
        seen += page
        cursor = page[-1].cursor
    assert seen == everything
    with store.read() as tx:
        assert events.last(tx) == everything[-1].cursor
        one = events.read(tx, after=None, entity="statement", entity_id=made[1], limit=9)
        assert [event.entity_id for event in one] == [made[1]]
        assert events.read(tx, after=None, entity="node", limit=9) == []


def test_an_empty_log_has_an_end(store: Database) -> None:
    with store.read() as tx:
        assert events.read(tx, after=events.last(tx), limit=9) == []


@pytest.mark.parametrize(
    "cursor", ["", "7", ".", "1.", ".1", "-1.2", "1.2.3", "a.b", "²·1", "²·²", "²._", f"{2**63}.1"]
)
def test_a_text_that_is_no_cursor_is_refused(store: Database, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        _read(store, cursor)


def test_a_reader_never_passes_a_late_commit(postgres_url: str) -> None:
    """The first to write commits last: a reader in between must wait for it."""
    store = Database.open(postgres_url)
    try:
        first, second = new_session(store), new_session(store)
        start = _read(store)[-1].cursor
        with store.write("test") as late:
            assert sessions.transition(late, first, SessionState.CLOSING, actor="late")
            with store.write("test") as early:
                assert sessions.transition(early, second, SessionState.CLOSING, actor="early")
            assert _read(store, start) == []
        assert [event.actor for event in _read(store, start)] == ["late", "early"]
    finally:
        store.close()


def test_a_reader_never_passes_a_late_commit_of_a_later_transaction(postgres_url: str) -> None:
    """Ids in the reverse of the transactions' order."""
    store = Database.open(postgres_url)
    try:
        first, second = new_session(store), new_session(store)
        start = _read(store)[-1].cursor
        with store.write("test") as old:
            assert sessions.set_handle(old, DriverLease(first, 0), {})
            with store.write("test") as new:
                assert sessions.transition(new, second, SessionState.CLOSING, actor="new")
                assert sessions.transition(old, first, SessionState.CLOSING, actor="old")
            assert _read(store, start) == []
        assert [event.actor for event in _read(store, start)] == ["old", "new"]
    finally:
        store.close()


def test_a_follower_misses_nothing_of_many_writers(store: Database) -> None:
    session_id = new_session(store)
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(new_statement, store, session_id) for _ in range(40)]
        cursor: str | None = None
        seen: list[str] = []
        while not all(one.done() for one in writing) or _read(store, cursor):
            for event in _read(store, cursor, limit=3):
                seen.append(event.entity_id)
                cursor = event.cursor
    made = {one.result() for one in writing}
    assert len(seen) == len(made) + 1
    assert set(seen) == {session_id, *made}
