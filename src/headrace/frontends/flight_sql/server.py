"""The server of Flight SQL: the calls of gRPC, on the event loop of the node.

pyarrow's own server has no PollFlightInfo and takes 8 KB of headers, so that grpcio serves them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import grpc
from grpc import aio

from headrace.config.sections import TlsSettings
from headrace.control.node import Node
from headrace.errors import HeadraceError
from headrace.frontends.flight_sql.calls import FlightCall, FlightCalls, UnsuccessfulStatement
from headrace.frontends.flight_sql.messages import FlightCommand, read_fields, write_field
from headrace.frontends.flight_sql.sign_in import SignIns
from headrace.frontends.servers import Server
from headrace.model.failure import ANALYSIS_ERROR, EXECUTION_ERROR, SYNTAX_ERROR, Failure

_LOG = logging.getLogger("headrace.node")
_SERVICE = "arrow.flight.protocol.FlightService"
_MAX_HEADERS = 64 * 1024
_MAX_RECEIVED = 16 * 1024 * 1024
_MAX_ERROR = 900
"""Largest error in bytes of the header that it is sent in. Clients take few KB of headers."""
_STOP_SECONDS = 5.0
_CHECK_SECONDS = 5.0
"""Time after which the credentials of a call that lasts are checked again."""
_OPTIONS = [
    ("grpc.max_metadata_size", _MAX_HEADERS),
    ("grpc.absolute_max_metadata_size", 2 * _MAX_HEADERS),
    ("grpc.max_receive_message_length", _MAX_RECEIVED),
    ("grpc.max_send_message_length", -1),  # a single row can be that large
    ("grpc.so_reuseport", 0),
    # The end of a client whose host is gone is noticed.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Clients may send pings while a statement runs.
    ("grpc.http2.max_ping_strikes", 0),
]
_STATUS = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    406: grpc.StatusCode.INVALID_ARGUMENT,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    410: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
"""Status of gRPC, by that of HTTP; INTERNAL for the others."""
_FAILURES = {
    SYNTAX_ERROR: grpc.StatusCode.INVALID_ARGUMENT,
    ANALYSIS_ERROR: grpc.StatusCode.INVALID_ARGUMENT,
    EXECUTION_ERROR: grpc.StatusCode.UNKNOWN,
    "unauthorized": grpc.StatusCode.UNAUTHENTICATED,
    "cancelled": grpc.StatusCode.CANCELLED,
    "timeout": grpc.StatusCode.DEADLINE_EXCEEDED,
    "result_not_ready": grpc.StatusCode.FAILED_PRECONDITION,
    "result_gone": grpc.StatusCode.NOT_FOUND,
    "node_stopping": grpc.StatusCode.UNAVAILABLE,
}
"""Status of gRPC, by the code of the failure of a statement; INTERNAL for the others."""

Context = Any
"""`grpc.aio.ServicerContext` of bytes."""


class _FlightService:
    """The calls of Flight, as gRPC sees them: bytes in, bytes out."""

    def __init__(self, node: Node) -> None:
        self._sign_ins = SignIns(node)
        self._calls = FlightCalls(node)

    @property
    def handlers(self) -> grpc.GenericRpcHandler:
        """The handlers of all methods."""
        unary = grpc.unary_unary_rpc_method_handler
        streams = grpc.unary_stream_rpc_method_handler
        exchanges = grpc.stream_stream_rpc_method_handler
        descriptions = {
            "GetFlightInfo": unary(partial(self._describe, self._calls.get_info)),
            "PollFlightInfo": unary(partial(self._describe, self._calls.poll_info)),
            "GetSchema": unary(partial(self._describe, self._calls.get_schema)),
        }
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                **descriptions,
                "Handshake": exchanges(self._handshake),
                "DoGet": streams(self._get),
                "DoPut": exchanges(self._put),
                "DoAction": streams(self._act),
                "ListActions": streams(self._list_actions),
                "ListFlights": streams(self._list_flights),
            },
        )

    async def _describe(
        self,
        answer: Callable[[FlightCall, bytes], Awaitable[bytes]],
        request: bytes,
        context: Context,
    ) -> bytes:
        """Answer a call that sends a `FlightDescriptor`."""

        async def work(call: FlightCall) -> bytes:
            return await answer(call, _read(request).data(2) or b"")

        answered: bytes = await self._answer(context, work)
        return answered

    async def _handshake(
        self, _requests: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[bytes]:
        async def work(_call: FlightCall) -> None:
            return None

        await self._answer(context, work)
        for message in list[bytes]():  # the reply has none
            yield message

    async def _get(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            call = await self._sign_in(context)
            async for message in self._calls.get(call, _read(request).data(1) or b""):
                yield message
        except Exception as error:  # noqa: BLE001 - the client gets every error
            await _refuse(context, error)

    async def _put(self, requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        async def work(call: FlightCall) -> list[bytes]:
            first = await anext(requests, b"")
            return await self._calls.do_put(call, first, requests)

        for result in await self._answer(context, work):
            yield result

    async def _act(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        async def work(call: FlightCall) -> list[bytes]:
            action = _read(request)
            return await self._calls.act(call, action.text(1) or "", action.data(2) or b"")

        for body in await self._answer(context, work):
            yield write_field(1, body)

    async def _list_actions(self, _request: bytes, context: Context) -> AsyncIterator[bytes]:
        async def work(_call: FlightCall) -> dict[str, str]:
            return self._calls.actions

        for name, text in (await self._answer(context, work)).items():
            yield write_field(1, name) + write_field(2, text)

    async def _list_flights(self, _request: bytes, context: Context) -> AsyncIterator[bytes]:
        async def work(_call: FlightCall) -> None:
            return None

        await self._answer(context, work)
        for message in list[bytes]():  # the reply has none
            yield message

    async def _answer(self, context: Context, work: Callable[[FlightCall], Awaitable[Any]]) -> Any:
        """Return what a call answers, or end the call with an error."""
        try:
            return await self._work(await self._sign_in(context), work)
        except Exception as error:  # noqa: BLE001 - the client gets every error
            await _refuse(context, error)

    async def _work(self, call: FlightCall, work: Callable[[FlightCall], Awaitable[Any]]) -> Any:
        """Do the work of a call. Its token must not expire while it lasts."""
        renewing = asyncio.ensure_future(self._keep_signed_in(call))
        try:
            return await work(call)
        finally:
            renewing.cancel()

    async def _keep_signed_in(self, call: FlightCall) -> None:
        while call.caller.token_id is not None:
            await asyncio.sleep(self._sign_ins.renew_seconds)
            await self._sign_ins.renew(call.caller)

    async def _sign_in(self, context: Context) -> FlightCall:
        headers, address = context.invocation_metadata(), _address_of(context)
        sender = await self._sign_ins.identify(headers, address)
        if sender.headers:
            await context.send_initial_metadata(sender.headers)
        loop = asyncio.get_running_loop()
        checked_at = loop.time()

        async def check() -> None:
            nonlocal checked_at
            if loop.time() - checked_at > _CHECK_SECONDS:
                checked_at = loop.time()
                await self._sign_ins.check(headers, address)

        return FlightCall(sender, check)


def _read(request: bytes) -> FlightCommand:
    return FlightCommand("the request", read_fields(request))


def _address_of(context: Context) -> str:
    """Return the IP address of a client. gRPC writes `ipv4:1.2.3.4:5` or `ipv6:[::1]:5`."""
    _family, _, rest = unquote(context.peer()).partition(":")
    return rest.rpartition(":")[0].strip("[]") or "unknown"


async def _refuse(context: Context, error: Exception) -> None:
    """End a call with an error."""
    statement_id = None
    match error:
        case aio.AbortError():
            raise error
        case UnsuccessfulStatement():
            failure, statement_id = error.failure, error.statement_id
            status = _FAILURES.get(failure.code, grpc.StatusCode.INTERNAL)
        case HeadraceError():
            failure = Failure.with_hint(error)
            status = _STATUS.get(error.status, grpc.StatusCode.INTERNAL)
        case _:
            _LOG.error("a call of Flight SQL failed", exc_info=error)
            failure = Failure.of(HeadraceError())
            status = grpc.StatusCode.INTERNAL
    trailers = [("headrace-code", failure.code)]
    if statement_id is not None:
        trailers.append(("headrace-statement", statement_id))
    await context.abort(status, write_error(failure, statement_id), tuple(trailers))


def write_error(failure: Failure, statement_id: str | None = None) -> str:
    """Return the text of an error: its code, its message as far as it fits, and the statement."""
    place = ""
    if failure.line is not None and failure.column is not None:
        place = f" (line {failure.line}, column {failure.column})"
    end = place + ("" if statement_id is None else f" (statement {statement_id})")
    text = f"[{failure.code}] {failure.text}"
    room = _MAX_ERROR - _header_bytes(end)
    if _header_bytes(text) <= room:
        return text + end
    kept, size = [], len("…".encode()) * 3
    for character in text:
        size += _header_bytes(character)
        if size > room:
            break
        kept.append(character)
    return "".join(kept) + "…" + end


def _header_bytes(text: str) -> int:
    """Return the size of a text in a header of gRPC, which escapes what is not ASCII."""
    return sum(1 if 32 <= byte < 127 and byte != 37 else 3 for byte in text.encode())


class FlightSqlServer(Server):
    """Serves Flight SQL at a port."""

    def __init__(self, node: Node, host: str, port: int, tls: TlsSettings | None = None) -> None:
        """Create it; nothing listens yet.

        Args:
            tls: Files of the certificate; None: without TLS.
        """
        self._node = node
        self._address = f"{f'[{host}]' if ':' in host else host}:{port}"
        self._tls = None if tls is None or tls.cert is None else tls
        self._server: Any = None
        self.port = port
        """Port at which the server listens."""

    async def start(self) -> None:
        """Listen."""
        server = aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((_FlightService(self._node).handlers,))
        if self._tls is None:
            self.port = server.add_insecure_port(self._address)
        else:
            credentials = _Certificate(self._tls).make_credentials()
            self.port = server.add_secure_port(self._address, credentials)
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Accept no more calls, and give those that wait some seconds to end."""
        if self._server is not None:
            await self._server.stop(_STOP_SECONDS)


class _Certificate:
    """The certificate of the node, which is read again when its files change."""

    def __init__(self, tls: TlsSettings) -> None:
        self._tls = tls
        self._content = self._read()

    def make_credentials(self) -> grpc.ServerCredentials:
        return grpc.dynamic_ssl_server_credentials(
            self._configure(self._content),
            self._fetch,
            require_client_authentication=self._tls.client_ca is not None,
        )

    def _read(self) -> tuple[bytes, bytes, bytes | None]:
        cert, key, authorities = self._tls.cert, self._tls.key, self._tls.client_ca
        assert isinstance(cert, Path)
        assert isinstance(key, Path)
        return (
            key.read_bytes(),
            cert.read_bytes(),
            None if authorities is None else authorities.read_bytes(),
        )

    @staticmethod
    def _configure(content: tuple[bytes, bytes, bytes | None]) -> Any:
        key, cert, authorities = content
        return grpc.ssl_server_certificate_configuration([(key, cert)], authorities)

    def _fetch(self) -> Any:
        """Return the files if they have changed since the last handshake, else None."""
        try:
            content = self._read()
        except OSError as error:
            _LOG.error("the last certificate stays in use: %s", error)
            return None
        if content == self._content:
            return None
        self._content = content
        return self._configure(content)
