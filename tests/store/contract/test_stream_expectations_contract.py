"""Contract of the counts of streaming queries: one row for each query, with its query's life."""

from __future__ import annotations

from sqlalchemy import delete, func, select
from tests.support.store import running_session

from headrace.model.expectation import ExpectationCounts, Violations
from headrace.model.ids import new_id
from headrace.model.stream_expectation import StreamCounts
from headrace.model.stream_query import NewStreamQuery, QuerySpec, StreamQuery
from headrace.store.database import Database
from headrace.store.streams import stream_expectations, stream_queries
from headrace.store.tables import stream_expectations as table
from headrace.store.tables import stream_queries as queries


def insert(store: Database, name: str, place: str | None, owner: str = "ada") -> StreamQuery:
    new = NewStreamQuery(
        id=new_id("sq"),
        owner=owner,
        scope="load",
        name=name,
        spec=QuerySpec(text=f"SAVE STREAM t TO noop IDENTIFIED BY {name}", sink="noop"),
        checkpoint_place=place,
        session_id=running_session(store).session_id,
        statement_id=None,
    )
    with store.write("test") as tx:
        stream_queries.insert_query(tx, new, actor=owner)
        found = stream_queries.get(tx, new.id)
    assert found is not None
    return found


def end(store: Database, query: StreamQuery) -> None:
    with store.write("test") as tx:
        values = {"state": "stopped", "ended_at": query.created_at}
        tx.execute(queries.update().where(queries.c.id == query.id).values(values))


def make_counts(batch: int) -> StreamCounts:
    total = ExpectationCounts(
        rows_in=batch + 1,
        rows_dropped=0,
        rows_written=batch + 1,
        expectations=[Violations(name="positive", violations=1, nulls=1)],
    )
    return StreamCounts(
        last_batch=batch, batches=batch + 1, total=total, last=total, violated_at={"positive": 1.5}
    )


def test_counts_are_replaced_continue_with_the_checkpoint_and_end_with_their_query(
    store: Database,
) -> None:
    first = insert(store, "load", "/a")
    with store.write("test") as tx:
        assert stream_expectations.find(tx, first) is None
        stream_expectations.save(tx, first.id, make_counts(0))
        stream_expectations.save(tx, first.id, make_counts(3))
        assert stream_expectations.find(tx, first) == make_counts(3)
    end(store, first)
    # The next attempt has the checkpoint of the first one, until it has counts of its own.
    second, other = insert(store, "load", "/a"), insert(store, "other", "/b")
    with store.write("test") as tx:
        assert stream_expectations.find(tx, second) == make_counts(3)
        assert stream_expectations.find(tx, other) is None
        stream_expectations.save(tx, second.id, make_counts(4))
        assert stream_expectations.find(tx, second) == make_counts(4)
        assert stream_expectations.find(tx, first) == make_counts(3)
        tx.execute(delete(queries).where(queries.c.id == first.id))
        assert tx.execute(select(func.count()).select_from(table)).scalar_one() == 1
    end(store, second)
    stranger = insert(store, "load", "/a", owner="bob")
    with store.read() as tx:
        assert stream_expectations.find(tx, stranger) is None


def test_a_query_without_a_checkpoint_has_counts_of_its_own_only(store: Database) -> None:
    first = insert(store, "load", None)
    with store.write("test") as tx:
        stream_expectations.save(tx, first.id, make_counts(0))
    end(store, first)
    second = insert(store, "load", None)
    with store.read() as tx:
        assert stream_expectations.find(tx, second) is None
