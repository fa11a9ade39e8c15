"""HiveServer2 over plain connections: messages in frames, behind a sign-in by SASL PLAIN."""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import cast

from anyio import CapacityLimiter, to_thread

from headrace.control.identity.credentials import Credentials, from_any_password
from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import HeadraceError, TooManyFailures, Unauthorized
from headrace.frontends.hiveserver2.calls import HiveServer2Calls
from headrace.frontends.hiveserver2.wire import (
    Call,
    InvalidMessage,
    measure_message,
    read_call,
    write_refusal,
)
from headrace.frontends.http.auth import SIGN_IN_THREADS
from headrace.frontends.http.refusals import AuthenticationFailures
from headrace.frontends.servers import Server
from headrace.model.audit import AuditAction

_LOG = logging.getLogger("headrace.hiveserver2")
_MAX_FRAME = 16 * 1024 * 1024
"""Largest message of a client in bytes: a statement of 10 MB is allowed."""
_MAX_DISCARDED = 256 * 1024 * 1024
"""Largest message that is read and refused; a larger one ends its connection at once."""
_MAX_SASL = 64 * 1024
_SIGN_IN_SECONDS = 30.0
_READ_BYTES = 64 * 1024
_START, _BAD, _COMPLETE = 1, 3, 5
"""States in the negotiation of SASL in Thrift."""
_STATUS = "GetOperationStatus"
_STATUS_BYTES = 8 + len(_STATUS)
"""Length of what stands before the number of such a call: version and name."""
_NUMBER_BYTES = 4
_REPEATED_SECONDS = 1.0
"""Time for which an answer is repeated without a check of the credentials."""
_HTTP_STARTS = frozenset(method[:1].encode() for method in ("GET", "POST", "OPTIONS", "HEAD"))
_HTTP_TEXT = (
    b"[invalid_message] This port serves connections without HTTP: leave transportMode=http out, or"
    b" connect to the port of the API with httpPath=cliservice.\n"
)
_HTTP_ANSWER = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_HTTP_TEXT),
    _HTTP_TEXT,
)
_Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_SASL = struct.Struct("!BI")
_FRAME = struct.Struct("!I")


class HiveServer2Server(Server):
    """Accepts connections of clients, and answers their calls in order."""

    def __init__(
        self, node: Node, host: str, port: int, context: ssl.SSLContext | None = None
    ) -> None:
        self._node = node
        self._host = host
        self._port = port
        self._context = context
        self._calls = HiveServer2Calls(node)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._failures = AuthenticationFailures()
        self._sign_ins = CapacityLimiter(SIGN_IN_THREADS)

    @property
    def port(self) -> int:
        """Port at which the server listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.get_running_loop().create_server(
            partial(_Connection, self._serve), self._host, self._port, ssl=self._context
        )

    async def stop(self) -> None:
        """Close all connections: their statements run on."""
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            first = await reader.readexactly(1)
            if first in _HTTP_STARTS:
                writer.write(_HTTP_ANSWER)
                await writer.drain()
            elif first[0] == _START:
                credentials = await self._sign_in(first, reader, writer)
                await self._serve_frames(credentials, writer)
            else:
                await self._serve_messages(first, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError):
            pass  # the client is gone
        except HeadraceError as error:
            self._record_refusal(error, _address_of(writer))
        except asyncio.CancelledError:
            pass  # the node stops
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    def _record_refusal(self, error: HeadraceError, address: str) -> None:
        if not isinstance(error, Unauthorized | TooManyFailures):
            _LOG.info("a connection from %a ends: %s", address, error.message)
            return
        counted = self._failures.record(address, "HiveServer2", "", error.message)
        if counted is not None:
            detail = {"method": "HiveServer2", "reason": error.message, "counted_before": counted}
            self._node.context.audit.record_refusal(
                AuditAction.SIGN_IN_FAILED, None, address, detail
            )

    async def _sign_in(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Credentials:
        """Return the credentials that the client has sent by SASL PLAIN (RFC 4616).

        Raises:
            Unauthorized: They are not valid. The client has the error.
            TooManyFailures, SignInUnavailable: As the authenticator; the client has the error.
            InvalidMessage: The client does not speak SASL.
        """
        async with asyncio.timeout(_SIGN_IN_SECONDS):
            _, size = _SASL.unpack(first + await reader.readexactly(_SASL.size - 1))
            mechanism = await self._read_sasl(reader, size)
            if mechanism != b"PLAIN":
                await _send_sasl(writer, _BAD, b"Only the mechanism PLAIN is supported.")
                raise Unauthorized("The mechanism is not PLAIN.")
            _, size = _SASL.unpack(await reader.readexactly(_SASL.size))
            message = await self._read_sasl(reader, size)
        try:
            credentials = self._read_credentials(message, _address_of(writer))
            await self._identify(credentials)
        except HeadraceError as error:
            await _send_sasl(writer, _BAD, f"[{error.code}] {error.message}".encode())
            raise
        await _send_sasl(writer, _COMPLETE, b"")
        return credentials

    def _read_credentials(self, message: bytes, address: str) -> Credentials:
        try:
            acts_as, user, password = message.decode().split("\0")
        except (UnicodeDecodeError, ValueError):
            raise Unauthorized("The message of SASL PLAIN has not its three parts.") from None
        if acts_as not in {"", user}:
            raise Unauthorized("A client acts for its own user only.")
        return from_any_password(
            user, password, address, has_directory=self._node.settings.auth.ldap is not None
        )

    async def _identify(self, credentials: Credentials | None) -> Caller:
        """Return the caller with these credentials, as long as they are valid."""
        authenticator = self._node.authenticator
        known = authenticator.find(credentials)
        if known is not None:
            return known
        return await to_thread.run_sync(authenticator.identify, credentials, limiter=self._sign_ins)

    async def _read_sasl(self, reader: asyncio.StreamReader, size: int) -> bytes:
        if size > _MAX_SASL:
            raise InvalidMessage(f"A message of SASL has {size} bytes.")
        return await reader.readexactly(size)

    async def _serve_frames(self, credentials: Credentials, writer: asyncio.StreamWriter) -> None:
        connection = writer.transport.get_protocol()
        assert isinstance(connection, _Connection)
        received = bytearray()
        while True:
            size, frame = await _read_frame(received, connection)
            try:
                call = _read_framed(size, frame)
            except InvalidMessage as error:
                refusal = write_refusal(frame, error)
                writer.write(_FRAME.pack(len(refusal)) + refusal)
                await writer.drain()
                if size > _MAX_FRAME:
                    continue
                raise
            # A connection may last for days: a token that is revoked ends it.
            caller = replace(await self._identify(credentials), address=_address_of(writer))
            answer = await self._calls.answer(caller, call)
            writer.write(_FRAME.pack(len(answer)) + answer)
            await writer.drain()
            if call.name == _STATUS and self._calls.has_ended(caller, call.request):
                connection.remember(frame, answer)
            connection.is_expecting = not received

    async def _serve_messages(
        self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a client without SASL: it is who runs the node, if that needs no credentials."""
        received = bytearray(data)
        caller = await self._identify(None)
        while True:
            while (size := measure_message(received)) is None:
                if len(received) > _MAX_FRAME:
                    raise InvalidMessage(f"A message has more than {_MAX_FRAME} bytes.")
                part = await reader.read(_READ_BYTES)
                if not part:
                    return
                received += part
            message = bytes(received[:size])
            del received[:size]
            writer.write(await self._calls.answer(caller, read_call(message)))
            await writer.drain()


class _Connection(asyncio.StreamReaderProtocol):
    """Passes what a client sends to the task that serves it, apart from a repeated question.

    Hive's JDBC 2.3 asks for the state of an ended statement before each row that it reads. The
    answer cannot change: it is sent at once, without a turn of the event loop.
    """

    def __init__(self, serve: _Serve) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        super().__init__(reader, serve, loop=loop)
        self.is_expecting = False
        """Whether all calls of the client are answered."""
        self._reader = reader
        self._output: asyncio.WriteTransport | None = None
        self._begin = self._end = self._answer_begin = self._answer_end = b""
        self._until = 0.0

    def remember(self, question: bytes, answer: bytes) -> None:
        """Keep the answer to a question for the state of a statement that has ended.

        The number of the call is at the same place of both.
        """
        number, after = _STATUS_BYTES, _STATUS_BYTES + _NUMBER_BYTES
        self._begin, self._end = _FRAME.pack(len(question)) + question[:number], question[after:]
        self._answer_begin = _FRAME.pack(len(answer)) + answer[:number]
        self._answer_end = answer[after:]
        self._until = time.monotonic() + _REPEATED_SECONDS

    async def receive(self) -> bytes:
        """Return what the client sends next. Raise IncompleteReadError at its end."""
        part = await self._reader.read(_READ_BYTES)
        self.is_expecting = False
        if not part:
            raise asyncio.IncompleteReadError(part, None)
        return part

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers are written."""
        self._output = cast("asyncio.WriteTransport", transport)  # no subclass of it in uvloop
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Answer the question that was answered within the last second, or pass the data on."""
        answer = self._find_answer(data) if self.is_expecting else None
        if answer is None:
            self.is_expecting = False
            super().data_received(data)
        else:
            assert self._output is not None
            self._output.write(answer)

    def _find_answer(self, data: bytes) -> bytes | None:
        number = len(self._begin)
        after = number + _NUMBER_BYTES
        if not number or data[:number] != self._begin or data[after:] != self._end:
            return None
        assert self._output is not None
        if time.monotonic() > self._until or self._output.get_write_buffer_size():
            return None  # check the credentials, or wait until the client reads
        return self._answer_begin + data[number:after] + self._answer_end


async def _read_frame(received: bytearray, connection: _Connection) -> tuple[int, bytes]:
    """Return the size of the next frame, and the frame; leave what follows it in `received`.

    A frame that is too large is read to its end, so that its client gets an answer. Its begin is
    returned.
    """
    while len(received) < _FRAME.size:
        received += await connection.receive()
    (size,) = _FRAME.unpack_from(received)
    if size > _MAX_DISCARDED:
        raise InvalidMessage(f"A frame has {size} bytes; {_MAX_FRAME} are allowed.")
    del received[: _FRAME.size]
    missing, kept = size, bytearray()
    while True:
        part = received[:missing]
        del received[:missing]
        missing -= len(part)
        if size <= _MAX_FRAME or not kept:
            kept += part
        if not missing:
            return size, bytes(kept)
        received += await connection.receive()


def _read_framed(size: int, frame: bytes) -> Call:
    """Return the call in a frame. Raise InvalidMessage."""
    if size > _MAX_FRAME:
        raise InvalidMessage(f"A frame has {size} bytes; {_MAX_FRAME} are allowed.")
    return read_call(frame)


async def _send_sasl(writer: asyncio.StreamWriter, status: int, message: bytes) -> None:
    writer.write(_SASL.pack(status, len(message)) + message)
    await writer.drain()


def _address_of(writer: asyncio.StreamWriter) -> str:
    """Return the IP address of a client."""
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if peer else "unknown"
