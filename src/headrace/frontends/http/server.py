"""The HTTP server of a node."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from headrace.config.sections import HttpSettings
from headrace.frontends.http.connection_limits import ConnectionLimits, LimitedConfig
from headrace.frontends.servers import Server

_OPEN_FILES = 65_536
"""Soft limit of open files that a node tries to get."""
_OTHER_OPEN_FILES = 256
"""Open files that are not connections of clients: store, logs, results, child processes."""


def connection_limits(settings: HttpSettings) -> ConnectionLimits:
    """Return the limits of connections, within the number of files that this process may open."""
    open_files = _raise_open_files_limit()
    return ConnectionLimits(
        connections=max(1, min(settings.max_connections, open_files - _OTHER_OPEN_FILES)),
        header_seconds=settings.header_timeout.total_seconds(),
        body_seconds=settings.body_timeout.total_seconds(),
        idle_seconds=settings.keep_alive.total_seconds(),
    )


def _raise_open_files_limit() -> int:
    """Raise the soft limit of open files, which is often 1,024; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return _OPEN_FILES if soft == resource.RLIM_INFINITY else soft


class HttpServer(Server):
    """Serves an app with uvicorn on a socket that listens already.

    `uvicorn.Server.serve` would handle the signals of the process. This class runs its parts.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings, listener: socket.socket) -> None:
        self._config = LimitedConfig(app, connection_limits(settings))
        self._uvicorn = uvicorn.Server(self._config)
        self._listener = listener
        self._ticks: asyncio.Task[None] | None = None

    @property
    def loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        """Creates the event loop that uvicorn prefers."""
        return self._config.get_loop_factory()

    async def start(self) -> None:
        """Accept connections."""
        self._config.load()
        self._uvicorn.lifespan = self._config.lifespan_class(self._config)
        await self._uvicorn.startup(sockets=[self._listener])
        self._ticks = asyncio.create_task(self._uvicorn.main_loop())

    async def stop(self) -> None:
        """Close the listener and idle connections, and wait for open requests."""
        self._uvicorn.should_exit = True
        if self._ticks is not None:
            await self._ticks
        await self._uvicorn.shutdown(sockets=[self._listener])

    def hurry(self) -> None:
        """Let `stop` not wait for open requests."""
        self._uvicorn.force_exit = True
