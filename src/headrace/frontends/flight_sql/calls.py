"""The calls of Flight SQL, answered by the services of `control`.

A ticket names a statement, and the handle of a prepared statement holds its text and its values:
the server keeps nothing, so that any node answers any call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from anyio import to_thread

from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import (
    AlreadyEnded,
    ConnectionNotFound,
    HeadraceError,
    InvalidRequest,
)
from headrace.frontends.flight_sql.listings import (
    LISTINGS,
    describe_columns,
    list_objects,
    schema_of,
)
from headrace.frontends.flight_sql.messages import (
    FlightCommand,
    FlightInfo,
    InvalidFlightMessage,
    has_columns,
    read_command,
    read_data,
    read_fields,
    write_command,
    write_data,
    write_descriptor,
    write_double,
    write_field,
    write_schema,
)
from headrace.frontends.flight_sql.parameters import Markers, read_rows
from headrace.frontends.flight_sql.sign_in import PROTOCOL, SignedIn
from headrace.grammar.lexer import Token, code_tokens
from headrace.grammar.parse import ParsedStatement, parse
from headrace.grammar.quoting import quote_name
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.statement import Parameter, Statement, StatementSpec
from headrace.results.batches import split_batch
from headrace.results.reader import Rows

_MAX_BATCH = 8 * 1024 * 1024
"""Largest size of the batch of a message: clients refuse messages above 16 MiB."""
_MAX_PUT = 64 * 1024 * 1024
"""Largest size of the rows that a client binds."""
_MAX_BOUND_ROWS = 1000
"""Largest number of rows that a client binds: each is a statement."""
_WAIT_SECONDS = 3600.0
_POLL_SECONDS = 5.0
"""Longest time that a poll waits for the end of a statement."""
_AFFECTED = "num_affected_rows"
_CANCELLED, _NOT_CANCELLABLE = 1, 3
_INVALID_NAME, _INVALID_VALUE = 1, 2
_CLOSED = 1
_PROGRESS = 3
_TICKET = "TicketStatementQuery"
_QUERY_COMMANDS = ("CommandStatementQuery", "CommandPreparedStatementQuery")
_UPDATE_COMMANDS = ("CommandStatementUpdate", "CommandPreparedStatementUpdate")
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_DEFINITIONS = frozenset(
    {
        *("ALTER", "COMMENT", "CREATE", "DECLARE", "DROP", "GRANT", "REPLACE", "REVOKE"),
        *("ADD", "ANALYZE", "CACHE", "CLEAR", "LOAD", "MSCK", "REFRESH", "RESET", "TRUNCATE"),
        *("UNCACHE", "USE"),
    }
)
"""First words of statements that have no rows, besides those above."""
_ANALYSED = frozenset({"SELECT", "VALUES", "WITH", "FROM", "TABLE", "("})
"""First words of queries, whose columns are known before they run."""
_CATALOG, _SCHEMA = "catalog", "schema"
_NO_COLUMNS = pa.schema([])
_UNKNOWN = pa.schema([pa.field("result", pa.string())])
"""Columns of a prepared statement that are not known, such as those of SHOW. JDBC takes a statement
without columns for an update."""


class NodeStopping(HeadraceError):
    """The node stops. The statement continues: read it at another node."""

    code = "node_stopping"
    status = 503


class NotSupported(InvalidRequest):
    """Headrace does not have this call of Flight SQL."""

    code = "not_supported"
    status = 501


class UnsuccessfulStatement(Exception):
    """A statement did not succeed."""

    def __init__(self, failure: Failure, statement_id: str) -> None:
        super().__init__(failure.text)
        self.failure = failure
        self.statement_id = statement_id


class FlightCall(NamedTuple):
    """One call, and its sender."""

    sender: SignedIn
    check: Callable[[], Any]
    """Raises Unauthorized if the credentials of the sender are not valid any more."""

    @property
    def caller(self) -> Caller:
        """The sender as the services see it."""
        return self.sender.caller


class _Text(NamedTuple):
    """The text of a statement, read once."""

    text: str
    tokens: list[Token]
    parsed: ParsedStatement

    @property
    def first(self) -> str:
        """Its first word."""
        return self.tokens[0].word

    @property
    def has_no_rows(self) -> bool:
        """Whether it has none, as far as its words say."""
        if self.first in {"WITH", "FROM"}:
            return any(token.word in _CHANGES for token in self.tokens)
        return self.first in _CHANGES | _DEFINITIONS

    @property
    def is_analysed(self) -> bool:
        """Whether its columns can be known before it runs."""
        is_own = self.parsed.command is not None
        return self.parsed.is_query and not is_own and self.first in _ANALYSED


class _Prepared(NamedTuple):
    """A prepared statement, as its handle holds it."""

    text: str
    rows: list[list[Parameter]] | None
    """Values that are bound; None: none were."""

    def write(self) -> bytes:
        content = write_field(1, self.text)
        if self.rows is not None:
            rows = [[each.model_dump() for each in row] for row in self.rows]
            content += write_field(2, json.dumps(rows))
        return content

    @classmethod
    def read(cls, handle: bytes) -> _Prepared:
        fields = FlightCommand("the handle", read_fields(handle))
        rows = fields.text(2)
        try:
            listed = None if rows is None else json.loads(rows)
            bound = listed and [[Parameter(**each) for each in row] for row in listed]
        except (ValueError, TypeError):
            raise InvalidFlightMessage("The handle is no prepared statement.") from None
        return cls(fields.text(1) or "", bound)


class FlightCalls:
    """Answers the calls of all clients of one node. Its methods run on the event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._tasks: set[asyncio.Task[None]] = set()
        self._actions = {
            "CreatePreparedStatement": ("Prepares a statement; it does not run.", self._prepare),
            "ClosePreparedStatement": ("Closes a prepared statement.", self._close_prepared),
            "CancelFlightInfo": ("Cancels a statement.", self._cancel),
            "CancelQuery": ("Cancels a statement.", self._cancel_query),
            "SetSessionOptions": ("Sets the current catalog and schema.", self._set_options),
            "GetSessionOptions": ("Returns the current catalog and schema.", self._get_options),
            "CloseSession": ("Closes the connection. Its statements run on.", self._close_session),
        }

    @property
    def actions(self) -> dict[str, str]:
        """Names of actions, and what they do."""
        return {name: text for name, (text, _action) in self._actions.items()}

    async def get_info(self, call: FlightCall, command_bytes: bytes) -> bytes:
        """Run a statement to its end. Return the message `FlightInfo`."""
        command = read_command(command_bytes)
        if command.name in LISTINGS:
            return FlightInfo(schema_of(command), command_bytes, command_bytes).write()
        if command.name == _TICKET:
            statement = await self._get(call, command)
            return (await self._info_of(await self._finish(call, statement.id))).write()
        return (await self._info_of(await self._run(call, self._spec_of(command)))).write()

    async def poll_info(self, call: FlightCall, command_bytes: bytes) -> bytes:
        """Start a statement, or look after it. Return the message `PollInfo`."""
        command = read_command(command_bytes)
        if command.name in LISTINGS:
            info = FlightInfo(schema_of(command), command_bytes, command_bytes)
            return write_field(1, info.write()) + _write_progress(1.0)
        if command.name == _TICKET:
            statement = await self._get(call, command)
        else:
            statement = await self._submit(call, self._spec_of(command))
        statements = self._node.async_statements
        statement = await statements.wait(call.caller, statement.id, _POLL_SECONDS)
        if statement.state in STATEMENT.terminal:
            ended = await self._info_of(_check_success(statement))
            return write_field(1, ended.write()) + _write_progress(1.0)
        handle = _write_ticket(statement)
        info = FlightInfo(None, handle, None)
        descriptor = write_field(2, write_descriptor(handle))
        return write_field(1, info.write()) + descriptor + _write_progress(_progress_of(statement))

    async def get_schema(self, call: FlightCall, command_bytes: bytes) -> bytes:
        """Return the message `SchemaResult`. The statement does not run."""
        command = read_command(command_bytes)
        if command.name in LISTINGS:
            return write_field(1, write_schema(schema_of(command)))
        if command.name == _TICKET:
            statement = await self._get(call, command)
            info = await self._info_of(await self._finish(call, statement.id))
            return write_field(1, write_schema(info.schema or _NO_COLUMNS))
        spec = self._spec_of(command)
        schema = await self._analyse(call, self._read_text(spec.text), spec.parameters)
        return write_field(1, write_schema(schema or _NO_COLUMNS))

    async def get(self, call: FlightCall, ticket: bytes) -> AsyncIterator[bytes]:
        """Yield the rows of a ticket, as messages `FlightData`."""
        command = read_command(ticket)
        if command.name in LISTINGS:
            table = await list_objects(command, partial(self._read_all, call))
            yield write_data(table.schema.serialize())
            for batch in table.to_batches():
                yield write_data(batch.serialize())
            return
        statement = _check_success(await self._get(call, command))
        reads = self._node.async_statements.select_reads(statement)
        try:
            rows = await reads.run(self._node.statements.open_result, call.caller, statement)
            yield write_data(describe_columns(rows.schema.spark).serialize())
            messages = _write_rows(rows)
            # The next message is read while the client receives this one.
            following = asyncio.ensure_future(reads.run(next, messages, None))
            try:
                while (message := await following) is not None:
                    following = asyncio.ensure_future(reads.run(next, messages, None))
                    await call.check()
                    yield message
            finally:
                following.cancel()
        except HeadraceError as error:
            raise UnsuccessfulStatement(Failure.with_hint(error), statement.id) from None

    async def do_put(
        self, call: FlightCall, first: bytes, following: AsyncIterator[bytes]
    ) -> list[bytes]:
        """Run an update, or bind values. Return messages `PutResult`."""
        data = FlightCommand("FlightData", read_fields(first))
        descriptor = FlightCommand("FlightDescriptor", read_fields(data.data(1) or b""))
        command = read_command(descriptor.data(2) or b"")
        if command.name == "CommandStatementUpdate":
            # Some clients end their stream only after the answer.
            count = await self._update(call, [self._spec_of(command)])
            return [write_field(1, write_field(1, count))]
        if command.name not in {*_QUERY_COMMANDS, *_UPDATE_COMMANDS}:
            raise NotSupported(
                f"{command.name} is not supported.",
                hint="Write rows with INSERT, or load files: `headrace load`.",
            )
        prepared = _Prepared.read(command.data(1) or b"")
        rows = await _read_bound(first, following)
        if command.name == "CommandPreparedStatementQuery":
            bound = prepared if rows is None else prepared._replace(rows=rows)
            return [write_field(1, write_field(1, bound.write()))]
        rows = prepared.rows if rows is None else rows
        specs = [self._bind(prepared.text, row) for row in ([[]] if rows is None else rows)]
        return [write_field(1, write_field(1, await self._update(call, specs)))]

    async def act(self, call: FlightCall, name: str, body: bytes) -> list[bytes]:
        """Do an action. Return the bodies of its results."""
        if name not in self._actions:
            raise NotSupported(f"The action {name[:100]!r} is not supported.")
        return await self._actions[name][1](call, body)

    # Statements

    async def _submit(self, call: FlightCall, spec: StatementSpec) -> Statement:
        """Submit a statement in the connection of its sender, which is stored if it is new.

        A query of a client that has only been offered a connection runs in none: the client may
        never name the connection, and nothing is set in it yet.
        """
        statement_id = new_id("st")
        is_alone = call.sender.is_offered and self._read_text(spec.text).parsed.is_query
        connection = None if is_alone else call.sender.connection
        submit = partial(
            self._node.statements.submit,
            call.caller,
            spec,
            connection=connection,
            statement_id=statement_id,
            awaited=True,
        )

        def submit_in_connection() -> Statement:
            try:
                return submit()
            except ConnectionNotFound:
                assert connection is not None
                open_ = self._node.connections.open_named
                open_(call.caller, connection, protocol=PROTOCOL)
                return submit()

        submitting = asyncio.ensure_future(to_thread.run_sync(submit_in_connection))
        try:
            return await asyncio.shield(submitting)
        except asyncio.CancelledError:
            self._abandon(call.caller, statement_id, submitting)
            raise

    async def _finish(self, call: FlightCall, statement_id: str) -> Statement:
        """Return a statement when it has succeeded. Raise UnsuccessfulStatement, NodeStopping."""
        statements = self._node.async_statements
        while True:
            statement = await statements.wait(call.caller, statement_id, _WAIT_SECONDS)
            if statement.state in STATEMENT.terminal:
                return _check_success(statement)
            if statements.stopping:
                error = NodeStopping()
                raise UnsuccessfulStatement(Failure.with_hint(error), statement_id)

    async def _run(self, call: FlightCall, spec: StatementSpec) -> Statement:
        """Run a statement to its end. It is cancelled if the client cancels the call."""
        statement = await self._submit(call, spec)
        try:
            return await self._finish(call, statement.id)
        except asyncio.CancelledError:
            self._abandon(call.caller, statement.id)
            raise

    def _abandon(
        self, caller: Caller, statement_id: str, submitting: asyncio.Future[Statement] | None = None
    ) -> None:
        """Cancel the statement of a client that has gone, unless it is the node that stops."""
        if self._node.async_statements.stopping:
            return

        async def cancel() -> None:
            with suppress(HeadraceError):
                if submitting is not None:
                    await submitting
                await to_thread.run_sync(self._node.statements.cancel, caller, statement_id)

        task = asyncio.get_running_loop().create_task(cancel())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _get(self, call: FlightCall, command: FlightCommand) -> Statement:
        if command.name != _TICKET:
            raise InvalidFlightMessage(f"{command.name[:100]} is no ticket.")
        return await self._node.async_statements.get(call.caller, command.text(1) or "")

    async def _info_of(self, statement: Statement) -> FlightInfo:
        assert statement.result is not None
        schema = describe_columns(statement.result.spark_schema)
        ticket = _write_ticket(statement)
        return FlightInfo(schema, ticket, ticket, statement.result.row_count)

    def _read_text(self, text: str) -> _Text:
        parsed = parse(text, reserved=self._node.settings.reserved_statements)
        tokens = [token for token in code_tokens(text) if token.word != ";"]
        return _Text(text, tokens, parsed)

    def _spec_of(self, command: FlightCommand) -> StatementSpec:
        """Return the statement of a command. Raise InvalidRequest if several rows are bound."""
        if command.name in {"CommandStatementQuery", "CommandStatementUpdate"}:
            if command.data(2):
                raise NotSupported("Transactions are not supported: each statement is one.")
            return StatementSpec(text=command.text(1) or "")
        if command.name not in {*_QUERY_COMMANDS, *_UPDATE_COMMANDS}:
            raise NotSupported(f"{command.name[:100]} is not supported.")
        prepared = _Prepared.read(command.data(1) or b"")
        rows = prepared.rows or [[]]
        if len(rows) > 1:
            raise InvalidRequest(
                f"{len(rows)} rows of parameters are bound to a query.",
                hint="Execute it once for each row.",
            )
        return self._bind(prepared.text, rows[0])

    def _bind(self, text: str, row: Sequence[Parameter]) -> StatementSpec:
        if not row:
            return StatementSpec(text=text)
        read = self._read_text(text)
        return StatementSpec(text=text, parameters=Markers(text, read.tokens).bind(row))

    async def _update(self, call: FlightCall, specs: Sequence[StatementSpec]) -> int:
        """Run statements; return the number of rows that they have changed; -1: not known."""
        counts = [await self._count_changed(call, await self._run(call, spec)) for spec in specs]
        return -1 if -1 in counts else sum(counts)

    async def _count_changed(self, call: FlightCall, statement: Statement) -> int:
        assert statement.result is not None
        fields = statement.result.spark_schema["fields"]
        if fields and fields[0]["name"] == _AFFECTED:
            rows = await self._read_rows(call, statement)
            return int(rows[0][_AFFECTED])
        if statement.rows_written is not None:
            return statement.rows_written
        text = self._read_text(statement.spec.text)
        return -1 if any(token.word in _CHANGES for token in text.tokens[:1]) else 0

    async def _read_all(self, call: FlightCall, text: str) -> list[dict[str, Any]]:
        """Run a statement of the node's own, and return its rows."""
        return await self._read_rows(call, await self._run(call, StatementSpec(text=text)))

    async def _read_rows(self, call: FlightCall, statement: Statement) -> list[dict[str, Any]]:
        reads = self._node.async_statements.select_reads(statement)

        def read() -> list[dict[str, Any]]:
            rows = self._node.statements.open_result(call.caller, statement)
            names = rows.schema.names
            return [
                dict(zip(names, row.values(), strict=True))
                for batch in rows.batches()
                for row in batch.to_pylist()
            ]

        return await reads.run(read)

    # Actions

    async def _prepare(self, call: FlightCall, body: bytes) -> list[bytes]:
        request = read_command(body)
        if request.data(2):
            raise NotSupported("Transactions are not supported: each statement is one.")
        read = self._read_text(request.text(1) or "")
        markers = Markers(read.text, read.tokens)
        result = write_field(1, _Prepared(read.text, None).write())
        schema = await self._analyse(call, read, markers.nulls)
        if schema is None and not read.has_no_rows:
            schema = _UNKNOWN
        if schema is not None:
            result += write_field(2, write_schema(schema))
        if markers.nulls:
            result += write_field(3, write_schema(markers.schema))
        result += write_field(4, int(read.has_no_rows))
        return [write_command("ActionCreatePreparedStatementResult", result)]

    async def _analyse(
        self, call: FlightCall, read: _Text, parameters: Sequence[Parameter]
    ) -> pa.Schema | None:
        """Return the columns of a query, without a run; None: they are not known.

        Raises UnsuccessfulStatement if Spark refuses it. With NULL as a parameter, that proves
        nothing.
        """
        if not read.is_analysed:
            return None
        # Spark replaces a query with LIMIT 0 by nothing while it optimises the plan.
        text = f"({read.text[: read.tokens[-1].end]}) LIMIT 0"
        try:
            spec = StatementSpec(text=text, parameters=list(parameters))
            statement = await self._run(call, spec)
        except UnsuccessfulStatement as error:
            if parameters:
                return None
            failure = error.failure
            if failure.line == 1 and failure.column is not None and failure.column > 1:
                failure = failure.model_copy(update={"column": failure.column - 1})
            raise UnsuccessfulStatement(failure, error.statement_id) from None
        return (await self._info_of(statement)).schema

    async def _close_prepared(self, _call: FlightCall, _body: bytes) -> list[bytes]:
        return []

    async def _cancel(self, call: FlightCall, body: bytes) -> list[bytes]:
        info = FlightCommand("", read_fields(body)).data(1) or b""
        return [write_field(1, await self._cancel_info(call, info))]

    async def _cancel_query(self, call: FlightCall, body: bytes) -> list[bytes]:
        status = await self._cancel_info(call, read_command(body).data(1) or b"")
        return [write_command("ActionCancelQueryResult", write_field(1, status))]

    async def _cancel_info(self, call: FlightCall, info: bytes) -> int:
        """Cancel the statement that a message `FlightInfo` names; return the status."""
        fields = FlightCommand("FlightInfo", read_fields(info))
        endpoint = FlightCommand("", read_fields(fields.data(3) or b""))
        ticket = FlightCommand("", read_fields(endpoint.data(1) or b"")).data(1)
        if ticket is None:  # it was polled, and has no rows yet
            ticket = FlightCommand("", read_fields(fields.data(2) or b"")).data(2)
        command = read_command(ticket or b"")
        if command.name in LISTINGS:
            return _NOT_CANCELLABLE
        statement = await self._get(call, command)
        try:
            await to_thread.run_sync(self._node.statements.cancel, call.caller, statement.id)
        except AlreadyEnded:
            return _NOT_CANCELLABLE
        return _CANCELLED

    async def _set_options(self, call: FlightCall, body: bytes) -> list[bytes]:
        """Change the current catalog, and then the current schema. Return the errors by option."""
        options = _read_options(body)
        errors = {name: _INVALID_NAME for name in options if name not in {_CATALOG, _SCHEMA}}
        for name, statement in ((_CATALOG, "SET CATALOG"), (_SCHEMA, "USE NAMESPACE")):
            value = options.get(name)
            if name not in options or (name == _SCHEMA and _CATALOG in errors):
                continue
            if not value:
                errors[name] = _INVALID_VALUE
                continue
            parts = [value] if name == _CATALOG else value.split(".")
            text = f"{statement} {'.'.join(map(quote_name, parts))}"
            try:
                await self._run(call, StatementSpec(text=text))
            except UnsuccessfulStatement:
                errors[name] = _INVALID_VALUE
        entries = [
            write_field(1, write_field(1, name) + write_field(2, write_field(1, code)))
            for name, code in errors.items()
        ]
        return [b"".join(entries)]

    async def _get_options(self, call: FlightCall, _body: bytes) -> list[bytes]:
        query = "SELECT current_catalog() AS catalog, current_schema() AS schema"
        (row,) = await self._read_all(call, query)
        entries = [
            write_field(1, write_field(1, name) + write_field(2, write_field(1, str(value))))
            for name, value in row.items()
        ]
        return [b"".join(entries)]

    async def _close_session(self, call: FlightCall, _body: bytes) -> list[bytes]:
        # A client that closes twice has lost the first answer, or has run nothing.
        with suppress(ConnectionNotFound):
            close = self._node.connections.close
            await to_thread.run_sync(close, call.caller, call.sender.connection)
        return [write_field(1, _CLOSED)]


def _check_success(statement: Statement) -> Statement:
    """Return a statement. Raise UnsuccessfulStatement unless it has succeeded."""
    if statement.state is StatementState.SUCCESS:
        return statement
    is_ended = statement.state in STATEMENT.terminal
    failure = statement.failure or Failure(
        code=str(statement.state) if is_ended else "result_not_ready",
        message=f"The statement is {statement.state}.",
    )
    raise UnsuccessfulStatement(failure, statement.id)


def _write_ticket(statement: Statement) -> bytes:
    return write_command(_TICKET, write_field(1, statement.id))


def _progress_of(statement: Statement) -> float:
    progress = statement.progress
    if progress is None or not progress.tasks_total:
        return 0.0
    return min(progress.tasks_done / progress.tasks_total, 1.0)


def _write_progress(value: float) -> bytes:
    return write_double(_PROGRESS, value)


def _write_rows(rows: Rows) -> Iterator[bytes]:
    """Yield messages with the stored batches. Batches have no names: they fit any schema."""
    for batch in rows.batches():
        for part in split_batch(batch, _MAX_BATCH):
            yield write_data(part.serialize())


async def _read_bound(
    first: bytes, following: AsyncIterator[bytes]
) -> list[list[Parameter]] | None:
    """Return the rows that a client binds; None: it binds none.

    Raises InvalidRequest if they are too many, or have a type that Spark does not have.
    """
    if not has_columns(first):
        return None
    messages, size = [first], len(first)
    async for message in following:
        messages.append(message)
        size += len(message)
        if size > _MAX_PUT:
            raise InvalidRequest(f"The parameters have more than {_MAX_PUT} bytes.")
    table = read_data(messages)
    if table.num_rows > _MAX_BOUND_ROWS:
        raise InvalidRequest(
            f"{table.num_rows} rows of parameters are bound, and {_MAX_BOUND_ROWS} are allowed:"
            " each runs as a statement.",
            hint="Load a file: `headrace load`.",
        )
    return read_rows(table)


def _read_options(body: bytes) -> dict[str, str | None]:
    """Return the texts of `SetSessionOptionsRequest`; None: the value is no text."""
    options = {}
    for entry in FlightCommand("", read_fields(body)).fields.get(1, []):
        fields = FlightCommand("SetSessionOptions", read_fields(_as_bytes(entry)))
        value = FlightCommand("SessionOptionValue", read_fields(fields.data(2) or b""))
        options[fields.text(1) or ""] = value.text(1)
    return options


def _as_bytes(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else b""
