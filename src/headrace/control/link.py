"""The node's end of the link: what drivers ask, decided on the store.

Every method takes the session and epoch that the driver's token is good for. LeaseLost tells the
driver to stop: its epoch has been superseded or its session has ended.
"""

from __future__ import annotations

import hashlib
import secrets

from headrace.control.drivers import duty_of, name_of
from headrace.control.local import Locals
from headrace.control.sessions import bury, end_session
from headrace.control.table_journal import TableJournal, committed
from headrace.errors import DriverLost, LeaseLost, Unauthorized
from headrace.model.failure import Failure
from headrace.model.lifecycle import (
    STATEMENT,
    SessionState,
    StatementState,
)
from headrace.model.messages import (
    Acknowledged,
    Advanced,
    Ended,
    Goodbye,
    Hello,
    Journalled,
    Orders,
    Poll,
    Renew,
    Renewed,
    Restore,
    Restored,
    Started,
    Work,
)
from headrace.model.statement import Statement
from headrace.model.transaction import Transaction
from headrace.settings import Settings
from headrace.store import (
    changes,
    nodes,
    progress,
    sessions,
    snapshots,
    statements,
    takeovers,
    transactions,
    untold,
)
from headrace.store.database import Database, Tx


def hash_token(token: str) -> str:
    """What the store keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class Link:
    """Answers drivers; any node serves any driver."""

    def __init__(self, database: Database, settings: Settings, local_statements: Locals) -> None:
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
            duty_of(tx, session_id, epoch)
            return Restored(
                snapshot=snapshots.get(tx, session_id),
                untold=untold.of_session(tx, session_id),
            )

    def hello(self, session_id: str, epoch: int, message: Hello) -> Acknowledged:
        """Spark is up: the session runs."""
        with self._database.write() as tx:
            landed = sessions.transition(
                tx,
                session_id,
                SessionState.RUNNING,
                who=name_of(session_id, epoch),
                epoch=epoch,
                driver=message.model_dump(exclude={"lost", "told"}),
                lease_seconds=self._settings.lease.duration.total_seconds(),
                lost=message.lost,
                detail={"epoch": epoch} | ({"lost": message.lost} if message.lost else {}),
            )
            if not landed:
                duty_of(tx, session_id, epoch)
            elif message.told:
                untold.forget(tx, session_id, message.told)
        return Acknowledged(landed=landed)

    def poll(self, session_id: str, epoch: int, message: Poll) -> Orders:
        """What there is to do now; the caller waits and asks again when there is nothing.

        A statement that this epoch has claimed and the driver does not have in hand was lost on
        its way: it is handed out again.
        """
        with self._database.read() as tx:
            duty = duty_of(tx, session_id, epoch)
            lost = [one for one, _state in duty.in_hand if one not in message.in_hand]
            work = _handed_out_again(tx, lost[0]) if lost else None
        closing = duty.state is SessionState.CLOSING
        if duty.waits and len(duty.in_hand) < duty.parallelism and not closing:
            work = self._claim(session_id, epoch)
            if work is None:
                self._locals.run_due(session_id)
        elif duty.spent and not duty.waits and not duty.in_hand and not closing:
            closing = self._quit(session_id, epoch)
        unheard = [
            statement_id
            for statement_id, state in duty.in_hand
            if state is StatementState.CANCELLING
            and statement_id in message.in_hand
            and statement_id not in message.heard
        ]
        return Orders(work=work, cancel=unheard, close=closing)

    def renew(self, session_id: str, epoch: int, message: Renew) -> Renewed:
        """Prolongs the driver's lease, and says where nodes are now."""
        with self._database.write() as tx:
            seconds = self._settings.lease.duration.total_seconds()
            renewed = sessions.renew(tx, session_id, epoch, seconds, streams=message.streams)
            if renewed is None:
                raise LeaseLost(f"Epoch {epoch} of session {session_id} has been superseded.")
            return Renewed(landed=True, nodes=nodes.addresses(tx))

    def started(self, session_id: str, epoch: int, message: Started) -> Acknowledged:
        """Execution has begun."""
        with self._database.write() as tx:
            landed = changes.transition(
                tx,
                message.statement_id,
                StatementState.RUNNING,
                who=name_of(session_id, epoch),
                session_id=session_id,
                epoch=epoch,
            )
        return Acknowledged(landed=landed)

    def advanced(self, session_id: str, epoch: int, message: Advanced) -> Acknowledged:
        """How far statements are."""
        with self._database.write() as tx:
            kept = progress.keep(tx, session_id, epoch, message.progress)
        return Acknowledged(landed=kept > 0)

    def ended(self, session_id: str, epoch: int, message: Ended) -> Acknowledged:
        """How a statement ended; its result becomes readable in the same transaction."""
        if message.state not in STATEMENT.terminal:
            return Acknowledged(landed=False)
        with self._database.write() as tx:
            state, failure = _agreed(tx, message)
            if message.committed is not None:
                committed(tx, session_id, epoch, message.committed)
            landed = changes.transition(
                tx,
                message.statement_id,
                state,
                who=name_of(session_id, epoch),
                session_id=session_id,
                epoch=epoch,
                failure=failure,
                result=message.result,
                result_seconds=self._settings.results.retention.total_seconds(),
                detail=message.detail,
                ran_seconds=message.ran_seconds,
            )
            if not landed:
                duty_of(tx, session_id, epoch)
            else:
                _keep_what_is_told(tx, session_id, message)
        return Acknowledged(landed=landed)

    def goodbye(self, session_id: str, epoch: int, message: Goodbye) -> Acknowledged:
        """The driver is about to exit.

        What keeps Spark from starting would keep the next one from it as well: the session fails.
        Any other end that nobody asked for is a lost driver; the sweeper sees that it is gone.
        """
        failure = message.failure
        who = name_of(session_id, epoch)
        with self._database.write() as tx:
            duty = duty_of(tx, session_id, epoch)
            if duty.state is SessionState.CLOSING:
                landed = bury(tx, session_id, who=who, epoch=epoch)
            elif failure is not None and failure.code != DriverLost.code:
                landed = end_session(tx, session_id, failure, who=who, epoch=epoch)
            else:
                reason = failure.message.rstrip(".") if failure else "it ended without being asked"
                fence = takeovers.condemn(
                    tx, session_id, epoch, who=who, reason=reason, seconds=0.0
                )
                landed = fence is not None
        return Acknowledged(landed=landed)

    def _quit(self, session_id: str, epoch: int) -> bool:
        """Closes a batch session that has had its statement. Returns whether it landed."""
        with self._database.write() as tx:
            return sessions.transition(
                tx,
                session_id,
                SessionState.CLOSING,
                who=name_of(session_id, epoch),
                epoch=epoch,
                detail={"reason": "its one statement has ended"},
            )

    def _claim(self, session_id: str, epoch: int) -> Work | None:
        with self._database.write() as tx:
            claimed = changes.claim_next(tx, session_id, epoch, who=name_of(session_id, epoch))
            if claimed is None:
                return None
            left = None
            if claimed.attempts > 1:
                left = transactions.adopt(tx, claimed.id, session_id, epoch)
            return _work(claimed, left)


def _handed_out_again(tx: Tx, statement_id: str) -> Work | None:
    statement = statements.get(tx, statement_id)
    return None if statement is None else _work(statement, transactions.live(tx, statement_id))


def _work(statement: Statement, left: Transaction | None) -> Work:
    journalled = None
    if left is not None:
        journalled = Journalled(id=left.id, state=left.state, staged=left.staged)
    return Work(
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
        snapshots.keep(tx, session_id, message.snapshot)
    if message.atomic is not None or message.note is not None:
        changes.tell(tx, message.statement_id, atomic=message.atomic, note=message.note)


def _agreed(tx: Tx, message: Ended) -> tuple[StatementState, Failure | None]:
    """A driver that was told to cancel says `cancelled`; nobody else may."""
    if message.state is not StatementState.CANCELLED:
        return message.state, message.failure
    statement = statements.get(tx, message.statement_id)
    if statement is None or statement.state is not StatementState.CANCELLING:
        return StatementState.FAILED, message.failure
    return changes.cancelled_as(statement.cancel_reason)
