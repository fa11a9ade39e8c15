"""Wake-ups: after the commit, never without it, and from node to node."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.postgres import PostgresServer
from tests.support.store import new_session, new_statement
from tests.support.waiting import wait_until

from headrace.errors import StoreUnavailable
from headrace.model.lifecycle import SessionState, StatementState
from headrace.store import changes, sessions, statements
from headrace.store.database import Database
from headrace.store.signals import EVENTS, LAUNCH, Subscription, session_topic, statement_topic

_SOON = 10.0


@contextmanager
def listening_pair(url: str) -> Iterator[tuple[Database, Database]]:
    """Open one store twice, as two nodes do that both listen."""
    pair = Database.open(url), Database.open(url)
    for one in pair:
        one.listen()
        assert one.wait_until_listening(_SOON)
    yield pair
    for one in pair:
        one.close()


@pytest.fixture
def two_nodes(postgres_url: str) -> Iterator[tuple[Database, Database]]:
    """Two nodes on one store, both listening."""
    with listening_pair(postgres_url) as pair:
        yield pair


def test_a_change_wakes_who_waits_for_it(store: Database) -> None:
    def woken(*topics: str) -> list[str]:
        return [topic for topic in topics if waits[topic].wait(0)]

    waits: dict[str, Subscription] = {
        topic: store.signals.subscribe(topic) for topic in (EVENTS, LAUNCH)
    }
    session_id = new_session(store)
    assert woken(EVENTS, LAUNCH) == [EVENTS, LAUNCH]
    waits["session"] = store.signals.subscribe(session_topic(session_id))
    statement_id = new_statement(store, session_id)
    assert woken(EVENTS, LAUNCH, "session") == [EVENTS, "session"]
    waits["statement"] = store.signals.subscribe(statement_topic(statement_id))
    with store.write() as tx:
        changes.request_cancel(tx, statement_id, who="ada")
    assert woken(EVENTS, "session", "statement") == [EVENTS, "session", "statement"]
    with store.write() as tx:
        sessions.transition(tx, session_id, SessionState.CLOSING, who="ada")
    assert woken(EVENTS, "session", "statement") == [EVENTS, "session"]
    for wait in waits.values():
        wait.close()


def test_what_is_woken_can_read_the_change(store: Database) -> None:
    session_id = new_session(store)
    statement_id = new_statement(store, session_id)
    read: list[Any] = []

    def look() -> None:
        with store.read() as tx:
            read.append(statements.get(tx, statement_id))

    with store.signals.subscribe(statement_topic(statement_id), look), store.write() as tx:
        changes.transition(tx, statement_id, StatementState.FAILED, who="test")
        assert read == [], "not before the commit"
    assert [one.state for one in read] == [StatementState.FAILED]


def test_nobody_is_woken_by_what_was_undone(store: Database) -> None:
    with store.signals.subscribe("topic") as wait:
        with pytest.raises(LookupError), store.write() as tx:
            tx.wake("topic")
            raise LookupError
        assert not wait.wait(0)


def test_a_change_wakes_who_waits_at_another_node(two_nodes: tuple[Database, Database]) -> None:
    here, there = two_nodes
    session_id = new_session(here)
    with there.signals.subscribe(session_topic(session_id)) as wait:
        new_statement(here, session_id)
        assert wait.wait(_SOON)


def test_a_nodes_own_notice_does_not_wake_it_twice(two_nodes: tuple[Database, Database]) -> None:
    here, there = two_nodes
    woken: list[str] = []
    with (
        here.signals.subscribe("topic", lambda: woken.append("here")),
        there.signals.subscribe("topic") as wait,
        here.signals.subscribe("answer") as answered,
    ):
        with here.write() as tx:
            tx.wake("topic")
        assert wait.wait(_SOON)
        with there.write() as tx:
            tx.wake("answer")
        # Notices come in order: had the first been taken for another's, it would be here by now.
        assert answered.wait(_SOON)
    assert woken == ["here"]


def test_any_number_of_topics_reaches_the_other_node(two_nodes: tuple[Database, Database]) -> None:
    here, there = two_nodes
    topics = [statement_topic(f"st_{number:032x}") for number in range(500)]
    woken = {topic: threading.Event() for topic in topics}
    waits = [there.signals.subscribe(topic, event.set) for topic, event in woken.items()]
    with here.write() as tx:
        tx.wake(*topics)
    wait_until(lambda: all(event.is_set() for event in woken.values()), what="all were woken")
    for wait in waits:
        wait.close()


def test_the_line_comes_back_after_a_restart(
    stoppable_url: str, stoppable_postgres: PostgresServer
) -> None:
    with (
        listening_pair(stoppable_url) as (here, there),
        there.signals.subscribe("topic") as wait,
    ):
        stoppable_postgres.stop()
        stoppable_postgres.start()
        assert wait.wait(_SOON), "woken on the return, because news may have been missed"

        def wakes() -> bool:
            try:
                with here.write() as tx:
                    tx.wake("topic")
            except StoreUnavailable:
                return False
            return wait.wait(1)

        wait_until(wakes, what="wake-ups pass again")
