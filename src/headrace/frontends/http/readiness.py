"""Checks whether the node is ready. Requests that arrive during a check share it.

A check of a locked store takes seconds, and anybody who reaches the port may request one. Without
the sharing, such requests could take all threads of the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import Request
from fastapi.concurrency import run_in_threadpool


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


def readiness_of(request: Request) -> Readiness:
    """Return the checks whether the node that answers a request is ready."""
    readiness: Readiness = request.app.state.readiness
    return readiness
