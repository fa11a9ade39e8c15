"""Held results: what the Flight server of a driver serves, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.support.made_results import spark_schema

from headrace.driver.output.flight_server import HeldResult
from headrace.driver.output.held_results import HeldResults
from headrace.driver.output.write import OutputOptions
from headrace.errors import ChunkNotFound, InvalidResult, ResultsUnavailable
from headrace.model.ids import new_id
from headrace.model.result import Disposition, ResultHolder, ResultInfo
from headrace.results.flight_tickets import READ_CHUNK, make_token, read_token
from headrace.results.held_rows import HeldRows
from headrace.results.layout import build_client_schema, build_stored_schema
from headrace.results.reader import RowRange
from headrace.results.schema import parse_schema

SECRET = "secret of the driver"
COLUMNS = [("n", "long"), ("s", "string")]
SCHEMA = parse_schema(spark_schema(COLUMNS))


def make_result(*chunks: list[tuple[int, str]]) -> HeldResult:
    stored = build_stored_schema(SCHEMA)
    batches = [
        pa.record_batch([[n for n, _ in rows], [s for _, s in rows]], schema=stored)
        for rows in chunks
    ]
    return HeldResult(stored, build_client_schema(SCHEMA, "{}"), batches)


@pytest.fixture
def held() -> Iterator[HeldResults]:
    results = HeldResults(host="127.0.0.1", secret=SECRET, limit=10_000)
    yield results
    assert results.close(60.0)


def open_rows(
    statement_id: str, port: int | None, *, secret: str = SECRET, **claims: Any
) -> HeldRows:
    holder = ResultHolder(session_id="se_1", epoch=1, endpoint=f"127.0.0.1:{port}")
    counts = {"row_count": 3, "chunks": 2} | claims
    info = ResultInfo(
        disposition=Disposition.MEMORY,
        spark_schema=spark_schema(COLUMNS),
        byte_count=9,
        truncated=False,
        location=None,
        expires_at=datetime.now(UTC),
        holder=holder,
        **counts,
    )
    return HeldRows(info, statement_id, secret)


def call_options(token: str) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(
        timeout=60, headers=[(b"authorization", f"Bearer {token}".encode())]
    )


def test_a_node_reads_held_rows_by_chunk_and_as_a_whole(held: HeldResults) -> None:
    statement_id = new_id("st")
    port = held.hold(statement_id, make_result([(1, "a"), (2, "b")], [(3, "c")]))
    rows = open_rows(statement_id, port)

    assert [batch.column(0).to_pylist() for batch in rows.batches()] == [[1, 2], [3]]
    assert [batch.column(1).to_pylist() for batch in rows.chunk(1)] == [["c"]]
    with pytest.raises(ChunkNotFound):
        rows.chunk(2)


@pytest.mark.finding("U10")
@pytest.mark.parametrize(
    ("offset", "limit", "expected", "chunks"),
    [
        (0, 1, [1], [0]),
        (1, 2, [2, 3], [0, 1]),
        (2, 9, [3], [1]),
        (2, 1, [3], [1]),
        (3, 9, [], []),
        (0, 2, [1, 2], [0]),
    ],
)
def test_a_node_reads_a_range_of_held_rows_without_the_chunks_around_it(
    held: HeldResults,
    monkeypatch: pytest.MonkeyPatch,
    offset: int,
    limit: int,
    expected: list[int],
    chunks: list[int],
) -> None:
    statement_id = new_id("st")
    port = held.hold(statement_id, make_result([(1, "a"), (2, "b")], [(3, "c")]))
    rows = open_rows(statement_id, port)
    fetched = []
    fetch = rows.fetch
    monkeypatch.setattr(rows, "fetch", lambda number: fetched.append(number) or fetch(number))
    batches = rows.select(RowRange(offset, limit))
    assert [value for batch in batches for value in batch.column(0).to_pylist()] == expected
    assert fetched == chunks


@pytest.mark.parametrize("claims", [{"row_count": 4}, {"chunks": 3}])
def test_other_counts_than_reported_are_refused(held: HeldResults, claims: dict[str, int]) -> None:
    statement_id = new_id("st")
    port = held.hold(statement_id, make_result([(1, "a"), (2, "b")], [(3, "c")]))
    with pytest.raises(InvalidResult, match="other rows"):
        list(open_rows(statement_id, port, **claims).select(RowRange(0, 1)))


def test_a_flight_client_reads_the_rows_with_their_names(held: HeldResults) -> None:
    statement_id = new_id("st")
    port = held.hold(statement_id, make_result([(1, "a"), (2, "b")], [(3, "c")]))
    options = call_options(make_token(SECRET, statement_id))

    with flight.FlightClient(f"grpc://127.0.0.1:{port}") as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path(statement_id), options)
        table = client.do_get(info.endpoints[0].ticket, options).read_all()

    assert info.total_records == 3
    assert table.to_pydict() == {"n": [1, 2, 3], "s": ["a", "b", "c"]}


CALLS: dict[str, Callable[[flight.FlightClient, bytes, Any], Any]] = {
    "get": lambda client, ticket, options: client.do_get(flight.Ticket(ticket), options).read_all(),
    "action": lambda client, ticket, options: list(
        client.do_action(flight.Action(READ_CHUNK, ticket + b"/0"), options)
    ),
    "info": lambda client, ticket, options: client.get_flight_info(
        flight.FlightDescriptor.for_path(ticket), options
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_only_the_token_of_a_result_opens_it(held: HeldResults, call: str) -> None:
    own, other = new_id("st"), new_id("st")
    port = held.hold(own, make_result([(1, "a")]))
    held.hold(other, make_result([(2, "b")]))
    foreign = make_token("another secret", own)

    with flight.FlightClient(f"grpc://127.0.0.1:{port}") as client:
        for options in (flight.FlightCallOptions(timeout=60), call_options(foreign)):
            with pytest.raises(flight.FlightUnauthenticatedError):
                CALLS[call](client, own.encode(), options)
        with pytest.raises(flight.FlightUnauthorizedError):
            CALLS[call](client, other.encode(), call_options(make_token(SECRET, own)))
        CALLS[call](client, own.encode(), call_options(make_token(SECRET, own)))


def test_a_forged_token_is_refused() -> None:
    statement_id = new_id("st")
    token = make_token(SECRET, statement_id)

    assert read_token(SECRET, token) == statement_id
    for forged in ("", token[:-1], token[:-1] + "é", token + "0", "st_1." + "0" * 64):
        assert read_token(SECRET, forged) is None


@pytest.mark.parametrize("claims", [{"row_count": 2}, {"row_count": 4}])
def test_other_rows_than_reported_are_refused(held: HeldResults, claims: dict[str, int]) -> None:
    statement_id = new_id("st")
    port = held.hold(statement_id, make_result([(1, "a"), (2, "b")], [(3, "c")]))

    with pytest.raises(InvalidResult):
        list(open_rows(statement_id, port, **claims).batches())


def test_a_driver_that_does_not_send_the_rows_is_an_error(held: HeldResults) -> None:
    statement_id = new_id("st")
    port = held.hold(statement_id, make_result([(1, "a")]))
    held.release([statement_id])

    with pytest.raises(ResultsUnavailable):
        list(open_rows(statement_id, port).batches())
    held.close(60.0)
    with pytest.raises(ResultsUnavailable):
        list(open_rows(statement_id, port).batches())


def test_results_above_the_limit_are_not_held(held: HeldResults) -> None:
    size = make_result([(1, "a" * 4000)]).size
    first, second, third = new_id("st"), new_id("st"), new_id("st")

    assert held.hold(first, make_result([(1, "a" * 4000)])) is not None
    assert held.free_bytes == 10_000 - size
    assert held.hold(second, make_result([(1, "a" * 4000)])) is not None
    assert held.hold(third, make_result([(1, "a" * 4000)])) is None
    held.release([first])
    assert held.hold(third, make_result([(1, "a" * 4000)])) is not None


def test_room_is_reserved_before_rows_are_copied(held: HeldResults) -> None:
    first, second = new_id("st"), new_id("st")

    assert held.reserve(first, 6000)
    assert not held.reserve(second, 6000)
    assert held.find(first) is None
    assert held.hold(first, make_result([(1, "a")])) is not None
    assert held.reserve(second, 6000)
    held.release([second])
    assert held.free_bytes > 9000


def test_a_slow_reader_does_not_keep_a_released_result(held: HeldResults) -> None:
    statement_id = new_id("st")
    port = held.hold(statement_id, make_result(*[[(number, "a")] for number in range(50)]))
    options = call_options(make_token(SECRET, statement_id))
    server = held._server
    assert server is not None
    chunks = server._send_chunks(statement_id, range(50))
    assert next(chunks).num_rows == 1
    held.release([statement_id])
    with pytest.raises(flight.FlightServerError, match="does not hold"):
        next(chunks)
    with (
        flight.FlightClient(f"grpc://127.0.0.1:{port}") as client,
        pytest.raises(flight.FlightServerError),
    ):
        client.do_get(flight.Ticket(statement_id.encode()), options).read_all()


def test_a_closed_driver_starts_no_other_server(held: HeldResults) -> None:
    assert held.close(60.0)
    assert held.hold(new_id("st"), make_result([(1, "a")])) is None


def test_an_action_sends_one_chunk(held: HeldResults) -> None:
    statement_id = new_id("st")
    port = held.hold(statement_id, make_result([(1, "a")], [(2, "b")]))
    options = call_options(make_token(SECRET, statement_id))

    with flight.FlightClient(f"grpc://127.0.0.1:{port}") as client:
        for ticket in (statement_id, f"{statement_id}/2"):
            with pytest.raises(flight.FlightServerError):
                list(client.do_action(flight.Action(READ_CHUNK, ticket.encode()), options))


@pytest.mark.parametrize(
    ("limit", "buffer_bytes"), [(10_000, 1000), (64 << 18, 1 << 18), (1 << 40, 1 << 20)]
)
def test_a_large_memory_does_not_let_tasks_return_everything(limit: int, buffer_bytes: int) -> None:
    """Spark ends a job whose tasks return more than spark.driver.maxResultSize."""
    options = OutputOptions(
        disposition=Disposition.MEMORY,
        row_limit=None,
        byte_limit=None,
        location="/results",
        inline_limit=1000,
        chunk_limit=1 << 23,
        held=HeldResults(host="127.0.0.1", secret=SECRET, limit=limit),
    )
    assert options.buffer_bytes == buffer_bytes


def test_only_reported_results_are_listed(held: HeldResults) -> None:
    first, second = new_id("st"), new_id("st")
    for statement_id in (first, second):
        held.hold(statement_id, make_result([(1, "a")]))
    held.confirm(first)

    assert held.list_reported() == [first]


def test_a_driver_without_an_address_holds_nothing() -> None:
    held = HeldResults(host=None, secret=None, limit=10_000)

    assert held.free_bytes == 0
    assert held.hold(new_id("st"), make_result([(1, "a")])) is None
    assert held.close(0.0)
