"""The server of Flight SQL: gRPC by pyarrow, in threads of its own.

A ticket names a statement, and a prepared handle holds its text: the server keeps nothing, so that
any node answers any call.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from headrace.control.identity.credentials import BearerToken
from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import AlreadyEnded, HeadraceError, Unauthorized
from headrace.frontends.flight_sql.listings import LISTINGS, list_objects
from headrace.frontends.flight_sql.messages import (
    FlightCommand,
    InvalidFlightMessage,
    read_command,
    read_fields,
    write_command,
    write_field,
)
from headrace.frontends.servers import Server
from headrace.grammar.parse import parse
from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.statement import Statement, StatementSpec
from headrace.results.batches import apply_schema, split_batch
from headrace.results.layout import build_client_schema
from headrace.results.schema import parse_schema

_MIDDLEWARE = "headrace"
_MAX_BATCH = 8 * 1024 * 1024
"""Largest size of the batch of a message: clients refuse messages above 16 MiB."""
_MAX_ERROR = 600
"""Largest error in bytes. It is twice in the headers of a response, of which gRPC takes few KB."""
_WAIT_SECONDS = 1.0
"""Time after which a call looks whether its client is still there."""
_AFFECTED = "num_affected_rows"
_CANCELLED, _NOT_CANCELLABLE = 1, 3


class _CallMiddleware(fl.ServerMiddleware):  # type: ignore[misc]
    """The caller of one call, and the token that a sign-in is answered with."""

    def __init__(self, caller: Caller, token: str | None) -> None:
        self.caller = caller
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        return {} if self._token is None else {"authorization": f"Bearer {self._token}"}


class _SignIn(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Finds the caller of each call by its header `authorization`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> _CallMiddleware:
        with _errors():
            value = next(iter(headers.get("authorization", [])), None)
            token = None if value is None else _read_token(str(value))
            credentials = None if token is None else BearerToken(token)
            caller = self._node.authenticator.identify(credentials)
        # Some clients take a new token from any reply; only a sign-in gets one.
        is_sign_in = info.method == fl.FlightMethod.HANDSHAKE
        return _CallMiddleware(caller, token if is_sign_in else None)


class _Handshake(fl.ServerAuthHandler):  # type: ignore[misc]
    """Lets the handshake succeed: the headers have signed the caller in."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        pass

    def is_valid(self, token: bytes) -> bytes:
        del token
        return b""


def _read_token(header: str) -> str:
    """Return the token in a header: that of `Bearer`, or the password of `Basic`."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        raise Unauthorized("The header authorization needs Basic or Bearer.")
    try:
        # ADBC leaves the padding out; what is too much is ignored.
        user, _, password = (
            base64.b64decode(value.strip() + "==", validate=False).decode().partition(":")
        )
    except (binascii.Error, UnicodeDecodeError):
        raise Unauthorized("The header authorization cannot be read.") from None
    if user != "token":
        raise Unauthorized("Flight SQL needs a token: the user is token, and it is the password.")
    return password


@contextmanager
def _errors(statement_id: str | None = None) -> Iterator[None]:
    """Translate errors of Headrace to those of Flight."""
    try:
        yield
    except Unauthorized as error:
        raise fl.FlightUnauthenticatedError(_error_text(Failure.with_hint(error))) from None
    except HeadraceError as error:
        raise _flight_error(Failure.with_hint(error), statement_id) from None


def _flight_error(failure: Failure, statement_id: str | None) -> Exception:
    text = _error_text(failure, statement_id)
    # Of an error of another class, pyarrow sends the stack trace.
    kind = fl.FlightServerError if failure.code != "cancelled" else fl.FlightCancelledError
    return kind(text)  # type: ignore[no-any-return]


def _error_text(failure: Failure, statement_id: str | None = None) -> str:
    end = "" if statement_id is None else f" (statement {statement_id})"
    text = f"[{failure.code}] {failure.describe()}"
    cut = text.encode()[: _MAX_ERROR - len(end)].decode("utf-8", "ignore")
    return cut + end


class _FlightService(fl.FlightServerBase):  # type: ignore[misc]
    """The calls of Flight. Each runs in a thread of gRPC."""

    def __init__(
        self,
        node: Node,
        location: str,
        certificates: Sequence[tuple[bytes, bytes]],
        client_ca: bytes | None,
    ) -> None:
        super().__init__(
            location,
            auth_handler=_Handshake(),
            middleware={_MIDDLEWARE: _SignIn(node)},
            tls_certificates=list(certificates),
            verify_client=client_ca is not None,
            root_certificates=client_ca,
        )
        self._node = node

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        with _errors():
            command = read_command(descriptor.command or b"")
            if command.name in LISTINGS:
                schema = LISTINGS[command.name](command)
                return _flight_info(schema, descriptor, descriptor.command, -1)
            if command.name not in {"CommandStatementQuery", "CommandPreparedStatementQuery"}:
                raise InvalidFlightMessage(f"{command.name} is not supported.")
        statement = self._run(context, StatementSpec(text=command.text(1) or ""))
        assert statement.result is not None
        ticket = write_command("TicketStatementQuery", write_field(1, statement.id))
        count = statement.result.row_count
        return _flight_info(_schema_of(statement), descriptor, ticket, count)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        with _errors():
            command = read_command(descriptor.command or b"")
            if command.name not in LISTINGS:
                raise InvalidFlightMessage(f"{command.name} has no schema before it runs.")
            del context
            return fl.SchemaResult(LISTINGS[command.name](command))

    def do_get(self, context: Any, ticket: Any) -> Any:
        with _errors():
            command = read_command(ticket.ticket)
            if command.name in LISTINGS:

                def run(text: str) -> list[dict[str, Any]]:
                    return self._read_all(context, text)

                return fl.RecordBatchStream(list_objects(command, run))
            if command.name != "TicketStatementQuery":
                raise InvalidFlightMessage(f"{command.name} is no ticket.")
            caller, statement_id = _caller_of(context), command.text(1) or ""
            statement = self._node.statements.get(caller, statement_id)
            with _errors(statement.id):
                rows = self._node.statements.open_result(caller, statement)
            schema = _schema_of(statement)
            return fl.GeneratorStream(schema, _stream(rows.batches(), schema, statement.id))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        with _errors():
            command = read_command(descriptor.command or b"")
            if command.name not in {"CommandStatementUpdate", "CommandPreparedStatementUpdate"}:
                raise InvalidFlightMessage(
                    f"{command.name} is not supported: parameters cannot be bound."
                )
            if command.name.startswith("CommandPrepared") and any(
                chunk.data is not None and chunk.data.num_columns for chunk in reader
            ):
                raise InvalidFlightMessage("Parameters cannot be bound by Flight SQL.")
        statement = self._run(context, StatementSpec(text=command.text(1) or ""))
        writer.write(write_field(1, self._count_changed(context, statement)))

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        del context
        return [
            ("CreatePreparedStatement", "Prepares a statement; it does not run."),
            ("ClosePreparedStatement", "Closes a prepared statement."),
            ("CancelFlightInfo", "Cancels a statement."),
        ]

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        with _errors():
            body = action.body.to_pybytes()
            match action.type:
                case "CreatePreparedStatement":
                    text = read_command(body).text(1) or ""
                    # Nothing is analysed: Spark runs commands while it plans them.
                    parsed = parse(text, reserved=self._node.settings.reserved_statements)
                    result = write_field(1, text) + write_field(4, int(not parsed.is_query))
                    name = "ActionCreatePreparedStatementResult"
                    return iter([write_command(name, result)])
                case "ClosePreparedStatement":
                    return iter([])
                case "CancelFlightInfo":
                    return iter([write_field(1, self._cancel(context, body))])
                case _:
                    raise InvalidFlightMessage(f"The action {action.type} is not supported.")

    def _cancel(self, context: Any, body: bytes) -> int:
        """Cancel the statement of a `CancelFlightInfoRequest`; return the status."""
        info = fl.FlightInfo.deserialize(FlightCommand("", read_fields(body)).data(1) or b"")
        command = read_command(info.endpoints[0].ticket.ticket)
        try:
            self._node.statements.cancel(_caller_of(context), command.text(1) or "")
        except AlreadyEnded:
            return _NOT_CANCELLABLE
        return _CANCELLED

    def _run(self, context: Any, spec: StatementSpec) -> Statement:
        """Run a statement to its end. It is cancelled if its client is gone."""
        caller = _caller_of(context)
        statements = self._node.statements
        with _errors():
            statement = statements.submit(caller, spec, awaited=True)
        with _errors(statement.id):
            while statement.state not in STATEMENT.terminal:
                if context.is_cancelled():
                    with suppress(AlreadyEnded):
                        statements.cancel(caller, statement.id)
                    raise fl.FlightCancelledError(f"Statement {statement.id} is cancelled.")
                statement = statements.wait(caller, statement.id, _WAIT_SECONDS)
        if statement.state is not StatementState.SUCCESS:
            failure = statement.failure or Failure(
                code=str(statement.state), message=f"The statement is {statement.state}."
            )
            raise _flight_error(failure, statement.id)
        return statement

    def _read_all(self, context: Any, text: str) -> list[dict[str, Any]]:
        statement = self._run(context, StatementSpec(text=text))
        with _errors(statement.id):
            rows = self._node.statements.open_result(_caller_of(context), statement)
            names = rows.schema.names
            return [
                dict(zip(names, row.values(), strict=True))
                for batch in rows.batches()
                for row in batch.to_pylist()
            ]

    def _count_changed(self, context: Any, statement: Statement) -> int:
        """Return the number of rows that a statement has changed; -1: Spark does not say."""
        if _schema_of(statement).names[:1] != [_AFFECTED]:
            return -1
        rows = self._node.statements.open_result(_caller_of(context), statement)
        return int(next(rows.batches()).column(0)[0].as_py())


def _caller_of(context: Any) -> Caller:
    caller: Caller = context.get_middleware(_MIDDLEWARE).caller
    return caller


def _flight_info(schema: pa.Schema, descriptor: Any, ticket: bytes, rows: int) -> Any:
    # Without a location: the client reads from where it has asked.
    return fl.FlightInfo(schema, descriptor, [fl.FlightEndpoint(ticket, [])], rows, -1)


def _schema_of(statement: Statement) -> pa.Schema:
    assert statement.result is not None
    spark = statement.result.spark_schema
    return build_client_schema(parse_schema(spark), json.dumps(spark))


def _stream(batches: Any, schema: pa.Schema, statement_id: str) -> Iterator[pa.RecordBatch]:
    with _errors(statement_id):
        for batch in batches:
            for part in split_batch(batch, _MAX_BATCH):
                yield apply_schema(part, schema)


class FlightSqlServer(Server):
    """Serves Flight SQL at a port."""

    def __init__(
        self,
        node: Node,
        host: str,
        port: int,
        certificate: tuple[bytes, bytes] | None = None,
        client_ca: bytes | None = None,
    ) -> None:
        """Create it; nothing listens yet.

        Args:
            certificate: The certificate and its key, in PEM; None: without TLS.
            client_ca: CAs of clients, which must then present a certificate.
        """
        self._create: Callable[[], _FlightService] = lambda: _FlightService(
            node,
            f"{'grpc' if certificate is None else 'grpc+tls'}://"
            f"{f'[{host}]' if ':' in host else host}:{port}",
            [] if certificate is None else [certificate],
            client_ca,
        )
        self._service: _FlightService | None = None

    @property
    def port(self) -> int:
        """Port at which the server listens."""
        assert self._service is not None
        port: int = self._service.port
        return port

    async def start(self) -> None:
        """Listen."""
        self._service = await asyncio.to_thread(self._create)

    async def stop(self) -> None:
        """Wait for the open calls, and accept no more."""
        assert self._service is not None
        await asyncio.to_thread(self._service.shutdown)
