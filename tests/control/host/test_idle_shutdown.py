"""The end of an embedded node that no command uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.store import new_statement, running_session

from headrace.config.home import HomeLayout
from headrace.control.host.home_ownership import IdleShutdown
from headrace.files.file_locks import lock_file
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState
from headrace.model.stream_query import NewStreamQuery, QuerySpec
from headrace.store.database import Database
from headrace.store.statements import statement_transitions
from headrace.store.streams import stream_queries, stream_transitions


@pytest.fixture
def shutdown(tmp_path: Path) -> IdleShutdown:
    return IdleShutdown(HomeLayout.at(tmp_path), linger_seconds=0.0)


def test_a_node_without_work_and_commands_stops(shutdown: IdleShutdown, store: Database) -> None:
    assert shutdown.is_due(store)


def test_a_statement_keeps_the_node_alive_until_it_has_ended(
    shutdown: IdleShutdown, store: Database
) -> None:
    statement = new_statement(store, running_session(store).session_id)
    assert not shutdown.is_due(store)
    failure = Failure(code="statement_failed", message="it failed")
    with store.write("test") as tx:
        statement_transitions.transition(
            tx, statement, StatementState.FAILED, actor="ada", failure=failure
        )
    assert shutdown.is_due(store)


def test_a_streaming_query_keeps_the_node_alive_until_it_has_ended(
    shutdown: IdleShutdown, store: Database
) -> None:
    session = running_session(store).session_id
    new = NewStreamQuery(
        id=new_id("sq"),
        owner="ada",
        scope="adhoc",
        name="q",
        spec=QuerySpec(text="SAVE STREAM t TO noop", sink="noop"),
        checkpoint_place=None,
        session_id=session,
        statement_id=None,
    )
    with store.write("test") as tx:
        stream_queries.insert_query(tx, new, actor="ada")
    assert not shutdown.is_due(store)
    with store.write("test") as tx:
        stream_transitions.end_all(tx, session, actor="ada")
    assert shutdown.is_due(store)


def test_a_command_keeps_the_node_alive(
    shutdown: IdleShutdown, store: Database, tmp_path: Path
) -> None:
    lock = lock_file(HomeLayout.at(tmp_path).commands_lock)
    assert lock is not None
    assert not shutdown.is_due(store)
