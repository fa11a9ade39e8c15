"""Contract of streaming queries: what a driver learns about its desired queries."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Executable, update
from tests.support.store import running_session

from headrace.model.lifecycle import StreamState
from headrace.model.stream_query import NewStreamQuery, QuerySpec, Wanted
from headrace.store.clock import clock
from headrace.store.database import Database, Tx
from headrace.store.streams import stream_queries, stream_transitions
from headrace.store.tables import stream_queries as query_table


def insert_query(
    store: Database, session_id: str, query_id: str = "sq_1", owner: str = "ada", name: str = "q"
) -> None:
    with store.write("test") as tx:
        new = NewStreamQuery(
            id=query_id,
            owner=owner,
            scope="adhoc",
            name=name,
            spec=QuerySpec(text="SAVE STREAM s TO noop", sink="noop"),
            checkpoint_place=None,
            session_id=session_id,
            statement_id=None,
        )
        stream_queries.insert_query(tx, new, actor=owner)


def test_the_newest_query_of_each_name_and_owner_is_found_whatever_the_case(
    store: Database,
) -> None:
    session_id = running_session(store).session_id
    insert_query(store, session_id, "sq_1", "ada", "Sales")
    with store.write("test") as tx:
        tx.execute(update(query_table).values(state=StreamState.STOPPED, ended_at=clock()))
    insert_query(store, session_id, "sq_2", "ada", "sales")
    insert_query(store, session_id, "sq_3", "bob", "sales")
    insert_query(store, session_id, "sq_4", "bob", "other")
    names = [("ada", "SALES"), ("bob", "other"), ("ada", "other")]
    with store.read() as tx:
        found = stream_queries.find_newest(tx, "adhoc", names)
        assert {name: query.id for name, query in found.items()} == {
            ("ada", "SALES"): "sq_2",
            ("bob", "other"): "sq_4",
        }
        assert stream_queries.find_newest(tx, "adhoc", []) == {}
        assert stream_queries.find_newest(tx, "job", names) == {}


@pytest.mark.parametrize("reads_before", [1, 2])
def test_a_change_between_two_reads_raises_a_generation_that_the_driver_does_not_have(
    store: Database, reads_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = running_session(store).session_id
    insert_query(store, session_id)

    def stop() -> None:
        with store.write("test") as tx:
            query = stream_queries.get(tx, "sq_1")
            assert query is not None
            stream_transitions.stop(tx, query, actor="ada")

    execute, reads = Tx.execute, 0

    def execute_and_stop(self: Tx, statement: Executable, values: Any = ()) -> Any:
        nonlocal reads
        result = execute(self, statement, values).freeze()()
        if self is not tx:  # a node of another test of this process reads in its threads
            return result
        reads += 1
        if reads == reads_before:
            monkeypatch.undo()
            stop()
        return result

    with store.read() as tx:
        monkeypatch.setattr(Tx, "execute", execute_and_stop)
        desired = stream_queries.desired(tx, session_id)
        assert reads == reads_before
        latest = stream_queries.generation_of(tx, session_id)

    [query] = desired.queries
    assert query.wanted is Wanted.STOPPED or desired.generation < latest
    with store.read() as tx:
        state = stream_queries.list_by_id(tx, ["sq_1"])[0].state
    assert state is StreamState.STOPPING
