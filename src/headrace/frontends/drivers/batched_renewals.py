"""Renewals of drivers that report nothing: those that arrive together share a transaction.

500 drivers renew 100 times a second. In transactions of their own, they take a quarter of the time
of a node, and 100 flushes of the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from headrace.control.driver_link.renewals import Renewals
from headrace.model.messages import Renew, Renewed
from headrace.model.session import DriverLease

T = TypeVar("T")

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


def renewals_of(request: Request) -> BatchedRenewals:
    """Return the renewals of drivers that the node works on."""
    renewals: BatchedRenewals = request.app.state.renewals
    return renewals
