"""Nodes with Flight SQL whose drivers answer by themselves, and a client that shows every byte."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
from tests.support.auto_reply import AutoReplyLauncher
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.made_results import inline_result, stored_result

from headrace.control.identity.authenticator import make_token
from headrace.frontends.flight_sql.messages import (
    FlightCommand,
    read_command,
    read_data,
    read_fields,
    write_command,
    write_data,
    write_descriptor,
    write_field,
)
from headrace.frontends.flight_sql.server import FlightSqlServer
from headrace.model.failure import Failure
from headrace.model.identity import Scope
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment
from headrace.store.identity import tokens, users

COLUMNS = [("n", "long"), ("s", "string")]
SUCCESS = StatementState.SUCCESS


class PlayedSpark:
    """Answers the statements of all drivers, and keeps what it was sent."""

    def __init__(self) -> None:
        self.assignments: list[Assignment] = []
        self.answers: dict[str, Callable[[Assignment], dict[str, Any]]] = {}
        """Answers of texts; others get two rows."""

    def __call__(self, assignment: Assignment) -> dict[str, Any]:
        self.assignments.append(assignment)
        answer = self.answers.get(assignment.text)
        if answer is not None:
            return answer(assignment)
        return succeed(COLUMNS, [[1, "a"], [None, "é"]])(assignment)

    @property
    def texts(self) -> list[str]:
        """Texts of all statements."""
        return [each.text for each in self.assignments]

    def last(self, text: str) -> Assignment:
        """Return the last statement with a text."""
        return next(each for each in reversed(self.assignments) if each.text == text)


def succeed(
    columns: Sequence[tuple[str, Any]], rows: Sequence[Sequence[Any]], **fields: Any
) -> Callable[[Assignment], dict[str, Any]]:
    """Return an answer with rows."""
    return lambda _assignment: {
        "state": SUCCESS,
        "result": inline_result(columns, rows),
        **fields,
    }


def store(batches: list[list[list[Any]]]) -> Callable[[Assignment], dict[str, Any]]:
    """Return an answer with a stored result of a part for each batch."""

    def answer(assignment: Assignment) -> dict[str, Any]:
        assert assignment.result_location is not None
        folder = Path(assignment.result_location)
        made = stored_result(folder, COLUMNS, batches, chunk_limit=1 << 20)
        return {"state": StatementState.SUCCESS, "result": made}

    return answer


def fail(**fields: Any) -> Callable[[Assignment], dict[str, Any]]:
    """Return an answer with a failure that has these fields."""
    failure = Failure(**{"code": "analysis_error", "message": "There is no n.", **fields})
    return lambda _assignment: {"state": StatementState.FAILED, "failure": failure}


class FlightNode:
    """A node with Flight SQL, and the tokens of users."""

    def __init__(self, node: InProcessNode, port: int, spark: PlayedSpark) -> None:
        self.node = node
        self.port = port
        self.spark = spark
        self.tokens: dict[str, str] = {}

    def create_token(self, name: str) -> None:
        """Create a token for a user."""
        with self.node.database.write("test") as tx:
            user = users.sign_in(tx, "corp", name, name=name, groups=())
            new = make_token()
            token = tokens.insert_token(
                tx,
                new.secret_hash,
                owner=user.id,
                name="test",
                scope=Scope.ADMIN,
                seconds=timedelta(days=1).total_seconds(),
                created_by=user.id,
            )
            self.tokens[name] = new.text(token.id)

    def connect(self, who: str = "ada", **headers: str) -> FlightClient:
        """Return a client that has signed in by a handshake, as ADBC does."""
        encoded = base64.b64encode(f"token:{self.tokens[who]}".encode()).decode()
        client = FlightClient(self.port, {"authorization": f"Basic {encoded}", **headers})
        client.handshake()
        return client


@contextmanager
def serve_flight(
    home: Path, spark: PlayedSpark | None = None, *, names: Sequence[str] = (), **changes: Any
) -> Iterator[FlightNode]:
    """Serve a node with Flight SQL, and sign these users in."""
    spark = spark or PlayedSpark()
    changes = {"token": "of-the-node", **changes}
    started: list[FlightSqlServer] = []

    def more_servers(node: Any) -> list[FlightSqlServer]:
        started.append(FlightSqlServer(node, "127.0.0.1", 0, node.settings.tls))
        return started

    settings = make_settings(home, **changes)
    with serve_node(settings, AutoReplyLauncher(spark), more_servers=more_servers) as node:
        served = FlightNode(node, started[0].port, spark)
        for name in names:
            served.create_token(name)
        yield served


class Refused(Exception):
    """An error of the server."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.details())
        self.status = error.code()
        self.text: str = error.details()
        self.trailers = dict(error.trailing_metadata() or ())


class Info:
    """A message `FlightInfo`."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        fields = FlightCommand("FlightInfo", read_fields(content))
        schema = fields.data(1)
        self.schema = None if schema is None else read_schema(schema)
        self.endpoints = fields.fields.get(3, [])
        self.rows = signed(fields.fields[4][-1])
        endpoint = FlightCommand("", read_fields(fields.data(3) or b""))
        self.locations = endpoint.fields.get(2, [])
        self.ticket = FlightCommand("", read_fields(endpoint.data(1) or b"")).data(1)


class Poll:
    """A message `PollInfo`."""

    def __init__(self, content: bytes) -> None:
        fields = FlightCommand("PollInfo", read_fields(content))
        self.info = Info(fields.data(1) or b"")
        descriptor = fields.data(2)
        self.command = None
        if descriptor is not None:
            self.command = FlightCommand("", read_fields(descriptor)).data(2)


class FlightClient:
    """A client that takes new tokens and cookies from replies, as ADBC and JDBC do."""

    def __init__(
        self, port: int, headers: dict[str, str] | None = None, *, takes_tokens: bool = True
    ) -> None:
        self.headers = dict(headers or {})
        self.takes_tokens = takes_tokens
        self.last_headers: dict[str, str] = {}
        options = [("grpc.max_receive_message_length", 16 * 1024 * 1024)]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options)

    def move_to(self, node: FlightNode) -> None:
        """Send the next calls to another node."""
        self.channel = grpc.insecure_channel(f"127.0.0.1:{node.port}")

    def handshake(self) -> None:
        """Sign in."""
        self._call("Handshake", iter([b""]))

    def info(self, name: str, fields: bytes = b"") -> Info:
        """Return the answer to GetFlightInfo."""
        return Info(self.describe("GetFlightInfo", write_command(name, fields)))

    def query(self, text: str) -> Info:
        """Run a query."""
        return self.info("CommandStatementQuery", write_field(1, text))

    def poll(self, command: bytes) -> Poll:
        """Return the answer to PollFlightInfo."""
        return Poll(self.describe("PollFlightInfo", command))

    def describe(self, method: str, command: bytes) -> bytes:
        """Return the answer to a call with a descriptor."""
        return self._call(method, write_descriptor(command))[0]

    def get(self, ticket: bytes | None) -> list[bytes]:
        """Return the messages with the rows of a ticket."""
        return self._call("DoGet", write_field(1, ticket or b""))

    def read(self, ticket: bytes | None) -> pa.Table:
        """Return the rows of a ticket."""
        return read_data(self.get(ticket))

    def list(self, name: str, fields: bytes = b"") -> pa.Table:
        """Return the rows of a command for metadata, whose schema must be that of its info."""
        info = self.info(name, fields)
        table = self.read(info.ticket)
        assert info.schema is not None
        assert table.schema.equals(info.schema, check_metadata=True)
        return table

    def act(self, name: str, body: bytes = b"") -> list[bytes]:
        """Return the results of an action."""
        answers = self._call("DoAction", write_field(1, name) + write_field(2, body))
        return [FlightCommand("", read_fields(answer)).data(1) or b"" for answer in answers]

    def prepare(self, text: str) -> FlightCommand:
        """Return the result of CreatePreparedStatement."""
        body = write_command("ActionCreatePreparedStatementRequest", write_field(1, text))
        return read_command(self.act("CreatePreparedStatement", body)[0])

    def put(self, name: str, fields: bytes, rows: pa.Table | None = None) -> FlightCommand:
        """Return the metadata of the answer to DoPut."""
        begin = write_field(1, write_descriptor(write_command(name, fields)))
        messages = [begin]
        if rows is not None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
            written = [write_data(message.serialize()) for message in reader]
            messages = [begin + written[0], *written[1:]]
        (answer,) = self._call("DoPut", iter(messages))
        return FlightCommand("", read_fields(FlightCommand("", read_fields(answer)).data(1) or b""))

    def update(self, text: str) -> int:
        """Run an update, and return the number of rows."""
        return signed(self.put("CommandStatementUpdate", write_field(1, text)).fields[1][-1])

    def begin(self, method: str, command: bytes) -> Any:
        """Begin a call with a descriptor, which the test can cancel."""
        made = self.channel.unary_unary(f"/arrow.flight.protocol.FlightService/{method}")
        return made.future(write_descriptor(command), metadata=list(self.headers.items()))

    def _call(self, method: str, request: bytes | Iterator[bytes]) -> list[bytes]:
        path = f"/arrow.flight.protocol.FlightService/{method}"
        kind = "unary" if isinstance(request, bytes) else "stream"
        metadata = list(self.headers.items())
        # A unary answer is a stream of one message.
        call = getattr(self.channel, f"{kind}_stream")(path)(request, metadata=metadata, timeout=60)
        try:
            answers = list(call)
        except grpc.RpcError as error:
            raise Refused(error) from None
        finally:
            self.last_headers = dict(call.initial_metadata() or ())
        if self.takes_tokens and "authorization" in self.last_headers:
            self.headers["authorization"] = self.last_headers["authorization"]
        return answers


def read_schema(content: bytes) -> pa.Schema:
    """Return the schema of a message of Arrow IPC."""
    return pa.ipc.read_schema(pa.py_buffer(content))


def signed(value: int | bytes) -> int:
    """Return a number of a message, which may be negative."""
    assert isinstance(value, int)
    return value - (1 << 64) if value >> 63 else value
