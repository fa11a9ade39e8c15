"""The servers of a node: a process starts, stops and waits for any number of them."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress

from headrace.control.node import Node


class Server(ABC):
    """One protocol by which clients reach a node.

    Its methods run on the event loop of the process. A server may use threads of its own.
    """

    @abstractmethod
    async def start(self) -> None:
        """Accept connections. Return when clients can connect."""

    @abstractmethod
    async def stop(self) -> None:
        """Accept no more connections, and give open requests some seconds to end.

        Requests that wait with `Node.long_polls` have been released before.
        """

    def hurry(self) -> None:
        """Let `stop` return soon, because the user has asked twice. Safe in signal handlers."""
        return


class Servers:
    """The servers of one node. They start in order, and stop in the reverse order."""

    def __init__(
        self,
        node: Node,
        servers: Sequence[Server],
        *,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        """Create it; nothing listens yet.

        Args:
            loop_factory: Creates the event loop; default: that of asyncio.
        """
        self._node = node
        self._servers = servers
        self._loop_factory = loop_factory
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._stop_requested = asyncio.Event()
        self.started = threading.Event()
        """Set when all servers listen."""

    def run(self) -> None:
        """Run the servers until `request_stop`. Raise the error of a server that cannot start."""
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            runner.run(self._serve())

    def request_stop(self) -> None:
        """Ask the servers to stop. Safe in any thread and in signal handlers."""
        self._node.withdraw()
        self._node.long_polls.release()
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._stop_requested.set)

    def hurry(self) -> None:
        """Let the servers cut open requests."""
        for server in self._servers:
            server.hurry()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as started:
            for server in self._servers:
                await server.start()
                started.push_async_callback(server.stop)
            self.started.set()
            if not self._is_stopping:
                await self._stop_requested.wait()
