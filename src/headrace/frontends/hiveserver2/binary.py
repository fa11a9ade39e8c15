"""HiveServer2 over plain connections: messages in frames, behind a sign-in by SASL PLAIN."""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
import time
from contextlib import suppress
from dataclasses import replace

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
        self._server = await asyncio.start_server(
            self._serve, self._host, self._port, ssl=self._context
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
                await self._serve_frames(credentials, reader, writer)
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

    async def _serve_frames(
        self, credentials: Credentials, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        received, repeated = bytearray(), _RepeatedCall()
        while True:
            size, frame = await _read_frame(received, reader)
            answer = repeated.find(frame)
            if answer is None:
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
                if call.name == _STATUS and self._calls.has_ended(caller, call.request):
                    repeated.remember(frame, answer)
            writer.write(_FRAME.pack(len(answer)) + answer)
            await writer.drain()

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


async def _read_frame(received: bytearray, reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the size of the next frame, and the frame; leave what follows it in `received`.

    A frame that is too large is read to its end, so that its client gets an answer. Its begin is
    returned.
    """
    while len(received) < _FRAME.size:
        await _receive(received, reader)
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
        await _receive(received, reader)


async def _receive(received: bytearray, reader: asyncio.StreamReader) -> None:
    part = await reader.read(_READ_BYTES)
    if not part:
        raise asyncio.IncompleteReadError(bytes(received), None)
    received += part


def _read_framed(size: int, frame: bytes) -> Call:
    """Return the call in a frame. Raise InvalidMessage."""
    if size > _MAX_FRAME:
        raise InvalidMessage(f"A frame has {size} bytes; {_MAX_FRAME} are allowed.")
    return read_call(frame)


class _RepeatedCall:
    """The last question of a client for the state of a statement that has ended.

    Hive's JDBC 2.3 asks again for each row that it reads. The answer cannot change.
    """

    def __init__(self) -> None:
        self._question = self._begin = self._end = b""
        self._until = 0.0

    def find(self, frame: bytes) -> bytes | None:
        """Return the answer to a question that was answered within the last second, or None."""
        if not self._question or time.monotonic() > self._until:
            return None
        if frame[:_STATUS_BYTES] + frame[_STATUS_BYTES + 4 :] != self._question:
            return None
        return self._begin + frame[_STATUS_BYTES : _STATUS_BYTES + 4] + self._end

    def remember(self, frame: bytes, answer: bytes) -> None:
        """Keep an answer. It has the number of the call at the same place as the question."""
        self._question = frame[:_STATUS_BYTES] + frame[_STATUS_BYTES + 4 :]
        self._begin, self._end = answer[:_STATUS_BYTES], answer[_STATUS_BYTES + 4 :]
        self._until = time.monotonic() + _REPEATED_SECONDS


async def _send_sasl(writer: asyncio.StreamWriter, status: int, message: bytes) -> None:
    writer.write(_SASL.pack(status, len(message)) + message)
    await writer.drain()


def _address_of(writer: asyncio.StreamWriter) -> str:
    """Return the IP address of a client."""
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if peer else "unknown"
