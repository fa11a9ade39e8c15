"""Rows from a driver that does not keep to the protocol: an error in bounded time and memory."""

from __future__ import annotations

import resource
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.support.made_results import spark_schema

from headrace.errors import InvalidResult, ResultsUnavailable
from headrace.model.ids import new_id
from headrace.model.result import Disposition, ResultHolder, ResultInfo
from headrace.results.flight_tickets import MAX_BODY_BYTES
from headrace.results.held_rows import HeldRows
from headrace.results.layout import build_stored_schema
from headrace.results.read_limits import BufferLimit, run_within
from headrace.results.reader import RowRange
from headrace.results.schema import parse_schema

COLUMNS = [("n", "long")]
SCHEMA = build_stored_schema(parse_schema(spark_schema(COLUMNS)))
ROWS = 3
Reply = Callable[[], Iterator[bytes]]


class Driver(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no annotations
    """A Flight server whose action sends whatever a test wants."""

    def __init__(self, reply: Reply, **options: Any) -> None:
        super().__init__("grpc://127.0.0.1:0", **options)
        self._reply = reply

    def do_action(self, _context: Any, _action: Any) -> Iterator[pa.Buffer]:
        for body in self._reply():
            yield pa.py_buffer(body)


def open_rows(
    port: int, *, seconds: float = 10.0, chunks: int = 1, buffers: BufferLimit | None = None
) -> HeldRows:
    info = ResultInfo(
        disposition=Disposition.MEMORY,
        spark_schema=spark_schema(COLUMNS),
        row_count=ROWS,
        byte_count=24,
        truncated=False,
        chunks=chunks,
        location=None,
        expires_at=datetime.now(UTC),
        holder=ResultHolder(session_id="se_1", epoch=1, endpoint=f"127.0.0.1:{port}"),
    )
    return HeldRows(info, new_id("st"), "secret", call_seconds=seconds, buffers=buffers)


@contextmanager
def opened(
    reply: Reply,
    *,
    seconds: float = 10.0,
    chunks: int = 1,
    buffers: BufferLimit | None = None,
    **options: Any,
) -> Iterator[HeldRows]:
    with Driver(reply, **options) as driver:
        yield open_rows(driver.port, seconds=seconds, chunks=chunks, buffers=buffers)


def write_stream(
    schema: pa.Schema, rows: int, *, options: pa.ipc.IpcWriteOptions | None = None
) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        columns = [pa.array([1] * rows, field.type) for field in schema]
        writer.write_batch(pa.record_batch(columns, schema=schema))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def test_honest_rows_are_read() -> None:
    content = write_stream(SCHEMA, ROWS)
    with opened(lambda: iter([content[:100], content[100:]])) as rows:
        assert [batch.num_rows for batch in rows.batches()] == [ROWS]


_BOMB = write_stream(SCHEMA, 40_000_000, options=pa.ipc.IpcWriteOptions(compression="zstd"))
_INVALID: dict[str, bytes] = {
    "nothing": b"",
    "garbage": b"\xff" * 1000,
    "half a stream": write_stream(SCHEMA, ROWS)[:-40],
    "another type": write_stream(pa.schema([("_0", pa.int32())]), ROWS),
    "another column": write_stream(pa.schema([*SCHEMA, ("_1", pa.int64())]), ROWS),
    "fewer rows": write_stream(SCHEMA, ROWS - 1),
    "more rows": write_stream(SCHEMA, ROWS + 1),
    "many rows in little space": _BOMB,
}


@pytest.mark.parametrize("content", _INVALID.values(), ids=_INVALID.keys())
def test_rows_that_are_not_valid_are_refused(content: bytes) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bodies = [
        content[start : start + MAX_BODY_BYTES] for start in range(0, len(content), MAX_BODY_BYTES)
    ]
    with opened(lambda: iter(bodies)) as rows, pytest.raises(InvalidResult):
        list(rows.batches())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 200 * 1024  # KiB


_COUNTS: dict[str, bytes] = {
    "nothing": b"",
    "no list": b"3",
    "a text": b'["3"]',
    "a negative number": b"[-1, 4]",
    "another number of chunks": b"[1, 1, 1]",
    "another number of rows": b"[1, 1]",
}


@pytest.mark.parametrize("content", _COUNTS.values(), ids=_COUNTS.keys())
def test_counts_of_rows_that_are_not_valid_are_refused(content: bytes) -> None:
    with opened(lambda: iter([content]), chunks=2) as rows, pytest.raises(InvalidResult):
        list(rows.select(RowRange(0, 1)))


def test_counts_of_rows_above_the_limit_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_content: bytes) -> list[int]:
        raise AssertionError("parsed")

    monkeypatch.setattr("headrace.results.held_rows._ROW_COUNTS.validate_json", refuse)
    bodies = [b"[" + b"0," * (MAX_BODY_BYTES // 2 - 1), b"0]" * 2]
    with (
        opened(lambda: iter(bodies), chunks=2) as rows,
        pytest.raises(InvalidResult, match="more than its result can have"),
    ):
        list(rows.select(RowRange(0, 1)))


@pytest.mark.parametrize("count", [1, 3])
def test_a_chunk_with_other_rows_than_counted_is_refused(count: int) -> None:
    bodies = iter([f"[{count}, {ROWS - count}]".encode(), write_stream(SCHEMA, 2)])
    with opened(lambda: iter([next(bodies)]), chunks=2) as rows, pytest.raises(InvalidResult):
        list(rows.select(RowRange(0, 5)))


def test_a_driver_cannot_send_empty_chunks_for_ever() -> None:
    content = write_stream(SCHEMA, 0)
    with (
        opened(lambda: iter([content]), chunks=2**31 - 1) as rows,
        pytest.raises(InvalidResult, match="a chunk without rows"),
    ):
        list(rows.batches())


def test_a_read_ends_with_its_time() -> None:
    def send_slowly() -> Iterator[bytes]:
        time.sleep(0.2)
        yield write_stream(SCHEMA, 1)

    start = time.monotonic()
    with opened(send_slowly, chunks=ROWS) as rows, pytest.raises(ResultsUnavailable):
        run_within(0.3, lambda: list(rows.batches()))
    assert time.monotonic() - start < 30


def test_reads_together_buffer_a_number_of_bytes() -> None:
    content = write_stream(SCHEMA, ROWS)
    for limit, error in ((len(content), None), (len(content) - 1, "too many rows")):
        with opened(lambda: iter([content]), buffers=BufferLimit(limit)) as rows:
            if error is None:
                assert [batch.num_rows for batch in rows.batches()] == [ROWS]
                continue
            with pytest.raises(ResultsUnavailable, match=error):
                list(rows.batches())


def test_a_body_above_the_limit_is_refused() -> None:
    with (
        opened(lambda: iter([bytes(2 * MAX_BODY_BYTES)])) as rows,
        pytest.raises(ResultsUnavailable),
    ):
        list(rows.batches())


def test_an_endless_chunk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.results.held_rows._OVERHEAD_BYTES", 4 * MAX_BODY_BYTES)

    def send_forever() -> Iterator[bytes]:
        while True:
            yield bytes(MAX_BODY_BYTES)

    with (
        opened(send_forever) as rows,
        pytest.raises(InvalidResult, match="more than its result can have"),
    ):
        list(rows.batches())


def _send_slowly() -> Iterator[bytes]:
    while True:
        time.sleep(0.1)
        yield b"x"


def _send_nothing_at_all() -> Iterator[bytes]:
    time.sleep(3)
    yield b""


def _send_empty_bodies() -> Iterator[bytes]:
    while True:
        yield b""


@pytest.mark.parametrize("reply", [_send_slowly, _send_nothing_at_all, _send_empty_bodies])
def test_a_driver_that_takes_too_long_is_given_up(reply: Reply) -> None:
    start = time.monotonic()
    with opened(reply, seconds=0.5) as rows:
        with pytest.raises(ResultsUnavailable, match="Deadline Exceeded"):
            list(rows.batches())
        assert time.monotonic() - start < 30


class _Compression(flight.ServerMiddleware):  # type: ignore[misc] # as above
    """Makes gRPC compress what the server sends."""

    def sending_headers(self) -> dict[str, str]:
        return {"grpc-internal-encoding-request": "gzip"}


class _CompressionFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc] # as above
    def start_call(self, _info: Any, _headers: Any) -> _Compression:
        return _Compression()


def test_bodies_that_grpc_has_compressed_are_not_unpacked() -> None:
    content = write_stream(SCHEMA, ROWS)
    middleware = {"gzip": _CompressionFactory()}
    with (
        opened(lambda: iter([content]), middleware=middleware) as rows,
        pytest.raises(InvalidResult),
    ):
        list(rows.batches())


def _never_answer(connection: socket.socket) -> None:
    connection.recv(1)


def _answer_with_http_1(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def _send_garbage(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"\xff" * 65536)


def _send_endless_headers(connection: socket.socket) -> None:
    settings, first = b"\0\0\0\x04\0\0\0\0\0", b"\0\0\x01\x01\0\0\0\0\x01\x88"
    connection.sendall(settings)
    time.sleep(0.1)
    connection.sendall(first)
    while True:
        frame = b"\0\x40\0\x09\0\0\0\0\x01" + b"\x40\x01a\x7f\x81\x7e" + b"x" * (0x4000 - 6)
        connection.sendall(frame)


@pytest.mark.parametrize(
    "serve", [_never_answer, _answer_with_http_1, _send_garbage, _send_endless_headers]
)
def test_a_port_of_another_service_is_an_error(serve: Callable[[socket.socket], None]) -> None:
    """The driver chooses the port: the node may reach a service that does not speak Flight."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _address = listener.accept()
                with connection, suppress(OSError):
                    serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        start = time.monotonic()
        with pytest.raises(ResultsUnavailable):
            list(open_rows(listener.getsockname()[1], seconds=1.0).batches())
        assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    "text", ["no\nrows \x1b[31m\r\u2028", "x" * 5000, "no\nrows " + "x" * 100_000]
)
def test_the_message_of_an_error_is_short_and_on_one_line(text: str) -> None:
    def fail() -> Iterator[bytes]:
        raise flight.FlightServerError(text)
        yield b""

    with opened(fail) as rows, pytest.raises(ResultsUnavailable) as caught:
        list(rows.batches())
    assert len(caught.value.message) < 400
    assert caught.value.message.isprintable()
    # A stack trace in the log contains the driver's text neither.
    assert "rows \x1b" not in "".join(traceback.format_exception(caught.value))
