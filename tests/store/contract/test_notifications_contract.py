"""Contract of wake-ups: they follow a commit, and reach the subscribers of every node."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from tests.support.postgres import PostgresServer
from tests.support.store import new_session, new_statement, running_session, waits_for_lock
from tests.support.waiting import wait_until

from headrace.errors import StoreUnavailable
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import NewStatement, StatementSpec
from headrace.store import events, nodes
from headrace.store.database import Database
from headrace.store.notifications import (
    CHANNEL,
    EVENTS,
    HEARTBEAT,
    LAUNCH,
    Subscription,
    decode_wake_ups,
    session_topic,
    statement_topic,
)
from headrace.store.sessions import sessions
from headrace.store.statements import statement_transitions, statements

_SOON = 60.0


class SentWakeUps:
    """The topics that PostgreSQL sends to processes that listen."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(f"LISTEN {CHANNEL}")

    def receive(self) -> list[str]:
        """Return the topics that were sent since the last call."""
        # A notice of this connection arrives after all earlier ones.
        self._connection.execute("SELECT pg_notify(%s, 'end')", (CHANNEL,))
        topics: list[str] = []
        for notice in self._connection.notifies():
            if notice.payload == "end":
                break
            topics += decode_wake_ups(notice.payload, "")
        return topics

    def close(self) -> None:
        self._connection.close()


@contextmanager
def open_listening_pair(url: str) -> Iterator[tuple[Database, Database]]:
    """Open one store twice, as two nodes do that both listen."""
    pair = Database.open(url, connect_timeout=60), Database.open(url, connect_timeout=60)
    for node in pair:
        node.listen()
        assert node.wait_until_listening(_SOON)
    yield pair
    for node in pair:
        node.close()


@pytest.fixture
def two_nodes(postgres_url: str) -> Iterator[tuple[Database, Database]]:
    """Two nodes on one store, both listening."""
    with open_listening_pair(postgres_url) as pair:
        for node in pair:
            node.others_stream_events = False
        yield pair


@pytest.fixture
def sent(postgres_url: str) -> Iterator[SentWakeUps]:
    wake_ups = SentWakeUps(postgres_url)
    yield wake_ups
    wake_ups.close()


def test_a_change_wakes_the_subscribers_of_its_topics(store: Database) -> None:
    def woken(*topics: str) -> list[str]:
        return [topic for topic in topics if waits[topic].wait(0)]

    waits: dict[str, Subscription] = {
        topic: store.notifications.subscribe(topic) for topic in (EVENTS, LAUNCH)
    }
    session_id = new_session(store)
    assert woken(EVENTS, LAUNCH) == [EVENTS, LAUNCH]
    waits["session"] = store.notifications.subscribe(session_topic(session_id))
    statement_id = new_statement(store, session_id)
    assert woken(EVENTS, LAUNCH, "session") == [EVENTS, "session"]
    waits["statement"] = store.notifications.subscribe(statement_topic(statement_id))
    with store.write("test") as tx:
        statement_transitions.request_cancel(tx, statement_id, actor="ada")
    assert woken(EVENTS, "session", "statement") == [EVENTS, "session", "statement"]
    with store.write("test") as tx:
        sessions.transition(tx, session_id, SessionState.CLOSING, actor="ada")
    assert woken(EVENTS, "session", "statement") == [EVENTS, "session"]
    for wait in waits.values():
        wait.close()


@pytest.mark.parametrize(
    ("kind", "followers", "expected"),
    [
        pytest.param(SessionKind.INTERACTIVE, 0, False, id="last"),
        pytest.param(SessionKind.INTERACTIVE, 1, True, id="followed"),
        pytest.param(SessionKind.BATCH, 0, True, id="batch"),
    ],
)
def test_an_end_wakes_the_driver_only_if_the_driver_has_something_to_do(
    store: Database, kind: SessionKind, followers: int, expected: bool
) -> None:
    lease = running_session(store, kind=kind)
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    for _ in range(followers):
        new_statement(store, lease.session_id)
    with store.notifications.subscribe(session_topic(lease.session_id)) as wait:
        with store.write("test") as tx:
            assert statement_transitions.transition(
                tx, statement_id, StatementState.SUCCESS, actor=lease.actor, lease=lease
            )
        assert wait.wait(0) is expected


def test_a_cancel_wakes_the_driver_of_the_last_statement(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    with store.notifications.subscribe(session_topic(lease.session_id)) as wait:
        with store.write("test") as tx:
            statement_transitions.request_cancel(tx, statement_id, actor="ada")
        assert wait.wait(0)


def test_an_end_that_waits_for_a_submit_wakes_the_driver(
    two_nodes: tuple[Database, Database],
) -> None:
    first, second = two_nodes
    lease = running_session(first)
    statement_id = new_statement(first, lease.session_id, StatementState.RUNNING, lease=lease)
    follower = NewStatement(
        id=new_id("st"), session_id=lease.session_id, owner="ada", spec=StatementSpec(text="SELECT")
    )

    def end() -> None:
        with second.write("test") as tx:
            assert statement_transitions.transition(
                tx, statement_id, StatementState.SUCCESS, actor=lease.actor, lease=lease
            )

    with second.notifications.subscribe(session_topic(lease.session_id)) as wait:
        with ThreadPoolExecutor(1) as pool:
            with first.write("test") as tx:
                # The end begins before the submit commits, and must notice the new statement.
                statements.insert(tx, follower, actor="ada")
                ended = pool.submit(end)
                wait_until(lambda: waits_for_lock(first), what="the end waits for the submit")
                tx.topics.clear()
            ended.result()
        assert wait.wait(0)


def test_a_woken_subscriber_can_read_the_change(store: Database) -> None:
    session_id = new_session(store)
    statement_id = new_statement(store, session_id)
    read: list[Any] = []

    def read_statement() -> None:
        with store.read() as tx:
            read.append(statements.get(tx, statement_id))

    with (
        store.notifications.subscribe(statement_topic(statement_id), read_statement),
        store.write("test") as tx,
    ):
        statement_transitions.transition(tx, statement_id, StatementState.FAILED, actor="test")
        assert read == [], "not before the commit"
    assert [statement.state for statement in read] == [StatementState.FAILED]


def test_a_rolled_back_change_wakes_no_subscriber(store: Database) -> None:
    with store.notifications.subscribe("topic") as wait:
        with pytest.raises(LookupError), store.write("test") as tx:
            tx.wake("topic")
            raise LookupError
        assert not wait.wait(0)


def test_a_change_wakes_subscribers_at_another_node(two_nodes: tuple[Database, Database]) -> None:
    first, second = two_nodes
    lease = running_session(first)
    with second.notifications.subscribe(session_topic(lease.session_id)) as wait:
        new_statement(first, lease.session_id)
        assert wait.wait(_SOON)


def test_the_driver_is_woken_only_by_the_processes_that_it_does_not_poll(
    two_nodes: tuple[Database, Database], sent: SentWakeUps
) -> None:
    first, second = two_nodes
    lease = running_session(first)
    topic = session_topic(lease.session_id)
    with first.write("test") as tx:
        sessions.move_link(tx, lease, first.process)
    sent.receive()
    with first.notifications.subscribe(topic) as wait:
        new_statement(first, lease.session_id)
        assert wait.wait(0), "the driver polls this process"
        assert sent.receive() == []
        new_statement(second, lease.session_id)
        assert sent.receive() == [topic]
    new_statement(first, lease.session_id)
    assert sent.receive() == [topic], "the driver may poll a process of an older version"


def test_a_driver_that_starts_is_not_woken(
    two_nodes: tuple[Database, Database], sent: SentWakeUps
) -> None:
    store, _other = two_nodes
    session_id = new_session(store)
    assert sent.receive() == [LAUNCH]
    new_statement(store, session_id)
    assert sent.receive() == []


@pytest.mark.parametrize("waits", [(), ("first",), ("second",), ("first", "second")])
def test_the_end_of_a_statement_wakes_other_processes_that_wait(
    two_nodes: tuple[Database, Database], sent: SentWakeUps, waits: Sequence[str]
) -> None:
    first, second = two_nodes
    by_name = {"first": first, "second": second}
    statement_id = new_statement(first, new_session(first))
    for name in waits:
        with by_name[name].write("test") as tx:
            statements.await_end(tx, statement_id, by_name[name].process)
    sent.receive()
    with first.write("test") as tx:
        statement_transitions.request_cancel(tx, statement_id, actor="ada")
    assert sent.receive() == ([statement_topic(statement_id)] if "second" in waits else [])


def test_an_ended_statement_is_not_awaited(two_nodes: tuple[Database, Database]) -> None:
    first, second = two_nodes
    statement_id = new_statement(first, new_session(first))
    with first.write("test") as tx:
        statement_transitions.request_cancel(tx, statement_id, actor="ada")
        statements.await_end(tx, statement_id, second.process)
        statement = statements.get(tx, statement_id)
    assert statement is not None
    assert statement.awaited_by is None


def test_events_wake_the_nodes_that_stream_them(
    two_nodes: tuple[Database, Database], sent: SentWakeUps
) -> None:
    first, second = two_nodes
    for process, expected in [(None, []), (first.process, []), (second.process, [EVENTS])]:
        with first.write("test") as tx:
            if process is None:
                nodes.register(tx, "node", address="", version="", seconds=60.0)
            nodes.renew(tx, "node", 60.0, event_process=process)
            first.others_stream_events = nodes.others_stream_events(tx, first.process)
        sent.receive()
        with first.write("test") as tx:
            events.append(tx, "session", new_id("se"), None, "not_started", actor="ada")
        assert sent.receive() == expected


def test_a_node_ignores_its_own_notices(two_nodes: tuple[Database, Database]) -> None:
    first, second = two_nodes
    woken: list[str] = []
    with (
        first.notifications.subscribe("topic", lambda: woken.append("first")),
        second.notifications.subscribe("topic") as wait,
        first.notifications.subscribe("answer") as answered,
    ):
        with first.write("test") as tx:
            tx.wake("topic")
        assert wait.wait(_SOON)
        with second.write("test") as tx:
            tx.wake("answer")
        # Notices arrive in order: a wake-up by the first would have happened by now.
        assert answered.wait(_SOON)
    assert woken == ["first"]


def test_hundreds_of_topics_reach_the_other_node(two_nodes: tuple[Database, Database]) -> None:
    first, second = two_nodes
    topics = [f"topic of a test, as long as others: {number:08}" for number in range(500)]
    woken = {topic: threading.Event() for topic in topics}
    waits = [second.notifications.subscribe(topic, event.set) for topic, event in woken.items()]
    with first.write("test") as tx:
        tx.wake(*topics)
    wait_until(lambda: all(event.is_set() for event in woken.values()), what="all were woken")
    for wait in waits:
        wait.close()


def test_wake_ups_resume_after_a_restart_of_the_server(
    stoppable_url: str, stoppable_postgres: PostgresServer
) -> None:
    with (
        open_listening_pair(stoppable_url) as (first, second),
        second.notifications.subscribe("topic") as wait,
    ):
        stoppable_postgres.stop()
        stoppable_postgres.start()
        assert wait.wait(_SOON), "subscribers are woken on reconnect"

        def wakes() -> bool:
            try:
                with first.write("test") as tx:
                    tx.wake("topic")
            except StoreUnavailable:
                return False
            return wait.wait(1)

        wait_until(wakes, what="wake-ups pass again")


def test_a_sqlite_store_always_hears_its_wake_ups(sqlite_url: str) -> None:
    store = Database.open(sqlite_url)

    assert store.hears_wake_ups(within=0.0)
    store.close()


def test_a_node_hears_a_heartbeat_of_any_node(two_nodes: tuple[Database, Database]) -> None:
    first, second = two_nodes

    def hears_one_of(sender: Database) -> bool:
        # The test may be paused for longer than the time within which one must have come.
        with sender.write("test") as tx:
            tx.wake(HEARTBEAT)
        return first.hears_wake_ups(within=0.2)

    for sender in (first, second):
        wait_until(lambda: not first.hears_wake_ups(within=0.2), what="silence")
        wait_until(partial(hears_one_of, sender), what="the heartbeat")


def test_a_node_without_its_connection_hears_nothing(
    stoppable_postgres: PostgresServer, stoppable_url: str
) -> None:
    store = Database.open(stoppable_url)
    store.listen()
    assert store.wait_until_listening(_SOON)
    assert store.hears_wake_ups(within=60.0)

    stoppable_postgres.stop()
    wait_until(lambda: not store.hears_wake_ups(within=60.0), what="the loss of the connection")
    stoppable_postgres.start_again()
    wait_until(lambda: store.hears_wake_ups(within=60.0), what="the next connection")
    store.close()
