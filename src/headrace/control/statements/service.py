"""The service for statements: submit, find, list, cancel, read results."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from headrace.config.limits import LimitedOwner
from headrace.control.conf import check_conf
from headrace.control.context import NodeContext
from headrace.control.limits import (
    check_sessions,
    check_stored_bytes,
    check_streams,
    check_waiting,
    choose_timeout,
    describe_owner,
    lock_streams,
    running_limit,
    take_submit,
)
from headrace.control.long_polls import LongPolls, Rereads, WakeUps
from headrace.control.policy import (
    Action,
    Caller,
    act_for,
    listed_owners,
    may,
    require_creator,
    resolve_owner,
)
from headrace.control.sessions.connections import build_closed_error, find_own_connection
from headrace.control.sessions.opening import (
    choose_pool_session,
    create_session,
    find_own_session,
    find_usable_session,
    new_pool_session,
    resolve_session,
)
from headrace.control.statements.cancel import request_cancel
from headrace.control.statements.held_results import FlightOffer, HeldResultReader
from headrace.control.statements.lookup import (
    check_permitted,
    get_permitted,
    get_statement,
    hide_content,
)
from headrace.control.statements.node_statements import NodeStatements
from headrace.control.statements.run_comparison import RUNS, compare_runs
from headrace.control.statements.wait_reasons import WaitReasons, can_wait
from headrace.control.streams import submission
from headrace.control.streams.service import find_query
from headrace.control.views import submission as view_submission
from headrace.control.views.lookup import find_refresh_query, find_view
from headrace.errors import (
    ExecutionNotFound,
    IdempotencyConflict,
    InvalidRequest,
    MaterializedViewNotFound,
    NoResult,
    ResultLocationDenied,
    ResultNotReady,
    SessionEnded,
    SessionNotFound,
    StatementNotFound,
    StreamNotFound,
)
from headrace.files.places import check_has_no_password, is_below
from headrace.grammar.materialized_views import (
    CreateMaterializedView,
    MaterializedViewStatement,
    ViewAction,
)
from headrace.grammar.parse import Command, ParsedStatement, parse
from headrace.grammar.quoting import quote_name
from headrace.grammar.secret_references import check_has_no_reference, list_in_sql
from headrace.grammar.stream_statements import QueryStatement, SaveStream
from headrace.model.connection import RUN_PROTOCOL, Connection, ConnectionState
from headrace.model.execution import StatementExecution
from headrace.model.ids import new_id
from headrace.model.job_messages import BindRows
from headrace.model.lifecycle import STATEMENT, StatementState, StreamAction
from headrace.model.result import Disposition, ResultInfo, has_certain_parts
from headrace.model.session import NewSession, Session, SessionKind, SessionSpec, Snapshot
from headrace.model.statement import (
    MAX_PARAMETERS,
    REFRESH_VIEW,
    WRITE_ROWS,
    NewStatement,
    Parameter,
    Statement,
    StatementSpec,
    StatementView,
    WaitingFor,
    array_type,
)
from headrace.model.stream_query import StreamQuery
from headrace.results.reader import (
    RowRange,
    Rows,
    Selection,
    count_rows,
    find_next_offset,
    open_rows,
)
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import jobs
from headrace.store.notifications import SEVERAL
from headrace.store.records import Page
from headrace.store.sessions import connections, sessions
from headrace.store.sessions.sessions import NamedSession
from headrace.store.statements import executions, idempotency, results, statements
from headrace.text.durations import seconds_of


def lock_sessions(tx: Tx, caller: Caller, command: Command | None, session_id: str) -> None:
    """Lock the session of a statement that acts on a query, together with the session of the query.

    The insertion of the statement locks the first one, and the action the other one. Statements in
    the sessions of each other's queries would otherwise wait for each other.
    """
    query = _find_affected(tx, caller, command)
    if query is not None:
        sessions.lock_all(tx, {session_id, query.session_id})


def _find_affected(tx: Tx, caller: Caller, command: Command | None) -> StreamQuery | None:
    """Return the query that a statement of the caller changes, or None."""
    try:
        if isinstance(command, QueryStatement) and command.action is not None:
            return find_query(tx, caller, ".".join(command.query))
        if isinstance(command, MaterializedViewStatement) and command.action is ViewAction.DROP:
            return find_refresh_query(tx, find_view(tx, caller, command.name))
    except (StreamNotFound, MaterializedViewNotFound):
        return None
    return None


def check_result_location(location: str | None, allowed: list[str]) -> None:
    """Raise ResultLocationDenied unless the location is one of the allowed ones, or below one.

    Nodes read and delete the files at a result's location, with their own rights. Links are
    resolved: a link below an allowed location must not lead to another place.

    Raises InvalidLocation if the location contains a password.
    """
    if location is None:
        return
    check_has_no_password(location)
    has_dots = not {".", ".."}.isdisjoint(location.split("/"))
    if has_dots or not any(is_below(location, parent) for parent in allowed):
        raise ResultLocationDenied(
            f"result_location {location!r} is not below a location that the setting"
            f" results.allowed lists ({', '.join(allowed) or 'none'})."
        )


def check_parameters(parameters: list[Parameter]) -> None:
    """Raise InvalidRequest unless the parameters can be bound, in time linear in their number."""
    if len(parameters) > MAX_PARAMETERS:
        raise InvalidRequest(
            f"The statement has {len(parameters)} parameters. At most {MAX_PARAMETERS} are allowed."
        )
    names = [parameter.name for parameter in parameters]
    if any(name is None for name in names) and any(name is not None for name in names):
        raise InvalidRequest("Parameters must be all named or all positional.")
    counts = Counter(name for name in names if name is not None)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise InvalidRequest(f"Parameters are given twice: {', '.join(repeated)}.")
    for parameter in parameters:
        check_has_no_reference(str(parameter.value), "A parameter")
        if isinstance(parameter.value, dict):
            _check_bytes(parameter)
        elif isinstance(parameter.value, list):
            try:
                array_type(parameter.value, parameter.type)
            except ValueError as error:
                raise InvalidRequest(f"A parameter is not valid. {error}") from None


def _check_bytes(parameter: Parameter) -> None:
    """Raise InvalidRequest unless an object is `{"base64": text}` of the type BINARY."""
    value = parameter.value
    assert isinstance(value, dict)
    text = value.get("base64")
    if isinstance(text, str) and len(value) == 1 and str(parameter.type).upper() == "BINARY":
        try:
            base64.b64decode(text, validate=True)
        except ValueError:
            pass
        else:
            return
    raise InvalidRequest(
        'A parameter that is an object must be bytes: {"base64": TEXT} with the type BINARY.'
    )


_SLOW = timedelta(minutes=1)
"""Time from which on a statement is slow, unless the caller names another."""

ClaimForPoll = Callable[[Tx, str], Statement | None]
"""Claims the next statement of a session for a driver that waits at this process.

It returns the statement if the transaction claims it, or None.
"""


@dataclass(frozen=True, slots=True)
class RepeatableRequest:
    """An Idempotency-Key, with a hash that distinguishes the requests that use it."""

    key: str
    body_hash: str


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A range of the rows of a result."""

    rows: Rows
    selection: RowRange

    @property
    def next_offset(self) -> int | None:
        """Position at which the next page begins; None: this page is the last one."""
        return find_next_offset(self.rows, self.selection)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Submit:
    """A statement to be stored, and where it runs. See `Statements.submit`."""

    caller: Caller
    owner: str | None
    spec: StatementSpec
    parsed: ParsedStatement
    session: str | None
    connection: str | None
    catalog: str | None
    reusable: bool
    own_driver: bool
    """Whether the caller has asked for the kind `batch`, and not only the text of the statement."""
    repeatable: RepeatableRequest | None
    statement_id: str | None
    awaited_by: str | None
    rows: BindRows | None


class _PoolSessionClosed(Exception):
    """The pool session closed after it was chosen for a statement."""


class Statements:
    """Statements of all callers, served by one node."""

    def __init__(
        self,
        context: NodeContext,
        node_statements: NodeStatements,
        held_results: HeldResultReader,
        claim_for_poll: ClaimForPoll,
        long_polls: LongPolls,
    ) -> None:
        self._database = context.database
        self._settings = context.settings
        self._node_statements = node_statements
        self._held_results = held_results
        self._claim_for_poll = claim_for_poll
        self._long_polls = long_polls
        self._wake_ups = WakeUps(context.database)
        self._audit = context.audit
        self._wait_reasons = WaitReasons(context.database, running_limit(context.settings))

    def submit(
        self,
        caller: Caller,
        spec: StatementSpec,
        *,
        owner: str | None = None,
        session: str | None = None,
        connection: str | None = None,
        catalog: str | None = None,
        reusable: bool = False,
        repeatable: RepeatableRequest | None = None,
        statement_id: str | None = None,
        awaited: bool = False,
        rows: BindRows | None = None,
    ) -> Statement:
        """Store a statement, and in the same transaction its session if the session is new.

        A statement that a node executes itself has ended when this returns.

        Args:
            owner: Owner of the statement, as in `resolve_owner`; None: that of the session.
            session: Id or name of the session. None: an interactive statement and a refresh run in
                the pool session of their owner, and any other in a session that is created for it.
            connection: Id of the connection in whose Spark session the statement runs, if it does
                not need a driver of its own.
            catalog: Current catalog of a session that is created; default: Spark's.
            reusable: Whether the caller submits further statements to the session, which is then
                created for this statement.
            repeatable: If given, a repetition of the request returns the first statement.
            statement_id: Id of the new statement, if the caller has chosen one already.
            awaited: Whether this process waits for the end of the statement.
            rows: Python of a batch job whose rows the statement reads.

        Raises:
            NotPermitted: The caller may not run statements, or not for this owner or session.
            InvalidRequest: Or a subclass, before anything is stored.
            SettingDenied: For a key in `conf` that is reserved for the operator.
            SecretMisplaced: For a reference to a secret that a driver would not resolve.
            DefinitionExists: If a stream or sink with the name of the new one exists.
            StreamNameExists: If a live query has the name of the new one.
            CheckpointInUse: If a live query uses the checkpoint of the new one.
            MaterializedViewNotFound: If the view to refresh does not exist.
            MaterializedViewBusy: If another statement writes to the view to refresh.
            SessionNotFound: If the named session does not exist.
            ConnectionNotFound: If the connection does not exist, or is closed.
            SessionEnded: If the named session accepts no more statements.
            TimeoutTooLong: If the owner may not ask for the timeout of the statement.
            QueueFull: If too many statements wait in the named session, or in all sessions.
            TooManySessions: If the statement needs a new session and a limit is reached.
            TooManyStreams: If the statement starts a streaming query and a limit is reached.
            TooManySubmits: If the owner has submitted too many statements in the last minute.
            ResultsFull: If the stored results of the owner have reached a limit.
            IdempotencyConflict: If the key was used for a different request.
        """
        require_creator(caller, "statements")
        parsed = parse(spec.text, reserved=self._settings.reserved_statements)
        check_conf(spec.conf, self._settings.conf_policy)
        list_in_sql(spec.text)
        check_parameters(spec.parameters)
        check_result_location(spec.result_request.location, self._settings.results.allowed)
        submission.check_statement(spec.text, parsed.command)
        view_submission.check_statement(spec.text, parsed.command)
        own_driver = spec.kind is SessionKind.BATCH
        if parsed.command is not None:
            spec = replace(spec, kind=SessionKind(parsed.kind))
        request = _Submit(
            caller=caller,
            owner=None if owner is None else resolve_owner(caller, owner),
            spec=spec,
            parsed=parsed,
            session=session,
            connection=connection,
            catalog=catalog,
            reusable=reusable,
            own_driver=own_driver,
            repeatable=repeatable,
            statement_id=statement_id,
            awaited_by=self._database.process if awaited else None,
            rows=rows,
        )
        while True:
            # If the pool session closes after it was chosen, the next attempt chooses another.
            with (
                suppress(_PoolSessionClosed),
                self._database.write("statement.submit") as tx,
            ):
                return self._store(tx, request)

    def _store(self, tx: Tx, request: _Submit) -> Statement:
        """Store a statement unless it is a repetition. Return the statement.

        A driver that waits for it at this process claims it in the same transaction.
        """
        spec, parsed = request.spec, request.parsed
        repeatable = request.repeatable
        first = _find_repeated(tx, request.caller, repeatable)
        if first is not None:
            return first
        is_local = spec.kind is SessionKind.LOCAL
        named, connection = _find_named(tx, request)
        place = named or connection
        owner = _choose_owner(tx, request) if place is None else place.owner
        limited = describe_owner(tx, self._settings, owner, request.caller)
        take_submit(tx, self._settings, limited)
        session_id, is_chosen_pool = self._choose_session(tx, request, limited, named)
        is_in_connection = is_chosen_pool or (named is not None and named.id == session_id)
        spec = self._reserve(tx, limited, spec, parsed.command)
        acting = act_for(request.caller, owner)
        lock_sessions(tx, acting, parsed.command, session_id)
        new = NewStatement(
            id=request.statement_id or new_id("st"),
            session_id=session_id,
            owner=owner,
            spec=spec,
            is_query=parsed.is_query,
            command=parsed.keyword if request.rows is None else WRITE_ROWS,
            awaited_by=request.awaited_by,
            connection_id=connection.id if connection is not None and is_in_connection else None,
        )
        # A full queue does not refuse a statement that never waits in it.
        max_waiting = None if is_local else self._settings.statements.max_waiting
        try:
            statement = statements.insert(tx, new, actor=acting.actor, max_waiting=max_waiting)
        except SessionEnded as error:
            if is_chosen_pool:
                raise _PoolSessionClosed from error
            raise
        if request.rows is not None:
            jobs.insert_task(tx, statement.id, request.rows)
        if connection is not None and not connections.use(tx, connection.id):
            raise build_closed_error(connection.id)
        is_save = isinstance(parsed.command, SaveStream)
        state = _read_snapshot(tx, named, connection) if is_save else None
        submission.prepare(tx, self._settings, statement, parsed.command, state=state)
        view_submission.prepare(tx, acting, self._settings, statement, parsed.command)
        if is_local:
            self._node_statements.execute(tx, acting, statement)
            statement = get_statement(tx, statement.id)
        if repeatable is not None:
            of_caller = request.caller.owner
            idempotency.remember(tx, of_caller, repeatable.key, repeatable.body_hash, statement.id)
        claimed = None if is_local else self._claim_for_poll(tx, session_id)
        return claimed if claimed is not None and claimed.id == statement.id else statement

    def _reserve(
        self, tx: Tx, owner: LimitedOwner, spec: StatementSpec, command: Command | None
    ) -> StatementSpec:
        """Return a statement as its owner may submit it, with its timeout.

        A statement that a node executes itself does not wait, and has no timeout.

        Raise QueueFull, TooManyStreams, ResultsFull or TimeoutTooLong if the owner may not.
        """
        if spec.kind is SessionKind.LOCAL:
            if isinstance(command, QueryStatement) and command.action is StreamAction.RESTART:
                lock_streams(tx, self._settings)
            return spec
        seconds = choose_timeout(self._settings, owner, spec.timeout_seconds)
        check_waiting(tx, self._settings, owner)
        if isinstance(command, SaveStream) or (
            isinstance(command, CreateMaterializedView) and command.is_auto_refreshed
        ):
            check_streams(tx, self._settings, owner)
        check_stored_bytes(tx, self._settings, owner)
        return spec if seconds == spec.timeout_seconds else replace(spec, timeout_seconds=seconds)

    def get(self, caller: Caller, statement_id: str) -> Statement:
        """Return a statement of the caller. Raise StatementNotFound if there is none."""
        with self._database.read() as tx:
            return get_permitted(tx, caller, statement_id)

    def get_execution(self, caller: Caller, statement_id: str) -> StatementExecution:
        """Return the plan and the stages of a statement that has ended.

        Raises:
            StatementNotFound: The caller may not read the statement.
            NotPermitted: The caller may read the statement, and not its content: a plan has values
                of the SQL text.
            ExecutionNotFound: None are kept.
        """
        with self._database.read() as tx:
            statement = get_permitted(tx, caller, statement_id, Action.READ_CONTENT)
            execution = executions.find(tx, statement_id)
        if execution is None:
            has_ended = statement.state in STATEMENT.terminal
            reason = (
                "it has started no Spark job, or its driver was lost before it could report them"
                if has_ended
                else f"it is {statement.state}, and the driver reports them after the end"
            )
            raise ExecutionNotFound(
                f"Statement {statement_id} has no stored plan and stages: {reason}."
            )
        return execution

    def compare_with_former_runs(
        self, caller: Caller, statement: Statement, execution: StatementExecution | None
    ) -> str | None:
        """Return how long a statement took beside earlier runs of its text, as a sentence.

        None: it has not run for a second, its owner has too few earlier runs, or the caller may
        not read its text.

        Args:
            execution: Its stages, if they are known.
        """
        if not may(caller, Action.READ_CONTENT, statement):
            return None
        with self._database.read() as tx:
            end = statement.ended_at or read_clock(tx.connection)
            begin = statement.started_at
            seconds = 0.0 if begin is None else (end - begin).total_seconds()
            if seconds < statements.SHORTEST_SLOW_SECONDS:
                return None
            former = statements.read_durations(tx, statement, RUNS)
        return compare_runs(seconds, former, execution)

    def count_active_tasks(self, caller: Caller, statement_id: str) -> int | None:
        """Return how many tasks of a statement ran in Spark when its driver reported after its end.

        None: the driver has not reported. Raise StatementNotFound.
        """
        with self._database.read() as tx:
            get_permitted(tx, caller, statement_id)
            execution = executions.find(tx, statement_id)
        return None if execution is None else execution.tasks_active

    def get_with_rows(
        self, caller: Caller, statement_id: str, *, max_bytes: int
    ) -> tuple[Statement, bytes | None]:
        """Return a statement as `get` does, with the rows of an inline result for `open_result`.

        Args:
            max_bytes: Size of a result above which the rows are not read.
        """
        with self._database.read() as tx:
            record = statements.get_with_rows(tx, statement_id, max_bytes=max_bytes)
        statement, data = record or (None, None)
        permitted = check_permitted(caller, statement, statement_id)
        return permitted, data if may(caller, Action.READ_CONTENT, permitted) else None

    def submit_to_usable(
        self, caller: Caller, spec: StatementSpec, *, session: str | None, catalog: str | None
    ) -> Statement:
        """Submit to a session that accepts statements and has this catalog, or to a new one.

        Raise as `submit` does, without SessionNotFound and SessionEnded.

        Args:
            session: Id or name of the session to use, if it is usable.
        """
        with self._database.read() as tx:
            usable = find_usable_session(tx, caller, session, catalog)
        try:
            return self.submit(caller, spec, session=usable, catalog=catalog, reusable=True)
        except (SessionNotFound, SessionEnded):
            return self.submit(caller, spec, catalog=catalog, reusable=True)

    def submit_and_wait(
        self,
        caller: Caller,
        spec: StatementSpec,
        *,
        seconds: float,
        session: str | None = None,
        catalog: str | None = None,
        reusable: bool = False,
    ) -> Statement:
        """Submit as `submit` does, and wait as `wait` does. The calling thread waits."""
        statement = self.submit(
            caller, spec, session=session, catalog=catalog, reusable=reusable, awaited=True
        )
        return self.wait(caller, statement.id, seconds)

    def wait(self, caller: Caller, statement_id: str, seconds: float) -> Statement:
        """Wait until a statement has ended, at most `seconds`; return its latest state.

        The calling thread waits. Raise StatementNotFound if the caller has no such statement.
        """
        latest = self.get(caller, statement_id)
        if latest.state in STATEMENT.terminal:
            return latest

        def check() -> Statement | None:
            nonlocal latest
            latest = self.get(caller, statement_id)
            return latest if latest.state in STATEMENT.terminal else None

        self.await_end(caller, latest)
        subscribe = partial(self._wake_ups.on_statement_end, statement_id)
        self._long_polls.wait_in_thread(subscribe, check, seconds=seconds, rereads=Rereads.RARE)
        return latest

    def await_end(self, caller: Caller, statement: Statement) -> None:
        """Ask for wake-ups of other processes. Call this before the state is read again."""
        check_permitted(caller, statement, statement.id)
        known = (self._database.process, SEVERAL)
        if not self._database.is_shared or statement.awaited_by in known:
            return
        with self._database.write("statement.await") as tx:
            statements.await_end(tx, statement.id, self._database.process)

    def page(
        self,
        caller: Caller,
        *,
        session: str | None,
        states: Collection[StatementState] | None,
        before: str | None,
        id_prefix: str | None,
        limit: int,
        view: StatementView | None = None,
        over: timedelta | None = None,
        all_owners: bool = False,
    ) -> Page[Statement]:
        """Return at most `limit` statements of the owners that `caller` lists, newest first.

        They follow `before`. A view has an order of its own. For an operator, it has the statements
        of all owners.

        Args:
            over: For a view: the shortest time of its statements; default: a minute for `slow`.

        Raises:
            SessionNotFound: `session`, an id or name, does not exist.
            StatementNotFound: A view has no statement `before`.
            InvalidRequest: `over` is given without a view, or is too short for it.
        """
        over_seconds = _over_seconds(view, over)
        owners = listed_owners(caller, all_owners=all_owners or view is not None)
        with self._database.read() as tx:
            session_id = None if session is None else resolve_session(tx, caller, session)
            if session_id is not None:
                # Whoever may read the session may read its statements.
                owners = None
            page = statements.page(
                tx,
                owners=owners,
                session=session_id,
                states=states,
                view=view,
                over_seconds=over_seconds,
                before=before,
                id_prefix=id_prefix,
                limit=limit,
            )
        return Page([hide_content(caller, each) for each in page.items], page.more)

    def count_newer(
        self,
        caller: Caller,
        statement_id: str,
        *,
        session: str | None,
        states: Collection[StatementState] | None,
        limit: int,
        all_owners: bool = False,
    ) -> int:
        """Return how many statements of `page` are newer than a statement, and at most `limit`.

        Raise SessionNotFound if `session`, an id or name, does not exist.
        """
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            session_id = None if session is None else resolve_session(tx, caller, session)
            return statements.count_newer(
                tx,
                statement_id,
                owners=owners if session_id is None else None,
                session=session_id,
                states=states,
                limit=limit,
            )

    def get_in_session(self, caller: Caller, session: str, ordinal: int) -> Statement:
        """Return a statement by its position in its session, which the caller may read.

        Raise SessionNotFound or StatementNotFound if there is none.
        """
        with self._database.read() as tx:
            session_id = resolve_session(tx, caller, session)
            statement_id = statements.id_of_ordinal(tx, session_id, ordinal)
            if statement_id is None:
                raise StatementNotFound(f"Session {session!r} has no statement {ordinal}.")
            return get_permitted(tx, caller, statement_id)

    def slice_of_session(
        self, caller: Caller, session: str, *, offset: int, limit: int, newest_first: bool = False
    ) -> tuple[int, list[Statement]]:
        """Return the number of statements of a session, and those from `offset` in their order.

        Raise SessionNotFound if the caller may read no such session.
        """
        with self._database.read() as tx:
            session_id = resolve_session(tx, caller, session)
            total = statements.count_in_session(tx, session_id)
            items = statements.slice_of_session(
                tx, session_id, offset=offset, limit=limit, newest_first=newest_first
            )
        return total, [hide_content(caller, each) for each in items]

    def find_session_names(self, caller: Caller, listed: Sequence[Statement]) -> dict[str, str]:
        """Return the names of the sessions of listed statements, by id of the session."""
        with self._database.read() as tx:
            visible = self._select_visible(caller, listed)
            return sessions.find_names(tx, {statement.session_id for statement in visible})

    def find_last(self, caller: Caller, listed: Sequence[Session]) -> dict[str, Statement]:
        """Return the last statement of each listed session that has one, by id of the session.

        Only those that the caller may read are in the result.
        """
        with self._database.read() as tx:
            last = statements.find_last(tx, [session.id for session in listed])
        visible = self._select_visible(caller, last)
        return {statement.session_id: statement for statement in visible}

    def find_wait_reasons(
        self, caller: Caller, listed: Sequence[Statement]
    ) -> dict[str, tuple[int | None, WaitingFor | None]]:
        """Return the positions of listed statements in their queues, and why they wait, by id.

        A statement that does not wait is not in the result. See `WaitReasons.find_all`.
        """
        visible = filter(can_wait, self._select_visible(caller, listed))
        return self._wait_reasons.find_all(caller, list(visible))

    @staticmethod
    def _select_visible(caller: Caller, listed: Sequence[Statement]) -> list[Statement]:
        return [each for each in listed if may(caller, Action.READ, each)]

    def cancel(self, caller: Caller, statement_id: str, *, force: bool = False) -> Statement:
        """Request a cancel and return the statement. Raise as `request_cancel` does."""
        with self._database.write("statement.cancel") as tx:
            return request_cancel(tx, caller, statement_id, force=force)

    def find_flight_offer(
        self, caller: Caller, statement: Statement, *, is_local: bool
    ) -> FlightOffer | None:
        """Return the place at which a Flight client reads a result directly, if there is one.

        Args:
            is_local: Whether the client is on the host of this node.
        """
        check_permitted(caller, statement, statement.id)
        if not may(caller, Action.READ_CONTENT, statement):
            return None
        offer = self._held_results.find_offer(statement, is_local=is_local)
        if offer is not None and statement.result is not None:
            self._audit.record_read(caller, statement, statement.result.row_count)
        return offer

    def read_page(self, caller: Caller, statement_id: str, selection: RowRange) -> ResultPage:
        """Return a range of the rows of a statement. Raise as `get` and `open_result` do."""
        statement = self.get(caller, statement_id)
        return ResultPage(self.open_result(caller, statement, selection=selection), selection)

    def open_result(
        self,
        caller: Caller,
        statement: Statement,
        *,
        selection: Selection = None,
        forward: bool = True,
        data: bytes | None = None,
    ) -> Rows:
        """Return the rows of a successful statement.

        Args:
            selection: What the caller reads of them.
            forward: Whether another node may be asked for the rows that a driver of its host holds.
            data: The rows of an inline result, if they are read already.

        Raises:
            StatementNotFound: If the caller may not read the statement.
            NotPermitted: If the caller may read the statement, and not its rows.
            ResultNotReady: If the statement has not ended.
            NoResult: If the statement did not succeed.
            ResultGone: If the rows have been deleted.
            ResultsUnavailable: If the results location or the driver cannot be read.
            NodeUnreachable: If only a node that does not respond reaches the driver.
            InvalidResult: If the driver has written a result that is not valid.
        """
        check_permitted(caller, statement, statement.id, Action.READ_CONTENT)
        if statement.state not in STATEMENT.terminal:
            raise ResultNotReady(
                f"Statement {statement.id} is {statement.state} and has no result yet."
            )
        if statement.result is None:
            raise NoResult(f"Statement {statement.id} has no result: it is {statement.state}.")
        rows = self._open(statement, statement.result, forward=forward, data=data)
        self._audit.record_read(caller, statement, count_rows(rows, selection))
        return rows

    def _open(
        self, statement: Statement, result: ResultInfo, *, forward: bool, data: bytes | None
    ) -> Rows:
        if result.disposition is Disposition.MEMORY:
            return self._held_results.open(statement, forward=forward)
        is_inline = result.disposition is Disposition.INLINE
        if data is None and is_inline and not result.gone:
            with self._database.read() as tx:
                data = results.inline_data(tx, statement.id)
        return open_rows(result, data)

    def find_location(self, caller: Caller, statement: Statement) -> str | None:
        """Return the location at which the current attempt writes rows; None if there is none."""
        check_permitted(caller, statement, statement.id, Action.READ_CONTENT)
        with self._database.read() as tx:
            location = results.location_of(tx, statement.id)
        if location is not None:
            self._audit.record_read(caller, statement, None)
        return location

    def _choose_session(
        self, tx: Tx, request: _Submit, owner: LimitedOwner, named: NamedSession | None
    ) -> tuple[str, bool]:
        """Return the id of the session for a statement, and whether it was chosen as the pool's.

        A batch or streaming statement gets a new session, configured like the named session or the
        connection, if the named session is of another kind. A refresh runs in the pool session if
        that session has the driver that the refresh needs.
        """
        kind, reusable = request.spec.kind, request.reusable
        spec = SessionSpec(catalog=request.catalog)
        if named is not None:
            if kind in {SessionKind.INTERACTIVE, SessionKind.LOCAL}:
                return named.id, False
            session = sessions.get(tx, named.id)
            assert session is not None
            if session.kind is kind:
                return named.id, False
            spec = session.spec
        if _runs_in_pool(request, spec):
            pool = replace(new_pool_session(self._settings, owner.id), actor=request.caller.actor)
            return choose_pool_session(tx, self._settings, owner, pool), True
        if request.connection is not None and kind is not SessionKind.LOCAL:
            state = connections.read_state(tx, request.connection)
            spec = spec if state is None else _describe_start(state)
        new = NewSession(
            id=new_id("se"),
            owner=owner.id,
            actor=request.caller.actor,
            kind=kind,
            spec=spec,
            idle_seconds=None
            if reusable
            else seconds_of(self._settings.sessions.unnamed_idle_timeout),
        )
        if kind is SessionKind.LOCAL:
            sessions.insert(tx, new, actor=request.caller.actor)
            return new.id, False
        check_sessions(tx, self._settings, owner)
        return create_session(tx, self._settings, new), False


def _find_named(tx: Tx, request: _Submit) -> tuple[NamedSession | None, Connection | None]:
    """Return the session or the connection in which a statement is submitted, if it names one."""
    named = connection = None
    if request.session is not None:
        named = find_own_session(tx, request.caller, request.session)
        _check_owner(named, request.owner)
    if request.connection is not None:
        connection = find_own_connection(tx, request.caller, request.connection)
        _check_fits_connection(request, connection)
    return named, connection


def _check_owner(named: NamedSession, owner: str | None) -> None:
    """Raise InvalidRequest if a statement names a session of another owner than its own one."""
    if owner not in {None, named.owner}:
        raise InvalidRequest(
            f"owner: The session belongs to {named.owner}, and the statement would too.",
            hint="Leave out `owner`, or name another session.",
        )


def _check_fits_connection(request: _Submit, connection: Connection) -> None:
    """Raise InvalidRequest if a statement of a connection asks for something else besides."""
    # A job with a session of its own has the connections of its runs there.
    if request.session is not None and connection.protocol != RUN_PROTOCOL:
        raise InvalidRequest(
            "A statement runs in a session or in a connection.",
            hint="Leave out `session` or `connection`.",
        )
    if request.own_driver:
        raise InvalidRequest(
            "kind: A statement of kind batch has a driver of its own, and none of a connection.",
            hint="Leave out `kind` or `connection`.",
        )
    if request.owner not in {None, connection.owner}:
        raise InvalidRequest(
            f"owner: The connection belongs to {connection.owner}, and the statement would too.",
            hint="Leave out `owner`, or open a connection for this owner.",
        )


def _describe_start(state: ConnectionState) -> SessionSpec:
    """Return the configuration of a session that starts where a connection is now."""
    catalog, database = state.spec.catalog, state.spec.database
    if state.snapshot is not None:
        parts = state.snapshot.namespace
        names = [part if part.isidentifier() else quote_name(part) for part in parts]
        catalog, database = state.snapshot.catalog, ".".join(names) or None
    return SessionSpec(catalog=catalog, database=database, conf=state.spec.conf)


def _read_snapshot(
    tx: Tx, named: NamedSession | None, connection: Connection | None
) -> Snapshot | None:
    """Return the state of the session or the connection in which a statement is submitted."""
    if named is not None:
        return sessions.get_snapshot(tx, named.id)
    state = None if connection is None else connections.read_state(tx, connection.id)
    return None if state is None else state.snapshot


def _choose_owner(tx: Tx, request: _Submit) -> str:
    """Return the owner of a statement without a session.

    A refresh acts for the owner of the view.
    """
    command = request.parsed.command
    if request.owner is not None:
        return request.owner
    if isinstance(command, MaterializedViewStatement) and command.action is ViewAction.REFRESH:
        owner = find_view(tx, request.caller, command.name, Action.CHANGE).owner
        return owner if owner in request.caller.owners else request.caller.owner
    return request.caller.owner


def _runs_in_pool(request: _Submit, spec: SessionSpec) -> bool:
    """Return whether a statement that needs a session runs in the pool session of its owner.

    Args:
        spec: Configuration of the session that the statement would get otherwise.
    """
    if request.parsed.keyword == REFRESH_VIEW:
        # The names in the query of a view do not depend on the current catalog and database.
        is_like_pool = spec.profile == SessionSpec().profile and not spec.configures_driver
        return is_like_pool and not request.own_driver
    is_interactive = request.spec.kind is SessionKind.INTERACTIVE
    return request.session is None and is_interactive and not request.reusable


def may_be_read_early(statement: Statement) -> bool:
    """Return whether the rows of finished tasks can be read while the statement runs."""
    request = statement.spec.result_request
    return statement.is_query and has_certain_parts(
        request.disposition, request.row_limit, request.byte_limit
    )


def _find_repeated(
    tx: Tx, caller: Caller, repeatable: RepeatableRequest | None
) -> Statement | None:
    """Return the statement of the first request with this key, if there was one.

    Raise IdempotencyConflict if that request was different.
    """
    if repeatable is None:
        return None
    first = idempotency.find(tx, caller.owner, repeatable.key)
    if first is None:
        return None
    body_hash, statement_id = first
    if body_hash != repeatable.body_hash:
        raise IdempotencyConflict(
            f"The Idempotency-Key was used for statement {statement_id} with a different request."
        )
    return get_permitted(tx, caller, statement_id)


def _over_seconds(view: StatementView | None, over: timedelta | None) -> float:
    """Return the shortest time of the statements of a view. Raises InvalidRequest."""
    if view is None and over is not None:
        raise InvalidRequest(
            "over: It needs a view. Add view=waiting, view=running or view=slow.",
        )
    if view is not StatementView.SLOW:
        return (over or timedelta()).total_seconds()
    seconds = (_SLOW if over is None else over).total_seconds()
    if seconds < statements.SHORTEST_SLOW_SECONDS:
        raise InvalidRequest(
            f"over: {seconds:g}s is too short. Slow statements run for at least"
            f" {statements.SHORTEST_SLOW_SECONDS:g}s."
        )
    return seconds
