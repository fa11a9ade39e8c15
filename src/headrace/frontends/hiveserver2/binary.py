"""HiveServer2 over plain connections: messages in frames, behind a sign-in by SASL PLAIN."""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
from contextlib import suppress

from anyio import to_thread

from headrace.control.identity.credentials import BearerToken, from_password
from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import HeadraceError, Unauthorized
from headrace.frontends.hiveserver2.calls import HiveServer2Calls
from headrace.frontends.hiveserver2.wire import InvalidMessage, measure_message, read_call
from headrace.frontends.servers import Server

_LOG = logging.getLogger("headrace.hiveserver2")
_MAX_FRAME = 16 * 1024 * 1024
"""Largest message of a client in bytes: a statement of 10 MB is allowed."""
_MAX_SASL = 64 * 1024
_SIGN_IN_SECONDS = 30.0
_READ_BYTES = 64 * 1024
_START, _OK, _BAD, _ERROR, _COMPLETE = 1, 2, 3, 4, 5
"""States in the negotiation of SASL in Thrift."""
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
            if first[0] == _START:
                caller = await self._sign_in(first, reader, writer)
                await self._serve_frames(caller, reader, writer)
            else:
                await self._serve_messages(first, reader, writer)
        except (
            asyncio.IncompleteReadError,
            ConnectionError,
            InvalidMessage,
            TimeoutError,
        ) as error:
            _LOG.debug("a connection ends: %s", error)
        except Unauthorized:
            pass  # the client has the error
        except asyncio.CancelledError:
            pass  # the node stops
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def _sign_in(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Caller:
        """Return the caller whom the client names by SASL PLAIN."""
        async with asyncio.timeout(_SIGN_IN_SECONDS):
            _, size = _SASL.unpack(first + await reader.readexactly(_SASL.size - 1))
            mechanism = await self._read_sasl(reader, size)
            if mechanism != b"PLAIN":
                _send_sasl(writer, _BAD, b"Only the mechanism PLAIN is supported.")
                await writer.drain()
                raise Unauthorized("The mechanism is not PLAIN.")
            status, size = _SASL.unpack(await reader.readexactly(_SASL.size))
            message = await self._read_sasl(reader, size)
        try:
            if status not in {_OK, _COMPLETE}:
                raise Unauthorized("The client has ended the sign-in.")
            address = writer.get_extra_info("peername")[0]
            caller = await to_thread.run_sync(self._identify, message, address)
        except HeadraceError as error:
            _send_sasl(writer, _BAD, f"[{error.code}] {error.message}".encode())
            await writer.drain()
            raise Unauthorized(error.message) from None
        _send_sasl(writer, _COMPLETE, b"")
        await writer.drain()
        return caller

    async def _read_sasl(self, reader: asyncio.StreamReader, size: int) -> bytes:
        if size > _MAX_SASL:
            raise InvalidMessage(f"A message of SASL has {size} bytes.")
        return await reader.readexactly(size)

    def _identify(self, message: bytes, address: str) -> Caller:
        try:
            _authorization, user, password = message.decode().split("\0")
        except (UnicodeDecodeError, ValueError):
            raise Unauthorized("The message of SASL PLAIN has not its three parts.") from None
        authenticator = self._node.authenticator
        if authenticator.is_open:
            return authenticator.identify(None)
        if self._node.settings.auth.ldap is None or password.count(".") == 2:
            return authenticator.identify(BearerToken(password))
        return authenticator.identify(from_password(user, password, address))

    async def _serve_frames(
        self, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            (size,) = _FRAME.unpack(await reader.readexactly(_FRAME.size))
            if size > _MAX_FRAME:
                raise InvalidMessage(f"A frame has {size} bytes; {_MAX_FRAME} are allowed.")
            answer = await self._calls.answer(caller, read_call(await reader.readexactly(size)))
            writer.write(_FRAME.pack(len(answer)) + answer)
            await writer.drain()

    async def _serve_messages(
        self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a client without SASL: it is who runs the node, if that needs no credentials."""
        received = bytearray(data)
        caller = await to_thread.run_sync(self._node.authenticator.identify, None)
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


def _send_sasl(writer: asyncio.StreamWriter, status: int, message: bytes) -> None:
    writer.write(_SASL.pack(status, len(message)) + message)
