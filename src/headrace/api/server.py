"""One node process: the socket, the node, the app, and their end."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import threading
from types import FrameType

import uvicorn
from fastapi import FastAPI

from headrace.api.app import create_app
from headrace.api.http.result_responses import warm_up
from headrace.api.waiting import Waiters
from headrace.control.node import Node
from headrace.errors import InvalidSetting
from headrace.settings import Settings

_GRACE_SECONDS = 5


def serve(settings: Settings, *, embedded: bool) -> int:
    """Serves until the process is asked to end; 0 then.

    Raises InvalidSetting when the address cannot be listened on or would let anyone in, and what
    opening the store raises.
    """
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    _refuse_strangers(settings, embedded=embedded)
    with _listen(settings) as listener:
        host, port = listener.getsockname()[:2]
        address = settings.http.advertise or f"http://{_in_url(host)}:{port}"
        node = Node(settings, address=address, embedded=embedded)
        server = _Server(create_app(node))
        for ending in (signal.SIGTERM, signal.SIGINT):
            # uvicorn takes the signal itself and raises it again at its end: the node ends after.
            signal.signal(ending, lambda _signal, _frame: server.end())
        try:
            node.start(end=server.end)
            threading.Thread(target=warm_up, name="headrace-warm-up", daemon=True).start()
            server.run(sockets=[listener])
        finally:
            node.stop()
    return 0


class _Server(uvicorn.Server):
    """Lets long polls go before it waits for open requests to end."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self._waiters: Waiters = app.state.waiters

    def end(self) -> None:
        """Asks the server to stop, from any thread."""
        self._waiters.release()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._waiters.release()
        super().handle_exit(sig, frame)


def _refuse_strangers(settings: Settings, *, embedded: bool) -> None:
    if embedded or settings.token or settings.http.allow_unauthenticated:
        return
    if not _is_loopback(settings.http.host):
        raise InvalidSetting(
            f"http.host {settings.http.host!r} is reachable from other hosts and no token is set: "
            "anyone could run SQL here. Set HEADRACE_TOKEN, or http.allow_unauthenticated = true "
            "to have it so."
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
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another by --port."
        ) from error


def _in_url(host: str) -> str:
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        return socket.getfqdn()
    return f"[{host}]" if ":" in host else host
