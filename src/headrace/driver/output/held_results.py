"""Results that the driver holds in memory, up to a limit, for readers of its Flight server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.driver.output.flight_server import FlightServer, HeldResult
from headrace.model.messages import MAX_HELD

_LOG = logging.getLogger("headrace.driver")


@dataclass(slots=True)
class _Entry:
    """A held result, or the room that is reserved for one."""

    size: int
    result: HeldResult | None = None
    is_reported: bool = False
    """Whether a node has acknowledged the end of the statement."""


class HeldResults:
    """The held results of one driver. Thread-safe."""

    def __init__(self, *, host: str | None, secret: str | None, limit: int) -> None:
        """Start no server before the first result.

        Args:
            host: Address to listen on; None: hold nothing.
            secret: Key of the tokens that open results.
            limit: Largest number of bytes of all results.
        """
        self._host = host
        self._secret = secret
        self._limit = limit
        self._entries: dict[str, _Entry] = {}
        self._server: FlightServer | None = None
        self._lock = threading.Lock()

    @property
    def free_bytes(self) -> int:
        """Number of bytes that another result may have; 0 if no other result can be held."""
        with self._lock:
            return self._count_free_bytes()

    def reserve(self, statement_id: str, size: int) -> bool:
        """Reserve room for a result, in place of an earlier one of the statement.

        Without a reservation, statements that run at the same time could each copy as many rows as
        the driver may hold. `hold` and `release` end the reservation.

        Return whether there is room.
        """
        with self._lock:
            self._entries.pop(statement_id, None)
            has_room = size <= self._count_free_bytes()
            if has_room:
                self._entries[statement_id] = _Entry(size)
        return has_room

    def hold(self, statement_id: str, result: HeldResult) -> int | None:
        """Hold a result, and return the port of the server.

        Return None if the result does not fit, or if the server cannot listen.
        """
        with self._lock:
            self._entries.pop(statement_id, None)
            if result.size > self._count_free_bytes():
                return None
            try:
                port = self._start_server()
            except (OSError, pa.ArrowException) as error:
                _LOG.error("results cannot be held: the Flight server cannot listen: %s", error)
                return None
            self._entries[statement_id] = _Entry(result.size, result)
        return port

    def confirm(self, statement_id: str) -> None:
        """Record that a node has acknowledged the end of a statement: it may release its result."""
        with self._lock:
            if statement_id in self._entries:
                self._entries[statement_id].is_reported = True

    def release(self, statement_ids: Collection[str]) -> None:
        """Release the results of these statements, as far as there are any."""
        with self._lock:
            for statement_id in statement_ids:
                self._entries.pop(statement_id, None)

    def list_reported(self) -> Sequence[str]:
        """Return the statements whose results a node may release."""
        with self._lock:
            return [key for key, entry in self._entries.items() if entry.is_reported]

    def find(self, statement_id: str) -> HeldResult | None:
        """Return the result of a statement, or None if the driver does not hold it."""
        with self._lock:
            entry = self._entries.get(statement_id)
        return None if entry is None else entry.result

    def close(self, seconds: float) -> bool:
        """Release everything, stop the server, and hold nothing from now on.

        Return whether it has stopped within the time. It waits for readers, which may be slow.
        """
        with self._lock:
            # A statement that ends now must not start another server.
            self._host = None
            server, self._server = self._server, None
            self._entries.clear()
        if server is None:
            return True
        thread = threading.Thread(target=server.shutdown, name="headrace-flight", daemon=True)
        thread.start()
        thread.join(seconds)
        return not thread.is_alive()

    def _count_free_bytes(self) -> int:
        if self._host is None or self._secret is None or len(self._entries) >= MAX_HELD:
            return 0
        return max(0, self._limit - sum(each.size for each in self._entries.values()))

    def _start_server(self) -> int:
        """Start the server unless it runs, and return its port. Call this with the lock."""
        assert self._host is not None
        assert self._secret is not None
        if self._server is None:
            self._server = FlightServer(self._host, self._secret, self.find)
        port: int = self._server.port
        return port
