"""Contract of the event log: complete, in order, and no event is missed because it commits late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import psycopg
import pytest
from tests.support.postgres import (
    PostgresServer,
    dump_and_restore,
    running_server,
    use_transaction_ids,
)
from tests.support.store import OWNER, new_session, new_statement
from tests.support.waiting import wait_until

from headrace.errors import InvalidRequest
from headrace.model.event import Event
from headrace.model.lifecycle import EntityKind, SessionState, StatementState
from headrace.model.session import DriverLease
from headrace.store import events, nodes
from headrace.store.database import Database
from headrace.store.sessions import sessions


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open an empty store, on PostgreSQL on a server that no other test uses meanwhile.

    A transaction of any database of a server delays the events of the others.
    """
    fixture = "sqlite_url" if request.param == "sqlite" else "stoppable_url"
    with closing(Database.open(request.getfixturevalue(fixture), connect_timeout=60)) as database:
        yield database


@pytest.fixture(scope="module")
def other_server() -> Iterator[PostgresServer]:
    """Start another server, on which stores are restored."""
    with running_server() as server:
        yield server


def _read(store: Database, after: str | None = None, limit: int = 1000) -> list[Event]:
    with store.read() as tx:
        return events.read(tx, after=after, limit=limit)


def test_the_last_events_of_an_entity_are_read_backwards(store: Database) -> None:
    statement = new_statement(store, new_session(store), StatementState.CANCELLED)
    new_statement(store, new_session(store))
    with store.read() as tx:
        forwards = events.read(tx, after=None, entity_id=statement, limit=10)
        assert len(forwards) >= 2
        read = partial(events.read_newest, tx, [statement])
        assert read(owners=None, before=None, limit=10) == forwards[::-1]
        assert read(owners=[OWNER], before=None, limit=1) == forwards[-1:]
        assert read(owners=None, before=forwards[-1].cursor, limit=1) == [forwards[-2]]
        assert read(owners=None, before=forwards[0].cursor, limit=1) == []
        assert read(owners=["bob"], before=None, limit=10) == []


def test_an_event_has_actor_states_time_and_detail(store: Database) -> None:
    session_id = new_session(store)
    with store.write("test") as tx:
        state = SessionState.CLOSING
        assert sessions.transition(tx, session_id, state, actor="bob", detail={"why": "bored"})
    created, closed = _read(store)
    assert (created.entity, created.entity_id, created.source) == ("session", session_id, None)
    assert (created.target, created.actor, created.detail) == ("not_started", "ada", {})
    assert (closed.source, closed.target) == ("not_started", "closing")
    assert (closed.actor, closed.detail) == ("bob", {"why": "bored"})
    assert created.at < closed.at


def test_the_newest_events_of_some_entities_come_together(store: Database) -> None:
    first, second, other = (new_session(store) for _number in range(3))
    with store.write("test") as tx:
        for session_id in (second, other, first):
            assert sessions.transition(tx, session_id, SessionState.CLOSING, actor="bob")
    with store.read() as tx:
        assert events.read_newest(tx, [], limit=9) == []
        found = events.read_newest(tx, [first, second], limit=3)[::-1]
    assert [(event.entity_id, event.target) for event in found] == [
        (second, "not_started"),
        (second, "closing"),
        (first, "closing"),
    ]


def test_an_event_has_the_owner_of_its_entity(store: Database) -> None:
    session_id = new_session(store, owner="bob")
    statement_id = new_statement(store, session_id, owner="bob")
    new_session(store, owner="ada")
    with store.write("test") as tx:
        nodes.register(tx, "no_" + "1" * 32, address="http://a", version="1", seconds=60)
    with store.read() as tx:
        of_bob = events.read(tx, after=None, owners=["bob"], limit=9)
        of_nodes = events.read(tx, after=None, entity="node", limit=9)
    assert [event.entity_id for event in of_bob] == [session_id, statement_id]
    assert [event.owner for event in of_nodes] == [None]


def test_events_of_every_entity_but_nodes_have_an_owner() -> None:
    assert {*events._OWNERS} == {*EntityKind} - {EntityKind.NODE}


def test_reading_continues_after_a_cursor(store: Database) -> None:
    session_id = new_session(store)
    statement_ids = [new_statement(store, session_id) for _ in range(5)]
    everything = _read(store)
    assert [event.entity_id for event in everything] == [session_id, *statement_ids]
    cursor, seen = None, []
    while page := _read(store, cursor, limit=2):
        seen += page
        cursor = page[-1].cursor
    assert seen == everything
    with store.read() as tx:
        assert events.last(tx) == everything[-1].cursor
        log = events.read(tx, after=None, entity="statement", entity_id=statement_ids[1], limit=9)
        assert [event.entity_id for event in log] == [statement_ids[1]]
        assert events.read(tx, after=None, entity="node", limit=9) == []


def test_the_last_cursor_of_an_empty_log_can_be_read_from(store: Database) -> None:
    with store.read() as tx:
        assert events.read(tx, after=events.last(tx), limit=9) == []


@pytest.mark.parametrize(
    "cursor",
    [
        *(
            "",
            "7",
            ".",
            "1.2",
            "1.2.",
            ".1.2",
            "1..2",
            "-1.2.3",
            "1.2.3.4",
            "a.b.c",
            "²·1·1",
            "²._.1",
        ),
        *(f"0.{2**63}.1", f"0.1.{2**63}", f"{2**31}.1.1", f"0.0.{'9' * 5000}"),
    ],
)
def test_an_invalid_cursor_is_refused(store: Database, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        _read(store, cursor)


def test_readers_wait_for_a_transaction_that_commits_late(stoppable_url: str) -> None:
    """The first writer commits last. Until then, readers do not see the second event."""
    store = Database.open(stoppable_url)
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


def test_the_newest_events_of_an_entity_do_not_wait_for_older_transactions(
    stoppable_url: str,
) -> None:
    """A long transaction, also one of another database of the server, delays only followers."""
    with closing(Database.open(stoppable_url)) as store:
        first, second = new_session(store), new_session(store)
        start = _read(store)[-1].cursor
        with store.write("test") as old:
            assert sessions.transition(old, first, SessionState.CLOSING, actor="old")
            with store.write("test") as new:
                assert sessions.transition(new, second, SessionState.CLOSING, actor="new")
            with store.read() as tx:
                newest = events.read_newest(tx, [first, second], limit=1)
            assert [event.actor for event in newest] == ["new"]
            assert _read(store, start) == []


def test_readers_wait_for_an_older_transaction_whose_event_has_a_higher_id(
    stoppable_url: str,
) -> None:
    """The order of the ids is the reverse of the order of the transactions."""
    store = Database.open(stoppable_url)
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


def test_a_follower_misses_no_event_of_many_writers(store: Database) -> None:
    session_id = new_session(store)
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(new_statement, store, session_id) for _ in range(40)]
        cursor: str | None = None
        seen: list[str] = []

        def read_on() -> bool:
            nonlocal cursor
            for event in _read(store, cursor, limit=3):
                seen.append(event.entity_id)
                cursor = event.cursor
            # A transaction of another database of the server delays the newest events.
            return all(submit.done() for submit in writing) and len(seen) > len(writing)

        wait_until(read_on, every=0.001, what="all events are read")
    statement_ids = {submit.result() for submit in writing}
    assert len(seen) == len(statement_ids) + 1
    assert set(seen) == {session_id, *statement_ids}


@pytest.mark.finding("B12")
def test_events_and_cursors_survive_a_restore_on_another_server(
    stoppable_url: str, other_server: PostgresServer
) -> None:
    """The new server has numbered fewer transactions than the one that wrote the events."""
    restored_url = other_server.url(other_server.new_database())
    use_transaction_ids(stoppable_url, beyond=restored_url)
    original = Database.open(stoppable_url)
    session_id = new_session(original)
    cursor = _read(original)[-1].cursor
    new_statement(original, session_id)
    before = _read(original)
    original.close()
    dump_and_restore(stoppable_url, restored_url)

    restored = Database.open(restored_url)
    try:
        restored.migrate()
        assert _read(restored) == before
        assert _read(restored, cursor) == before[1:]
        later = new_statement(restored, session_id)
        with restored.read() as tx:
            last = events.last(tx)
        assert [event.entity_id for event in _read(restored, before[-1].cursor)] == [later]
        assert _read(restored)[-1].cursor == last
        # Another start of a node on the same server continues the generation.
        restored.migrate()
        assert _read(restored, last) == []
        new_statement(restored, session_id)
        assert len(_read(restored, last)) == 1
    finally:
        restored.close()
        other_server.drop(restored_url.rpartition("/")[2])


@pytest.mark.finding("B12")
def test_readers_wait_for_late_commits_after_a_restore_too(
    stoppable_url: str, other_server: PostgresServer
) -> None:
    restored_url = other_server.url(other_server.new_database())
    use_transaction_ids(stoppable_url, beyond=restored_url)
    original = Database.open(stoppable_url)
    first, second = new_session(original), new_session(original)
    start = _read(original)[-1].cursor
    original.close()
    dump_and_restore(stoppable_url, restored_url)

    restored = Database.open(restored_url)
    try:
        restored.migrate()
        with restored.write("test") as late:
            assert sessions.transition(late, first, SessionState.CLOSING, actor="late")
            with restored.write("test") as early:
                assert sessions.transition(early, second, SessionState.CLOSING, actor="early")
            assert _read(restored, start) == []
        assert [event.actor for event in _read(restored, start)] == ["late", "early"]
    finally:
        restored.close()
        other_server.drop(restored_url.rpartition("/")[2])


def test_a_second_restore_of_one_dump_hides_no_event_from_readers_of_the_first(
    stoppable_url: str, other_server: PostgresServer
) -> None:
    """The first restored store is lost too, after readers have read events in it."""
    with closing(Database.open(stoppable_url)) as original:
        session_id = new_session(original)
    with running_server() as lost:
        lost_url = lost.url(lost.new_database())
        use_transaction_ids(lost_url, beyond=other_server.url())
        dump_and_restore(stoppable_url, lost_url)
        with closing(Database.open(lost_url)) as restored:
            restored.migrate()
            new_statement(restored, session_id)
            cursor = _read(restored)[-1].cursor
    restored_at = time.time()
    # A generation is named by the second of its start.
    wait_until(lambda: time.time() > restored_at + 1, what="another second has begun")
    url = other_server.url(other_server.new_database())
    dump_and_restore(stoppable_url, url)
    with closing(Database.open(url)) as restored:
        restored.migrate()
        later = new_statement(restored, session_id)

        assert [event.entity_id for event in _read(restored, cursor)] == [later]


def test_readers_continue_on_a_server_that_is_recovered_to_an_earlier_time(
    stoppable_postgres: PostgresServer, stoppable_url: str
) -> None:
    """The recovered server numbers its transactions again from an earlier number."""
    with closing(Database.open(stoppable_url)) as original:
        session_id = new_session(original)
        before = _read(original)
        with running_server(copy_of=stoppable_postgres) as copy:
            new_statement(original, session_id)
            use_transaction_ids(stoppable_url, beyond=copy.url())
            new_statement(original, session_id)
            cursor = _read(original)[-1].cursor

            with closing(Database.open(copy.url(stoppable_url.rpartition("/")[2]))) as recovered:
                wait_until(lambda: _accepts_writes(copy), what="the recovery has ended")
                recovered.migrate()
                later = new_statement(recovered, session_id)

                assert _read(recovered)[: len(before)] == before
                assert [event.entity_id for event in _read(recovered, cursor)] == [later]


def _accepts_writes(server: PostgresServer) -> bool:
    with psycopg.connect(server.url()) as connection:
        row = connection.execute(
            "SELECT NOT pg_is_in_recovery() AND timeline_id > 1 FROM pg_control_checkpoint()"
        ).fetchone()
    return row is not None and bool(row[0])
