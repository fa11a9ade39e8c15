"""Rows of a result that a driver holds in its memory, read over Arrow Flight.

Users' code runs in the driver. The node therefore bounds the bytes, the rows and the time of every
call, and checks every batch as it checks those of other results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyarrow import flight
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from headrace.errors import InvalidResult, ResultsUnavailable
from headrace.model.result import ResultInfo
from headrace.results.arrow_messages import MAX_BATCH_BYTES, read_stream
from headrace.results.flight_tickets import (
    AUTHORIZATION,
    COUNT_ROWS,
    MAX_BODY_BYTES,
    READ_CHUNK,
    ResultTicket,
    make_token,
)
from headrace.results.read_limits import BufferLimit, limit_seconds
from headrace.results.reader import RowRange, check_chunk_number, cut_batches
from headrace.results.schema import parse_schema
from headrace.text.readable import escape_character

CALL_SECONDS = 30.0
"""Longest time that a driver may take for one chunk."""
_OVERHEAD_BYTES = 64 << 20
"""Most bytes of a chunk beside its values: the schema, and 256 bytes for each of many columns."""
_ROW_COUNTS = TypeAdapter(list[NonNegativeInt])
_MAX_COUNTS_BYTES = 1024 * 1024
"""Bytes of the row counts of all chunks, as JSON. A parsed list takes many times as many bytes."""
_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_BODY_BYTES + 1024),
    # A compressed message could be much larger than this limit.
    ("grpc.per_message_decompression", 0),
    # The endpoint is never behind the proxy that the environment may name.
    ("grpc.enable_http_proxy", 0),
]


class FetchedRows(ABC):
    """Rows that are fetched by chunk, as Arrow IPC streams."""

    _call_seconds = CALL_SECONDS
    has_real_names = False
    """Whether the streams have the names for clients, and not those of the stored schema."""

    def __init__(self, info: ResultInfo, buffers: BufferLimit | None) -> None:
        """Parse the schema. Raise InvalidResult if it is not valid.

        Args:
            buffers: Limit of the bytes that several reads buffer together.
        """
        self._buffers = buffers or BufferLimit()
        self.schema = parse_schema(info.spark_schema)
        self.chunks = max(1, info.chunks)
        # `batches` yields exactly this number of rows, and one chunk at most this number.
        self.row_count = info.row_count
        # Arrow pads the buffers, and may add a bitmap of nulls to each.
        self._max_bytes = min(2 * info.byte_count, MAX_BATCH_BYTES) + _OVERHEAD_BYTES

    @abstractmethod
    def fetch(self, number: int) -> Iterable[bytes]:
        """Yield the Arrow IPC stream of a chunk in blocks of any size."""

    def chunk(self, number: int) -> Iterator[pa.RecordBatch]:
        check_chunk_number(number, self.chunks)
        return self._read_chunk(number, self.row_count)

    def batches(self) -> Iterator[pa.RecordBatch]:
        remaining = self.row_count
        for number in range(self.chunks):
            for batch in self._read_chunk(number, remaining):
                remaining -= batch.num_rows
                yield batch
        if remaining:
            raise InvalidResult("The driver has fewer rows than it has reported.")

    @abstractmethod
    def select(self, rows: RowRange) -> Iterator[pa.RecordBatch]:
        """Yield a range of rows. See `Rows.select`."""

    def _read_chunk(self, number: int, max_rows: int) -> Iterator[pa.RecordBatch]:
        return self._read(self.fetch(number), max_rows)

    def _read(self, blocks: Iterable[bytes], max_rows: int) -> Iterator[pa.RecordBatch]:
        content = self._fetch_whole(blocks, self._max_bytes)
        rows = 0
        for batch in read_stream(content, self.schema, has_real_names=self.has_real_names):
            rows += batch.num_rows
            if rows > max_rows:
                raise InvalidResult("The driver has more rows than it has reported.")
            yield batch
        if not rows:
            # A driver could otherwise send nothing two billion times.
            raise InvalidResult("The driver has a chunk without rows.")

    def _fetch_whole(self, blocks: Iterable[bytes], max_bytes: int) -> bytearray:
        content = bytearray()
        with self._buffers.buffering() as count:
            for block in blocks:
                limit_seconds(self._call_seconds)
                count(len(block))
                content += block
                if len(content) > max_bytes:
                    raise InvalidResult("The driver sends more than its result can have.")
        return content


class HeldRows(FetchedRows):
    """Rows that the driver at an endpoint holds. Each chunk is one call."""

    def __init__(
        self,
        info: ResultInfo,
        statement_id: str,
        secret: str,
        *,
        call_seconds: float = CALL_SECONDS,
        buffers: BufferLimit | None = None,
    ) -> None:
        """Parse the schema. Raise InvalidResult if it is not valid.

        Args:
            secret: Key of the tokens of the driver.
            call_seconds: Longest time that the driver may take for one chunk.
            buffers: Limit of the bytes that several reads buffer together.
        """
        super().__init__(info, buffers)
        assert info.holder is not None
        self._endpoint = info.holder.endpoint
        self._statement_id = statement_id
        self._token = make_token(secret, statement_id)
        self._call_seconds = call_seconds

    def fetch(self, number: int) -> Iterator[bytes]:
        """Yield the bodies that the driver sends. Raise ResultsUnavailable."""
        return self._call(READ_CHUNK, ResultTicket(self._statement_id, number))

    def select(self, rows: RowRange) -> Iterator[pa.RecordBatch]:
        start, end = 0, 0
        for number, count in enumerate(self._count_rows()):
            start, end = end, end + count
            if end > rows.offset and start < rows.end:
                yield from cut_batches(self._read_counted(number, count), rows, start=start)

    def _read_counted(self, number: int, count: int) -> Iterator[pa.RecordBatch]:
        remaining = count
        for batch in self._read_chunk(number, count):
            remaining -= batch.num_rows
            yield batch
        if remaining:
            raise InvalidResult("A chunk of the driver has fewer rows than it has reported.")

    def _count_rows(self) -> list[int]:
        """Return the number of rows of each chunk, as the driver says. Raise InvalidResult."""
        blocks = self._call(COUNT_ROWS, ResultTicket(self._statement_id))
        content = self._fetch_whole(blocks, _MAX_COUNTS_BYTES)
        try:
            counts = _ROW_COUNTS.validate_json(content)
        except ValidationError:
            counts = []
        if len(counts) != self.chunks or sum(counts) != self.row_count:
            raise InvalidResult("The driver has other rows than it has reported.")
        return counts

    def _call(self, action: str, ticket: ResultTicket) -> Iterator[bytes]:
        options = flight.FlightCallOptions(
            timeout=limit_seconds(self._call_seconds),
            headers=[(AUTHORIZATION.encode(), f"Bearer {self._token}".encode())],
        )
        try:
            with flight.FlightClient(
                f"grpc://{self._endpoint}", generic_options=_OPTIONS
            ) as client:
                for result in client.do_action(flight.Action(action, ticket.to_bytes()), options):
                    yield result.body
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            # Without its cause: a stack trace in the log keeps the lines that a driver has written.
            raise ResultsUnavailable(
                f"The driver that holds the rows does not send them: {_describe(error)}.",
                hint="Try again. If the driver is lost, the statement says so within the lease.",
            ) from None


def _describe(error: Exception) -> str:
    """Return the first sentence of an error that a driver may have written, on one line."""
    sentence = str(error).partition(". ")[0][:200]
    return "".join(map(escape_character, sentence))
