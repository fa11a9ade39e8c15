"""One node process: the socket, the node, the app, and their end."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

import uvicorn
from fastapi import FastAPI

from headrace.api.app import create_app
from headrace.api.http.result_responses import warm_up
from headrace.api.log_format import EscapingFormatter
from headrace.api.waiting import LongPolls
from headrace.control.host.home_ownership import own_home, refuse_second_node
from headrace.control.node import Node
from headrace.errors import InvalidSetting
from headrace.node_file import END_ALL_SIGNAL, REPLACE_SIGNAL
from headrace.settings import Settings

_SHUTDOWN_SECONDS = 5


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
    _check_token(settings, embedded=embedded)
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
        server = _Server(create_app(node), on_stop=node.withdraw)
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn handles the signal itself and raises it again when it has stopped.
            signal.signal(number, lambda _signal, _frame: server.request_stop())
        signal.signal(REPLACE_SIGNAL, lambda *_: _stop(node, server, ends_drivers=False))
        signal.signal(END_ALL_SIGNAL, lambda *_: _stop(node, server, ends_drivers=True))
        try:
            node.start(request_stop=server.request_stop)
            starting.close()
            threading.Thread(target=warm_up, name="headrace-warm-up", daemon=True).start()
            server.run(sockets=[listener])
        finally:
            node.stop()
    return 0


def _stop(node: Node, server: _Server, *, ends_drivers: bool) -> None:
    node.ends_drivers = ends_drivers
    server.request_stop()


class _Server(uvicorn.Server):
    """A server that releases long polls before it waits for open requests to end."""

    def __init__(self, app: FastAPI, *, on_stop: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )
        self._long_polls: LongPolls = app.state.long_polls
        self._on_stop = on_stop

    def request_stop(self) -> None:
        """Ask the server to stop, from any thread."""
        self._on_stop()
        self._long_polls.release()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal (a hook of uvicorn)."""
        self._on_stop()
        self._long_polls.release()
        super().handle_exit(sig, frame)


def _check_token(settings: Settings, *, embedded: bool) -> None:
    if embedded or settings.token or settings.http.allow_unauthenticated:
        return
    if not _is_loopback(settings.http.host):
        raise InvalidSetting(
            f"http.host {settings.http.host!r} is reachable from other hosts and no token is set, "
            "so anyone could run SQL here. Set HEADRACE_TOKEN, or allow this with "
            "http.allow_unauthenticated = true."
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
