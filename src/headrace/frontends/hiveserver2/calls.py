"""The calls of HiveServer2, answered by the services of `control`.

A session of the protocol is a session of Headrace, and an operation is a statement. Every call
names its session or its statement by a handle, so that any node answers it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from anyio import to_thread

from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.control.statements.service import RepeatableRequest
from headrace.errors import (
    AlreadyEnded,
    ConnectionNotFound,
    HeadraceError,
    IdempotencyConflict,
    InvalidRequest,
    StatementNotFound,
)
from headrace.frontends.hiveserver2 import info
from headrace.frontends.hiveserver2.fetches import Fetches, write_lines
from headrace.frontends.hiveserver2.handles import (
    ClientOption,
    Handle,
    UnknownHandle,
    make_id_without_statement,
    operation_handle,
    read_operation,
    read_session,
    session_handle,
)
from headrace.frontends.hiveserver2.listings import (
    MetadataCall,
    encode_types,
    find_hive_show,
    schema_of,
    statement_for,
)
from headrace.frontends.hiveserver2.options import read_conf, read_configuration
from headrace.frontends.hiveserver2.progress import OperationLogs, describe_progress
from headrace.frontends.hiveserver2.types import describe_schema
from headrace.frontends.hiveserver2.wire import (
    STOP,
    Call,
    load_protocol,
    write_field,
    write_reply,
    write_struct,
    write_unknown_method,
)
from headrace.grammar.script import describe_verb
from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.statement import Statement, StatementSpec
from headrace.results.schema import parse_schema

_PROTOCOL = "hiveserver2"
_NEWEST_VERSION = 9
"""Version of the protocol that the node speaks: the tenth, that of Hive 3."""
_HOLD_SECONDS = 5.0
"""Longest time for which a question for the state of a statement waits for its end, as in Hive.
Some clients ask again at once, and dbt only after five seconds."""
_HOLD_WITH_PROGRESS = 0.5
"""The same for clients that draw a progress bar from each answer."""
_FIRST_WITH_PROGRESS = 9
"""Clients with an older version of the protocol, such as PyHive, ask for progress and draw none."""
_WAIT_SECONDS = 3600.0
_TEMPORARY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Refusals of a session that may be tried again. dbt does so if it finds a word in the message."""
_NOT_COUNTED = -1
_MAX_RUNNING = 1000
"""Unfinished statements among which a repeated one is looked for."""
_KEPT_BYTES = 64 * 1024
"""Largest size of the rows that a call brings from the store at the end of its statement."""
_ARROW_HINTS = (
    "__kyuubi_operation_result_format__=arrow",
    "__kyuubi_operation_result_arrow_timestampAsString__=true",
)
"""Messages by which Kyuubi's JDBC driver knows how rows travel."""
_SQLSTATE = "HY000"
_STATES = {
    StatementState.WAITING: "PENDING_STATE",
    StatementState.SUCCESS: "FINISHED_STATE",
    StatementState.FAILED: "ERROR_STATE",
    StatementState.CANCELLED: "CANCELED_STATE",
    StatementState.TIMEOUT: "TIMEDOUT_STATE",
}
"""States of the protocol; RUNNING_STATE for the others."""
_LISTINGS = {
    "GetCatalogs": MetadataCall.CATALOGS,
    "GetSchemas": MetadataCall.SCHEMAS,
    "GetTables": MetadataCall.TABLES,
    "GetTableTypes": MetadataCall.TABLE_TYPES,
    "GetColumns": MetadataCall.COLUMNS,
    "GetFunctions": MetadataCall.FUNCTIONS,
    "GetTypeInfo": MetadataCall.TYPES,
    "GetPrimaryKeys": MetadataCall.PRIMARY_KEYS,
    "GetCrossReference": MetadataCall.CROSS_REFERENCE,
}
_OPERATION_TYPES = {
    MetadataCall.CATALOGS: "GET_CATALOGS",
    MetadataCall.SCHEMAS: "GET_SCHEMAS",
    MetadataCall.TABLES: "GET_TABLES",
    MetadataCall.TABLE_TYPES: "GET_TABLE_TYPES",
    MetadataCall.COLUMNS: "GET_COLUMNS",
    MetadataCall.FUNCTIONS: "GET_FUNCTIONS",
    MetadataCall.TYPES: "GET_TYPE_INFO",
    MetadataCall.PRIMARY_KEYS: "GET_FUNCTIONS",
    MetadataCall.CROSS_REFERENCE: "GET_FUNCTIONS",
}
"""Types of operations. Hive has none of their own for keys."""
_RESULTS_FIELD = 3
_STRUCT = 12

_NUMBERED = frozenset({"ExecuteStatement", "FetchResults"})
"""Calls whose answer depends on their number."""

Answer = Callable[[Caller, Any], Awaitable[Any]]


class HiveServer2Calls:
    """Answers the calls of all clients of one node. Its methods run on the event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._protocol = load_protocol()
        self._fetches = Fetches(node)
        self._logs = OperationLogs()
        self._answers: dict[str, Answer] = {
            "OpenSession": self._open_session,
            "CloseSession": self._close_session,
            "SetClientInfo": self._set_client_info,
            "GetInfo": self._get_info,
            "GetOperationStatus": self._get_status,
            "CancelOperation": self._cancel,
            "CloseOperation": self._close_operation,
            "GetResultSetMetadata": self._describe_result,
            "GetQueryId": self._get_query_id,
            **{name: partial(self._list, listing) for name, listing in _LISTINGS.items()},
        }

    async def answer(self, caller: Caller, call: Call, *, may_repeat: bool = False) -> bytes:
        """Return the message that answers a call. Errors are part of it.

        Args:
            may_repeat: Whether the client sends a call again, with its number, when it gets no
                answer.
        """
        is_known = call.name in self._answers or call.name in _NUMBERED
        if call.request is None or not is_known:
            return write_unknown_method(call)
        response: Any
        try:
            if call.name == "FetchResults":
                response = await self._fetch(caller, call.request, call.sequence)
            elif call.name == "ExecuteStatement":
                number = call.sequence if may_repeat else 0
                response = await self._execute(caller, call.request, number)
            else:
                response = await self._answers[call.name](caller, call.request)
        except HeadraceError as error:
            response = self._refuse(call.name, error)
        if not isinstance(response, bytes):
            response = write_struct(response)
        return write_reply(call, response)

    def has_ended(self, caller: Caller, request: Any) -> bool:
        """Return whether the statement of a call is known to have ended, without a read."""
        with suppress(UnknownHandle):
            return self._fetches.find(caller, read_operation(request.operationHandle)) is not None
        return False

    def _refuse(self, name: str, error: HeadraceError) -> Any:
        """Return the response of a call that fails."""
        status = self._error(Failure.with_hint(error))
        response = getattr(self._protocol.TCLIService, f"{name}_result").thrift_spec[0][2]
        fields: dict[str, Any] = {"status": status}
        if name == "OpenSession":
            fields["serverProtocolVersion"] = _NEWEST_VERSION
            if error.status in _TEMPORARY:
                status.errorMessage += " (temporarily_unavailable)"
        if name == "GetInfo":
            fields["infoValue"] = self._protocol.TGetInfoValue(stringValue="")
        return response(**fields)

    def _ok(self) -> Any:
        return self._protocol.TStatus(statusCode=self._protocol.TStatusCode.SUCCESS_STATUS)

    def _error(self, failure: Failure) -> Any:
        text = failure.describe()
        return self._protocol.TStatus(
            statusCode=self._protocol.TStatusCode.ERROR_STATUS,
            sqlState=failure.sqlstate or _SQLSTATE,
            errorCode=0,
            errorMessage=text if failure.condition else f"[{failure.code}] {text}",
            # Hive's JDBC fails to read an empty list.
            infoMessages=failure.trace.splitlines() if failure.trace else None,
        )

    async def _open_session(self, caller: Caller, request: Any) -> Any:
        version = min(request.client_protocol, _NEWEST_VERSION)
        spec, options = read_configuration(request.configuration or {})
        connections = self._node.connections
        open_ = partial(connections.open, caller, spec, protocol=_PROTOCOL)
        session = await to_thread.run_sync(open_)
        if spec.database is not None or spec.catalog is not None:
            failure = await self._try_to_use(caller, session.id)
            if failure is not None:
                return self._protocol.TOpenSessionResp(self._error(failure), version)
        return self._protocol.TOpenSessionResp(
            status=self._ok(),
            serverProtocolVersion=version,
            sessionHandle=session_handle(Handle(session.id, version, options=options)),
            configuration={},
        )

    async def _try_to_use(self, caller: Caller, connection: str) -> Failure | None:
        """Return why the database of a connection cannot be used, and close the connection then."""
        statement = await self._run(caller, connection, "SELECT current_database()")
        if statement.state is StatementState.SUCCESS:
            return None
        await to_thread.run_sync(self._node.connections.close, caller, connection)
        return _failure_of(statement)

    async def _run(self, caller: Caller, connection: str, text: str) -> Statement:
        """Run a statement of the node's own in a connection, and return it when it has ended."""
        statements = self._node.async_statements
        return await statements.submit_and_wait(
            caller,
            StatementSpec(text=text),
            lambda statement, _rows: statement,
            seconds=_WAIT_SECONDS,
            connection=connection,
        )

    async def _close_session(self, caller: Caller, request: Any) -> Any:
        # A client that closes twice has lost the first answer. After an error of a close, some
        # clients fail the query before it, or use the connection no more.
        with suppress(ConnectionNotFound, UnknownHandle):
            session = read_session(request.sessionHandle)
            await to_thread.run_sync(self._node.connections.close, caller, session.id)
        return self._protocol.TCloseSessionResp(self._ok())

    async def _set_client_info(self, caller: Caller, request: Any) -> Any:
        await self._find_session(caller, request)
        return self._protocol.TSetClientInfoResp(self._ok())

    async def _get_info(self, caller: Caller, request: Any) -> Any:
        await self._find_session(caller, request)
        return self._protocol.TGetInfoResp(self._ok(), info.find(request.infoType, caller.owner))

    async def _find_session(self, caller: Caller, request: Any) -> Handle:
        handle = read_session(request.sessionHandle)
        await to_thread.run_sync(self._node.connections.get, caller, handle.id)
        return handle

    async def _execute(self, caller: Caller, request: Any, number: int) -> Any:
        """Answer ExecuteStatement. A call with the number of an earlier one is the same call."""
        session = read_session(request.sessionHandle)
        timeout = request.queryTimeout
        spec = StatementSpec(
            text=request.statement,
            conf=read_conf(request.confOverlay or {}),
            timeout_seconds=float(timeout) if timeout else None,
        )
        seconds = 0.0 if request.runAsync else _WAIT_SECONDS
        statements = self._node.async_statements
        running, data = None, None
        if session.options & ClientOption.JOIN:
            find = partial(self._find_running, caller, session.id, spec.text)
            running = await to_thread.run_sync(find)
        if running is not None:
            statement = await statements.wait(caller, running, seconds)
        else:
            submit = partial(
                statements.submit_and_wait,
                caller,
                spec,
                _with_rows,
                seconds=seconds,
                rows_bytes=_KEPT_BYTES,
                connection=session.id,
                repeatable=_make_repeatable(session.id, number, spec) if number > 0 else None,
            )
            try:
                statement, data = await submit()
            except IdempotencyConflict:
                # The first call was being stored, perhaps by another node.
                statement, data = await submit()
        status = self._ok()
        if not request.runAsync and statement.state is not StatementState.SUCCESS:
            status = self._error(_failure_of(statement))
        listing = find_hive_show(spec.text) if session.options & ClientOption.HIVE_SHOW else None
        handle = Handle(statement.id, session.version, listing or 0, options=session.options)
        if data is not None and not listing:
            self._fetches.expect(caller, handle, statement, data)
        return self._protocol.TOperationResp(
            status,
            operation_handle(
                handle,
                self._protocol.TOperationType.EXECUTE_STATEMENT,
                has_rows=_has_rows(statement),
                modified_rows=statement.rows_written,
            ),
        )

    def _find_running(self, caller: Caller, connection: str, text: str) -> str | None:
        """Return the first unfinished statement with this text in another connection, or None."""
        page = self._node.statements.page(
            caller,
            session=None,
            states=STATEMENT.live,
            before=None,
            id_prefix=None,
            limit=_MAX_RUNNING,
        )
        found = [
            each.id
            for each in page.items
            if each.spec.text == text
            and each.owner == caller.owner
            and each.connection_id not in {None, connection}
            and each.cancel_requested_at is None
        ]
        return found[-1] if found else None

    async def _list(self, listing: MetadataCall, caller: Caller, request: Any) -> Any:
        """Answer a call for metadata, when its statement has ended."""
        session = await self._find_session(caller, request)
        text = statement_for(listing, request)
        statement_id = make_id_without_statement()
        if text is not None:
            statement = await self._run(caller, session.id, text)
            if statement.state is not StatementState.SUCCESS:
                return self._protocol.TOperationResp(self._error(_failure_of(statement)))
            statement_id = statement.id
        types = encode_types(request.tableTypes) if listing is MetadataCall.TABLES else 0
        operation = Handle(statement_id, session.version, listing, types)
        kind = getattr(self._protocol.TOperationType, _OPERATION_TYPES[listing])
        return self._protocol.TOperationResp(
            self._ok(), operation_handle(operation, kind, has_rows=True)
        )

    async def _get_status(self, caller: Caller, request: Any) -> Any:
        handle = read_operation(request.operationHandle)
        if not handle.has_statement:
            finished = self._protocol.TOperationState.FINISHED_STATE
            return self._protocol.TGetOperationStatusResp(
                status=self._ok(), operationState=finished, hasResultSet=True
            )
        draws_progress = request.getProgressUpdate and handle.version >= _FIRST_WITH_PROGRESS
        seconds = _HOLD_WITH_PROGRESS if draws_progress else _HOLD_SECONDS
        # Hive's JDBC 2.3 asks for each row that it reads. A statement whose rows are read has
        # ended for good, also for other nodes.
        ended = self._fetches.find(caller, handle)
        wait = partial(self._node.async_statements.wait, caller, handle.id, seconds, cut_text=True)
        statement = ended or await wait()
        has_ended = statement.state in STATEMENT.terminal
        fields: dict[str, Any] = {"hasResultSet": _has_rows(statement)}
        if request.getProgressUpdate:
            is_over = has_ended and not self._logs.finish_bar(caller, handle)
            fields["progressUpdateResponse"] = describe_progress(statement, is_over=is_over)
        if has_ended and statement.state is not StatementState.SUCCESS:
            error = self._error(_failure_of(statement))
            fields["sqlState"], fields["errorCode"] = error.sqlState, error.errorCode
            fields["errorMessage"] = error.errorMessage
        if statement.state is StatementState.SUCCESS:
            written = statement.rows_written
            fields["numModifiedRows"] = _NOT_COUNTED if written is None else written
        if statement.started_at is not None:
            fields["operationStarted"] = int(statement.started_at.timestamp() * 1000)
        if statement.ended_at is not None:
            fields["operationCompleted"] = int(statement.ended_at.timestamp() * 1000)
        state = _STATES.get(statement.state, "RUNNING_STATE")
        return self._protocol.TGetOperationStatusResp(
            status=self._ok(),
            operationState=getattr(self._protocol.TOperationState, state),
            **fields,
        )

    async def _cancel(self, caller: Caller, request: Any) -> Any:
        handle = read_operation(request.operationHandle)
        with suppress(AlreadyEnded):
            await to_thread.run_sync(self._node.statements.cancel, caller, handle.id)
        return self._protocol.TCancelOperationResp(self._ok())

    async def _close_operation(self, caller: Caller, request: Any) -> Any:
        # As for a session; and a call for metadata has no statement, or one that has ended.
        with suppress(StatementNotFound, AlreadyEnded, UnknownHandle):
            handle = read_operation(request.operationHandle)
            known = self._fetches.find(caller, handle)
            self._fetches.forget(caller, handle)
            self._logs.forget(caller, handle)
            get = self._node.async_statements.get
            statement = known or await get(caller, handle.id, cut_text=True)
            if statement.state not in STATEMENT.terminal:
                await to_thread.run_sync(self._node.statements.cancel, caller, handle.id)
        return self._protocol.TCloseOperationResp(self._ok())

    async def _describe_result(self, caller: Caller, request: Any) -> Any:
        handle = read_operation(request.operationHandle)
        if handle.listing:
            schema = schema_of(MetadataCall(handle.listing))
        else:
            known = self._fetches.find(caller, handle)
            statement = known or await self._wait(caller, handle.id)
            if statement.state is not StatementState.SUCCESS or statement.result is None:
                return self._protocol.TGetResultSetMetadataResp(self._error(_failure_of(statement)))
            schema = parse_schema(statement.result.spark_schema)
        status = self._ok()
        if handle.options & ClientOption.ARROW:
            status.infoMessages = list(_ARROW_HINTS)
        described = describe_schema(schema, handle.version)
        return self._protocol.TGetResultSetMetadataResp(status, described)

    async def _fetch(self, caller: Caller, request: Any, number: int) -> bytes:
        handle = read_operation(request.operationHandle)
        if request.fetchType:
            more, rows = False, await self._read_log(caller, handle, request)
        elif not handle.has_statement:
            more, rows = self._fetches.read(caller, handle, None, request, number)
        else:
            # Most fetches follow another one: the store is not asked for the statement again.
            known = self._fetches.find(caller, handle)
            statement = known or await self._wait(caller, handle.id)
            if statement.state is not StatementState.SUCCESS:
                response = self._protocol.TFetchResultsResp(self._error(_failure_of(statement)))
                return write_struct(response)
            reads = self._node.async_statements.select_reads(statement)
            more, rows = await reads.run(
                self._fetches.read, caller, handle, statement, request, number
            )
        response = write_struct(self._protocol.TFetchResultsResp(self._ok(), more))
        return response.removesuffix(STOP) + write_field(_STRUCT, _RESULTS_FIELD) + rows + STOP

    async def _read_log(self, caller: Caller, handle: Handle, request: Any) -> bytes:
        """Return the new lines of the log of an operation, without waiting for any."""
        lines: list[str] = []
        if handle.has_statement:
            get = self._node.async_statements.get
            statement = await get(caller, handle.id, cut_text=True)
            reason = None
            if statement.state is StatementState.WAITING:
                reasons = partial(self._node.statements.find_wait_reasons, caller, [statement])
                _position, waits = (await to_thread.run_sync(reasons)).get(handle.id, (None, None))
                reason = None if waits is None else waits.text
            first = self._protocol.TFetchOrientation.FETCH_FIRST
            lines = self._logs.read(
                caller, handle, statement, reason, from_first=request.orientation == first
            )
        return write_lines(lines, handle.version)

    async def _get_query_id(self, caller: Caller, request: Any) -> Any:
        handle = read_operation(request.operationHandle)
        await self._node.async_statements.get(caller, handle.id, cut_text=True)
        return self._protocol.TGetQueryIdResp(handle.id)

    async def _wait(self, caller: Caller, statement_id: str) -> Statement:
        statement = await self._node.async_statements.wait(caller, statement_id, _WAIT_SECONDS)
        if statement.state not in STATEMENT.terminal:
            raise InvalidRequest(f"Statement {statement_id} runs for long. Ask for its state.")
        return statement


def _with_rows(statement: Statement, rows: bytes | None) -> tuple[Statement, bytes | None]:
    return statement, rows


def _has_rows(statement: Statement) -> bool:
    """Return whether a statement has rows, as far as it is known."""
    if statement.state is StatementState.SUCCESS and statement.result is not None:
        return bool(statement.result.spark_schema.get("fields"))
    return statement.is_query or describe_verb(statement.spec.text).split(" ")[0] not in _NO_ROWS


_NO_ROWS = frozenset(
    {
        *("ALTER", "ANALYZE", "CACHE", "CLEAR", "COMMENT", "CREATE", "DELETE", "DROP", "GRANT"),
        *("INSERT", "LOAD", "MERGE", "MSCK", "REFRESH", "RESET", "REVOKE", "TRUNCATE", "UNCACHE"),
        *("UPDATE", "USE"),
    }
)
"""First words of statements without rows. Some catalogs return rows for a few of them: the state of
the statement says so when it has ended."""


def _make_repeatable(session: str, number: int, spec: StatementSpec) -> RepeatableRequest:
    """Return the key of a call: a client numbers its calls, and repeats a call with its number."""
    body = repr((spec.text, sorted(spec.conf.items()), spec.timeout_seconds))
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    return RepeatableRequest(f"{_PROTOCOL} {session} {number} {digest}", digest)


_USE_WITH_DOT = re.compile(r"\s*USE\s+`[^`]*\.[^`]*`\s*$", re.IGNORECASE)
_CATALOG_HINT = (
    "(The name is that of one schema, with a dot. To choose a catalog, set use:catalog when you"
    " connect, for example configuration={'use:catalog': 'c'} in PyHive.)"
)
"""PyHive puts the whole name of a database into one pair of backquotes."""
_DESCRIBE = re.compile(r"\s*DESCRIBE\s+(?P<table>\S+)\s*$", re.IGNORECASE)
_TABLE_NOT_FOUND = "SemanticException Table not found"
"""Hive's words, by which PyHive's dialect of SQLAlchemy knows that a table does not exist."""


def _failure_of(statement: Statement) -> Failure:
    """Return why a statement that has ended has no rows."""
    failure = statement.failure
    if failure is not None:
        if _USE_WITH_DOT.match(statement.spec.text):
            return failure.model_copy(update={"message": f"{failure.message} {_CATALOG_HINT}"})
        described = _DESCRIBE.match(statement.spec.text)
        if described is not None and failure.condition == "TABLE_OR_VIEW_NOT_FOUND":
            trace = f"{_TABLE_NOT_FOUND} {described['table']}\n{failure.trace or ''}"
            return failure.model_copy(update={"trace": trace})
        return failure
    return Failure(
        code=str(statement.state), message=f"Statement {statement.id} is {statement.state}."
    )
