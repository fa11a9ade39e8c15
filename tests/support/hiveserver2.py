"""A client of HiveServer2 that shows every byte of the protocol, over HTTP and over a socket."""

from __future__ import annotations

import base64
import itertools
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import func, select
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.scripted_driver import ScriptedDriver
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headrace.frontends.hiveserver2.binary import HiveServer2Server
from headrace.frontends.hiveserver2.handles import Handle, operation_handle
from headrace.frontends.hiveserver2.wire import load_protocol
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment
from headrace.model.result import ResultReport
from headrace.store.tables import connections

THRIFT = load_protocol()
_TYPES = ("boolVal", "byteVal", "i16Val", "i32Val", "i64Val", "doubleVal", "stringVal", "binaryVal")


class UnknownMethod(Exception):
    """The server does not know the call."""


class HiveClient:
    """One client, which numbers its calls as those of Java do. Use `open` first."""

    def __init__(self) -> None:
        self.session: Any = None
        self.operations: list[Any] = []
        self.numbers = itertools.count(1)

    def exchange(self, message: bytes) -> bytes:
        """Send a message, and return the answer."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection, and not the session."""

    def call(self, name: str, *, number: int | None = None, **fields: Any) -> Any:
        """Make a call. `number` repeats that of an earlier call."""
        number = next(self.numbers) if number is None else number
        answer = self.exchange(write_call(name, number, **fields))
        protocol = TCyBinaryProtocol(TCyMemoryBuffer(answer))
        answered, kind, sequence = protocol.read_message_begin()
        assert (answered, sequence) == (name, number)
        if kind == TMessageType.EXCEPTION:
            error = TApplicationException()
            protocol.read_struct(error)
            assert error.type == TApplicationException.UNKNOWN_METHOD
            raise UnknownMethod(name)
        result = getattr(THRIFT.TCLIService, f"{name}_result")()
        protocol.read_struct(result)
        return result.success

    def open(self, version: int = 9, **configuration: str) -> Any:
        """Open a session, and return the response."""
        response = self.call(
            "OpenSession", client_protocol=version, configuration=configuration or None
        )
        self.session = response.sessionHandle
        return response

    def execute(self, text: str, *, run_async: bool = True, **fields: Any) -> Any:
        """Submit a statement, and return the response."""
        response = self.call(
            "ExecuteStatement",
            sessionHandle=self.session,
            statement=text,
            runAsync=run_async,
            **fields,
        )
        if response.operationHandle is not None:
            self.operations.append(response.operationHandle)
        return response

    def close_operations(self) -> None:
        """Close what this client has submitted, which cancels what waits."""
        for operation in self.operations:
            assert self.call("CloseOperation", operationHandle=operation).status.statusCode == 0
        self.operations.clear()

    def status(self, operation: Any) -> Any:
        """Return the state of an operation."""
        return self.call("GetOperationStatus", operationHandle=operation)

    def fetch(
        self, operation: Any, rows: int = 1000, *, orientation: int = 0, **options: Any
    ) -> Any:
        """Return the response to a fetch."""
        return self.call(
            "FetchResults",
            operationHandle=operation,
            orientation=orientation,
            maxRows=rows,
            **options,
        )

    def fetch_log(self, operation: Any, **options: Any) -> list[str]:
        """Return the next lines of the log of an operation."""
        response = self.fetch(operation, fetchType=1, **options)
        assert response.status.statusCode == 0, response.status
        return [line for (line,) in rows_of(response)]

    def fetch_all(self, operation: Any, rows: int = 1000) -> list[tuple[Any, ...]]:
        """Return all rows that follow."""
        found: list[tuple[Any, ...]] = []
        while True:
            response = self.fetch(operation, rows)
            assert response.status.statusCode == 0, response.status
            part = rows_of(response)
            if not part:
                assert not response.hasMoreRows
                return found
            found += part


Connect = Callable[..., HiveClient]
"""Connects as a user, and opens a session with a version of the protocol and a configuration."""


def write_call(name: str, number: int, **fields: Any) -> bytes:
    """Return the message of a call."""
    arguments = getattr(THRIFT.TCLIService, f"{name}_args")()
    arguments.req = arguments.thrift_spec[1][2](**fields)
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer)
    protocol.write_message_begin(name, TMessageType.CALL, number)
    protocol.write_struct(arguments)
    protocol.write_message_end()
    buffer.flush()
    content: bytes = buffer.getvalue()
    return content


def id_of(operation: Any) -> str:
    """Return the id of the statement of an operation."""
    guid = operation.operationId.guid
    return "st_" + (guid if isinstance(guid, bytes) else guid.encode("latin-1")).hex()


def rows_of(response: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a response to FetchResults."""
    return list(zip(*(_values(column) for column in response.results.columns), strict=True))


def _values(column: Any) -> list[Any]:
    [found] = [value for name in _TYPES if (value := getattr(column, name)) is not None]
    nulls = found.nulls if isinstance(found.nulls, bytes) else found.nulls.encode()
    return [
        None if nulls[number // 8] >> number % 8 & 1 else value
        for number, value in enumerate(found.values)
    ]


class HttpClient(HiveClient):
    """A client over HTTP."""

    def __init__(self, http: httpx.Client, token: str) -> None:
        super().__init__()
        self.http = http
        credentials = base64.b64encode(f"token:{token}".encode()).decode()
        self.headers = {
            "Authorization": f"Basic {credentials}",
            "Content-Type": "application/x-thrift",
        }

    def exchange(self, message: bytes) -> bytes:
        response = self.http.post("/cliservice", content=message, headers=self.headers)
        assert response.status_code == 200, response.text
        return response.content


class SocketClient(HiveClient):
    """A client over a socket, which signs in by SASL PLAIN."""

    def __init__(self, port: int, token: str, *, user: str = "token") -> None:
        super().__init__()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.send_sasl(1, b"PLAIN")
        self.send_sasl(2, f"\0{user}\0{token}".encode())
        status, size = struct.unpack("!BI", self.receive(5))
        self.refusal = self.receive(size).decode()
        self.is_signed_in = status == 5

    def close(self) -> None:
        self.socket.close()

    def send_sasl(self, status: int, content: bytes) -> None:
        """Send a message of the sign-in."""
        self.socket.sendall(struct.pack("!BI", status, len(content)) + content)

    def receive(self, size: int) -> bytes:
        """Receive that many bytes. Raise EOFError if the server closes the connection."""
        content = b""
        while len(content) < size:
            part = self.socket.recv(size - len(content))
            if not part:
                raise EOFError
            content += part
        return content

    def exchange(self, message: bytes) -> bytes:
        self.socket.sendall(struct.pack("!I", len(message)) + message)
        (size,) = struct.unpack("!I", self.receive(4))
        return self.receive(size)


class HiveNode:
    """A node with both transports, and the tokens of two users."""

    def __init__(
        self, node: InProcessNode, binary: HiveServer2Server, names: Sequence[str]
    ) -> None:
        self.node = node
        self.binary = binary
        self.tokens = create_tokens(node.database, names)
        self._drivers: dict[str, ScriptedDriver] = {}
        self._claimed: list[Any] = []

    def over_http(self, who: str = "ada") -> HttpClient:
        return HttpClient(self.node.http, self.tokens[who])

    def over_socket(self, who: str = "ada") -> SocketClient:
        return SocketClient(self.binary.port, self.tokens[who])

    def run(self, operation: Any, result: ResultReport | None = None, **fields: Any) -> None:
        """Let the driver claim an operation and report its success."""
        self.claim(operation)
        self.driver_of(operation).succeed(id_of(operation), result, **fields)

    def fail(self, operation: Any, failure: Failure) -> None:
        """Let the driver claim an operation and report its failure."""
        self.claim(operation)
        self.driver_of(operation).report_end(
            id_of(operation), StatementState.FAILED, failure=failure
        )

    def claim(self, operation: Any) -> Assignment:
        """Let the driver claim an operation. It cancels what other tests have left."""
        driver = self.driver_of(operation)
        while (assignment := driver.claim()).statement_id != id_of(operation):
            driver.report_end(assignment.statement_id, StatementState.CANCELLED)
        self._claimed.append(operation)
        return assignment

    def end_claimed(self) -> None:
        """End what the drivers have claimed: a driver runs a few statements at once."""
        for operation in self._claimed:
            driver = self.driver_of(operation)
            driver.report_end(id_of(operation), StatementState.CANCELLED)
        self._claimed.clear()

    def find_waiting(self, text: str) -> Any:
        """Return the handle of the statement with this text that waits; None if there is none."""
        page = self.node.node.statements.page(
            self.node.node.authenticator.local_caller,
            session=None,
            states={StatementState.WAITING},
            before=None,
            id_prefix=None,
            limit=100,
            all_owners=True,
        )
        found = [each.id for each in page.items if each.spec.text == text]
        return operation_handle(Handle(found[0], 9), 0, has_rows=True) if found else None

    def count_open_sessions(self) -> int:
        """Return the number of open sessions of clients."""
        query = select(func.count()).where(connections.c.ended_at.is_(None))
        with self.node.database.read() as tx:
            return int(tx.execute(query).scalar_one())

    def driver_of(self, operation: Any) -> ScriptedDriver:
        """Return the driver of the session in which an operation runs."""
        statement = id_of(operation)
        session = self.node.node.statements.get(
            self.node.node.authenticator.local_caller, statement
        ).session_id
        if session not in self._drivers:
            self._drivers[session] = self.node.launcher.connect_driver(session)
            self._drivers[session].hello()
        return self._drivers[session]


@contextmanager
def serve_hive(
    home: Path, *, users: Sequence[str] = ("ada", "bob"), **changes: Any
) -> Iterator[HiveNode]:
    """Serve a node with both transports, and sign these users in."""
    lease = {"duration": "10m", "cancel_grace": "10m", "sweep": "500ms"}
    settings = make_settings(home, **{"token": "of-the-node", "lease": lease, **changes})
    started: list[HiveServer2Server] = []

    def more_servers(node: Any) -> list[HiveServer2Server]:
        started.append(HiveServer2Server(node, "127.0.0.1", 0))
        return started

    with serve_node(settings, more_servers=more_servers) as node:
        yield HiveNode(node, started[0], users)
