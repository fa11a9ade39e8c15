"""The node's end of the link: what drivers ask, decided on the store.

Every method takes the session and epoch that the driver's token is good for. LeaseLost tells the
driver to stop: its epoch has been superseded or its session has ended.
"""

from __future__ import annotations

import hashlib
import secrets

from headrace.control.driver_link.driver_lease import driver_actor, load_owned_view
from headrace.control.driver_link.table_journal import TableJournal, committed
from headrace.control.sessions.service import end_session, finish_close
from headrace.control.statements.node_statements import NodeStatements
from headrace.errors import DriverLost, LeaseLost, Unauthorized
from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT, SessionState, StatementState
from headrace.model.messages import (
    Acknowledged,
    Advanced,
    Assignment,
    Ended,
    Goodbye,
    Hello,
    JournalEntry,
    Orders,
    Poll,
    Renew,
    Renewed,
    Restore,
    Restored,
    Started,
)
from headrace.model.statement import Statement
from headrace.model.transaction import Transaction
from headrace.settings import Settings
from headrace.store import (
    nodes,
    pending_hook_calls,
    progress,
    sessions,
    snapshots,
    statement_transitions,
    statements,
    takeovers,
    transactions,
)
from headrace.store.database import Database, Tx


def hash_token(token: str) -> str:
    """What the store keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class DriverLinkService:
    """Answers drivers; any node serves any driver."""

    def __init__(
        self, database: Database, settings: Settings, local_statements: NodeStatements
    ) -> None:
        self._database = database
        self._settings = settings
        self._locals = local_statements
        self.tables = TableJournal(database)
        self._tokens: dict[tuple[str, int], str] = {}

    def authenticate(self, session_id: str, epoch: int, token: str) -> None:
        """Raises Unauthorized unless the token was made for this session and epoch."""
        key = (session_id, epoch)
        known = self._tokens.get(key)
        if known is None:
            with self._database.read() as tx:
                known = sessions.token_hash(tx, session_id, epoch)
            if known is None:
                raise LeaseLost(f"Epoch {epoch} of session {session_id} has been superseded.")
            self._tokens[key] = known
        if not secrets.compare_digest(known, hash_token(token)):
            raise Unauthorized("The token is not good for this session and epoch.")

    def restore(self, session_id: str, epoch: int, _message: Restore) -> Restored:
        """What the driver has to rebuild before it says hello."""
        with self._database.read() as tx:
            load_owned_view(tx, session_id, epoch)
            return Restored(
                snapshot=snapshots.get(tx, session_id),
                pending_hook_calls=pending_hook_calls.list_for_session(tx, session_id),
            )

    def hello(self, session_id: str, epoch: int, message: Hello) -> Acknowledged:
        """Spark is up: the session runs."""
        with self._database.write() as tx:
            applied = sessions.transition(
                tx,
                session_id,
                SessionState.RUNNING,
                actor=driver_actor(session_id, epoch),
                epoch=epoch,
                driver=message.model_dump(exclude={"lost", "told"}),
                lease_seconds=self._settings.lease.duration.total_seconds(),
                lost=message.lost,
                detail={"epoch": epoch} | ({"lost": message.lost} if message.lost else {}),
            )
            if not applied:
                load_owned_view(tx, session_id, epoch)
            elif message.told:
                pending_hook_calls.remove(tx, session_id, message.told)
        return Acknowledged(applied=applied)

    def poll(self, session_id: str, epoch: int, message: Poll) -> Orders:
        """What there is to do now; the caller waits and asks again when there is nothing.

        A statement that this epoch has claimed and the driver does not have in hand was lost on
        its way: it is handed out again.
        """
        with self._database.read() as tx:
            duty = load_owned_view(tx, session_id, epoch)
            lost = [one for one, _state in duty.in_flight if one not in message.in_flight]
            assignment = _handed_out_again(tx, lost[0]) if lost else None
        closing = duty.state is SessionState.CLOSING
        if duty.waits and len(duty.in_flight) < duty.parallelism and not closing:
            assignment = self._claim(session_id, epoch)
            if assignment is None:
                self._locals.run_due(session_id)
        elif duty.spent and not duty.waits and not duty.in_flight and not closing:
            closing = self._quit(session_id, epoch)
        unheard = [
            statement_id
            for statement_id, state in duty.in_flight
            if state is StatementState.CANCELLING
            and statement_id in message.in_flight
            and statement_id not in message.cancels_received
        ]
        return Orders(assignment=assignment, cancel=unheard, close=closing)

    def renew(self, session_id: str, epoch: int, message: Renew) -> Renewed:
        """Prolongs the driver's lease, and says where nodes are now."""
        with self._database.write() as tx:
            seconds = self._settings.lease.duration.total_seconds()
            renewed = sessions.renew(tx, session_id, epoch, seconds, streams=message.streams)
            if renewed is None:
                raise LeaseLost(f"Epoch {epoch} of session {session_id} has been superseded.")
            return Renewed(applied=True, nodes=nodes.addresses(tx))

    def started(self, session_id: str, epoch: int, message: Started) -> Acknowledged:
        """Execution has begun."""
        with self._database.write() as tx:
            applied = statement_transitions.transition(
                tx,
                message.statement_id,
                StatementState.RUNNING,
                actor=driver_actor(session_id, epoch),
                session_id=session_id,
                epoch=epoch,
            )
        return Acknowledged(applied=applied)

    def advanced(self, session_id: str, epoch: int, message: Advanced) -> Acknowledged:
        """How far statements are."""
        with self._database.write() as tx:
            kept = progress.save(tx, session_id, epoch, message.progress)
        return Acknowledged(applied=kept > 0)

    def ended(self, session_id: str, epoch: int, message: Ended) -> Acknowledged:
        """How a statement ended; its result becomes readable in the same transaction."""
        if message.state not in STATEMENT.terminal:
            return Acknowledged(applied=False)
        with self._database.write() as tx:
            state, failure = _agreed(tx, message)
            if message.committed is not None:
                committed(tx, session_id, epoch, message.committed)
            applied = statement_transitions.transition(
                tx,
                message.statement_id,
                state,
                actor=driver_actor(session_id, epoch),
                session_id=session_id,
                epoch=epoch,
                failure=failure,
                result=message.result,
                result_seconds=self._settings.results.retention.total_seconds(),
                detail=message.detail,
                ran_seconds=message.ran_seconds,
            )
            if not applied:
                load_owned_view(tx, session_id, epoch)
            else:
                _keep_what_is_told(tx, session_id, message)
        return Acknowledged(applied=applied)

    def goodbye(self, session_id: str, epoch: int, message: Goodbye) -> Acknowledged:
        """The driver is about to exit.

        What keeps Spark from starting would keep the next one from it as well: the session fails.
        Any other end that nobody asked for is a lost driver; the sweeper sees that it is gone.
        """
        failure = message.failure
        actor = driver_actor(session_id, epoch)
        with self._database.write() as tx:
            duty = load_owned_view(tx, session_id, epoch)
            if duty.state is SessionState.CLOSING:
                applied = finish_close(tx, session_id, actor=actor, epoch=epoch)
            elif failure is not None and failure.code != DriverLost.code:
                applied = end_session(tx, session_id, failure, actor=actor, epoch=epoch)
            else:
                reason = failure.message.rstrip(".") if failure else "it ended without being asked"
                fence = takeovers.fence(
                    tx, session_id, epoch, actor=actor, reason=reason, seconds=0.0
                )
                applied = fence is not None
        return Acknowledged(applied=applied)

    def _quit(self, session_id: str, epoch: int) -> bool:
        """Closes a batch session that has had its statement. Returns whether it landed."""
        with self._database.write() as tx:
            return sessions.transition(
                tx,
                session_id,
                SessionState.CLOSING,
                actor=driver_actor(session_id, epoch),
                epoch=epoch,
                detail={"reason": "its one statement has ended"},
            )

    def _claim(self, session_id: str, epoch: int) -> Assignment | None:
        with self._database.write() as tx:
            claimed = statement_transitions.claim_next(
                tx, session_id, epoch, actor=driver_actor(session_id, epoch)
            )
            if claimed is None:
                return None
            left = None
            if claimed.attempts > 1:
                left = transactions.adopt(tx, claimed.id, session_id, epoch)
            return _work(claimed, left)


def _handed_out_again(tx: Tx, statement_id: str) -> Assignment | None:
    statement = statements.get(tx, statement_id)
    return None if statement is None else _work(statement, transactions.live(tx, statement_id))


def _work(statement: Statement, left: Transaction | None) -> Assignment:
    journalled = None
    if left is not None:
        journalled = JournalEntry(id=left.id, state=left.state, staged=left.staged)
    return Assignment(
        statement_id=statement.id,
        text=statement.text,
        parameters=statement.parameters,
        conf=statement.conf,
        disposition=statement.disposition,
        row_limit=statement.row_limit,
        byte_limit=statement.byte_limit,
        location=statement.location,
        is_query=statement.is_query,
        attempt=statement.attempts,
        transaction=journalled,
    )


def _keep_what_is_told(tx: Tx, session_id: str, message: Ended) -> None:
    if message.snapshot is not None:
        snapshots.save(tx, session_id, message.snapshot)
    if message.atomic is not None or message.note is not None:
        statement_transitions.set_outcome_notes(
            tx, message.statement_id, atomic=message.atomic, note=message.note
        )


def _agreed(tx: Tx, message: Ended) -> tuple[StatementState, Failure | None]:
    """A driver that was told to cancel says `cancelled`; nobody else may."""
    if message.state is not StatementState.CANCELLED:
        return message.state, message.failure
    statement = statements.get(tx, message.statement_id)
    if statement is None or statement.state is not StatementState.CANCELLING:
        return StatementState.FAILED, message.failure
    return statement_transitions.outcome_of_cancel(statement.cancel_reason)
