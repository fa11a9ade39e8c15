"""The node's side of the link: it answers the calls of drivers from the store.

Each method takes the lease that the driver's token proves. A method that raises LeaseLost makes the
driver stop: the epoch is superseded, or the session has ended.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headrace.control.context import NodeContext
from headrace.control.driver_link.expectations import (
    ObserveBatch,
    ObserveRefresh,
    ViewChecking,
)
from headrace.control.driver_link.renewals import Renewals
from headrace.control.driver_link.statements import (
    accept_outcome,
    assign_again,
    check_holder,
    check_result,
    claim_next_assignment,
    save_report,
)
from headrace.control.driver_link.streams import CheckpointMarks, find_streams, store_definition
from headrace.control.driver_link.system_tables import find_rows
from headrace.control.driver_link.table_journal import TableJournal
from headrace.control.driver_link.views import (
    ViewWrites,
    check_written,
    release_query,
)
from headrace.control.driver_link.waiting_polls import WaitingPolls
from headrace.control.driver_link.write_locks import WriteLocks
from headrace.control.limits import running_limit
from headrace.control.long_polls import AwaitedEnds
from headrace.control.sessions.ending import cancel_queue
from headrace.control.sessions.launch_request import hash_token
from headrace.control.statements.batches import add_statements, check_statements
from headrace.errors import (
    DriverLost,
    HeadraceError,
    InvalidRequest,
    LeaseLost,
    LinkVersionUnsupported,
    SecretUnavailable,
    Unauthorized,
)
from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT, SessionState, StatementState
from headrace.model.messages import (
    LINK_VERSION,
    Acknowledged,
    Advanced,
    Assignment,
    Ended,
    Executed,
    FindSecrets,
    FindStreams,
    FoundRows,
    FoundSecrets,
    FoundStreams,
    Goodbye,
    Hello,
    OpenConnection,
    OpenedConnection,
    Orders,
    Poll,
    ReadSystemTables,
    Restore,
    Restored,
    Started,
)
from headrace.model.session import DriverLease, Session
from headrace.model.statement import RUN_FILE
from headrace.model.stream_query import DesiredQueries
from headrace.store import table_writes, transactions
from headrace.store.database import Database, Precedence, Tx
from headrace.store.jobs import jobs
from headrace.store.notifications import session_topic
from headrace.store.sessions import connections, sessions, takeovers
from headrace.store.sessions.lease_renewals import DriverView, load_owned_view
from headrace.store.statements import (
    executions,
    limits,
    statement_queue,
    statement_transitions,
    statements,
)
from headrace.store.statements.locks import lock_owned_statement
from headrace.store.streams import stream_queries


@dataclass(frozen=True, slots=True)
class Polled:
    """The orders for a driver, and whether it polled another process before."""

    orders: Orders
    link_moved: bool


def move_link(database: Database, lease: DriverLease, view: DriverView) -> bool:
    """Ask for the wake-ups of a driver that polled another process. Return whether it did."""
    if not database.is_shared or view.link_process == database.process:
        return False
    with database.write("link.move") as tx:
        sessions.move_link(tx, lease, database.process)
    return True


ObserveStart = Callable[[Session, Session], None]
"""Takes a session as it was before its driver was up, and as it is then."""
_MAX_TOKEN_HASHES = 10_000
"""Largest number of drivers whose token hash a node keeps in memory."""


class DriverLinkService:
    """Answers drivers. Any node serves any driver."""

    def __init__(
        self,
        context: NodeContext,
        *,
        awaited_ends: AwaitedEnds | None = None,
        observe_start: ObserveStart | None = None,
        observe_batch: ObserveBatch | None = None,
        observe_refresh: ObserveRefresh | None = None,
    ) -> None:
        """Create the service.

        Args:
            awaited_ends: Requests that wait for the end of a statement at this process.
            observe_start: Called when a driver is up.
            observe_batch: Called when a batch of a streaming query was checked.
            observe_refresh: Called when the rows of a materialized view were checked.
        """
        self._awaited_ends = awaited_ends or AwaitedEnds()
        self._observe_start = observe_start or (lambda *_: None)
        self.secrets = context.secrets
        self._database = context.database
        self._lease_seconds = context.lease_seconds
        self._retention_seconds = context.retention_seconds
        self._grace_seconds = context.view_grace_seconds
        self._settings = context.settings
        self._running_limit = running_limit(context.settings)
        self.waiting_polls = WaitingPolls(self._running_limit)
        self.renewals = Renewals(context, observe_batch=observe_batch)
        self.tables = TableJournal(context)
        self.writes = WriteLocks(context.database)
        self.views = ViewWrites(context)
        self._view_checks = ViewChecking(context.alerts, observe_refresh)
        self.checkpoints = CheckpointMarks(context)
        self._token_hashes: OrderedDict[DriverLease, str] = OrderedDict()
        """Hashes by driver; the last entry belongs to the most recent call."""
        self._lock = threading.Lock()

    def authenticate(self, lease: DriverLease, token: str) -> None:
        """Check the token of a call.

        Raises:
            LeaseLost: If the epoch is superseded.
            Unauthorized: If the token belongs to another session or epoch.
        """
        if self.authenticate_from_memory(lease, token):
            return
        with self._database.read() as tx:
            token_hash = sessions.token_hash(tx, lease)
        if token_hash is None:
            raise LeaseLost(f"Epoch {lease.epoch} of session {lease.session_id} is superseded.")
        self._keep_token_hash(lease, token_hash)
        _check_token(token_hash, token)

    def authenticate_from_memory(self, lease: DriverLease, token: str) -> bool:
        """Check the token of a call without a read of the store.

        Return False if this node has to read the store first. Raise Unauthorized as `authenticate`
        does.
        """
        token_hash = self._recall_token_hash(lease)
        if token_hash is None:
            return False
        _check_token(token_hash, token)
        return True

    def restore(self, lease: DriverLease, _message: Restore) -> Restored:
        """Return what the driver must rebuild before `hello`."""
        with self._database.read() as tx:
            load_owned_view(tx, lease)
            return Restored(
                snapshot=sessions.get_snapshot(tx, lease.session_id),
                pending_hook_calls=sessions.list_hook_calls(tx, lease.session_id),
                has_orphans=transactions.has_orphaned(tx, lease.session_id),
            )

    def hello(self, lease: DriverLease, message: Hello) -> Acknowledged:
        """Move the session to `running`: Spark is up and the state is restored.

        Raise LinkVersionUnsupported if the driver is more than one version older than the node.
        """
        if message.link_version < LINK_VERSION - 1:
            raise LinkVersionUnsupported(
                f"The driver sends messages of version {message.link_version}. This node reads"
                f" version {LINK_VERSION - 1} and later."
            )
        with self._database.write("link.hello", precedence=Precedence.REPORTS) as tx:
            launched = sessions.get(tx, lease.session_id)
            applied = sessions.transition(
                tx,
                lease.session_id,
                SessionState.RUNNING,
                actor=lease.actor,
                epoch=lease.epoch,
                driver=message.model_dump(exclude={"lost", "hook_calls_made", "link_version"}),
                lease_seconds=self._lease_seconds,
                lost=message.lost,
                detail={"epoch": lease.epoch} | ({"lost": message.lost} if message.lost else {}),
            )
            if not applied:
                load_owned_view(tx, lease)
            elif message.hook_calls_made:
                sessions.remove_hook_calls(tx, lease.session_id, message.hook_calls_made)
            running = sessions.get(tx, lease.session_id) if applied else None
        if launched is not None and running is not None:
            self._observe_start(launched, running)
        return Acknowledged(applied=applied)

    def poll(self, lease: DriverLease, message: Poll) -> Polled:
        """Return the current orders for the driver. The HTTP route waits while there are none.

        A statement that this epoch has claimed, and that the driver does not list as in flight, did
        not reach the driver. Such a statement is assigned again.
        """
        with self._database.read() as tx:
            view = load_owned_view(tx, lease)
            undelivered = [
                statement_id
                for statement_id, _state in view.in_flight
                if statement_id not in message.in_flight
            ]
            assignment = assign_again(tx, undelivered[0], view) if undelivered else None
            streams = _new_streams(tx, lease, view, message)
            batch_ends = view.batch_submitted and (
                not view.has_waiting or statement_queue.is_stopped(tx, lease.session_id)
            )
        closing = view.state is SessionState.CLOSING
        may_claim = assignment is None and len(view.in_flight) < view.parallelism and not closing
        if batch_ends and not view.in_flight and not closing:
            closing = self._close_batch(lease)
        elif view.has_waiting and may_claim:
            assignment = self._claim(lease, message)
        cancel = _new_cancels(view, message)
        orders = Orders(assignment=assignment, cancel=cancel, close=closing, streams=streams)
        return Polled(orders, link_moved=move_link(self._database, lease, view))

    def claim_at_once(self, lease: DriverLease, message: Poll) -> Orders | None:
        """Return the orders to run the next statement, or None if a poll must find out more.

        This is for a poll that a change of the session has woken, nearly always a new statement.
        Without a limit on running statements, a claim needs no other read.
        """
        if self._running_limit.is_set:
            return None
        assignment = self._claim(lease, message)
        return None if assignment is None else Orders(assignment=assignment)

    def started(self, lease: DriverLease, message: Started) -> Acknowledged:
        """Move a statement to `running`, and note that it may have effects."""
        statement_id = message.statement_id
        with self._database.write("link.started", precedence=Precedence.REPORTS) as tx:
            locked = lock_owned_statement(tx, statement_id, lease)
            applied = locked is not None and statement_transitions.transition(
                tx,
                statement_id,
                StatementState.RUNNING,
                actor=lease.actor,
                lease=lease,
                ran_seconds=message.ran_seconds,
                locked=locked,
            )
            if locked is None:
                load_owned_view(tx, lease)
            elif message.has_effects and locked.state in STATEMENT.in_flight:
                statement_transitions.note_effects(tx, statement_id)
                applied = True
        return Acknowledged(applied=applied)

    def advanced(self, lease: DriverLease, message: Advanced) -> Acknowledged:
        """Store the progress of statements."""
        with self._database.write("link.advanced") as tx:
            count = statement_transitions.save_progress(tx, lease, message.progress)
        return Acknowledged(applied=count > 0)

    def ended(self, lease: DriverLease, message: Ended) -> Acknowledged:
        """End a statement. Its result becomes readable in the same transaction.

        A statement whose result is not valid fails.
        """
        result, invalid = check_result(message)
        file = check_statements(self._settings, message)
        with self._database.write("link.ended", precedence=Precedence.REPORTS) as tx:
            locked = lock_owned_statement(tx, message.statement_id, lease)
            invalid = invalid or check_holder(tx, message)
            state, failure = accept_outcome(tx, message, invalid)
            if locked is not None and state is StatementState.SUCCESS:
                # The definition of a stream or sink is stored with the success of its statement.
                failure = store_definition(tx, message.statement_id, locked)
                failure = failure or check_written(tx, message, locked)
                failure = failure or add_statements(tx, message, locked, file)
                state = StatementState.FAILED if failure else state
            applied = locked is not None and statement_transitions.transition(
                tx,
                message.statement_id,
                state,
                actor=lease.actor,
                lease=lease,
                failure=failure,
                result=result if state is StatementState.SUCCESS else None,
                result_seconds=self._retention_seconds,
                ran_seconds=message.ran_seconds,
                progress=message.progress,
                locked=locked,
            )
            if message.wrote:
                succeeded = state is StatementState.SUCCESS
                table_writes.release(tx, message.statement_id, lease, succeeded=succeeded)
            if not applied or locked is None:
                load_owned_view(tx, lease)
            else:
                tx.on_end(partial(self._observe_end, message.statement_id))
                tx.wake(*map(session_topic, limits.choose_next(tx, self._running_limit)))
                save_report(tx, lease, message, locked, grace_seconds=self._grace_seconds)
                self._view_checks.apply(tx, message, locked.command, state)
                if state is StatementState.SUCCESS:
                    if locked.command is not None:
                        release_query(tx, message.statement_id)
                    if message.task_outcome is not None and locked.command != RUN_FILE:
                        jobs.save_outcome(tx, message.statement_id, message.task_outcome)
                    if message.scope is not None:
                        stream_queries.set_scope(tx, message.statement_id, message.scope)
        return Acknowledged(applied=applied)

    def executed(self, lease: DriverLease, message: Executed) -> Acknowledged:
        """Store the plans and stages of ended statements of the driver. The first report stays."""
        with self._database.write("link.executed") as tx:
            load_owned_view(tx, lease)
            count = executions.save(tx, lease, message.executions)
        return Acknowledged(applied=count > 0)

    def find_streams(self, lease: DriverLease, message: FindStreams) -> FoundStreams:
        """Return the definitions of streams that a statement or a query of the driver reads."""
        with self._database.read() as tx:
            load_owned_view(tx, lease)
            session = sessions.get(tx, lease.session_id)
            assert session is not None
            return find_streams(tx, session.owner, message.names)

    def read_system_tables(self, lease: DriverLease, message: ReadSystemTables) -> FoundRows:
        """Return the rows of system tables that belong to the owner of the session."""
        with self._database.read() as tx:
            load_owned_view(tx, lease)
            session = sessions.get(tx, lease.session_id)
            assert session is not None
            return find_rows(tx, session.owner, list(dict.fromkeys(message.tables)))

    def open_connection(self, lease: DriverLease, message: OpenConnection) -> OpenedConnection:
        """Return the state of the connection in which a statement of the driver runs.

        Raises:
            LeaseLost: The driver no longer owns its session.
            InvalidRequest: The statement is not in flight at the driver, or has no connection.
        """
        with self._database.read() as tx:
            in_flight = {
                statement_id for statement_id, _state in load_owned_view(tx, lease).in_flight
            }
            statement = statements.get(tx, message.statement_id)
            if statement is None or statement.id not in in_flight:
                raise InvalidRequest(f"{message.statement_id} is not in flight at this driver.")
            if statement.connection_id is None:
                raise InvalidRequest(f"{message.statement_id} does not run in a connection.")
            state = connections.read_state(tx, statement.connection_id)
        return OpenedConnection(state=None if state is None or state.is_forgotten else state)

    def find_secrets(self, lease: DriverLease, message: FindSecrets) -> FoundSecrets:
        """Return the values of secrets that the owner of the session may use, or why not."""
        with self._database.read() as tx:
            load_owned_view(tx, lease)
            session = sessions.get(tx, lease.session_id)
            assert session is not None
            owners = self.secrets.list_owners(tx, session.owner)
        try:
            values = self.secrets.find(message.names, owners)
        except HeadraceError as error:
            is_permanent = not isinstance(error, SecretUnavailable)
            return FoundSecrets(failure=Failure.with_hint(error), is_permanent=is_permanent)
        self.secrets.remember(lease.session_id, values)
        return FoundSecrets(values=values)

    def goodbye(self, lease: DriverLease, message: Goodbye) -> Acknowledged:
        """Fence a driver that is about to exit. A takeover confirms its end, then ends the session.

        The session fails if Spark could not start, because Spark would not start for the next
        driver either. Any other unrequested exit is a lost driver.
        """
        failure = message.failure
        with self._database.write("link.goodbye", precedence=Precedence.REPORTS) as tx:
            is_closing = load_owned_view(tx, lease).state is SessionState.CLOSING
            reason = "its session was closed" if is_closing else "it exited without a request"
            epoch = takeovers.fence(
                tx,
                lease,
                actor=lease.actor,
                reason=failure.message.rstrip(".") if failure else reason,
                seconds=0.0,
                failure=None if failure is None or failure.code == DriverLost.code else failure,
                is_exiting=is_closing and failure is None,
            )
        return Acknowledged(applied=epoch is not None)

    def _recall_token_hash(self, lease: DriverLease) -> str | None:
        with self._lock:
            if lease in self._token_hashes:
                self._token_hashes.move_to_end(lease)
            return self._token_hashes.get(lease)

    def _keep_token_hash(self, lease: DriverLease, token_hash: str) -> None:
        with self._lock:
            self._token_hashes[lease] = token_hash
            if len(self._token_hashes) > _MAX_TOKEN_HASHES:
                self._token_hashes.popitem(last=False)

    def _observe_end(self, statement_id: str, is_committed: bool) -> None:
        if is_committed:
            self._awaited_ends.call_back(statement_id)

    def _close_batch(self, lease: DriverLease) -> bool:
        """Close a batch session whose statements have ended; return whether this was applied.

        After a failure, the statements that follow are cancelled.
        """
        with self._database.write("link.close_batch") as tx:
            applied = sessions.transition(
                tx,
                lease.session_id,
                SessionState.CLOSING,
                actor=lease.actor,
                epoch=lease.epoch,
                detail={"reason": "the batch has ended"},
            )
            if applied:
                cancel_queue(tx, lease.session_id, actor=lease.actor)
        return applied

    def _claim(self, lease: DriverLease, message: Poll) -> Assignment | None:
        with self._database.write("link.claim", precedence=Precedence.REPORTS) as tx:
            claimed = claim_next_assignment(tx, lease, message, self._running_limit)
        return None if claimed is None else claimed[1]


def _check_token(token_hash: str, token: str) -> None:
    if not secrets.compare_digest(token_hash, hash_token(token)):
        raise Unauthorized("The token is not valid for this session and epoch.")


def _new_cancels(view: DriverView, message: Poll) -> list[str]:
    """Return the statements that the driver must cancel and is not cancelling yet."""
    return [
        statement_id
        for statement_id, state in view.in_flight
        if state is StatementState.CANCELLING
        and statement_id in message.in_flight
        and statement_id not in message.cancels_received
    ]


def _new_streams(
    tx: Tx, lease: DriverLease, view: DriverView, message: Poll
) -> DesiredQueries | None:
    """Return the desired queries if the driver does not have them yet."""
    known = message.streams_generation
    if known is None or known == view.streams_generation:
        return None
    return stream_queries.desired(tx, lease.session_id)
