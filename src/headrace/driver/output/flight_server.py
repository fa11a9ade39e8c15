"""The Arrow Flight server of a driver. Each call needs the token of the result that it reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import flight

from headrace.results.batches import apply_schema, batch_bytes, serialize_batches
from headrace.results.flight_tickets import (
    AUTHORIZATION,
    COUNT_ROWS,
    MAX_BODY_BYTES,
    READ_CHUNK,
    ResultTicket,
    read_token,
)

_MIDDLEWARE = "headrace"


@dataclass(frozen=True)
class HeldResult:
    """The rows of one result in memory."""

    stored_schema: pa.Schema
    client_schema: pa.Schema
    """The schema with real names, for Flight clients."""
    chunks: Sequence[pa.RecordBatch]
    """A batch of the stored schema for each chunk."""

    @cached_property
    def size(self) -> int:
        """Bytes of all rows, as results are measured."""
        return sum(map(batch_bytes, self.chunks))

    @cached_property
    def row_count(self) -> int:
        """Number of all rows."""
        return sum(chunk.num_rows for chunk in self.chunks)


class _OpenedResult(flight.ServerMiddleware):  # type: ignore[misc] # pyarrow has no annotations
    """Statement whose result the token of a call opens."""

    def __init__(self, statement_id: str) -> None:
        super().__init__()
        self.statement_id = statement_id


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc] # as above
    """Refuses each call without a valid token, before Flight reads anything else of it."""

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._secret = secret

    def start_call(self, _info: Any, headers: Mapping[str, Sequence[str]]) -> _OpenedResult:
        """Return the result that the token opens. Raise FlightUnauthenticatedError."""
        values = [
            value
            for name, texts in headers.items()
            if name.lower() == AUTHORIZATION
            for value in texts
        ]
        scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        statement_id = read_token(self._secret, token) if scheme.lower() == "bearer" else None
        if statement_id is None:
            raise flight.FlightUnauthenticatedError("The token is missing or not valid.")
        return _OpenedResult(statement_id)


class FlightServer(flight.FlightServerBase):  # type: ignore[misc] # as above
    """Serves held results from its creation on."""

    def __init__(
        self, host: str, secret: str, find_result: Callable[[str], HeldResult | None]
    ) -> None:
        """Listen on a free port of an address.

        Args:
            secret: Key of the tokens.
            find_result: Returns the result of a statement; None if the driver does not hold it.

        Raises OSError and pyarrow's errors if the address cannot be used.
        """
        address = f"[{host}]" if ":" in host else host
        super().__init__(f"grpc://{address}:0", middleware={_MIDDLEWARE: _TokenCheck(secret)})
        self._find_result = find_result

    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        """Describe the result that a path names."""
        name = b"" if not descriptor.path else descriptor.path[0]
        ticket, result = self._open(context, name)
        endpoint = flight.FlightEndpoint(ticket.to_bytes(), [])
        return flight.FlightInfo(
            result.client_schema, descriptor, [endpoint], result.row_count, result.size
        )

    def do_get(self, context: Any, ticket: Any) -> flight.FlightDataStream:
        """Send the rows that a ticket names."""
        parsed, result = self._open(context, ticket.ticket)
        numbers = range(len(result.chunks)) if parsed.chunk is None else [parsed.chunk]
        return flight.GeneratorStream(
            result.client_schema, self._send_chunks(parsed.statement_id, numbers)
        )

    def _send_chunks(self, statement_id: str, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Yield chunks. A slow reader keeps no more than one of them when the result is released.

        Raise FlightServerError when it is released.
        """
        for number in numbers:
            result = self._require(statement_id)
            chunk = apply_schema(_get_chunk(result, number), result.client_schema)
            del result
            yield chunk

    def list_actions(self, _context: Any) -> list[tuple[str, str]]:
        """List the actions with which nodes read."""
        return [
            (READ_CHUNK, "Read a chunk as an Arrow IPC stream of the stored schema."),
            (COUNT_ROWS, "Count the rows of each chunk."),
        ]

    def do_action(self, context: Any, action: Any) -> Iterator[pa.Buffer]:
        """Send a chunk as an Arrow IPC stream, or the numbers of rows as JSON."""
        if action.type not in {READ_CHUNK, COUNT_ROWS}:
            raise flight.FlightServerError("The action does not exist.")
        parsed, result = self._open(context, action.body.to_pybytes())
        if action.type == COUNT_ROWS:
            counts = [chunk.num_rows for chunk in result.chunks]
            return _cut(pa.py_buffer(json.dumps(counts).encode()))
        if parsed.chunk is None:
            raise flight.FlightServerError("The ticket names no chunk.")
        chunk = _get_chunk(result, parsed.chunk)
        return _cut(pa.py_buffer(serialize_batches([chunk], result.stored_schema)))

    def _open(self, context: Any, content: bytes) -> tuple[ResultTicket, HeldResult]:
        """Return the ticket and its result, if the token of the call opens it."""
        ticket = ResultTicket.parse(content)
        opened: _OpenedResult = context.get_middleware(_MIDDLEWARE)
        if ticket is None or ticket.statement_id != opened.statement_id:
            raise flight.FlightUnauthorizedError("The token does not open this result.")
        return ticket, self._require(ticket.statement_id)

    def _require(self, statement_id: str) -> HeldResult:
        result = self._find_result(statement_id)
        if result is None:
            raise flight.FlightServerError("The driver does not hold this result.")
        return result


def _get_chunk(result: HeldResult, number: int) -> pa.RecordBatch:
    if number >= len(result.chunks):
        raise flight.FlightServerError("The result does not have this chunk.")
    return result.chunks[number]


def _cut(content: pa.Buffer) -> Iterator[pa.Buffer]:
    for start in range(0, content.size, MAX_BODY_BYTES):
        yield content.slice(start, min(MAX_BODY_BYTES, content.size - start))
