"""The HTTP server of one node, and its end."""

from __future__ import annotations

import resource
import signal
from types import FrameType

import uvicorn

from headrace.api.app import create_app
from headrace.api.http.connection_limits import ConnectionLimits, LimitedConfig
from headrace.api.waiting import LongPolls
from headrace.config.sections import HttpSettings
from headrace.control.node import Node

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


class NodeServer(uvicorn.Server):
    """A server that releases long polls before it waits for open requests to end."""

    def __init__(self, node: Node) -> None:
        """Create a server that does not listen yet.

        Raises InvalidSetting if `http.allowed_hosts` has an entry that is not a host.
        """
        app = create_app(node)
        super().__init__(LimitedConfig(app, connection_limits(node.settings.http)))
        self._node = node
        self._long_polls: LongPolls = app.state.long_polls

    def request_stop(self) -> None:
        """Ask the server to stop, from any thread."""
        self._node.withdraw()
        self._long_polls.release()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal (a hook of uvicorn). The first SIGTERM drains the node."""
        if sig == signal.SIGTERM and self._node.drain():
            return
        self._node.withdraw()
        self._long_polls.release()
        super().handle_exit(sig, frame)
