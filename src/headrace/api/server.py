"""One node process: the socket, the node, the app, and their end."""

from __future__ import annotations

import logging
import resource
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

import uvicorn
from fastapi import FastAPI

from headrace.api.app import create_app
from headrace.api.http.allowed_hosts import is_loopback
from headrace.api.http.connection_limits import ConnectionLimits, LimitedConfig
from headrace.api.http.result_responses import warm_up
from headrace.api.log_format import EscapingFormatter
from headrace.api.waiting import LongPolls
from headrace.control.host.home_ownership import own_home, refuse_second_node
from headrace.control.node import Node
from headrace.errors import InvalidSetting
from headrace.node_file import END_ALL_SIGNAL, REPLACE_SIGNAL
from headrace.settings import Settings
from headrace.settings_sections import HttpSettings

_OPEN_FILES = 65_536
"""Soft limit of open files that a node tries to get."""
_OTHER_OPEN_FILES = 256
"""Open files that are not connections of clients: store, logs, results, child processes."""


def serve(settings: Settings, *, embedded: bool) -> int:
    """Serve until the process is asked to stop; return the exit code 0.

    Raises:
        InvalidSetting: If the node cannot listen on the address, or would be reachable from other
            hosts without a token.
        StoreInUse: If another node serves the home.
        HeadraceError: As `Node` raises it.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    _check_auth(settings, embedded=embedded)
    layout = settings.layout
    refuse_second_node(layout)
    with (
        ExitStack() as starting,
        _listen(settings) as listener,
        own_home(layout, starting, embedded=embedded),
    ):
        host, port = listener.getsockname()[:2]
        address = settings.http.advertise or f"http://{_url_host(host)}:{port}"
        node = Node(settings, address=address, embedded=embedded)
        app = create_app(node)
        config = LimitedConfig(app, connection_limits(settings.http))
        server = _Server(app, config, drain=node.drain, on_stop=node.withdraw)
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn handles the signal itself and raises it again when it has stopped.
            signal.signal(number, lambda _signal, _frame: server.request_stop())
        signal.signal(REPLACE_SIGNAL, lambda *_: _stop(node, server, ends_drivers=False))
        signal.signal(END_ALL_SIGNAL, lambda *_: _stop(node, server, ends_drivers=True))
        try:
            node.start(request_stop=server.request_stop)
            starting.close()
            if not embedded:
                _print_access(node, settings)
            threading.Thread(target=warm_up, name="headrace-warm-up", daemon=True).start()
            server.run(sockets=[listener])
        finally:
            node.stop()
    return 0


def _stop(node: Node, server: _Server, *, ends_drivers: bool) -> None:
    node.ends_drivers = ends_drivers
    server.request_stop()


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


class _Server(uvicorn.Server):
    """A server that releases long polls before it waits for open requests to end."""

    def __init__(
        self,
        app: FastAPI,
        config: uvicorn.Config,
        *,
        drain: Callable[[], bool],
        on_stop: Callable[[], None],
    ) -> None:
        """Create a server that does not listen yet.

        Args:
            drain: Begins to drain the node; returns False if the server is to stop at once.
            on_stop: Called before the server stops to listen.
        """
        super().__init__(config)
        self._drain = drain
        self._long_polls: LongPolls = app.state.long_polls
        self._on_stop = on_stop

    def request_stop(self) -> None:
        """Ask the server to stop, from any thread."""
        self._on_stop()
        self._long_polls.release()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal (a hook of uvicorn). The first SIGTERM drains the node."""
        if sig == signal.SIGTERM and self._drain():
            return
        self._on_stop()
        self._long_polls.release()
        super().handle_exit(sig, frame)


def _check_auth(settings: Settings, *, embedded: bool) -> None:
    http = settings.http
    if embedded or http.auth or http.allow_unauthenticated or is_loopback(http.host):
        return
    raise InvalidSetting(
        f"http.host {http.host!r} is reachable from other hosts. Without a token, anyone could run "
        "SQL here. Remove --no-auth (http.auth = false), or allow this with "
        "http.allow_unauthenticated = true."
    )


def _print_access(node: Node, settings: Settings) -> None:
    """Print how to send requests. Standard error may be a log, so never print the token itself."""
    address, file = node.context.address, settings.layout.token_file
    if node.token is None:
        lines = [f"{address} serves without a token: every local user can run SQL as this account."]
    elif settings.token:
        lines = [f"{address} requires the token of HEADRACE_TOKEN or headrace.toml."]
    else:
        token = f'"$(cat {shlex.quote(str(file))})"'
        lines = [
            f"{address} requires the token in {file}.",
            "Commands of this home find the token. Other clients send it:",
            f"  curl --oauth2-bearer {token} {address}/api/v1/sessions",
        ]
    print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - for the user who starts it


def _listen(settings: Settings) -> socket.socket:
    host, port = settings.http.host, settings.http.port
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except OSError as error:
        raise InvalidSetting(
            f"The node cannot listen on {host}:{port}: {error.strerror}. "
            "Choose another port with --port."
        ) from error


def _url_host(host: str) -> str:
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        return socket.getfqdn()
    return f"[{host}]" if ":" in host else host
