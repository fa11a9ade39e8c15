"""Rows of a result that a driver holds in its memory, read over Arrow Flight.

Users' code runs in the driver. The node therefore bounds the bytes, the rows and the time of every
call, and checks every batch as it checks those of other results.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import flight

from headrace.errors import InvalidResult, ResultsUnavailable
from headrace.model.result import ResultInfo
from headrace.results.arrow_messages import MAX_BATCH_BYTES, read_stream
from headrace.results.flight_tickets import (
    AUTHORIZATION,
    MAX_BODY_BYTES,
    READ_CHUNK,
    ResultTicket,
    make_token,
)
from headrace.results.reader import check_chunk_number
from headrace.results.schema import parse_schema

_CALL_SECONDS = 30.0
"""Longest time that a driver may take for one chunk."""
_MAX_STREAM_BYTES = MAX_BATCH_BYTES + (64 << 20)
"""Largest chunk: one row and the metadata of many small batches."""
_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_BODY_BYTES + 1024),
    # A compressed message could be much larger than this limit.
    ("grpc.per_message_decompression", 0),
    # The endpoint is never behind the proxy that the environment may name.
    ("grpc.enable_http_proxy", 0),
]


class HeldRows:
    """Rows that the driver at an endpoint holds. Each chunk is one call."""

    def __init__(
        self,
        info: ResultInfo,
        statement_id: str,
        secret: str,
        *,
        call_seconds: float = _CALL_SECONDS,
    ) -> None:
        """Parse the schema. Raise InvalidResult if it is not valid.

        Args:
            secret: Key of the tokens of the driver.
            call_seconds: Longest time that the driver may take for one chunk.
        """
        assert info.holder is not None
        self.schema = parse_schema(info.spark_schema)
        self.chunks = max(1, info.chunks)
        # `batches` yields exactly as many rows, and a chunk not more.
        self.row_count = info.row_count
        self._endpoint = info.holder.endpoint
        self._statement_id = statement_id
        self._token = make_token(secret, statement_id)
        self._call_seconds = call_seconds

    def chunk(self, number: int) -> Iterator[pa.RecordBatch]:
        check_chunk_number(number, self.chunks)
        return self._read(number, self.row_count)

    def batches(self) -> Iterator[pa.RecordBatch]:
        remaining = self.row_count
        for number in range(self.chunks):
            for batch in self._read(number, remaining):
                remaining -= batch.num_rows
                yield batch
        if remaining:
            raise InvalidResult("The driver has fewer rows than it has reported.")

    def _read(self, number: int, max_rows: int) -> Iterator[pa.RecordBatch]:
        for batch in read_stream(self._fetch(number), self.schema):
            max_rows -= batch.num_rows
            if max_rows < 0:
                raise InvalidResult("The driver has more rows than it has reported.")
            yield batch

    def _fetch(self, number: int) -> bytes:
        """Return a chunk as an Arrow IPC stream. Raise ResultsUnavailable and InvalidResult."""
        action = flight.Action(READ_CHUNK, ResultTicket(self._statement_id, number).to_bytes())
        options = flight.FlightCallOptions(
            timeout=self._call_seconds,
            headers=[(AUTHORIZATION.encode(), f"Bearer {self._token}".encode())],
        )
        content = bytearray()
        try:
            with flight.FlightClient(
                f"grpc://{self._endpoint}", generic_options=_OPTIONS
            ) as client:
                for result in client.do_action(action, options):
                    content += result.body
                    if len(content) > _MAX_STREAM_BYTES:
                        raise InvalidResult("A chunk from the driver is too large.")
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            raise ResultsUnavailable(
                "The driver that holds the rows does not send them:"
                f" {str(error).partition('. ')[0][:200]}.",
                hint="Try again. If the driver is lost, the statement says so within the lease.",
            ) from error
        return bytes(content)
