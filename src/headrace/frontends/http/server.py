"""The HTTP server of a node, with limits of its connections.

The limits are the number of connections, the size of headers, and the time to send a request.
uvicorn limits idle connections between two requests (`timeout_keep_alive`) and the number of
connections (`limit_concurrency`). It has no time limit for the first byte, the headers or the body
of a request, and with httptools no limit for the size of headers (uvicorn issue 157).
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import uvicorn
from anyio import to_thread
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.config.sections import HttpSettings
from headrace.frontends.http.tls import CHECK_SECONDS, ServerTls
from headrace.frontends.servers import Server

_MAX_HEADER_BYTES = 64 * 1024
"""Largest size of the request line and the headers together, and of trailers and chunk
extensions."""
_MAX_HEADERS = 100
"""Largest number of headers of a request."""
_SHUTDOWN_SECONDS = 5
CERTIFICATE_STATE = "has_client_certificate"
"""Key of the state of a request: whether its client has presented a certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of one server."""

    connections: int
    """Largest number of connections. Beyond it, a new connection replaces the oldest idle one. If
    every connection has a request, new requests get 503."""
    header_seconds: float
    """Longest time from the start of a connection or request to the end of its headers."""
    body_seconds: float
    """Longest time from the end of the headers to the end of the body."""
    idle_seconds: float
    """Longest time without a request after a response."""


class LimitedConfig(uvicorn.Config):
    """Configuration of a server whose connections are limited."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits) -> None:
        super().__init__(
            app,
            http=LimitedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # No browser takes a log, or a text of a user, for a page.
            headers=[("X-Content-Type-Options", "nosniff")],
            # By default, any local process could choose the address that the log names.
            proxy_headers=False,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        self.limits = limits
        self.idle_connections: dict[LimitedProtocol, None] = {}
        """Connections without a request, the oldest first."""


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is closed when its client does not send a request in time."""

    config: LimitedConfig

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # uvicorn declares an int, and passes the value on to `call_later`, which takes a float.
        self.timeout_keep_alive = self.config.limits.idle_seconds  # type: ignore[assignment]
        self._deadline: asyncio.TimerHandle | None = None
        self._has_certificate = False
        """Whether the client has presented a certificate of `tls.client_ca`."""
        self._has_data = False
        self._is_making_progress = False
        self._overhead_bytes = 0
        self._header_bytes = 0
        self._header_count = 0
        self._open_requests = 0
        """Requests without a complete response; more than one if the client sends ahead."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time for the first request; replace an idle connection if necessary."""
        super().connection_made(transport)
        self._has_certificate = bool(transport.get_extra_info("peercert"))
        self._expect_headers()
        self._become_idle()
        idle = self.config.idle_connections
        oldest = next(iter(idle))
        if len(self.connections) >= self.config.limits.connections and oldest is not self:
            del idle[oldest]
            self.connections.discard(oldest)
            oldest.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.config.idle_connections.pop(self, None)
        self._clear_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data. Refuse headers, trailers and chunk extensions above the limit."""
        if self._deadline is None and not self._open_requests:
            self._expect_headers()
        self._has_data = True
        self._is_making_progress = False
        super().data_received(data)
        if self._is_making_progress:
            self._overhead_bytes = 0
        elif self._deadline is not None:
            self._overhead_bytes += len(data)
            if self._overhead_bytes > _MAX_HEADER_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Start the time for the headers of a request."""
        super().on_message_begin()
        self.scope["state"][CERTIFICATE_STATE] = self._has_certificate
        self._is_making_progress = True
        self._header_bytes = self._header_count = 0
        self._expect_headers()

    def on_url(self, url: bytes) -> None:
        """Add a part of the URL. Raises ValueError if it is too long."""
        super().on_url(url)
        self._count_headers(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header. Raises ValueError if the request has too many or too large headers."""
        super().on_header(name, value)
        self._header_count += 1
        self._count_headers(len(name) + len(value))

    def on_headers_complete(self) -> None:
        """Start the request, and the time for its body."""
        self.config.idle_connections.pop(self, None)
        super().on_headers_complete()
        self._open_requests += 1
        self._start_deadline(self.config.limits.body_seconds)

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on to the app."""
        self._is_making_progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the time for the body."""
        self._clear_deadline()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the next request, or the idle time."""
        super().on_response_complete()
        self._open_requests -= 1
        if not self._open_requests and not self.transport.is_closing():
            self._become_idle()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that the parser refuses, for an error of `_count_headers` with 431."""
        if self._has_excess:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def _count_headers(self, size: int) -> None:
        """Raise ValueError, with which the parser stops, if the headers exceed a limit.

        One call of `data_received` can bring more than the limit.
        """
        self._header_bytes += size
        if self._has_excess:
            raise ValueError("too many or too large headers")

    @property
    def _has_excess(self) -> bool:
        return self._header_bytes > _MAX_HEADER_BYTES or self._header_count > _MAX_HEADERS

    def _become_idle(self) -> None:
        self.config.idle_connections.pop(self, None)
        self.config.idle_connections[self] = None

    def _expect_headers(self) -> None:
        self._start_deadline(self.config.limits.header_seconds)

    def _start_deadline(self, seconds: float) -> None:
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, self._on_timeout)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_timeout(self) -> None:
        if self._has_data:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer without the app, unless it has begun a response, and close the connection."""
        if self.transport.is_closing():
            return
        if not self._open_requests or not self.cycle.response_started:
            line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            self.transport.write(f"{line}connection: close\r\ncontent-length: 0\r\n\r\n".encode())
        self.transport.close()


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

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        listener: socket.socket,
        tls: ServerTls | None = None,
    ) -> None:
        """Create it; it does not accept connections yet.

        Args:
            tls: Certificate of the server; None: it speaks HTTP.
        """
        self._config = LimitedConfig(app, connection_limits(settings))
        self._uvicorn = uvicorn.Server(self._config)
        self._listener = listener
        self._tls = tls
        self._ticks: asyncio.Task[None] | None = None
        self._reloads: asyncio.Task[None] | None = None

    @property
    def loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        """Creates the event loop that uvicorn prefers."""
        return self._config.get_loop_factory()

    async def start(self) -> None:
        """Accept connections."""
        self._config.load()
        self._uvicorn.lifespan = self._config.lifespan_class(self._config)
        # uvicorn cannot limit the time of a handshake, and leaves it at 60 seconds.
        await self._uvicorn.startup(sockets=[])
        server = await asyncio.get_running_loop().create_server(
            self._create_protocol,
            sock=self._listener,
            backlog=self._config.backlog,
            ssl=None if self._tls is None else self._tls.context,
            ssl_handshake_timeout=self._config.limits.header_seconds if self._tls else None,
        )
        self._uvicorn.servers.append(server)
        self._ticks = asyncio.create_task(self._uvicorn.main_loop())
        if self._tls is not None:
            self._reloads = asyncio.create_task(_keep_certificate_current(self._tls))

    def _create_protocol(self) -> LimitedProtocol:
        state = self._uvicorn.server_state
        return LimitedProtocol(
            config=self._config, server_state=state, app_state=self._uvicorn.lifespan.state
        )

    async def stop(self) -> None:
        """Close the listener and idle connections, and wait for open requests."""
        self._uvicorn.should_exit = True
        if self._ticks is not None:
            await self._ticks
        if self._reloads is not None:
            self._reloads.cancel()
        await self._uvicorn.shutdown(sockets=[self._listener])

    def hurry(self) -> None:
        """Let `stop` not wait for open requests."""
        self._uvicorn.force_exit = True


async def _keep_certificate_current(tls: ServerTls) -> None:
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        # The files may be on a slow file system.
        await to_thread.run_sync(tls.check)
