"""Contract of the minutes of streaming queries: sums, the ring, repetitions, and the end."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete, event, func, select, update
from tests.support.store import running_session
from tests.support.stream_minutes import add_minutes

from headrace.model.ids import new_id
from headrace.model.lifecycle import StreamState
from headrace.model.stream_history import HISTORY_MINUTES, MAX_SUM, QueryMinute
from headrace.model.stream_query import NewStreamQuery, QueryProgress, QuerySpec
from headrace.model.text import MAX_BIGINT
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.streams import stream_minutes, stream_progress, stream_queries
from headrace.store.tables import stream_minutes as table
from headrace.store.tables import stream_queries as queries


@pytest.fixture
def query(store: Database) -> str:
    """Return the id of a query."""
    new = NewStreamQuery(
        id=new_id("sq"),
        owner="ada",
        scope="adhoc",
        name="q",
        spec=QuerySpec(text="SAVE STREAM t TO noop IDENTIFIED BY q", sink="noop"),
        checkpoint_place=None,
        session_id=running_session(store).session_id,
        statement_id=None,
    )
    with store.write("test") as tx:
        stream_queries.insert_query(tx, new, actor="ada")
    return new.id


def make(number: int, **facts: Any) -> QueryProgress:
    values = {"input_rows": 10, "milliseconds": 100, "input_rate": 1.0, "process_rate": 2.0}
    at = f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}.000Z"
    return QueryProgress(**{"batch": number, "at": at, **values, **facts})


def save(store: Database, query: str, *batches: QueryProgress) -> None:
    with store.write("test") as tx:
        stream_progress.save(tx, query, batches)


def read(store: Database, query: str) -> list[QueryMinute]:
    with store.read() as tx:
        return [minute for _id, minute in stream_minutes.read(tx, [query])]


def total(store: Database, query: str) -> QueryMinute:
    """Return all minutes of a query as one: a test may begin in one and end in the next."""
    minutes = read(store, query)
    return QueryMinute(
        **{
            name: sum(getattr(each, name) or 0 for each in minutes)
            for name in QueryMinute.__dataclass_fields__
        }
    )


def test_batches_of_a_minute_are_added(store: Database, query: str) -> None:
    watermark = "2025-12-31T23:59:00.000Z"
    parts = {"add_batch": 60, "wal_commit": 5, "of a newer version": 1}
    save(store, query, make(0, parts=parts), make(1, milliseconds=300, watermark=watermark))
    save(store, query, make(2, parts=parts, state_rows=7, state_bytes=70, lag={"a": 5, "b": 6}))
    save(store, query, make(3, state_rows=4, state_bytes=40, lag={"a": 2}))
    found = total(store, query)
    assert (found.batches, found.input_rows, found.milliseconds) == (4, 40, 600)
    assert (found.add_batch, found.wal_commit, found.get_batch) == (120, 10, 0)
    last = read(store, query)[-1]
    assert (last.state_rows, last.state_bytes) == (4, 40)
    if len(read(store, query)) == 1:
        assert (last.slowest_milliseconds, last.watermark_gap, last.backlog) == (300, 61_000, 11)


def test_a_repeated_batch_counts_once(store: Database, query: str) -> None:
    save(store, query, make(0), make(1))
    save(store, query, make(0), make(1), make(2))
    save(store, query, make(2))
    assert total(store, query).batches == 3
    # A run without a checkpoint begins with batch 0 again.
    save(store, query, make(0, at="2026-01-01T01:00:00.000Z"))
    assert total(store, query).batches == 4


def test_a_minute_replaces_the_one_of_hours_before(store: Database, query: str) -> None:
    add_minutes(store, query, HISTORY_MINUTES, input_rows=99)
    add_minutes(store, query, 5, input_rows=7)
    save(store, query, make(0))
    assert [each.input_rows for each in read(store, query)] == [7, 10]
    with store.read() as tx:
        assert tx.execute(select(func.count()).select_from(table)).scalar_one() <= 3


def test_no_number_of_a_driver_overflows(store: Database, query: str) -> None:
    numbers = dict.fromkeys(("input_rows", "milliseconds", "state_rows", "state_bytes"), MAX_BIGINT)
    for number in range(3):
        largest = make(number, **numbers, parts={"add_batch": MAX_BIGINT}, lag={"a": 10**30})
        save(store, query, largest, largest.model_copy(update={"batch": number + 50}))
    for each in read(store, query):
        values = (each.input_rows, each.milliseconds, each.add_batch, each.backlog)
        assert set(values) == {MAX_SUM}


@pytest.mark.parametrize(
    "facts",
    [
        {"at": "yesterday", "watermark": "2026-01-01T00:00:00.000Z"},
        {"watermark": "1970-01-01T00:00:00.000Z"},
        {"watermark": "soon"},
        {"lag": {"a": "many", "b": None, "c": True, "d": -1, "e": {"f": 1}}},
    ],
    ids=["time", "no watermark yet", "watermark", "lag"],
)
def test_what_cannot_be_read_is_left_out(
    store: Database, query: str, facts: dict[str, Any]
) -> None:
    save(store, query, make(0, **facts))
    [found] = read(store, query)
    assert (found.batches, found.watermark_gap, found.backlog) == (1, None, None)


def test_the_minutes_of_several_queries_are_apart(store: Database, query: str) -> None:
    add_minutes(store, query, 3)
    with store.read() as tx:
        assert stream_minutes.read(tx, ["sq_other"]) == []
        assert stream_minutes.read(tx, []) == []
        assert [name for name, _ in stream_minutes.read(tx, [query, "sq_other"])] == [query]
        assert stream_minutes.read(tx, [query], 3) == []


def test_a_report_takes_two_statements_of_the_store(store: Database, query: str) -> None:
    save(store, query, make(0))
    with store.write("test") as tx:
        statements: list[str] = []

        def note(_connection: object, _cursor: object, text: str, *_rest: object) -> None:
            statements.append(text)

        event.listen(tx.connection, "before_cursor_execute", note)
        stream_progress.save(tx, query, [make(1), make(2)])
    assert len(statements) == 2


def test_minutes_of_a_query_that_ended_before_those_that_are_shown_are_deleted_in_batches(
    store: Database, query: str
) -> None:
    add_minutes(store, query, 1, 2, 3, 400)

    def delete_ended(limit: int) -> int:
        with store.write("test") as tx:
            return stream_minutes.delete_ended(tx, limit)

    def end(minutes: float) -> None:
        with store.write("test") as tx:
            change = update(queries).where(queries.c.id == query)
            tx.execute(change.values(state=StreamState.STOPPED, ended_at=clock(-60 * minutes)))

    assert delete_ended(10) == 0
    end(HISTORY_MINUTES - 1)
    assert delete_ended(10) == 0
    end(HISTORY_MINUTES + 1)
    assert [delete_ended(3) for _batch in range(3)] == [3, 1, 0]
    assert read(store, query) == []


def test_minutes_are_deleted_with_their_query(store: Database, query: str) -> None:
    save(store, query, make(0))
    with store.write("test") as tx:
        tx.execute(delete(queries).where(queries.c.id == query))
    assert read(store, query) == []
