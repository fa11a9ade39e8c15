"""Rows from a driver that does not keep to the protocol: an error in bounded time and memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.support.made_results import spark_schema

from headrace.errors import HeadraceError, InvalidResult, ResultsUnavailable
from headrace.model.ids import new_id
from headrace.model.result import Disposition, ResultHolder, ResultInfo
from headrace.results.flight_tickets import MAX_BODY_BYTES
from headrace.results.held_rows import HeldRows
from headrace.results.layout import build_stored_schema
from headrace.results.schema import parse_schema

COLUMNS = [("n", "long")]
SCHEMA = build_stored_schema(parse_schema(spark_schema(COLUMNS)))
ROWS = 3
Reply = Callable[[], Iterator[bytes]]


class Driver(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no annotations
    """A Flight server whose action sends whatever a test wants."""

    def __init__(self, reply: Reply) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._reply = reply

    def do_action(self, _context: Any, _action: Any) -> Iterator[pa.Buffer]:
        for body in self._reply():
            yield pa.py_buffer(body)


@contextmanager
def opened(reply: Reply, *, seconds: float = 10.0) -> Iterator[HeldRows]:
    with Driver(reply) as driver:
        info = ResultInfo(
            disposition=Disposition.MEMORY,
            spark_schema=spark_schema(COLUMNS),
            row_count=ROWS,
            byte_count=24,
            truncated=False,
            chunks=1,
            location=None,
            expires_at=datetime.now(UTC),
            holder=ResultHolder(session_id="se_1", epoch=1, endpoint=f"127.0.0.1:{driver.port}"),
        )
        yield HeldRows(info, new_id("st"), "secret", call_seconds=seconds)


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


def test_a_body_above_the_limit_is_refused() -> None:
    with (
        opened(lambda: iter([bytes(2 * MAX_BODY_BYTES)])) as rows,
        pytest.raises(ResultsUnavailable),
    ):
        list(rows.batches())


def test_an_endless_chunk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.results.held_rows._MAX_STREAM_BYTES", 4 * MAX_BODY_BYTES)

    def send_forever() -> Iterator[bytes]:
        while True:
            yield bytes(MAX_BODY_BYTES)

    with opened(send_forever) as rows, pytest.raises(InvalidResult, match="too large"):
        list(rows.batches())


def test_a_driver_that_sends_slowly_is_given_up() -> None:
    def send_slowly() -> Iterator[bytes]:
        for _number in range(100):
            time.sleep(0.1)
            yield b"x"

    start = time.monotonic()
    with opened(send_slowly, seconds=0.5) as rows:
        with pytest.raises(ResultsUnavailable):
            list(rows.batches())
        assert time.monotonic() - start < 5


def test_the_message_of_an_error_is_short_and_on_one_line() -> None:
    def fail() -> Iterator[bytes]:
        raise flight.FlightServerError("no\nrows " + "x" * 100_000)
        yield b""

    with opened(fail) as rows, pytest.raises(HeadraceError) as caught:
        list(rows.batches())
    assert len(caught.value.message) < 400
    assert "\n" not in caught.value.message
