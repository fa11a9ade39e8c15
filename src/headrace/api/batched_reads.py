"""Reads of single records: requests that arrive during a read share the next one.

A query costs more than its rows: the work of SQLAlchemy, a change of the thread, a round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi.concurrency import run_in_threadpool

from headrace.control.driver_link.renewals import Renewals
from headrace.model.messages import Renew, Renewed
from headrace.model.session import DriverLease

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
            found = await run_in_threadpool(self._read_all, ids)
        except Exception as error:  # noqa: BLE001 - each request reports it
            for future in futures.values():
                future.set_exception(error)
        else:
            for record_id, future in futures.items():
                future.set_result(found.get(record_id))


class Readiness:
    """The checks of one node. All methods run on the event loop."""

    def __init__(self, check: Callable[[], None]) -> None:
        """Create it without a check.

        Args:
            check: Raises the error that says why the node is not ready.
        """
        self._check = check
        self._running: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raise the error that says why the node is not ready."""
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(run_in_threadpool(self._check))
            # The requests that wait for it may have ended.
            self._running.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._running)


_LONGEST_PAUSE = 0.3
_PAUSES_PER_RENEWAL = 16
"""A pause is this part of the time between two renewals of a driver, so that it never uses up a
short lease."""
_MAX_LEASES = 100
"""Largest number of leases in one transaction."""


class BatchedRenewals:
    """The plain renewals that this node works on. All methods run on the event loop."""

    def __init__(
        self, renewals: Renewals, threads: Callable[[], CapacityLimiter], *, renew_seconds: float
    ) -> None:
        """Create it without any renewal.

        Args:
            threads: Returns the limit of threads that work on calls of drivers.
            renew_seconds: Time between two renewals of a driver.
        """
        self._renewals = renewals
        self._threads = threads
        self._pause = min(_LONGEST_PAUSE, renew_seconds / _PAUSES_PER_RENEWAL)
        """Shortest time between the starts of two transactions with few leases. A renewal after a
        longer time starts one at once."""
        self._waiting: dict[DriverLease, tuple[Renew, asyncio.Future[Renewed]]] = {}
        self._worker: asyncio.Task[None] | None = None
        self._next_start = 0.0

    async def renew(self, lease: DriverLease, message: Renew) -> Renewed:
        """Renew a lease, and return the answer. Raise as `Renewals.renew` does."""
        if lease not in self._waiting:
            self._waiting[lease] = (message, asyncio.get_running_loop().create_future())
        _message, future = self._waiting[lease]
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        # A driver that repeats its call waits for the same renewal.
        answer = await asyncio.shield(future)
        if answer.applied:
            return answer
        return await self._run(lambda: self._renewals.renew(lease, message))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                # A pause before a full transaction would limit the number of drivers.
                if len(self._waiting) < _MAX_LEASES:
                    await asyncio.sleep(self._next_start - loop.time())
                self._next_start = loop.time() + self._pause
                await self._renew_batch()
        finally:
            self._worker = None

    async def _renew_batch(self) -> None:
        leases = list(self._waiting)[:_MAX_LEASES]
        batch = {lease: self._waiting.pop(lease) for lease in leases}
        messages = {lease: message for lease, (message, _future) in batch.items()}
        try:
            renewed = await self._run(lambda: self._renewals.renew_all(messages))
        except Exception as error:  # noqa: BLE001 - each call reports it
            for _message, future in batch.values():
                future.set_exception(error)
                # The calls that wait for it may have ended.
                future.exception()
        else:
            for lease, (_message, future) in batch.items():
                future.set_result(renewed.get(lease, Renewed(applied=False)))

    async def _run(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._threads())
