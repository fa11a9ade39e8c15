"""Reads of single records: requests that arrive during a read share the next one.

A query costs more than its rows: the work of SQLAlchemy, a change of the thread, a round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from anyio import to_thread

_MAX_IDS = 32
"""Largest number of records in one read. The text of a statement may have 1 MiB."""
_MAX_READS = 2
"""Largest number of reads at once. A third one would make the batches smaller."""

T = TypeVar("T")


class BatchedReads(Generic[T]):
    """The reads of one kind of record. All methods run on the event loop."""

    def __init__(self, read_all: Callable[[Sequence[str]], Mapping[str, T]]) -> None:
        """Create it without any read.

        Args:
            read_all: Returns the records with these ids that exist, by id.
        """
        self._read_all = read_all
        self._waiting: dict[str, asyncio.Future[T | None]] = {}
        self._reads: set[asyncio.Task[None]] = set()

    async def get(self, record_id: str) -> T | None:
        """Return a record as it is after this call, or None if it does not exist.

        Raises:
            StoreUnavailable: If the store does not answer.
        """
        future = self._waiting.get(record_id)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            self._waiting[record_id] = future
            if len(self._reads) < _MAX_READS:
                self._start_read()
        # The end of one request does not end the read of others.
        return await asyncio.shield(future)

    def _start_read(self) -> None:
        self._reads.add(asyncio.create_task(self._read_waiting()))

    async def _read_waiting(self) -> None:
        try:
            while self._waiting:
                await self._read_batch()
        finally:
            # Not in a callback of the task: answered requests run before it, and may read again.
            self._reads = {read for read in self._reads if read is not asyncio.current_task()}

    async def _read_batch(self) -> None:
        ids = list(self._waiting)[:_MAX_IDS]
        futures = {each: self._waiting.pop(each) for each in ids}
        try:
            found = await to_thread.run_sync(self._read_all, ids)
        except Exception as error:  # noqa: BLE001 - each request reports it
            for future in futures.values():
                future.set_exception(error)
        else:
            for record_id, future in futures.items():
                future.set_result(found.get(record_id))
