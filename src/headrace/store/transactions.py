"""The journal of table transactions: one row for each two-phase table.

The driver of one epoch of one session owns a transaction. A driver that takes over a `committing`
transaction publishes the table, and rolls the transaction back only if the catalog refuses.

A driver writes the record of a transaction, which can be large. Lists therefore do not read it, and
it is removed when the transaction ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    and_,
    false,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from headrace.errors import TableBusy, TooManyTransactions
from headrace.model.lifecycle import STATEMENT, TRANSACTION, StatementState, TransactionState
from headrace.model.session import DriverLease
from headrace.model.transaction import Staged, Transaction, TransactionSummary
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.jobs import triggers
from headrace.store.records import count_within_budget, length_of
from headrace.store.statements.locks import lock_owned_state, lock_owned_statement
from headrace.store.tables import sessions, statements, transactions
from headrace.store.transitions import Transitions

GONE_SECONDS = 15.0
"""Time that a driver process has to exit after its session has ended."""
_MAX_PER_EPOCH = 100
"""Largest number of transactions that one driver begins for one statement."""
_TRANSITIONS = Transitions(TRANSACTION, transactions)
_NO_EPOCH = 0
"""Epoch of no driver: the transaction belongs to a session, and none of its drivers owns it."""
_FIRST_RETRY_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 300.0
REPORTED_ATTEMPTS = 5
"""Number of failed attempts after which a transaction is reported as unresolved."""
_LIVE = transactions.c.ended_at.is_(None)
_SELECT = select(
    transactions.c.id,
    transactions.c.statement_id,
    transactions.c.session_id,
    transactions.c.epoch,
    transactions.c.state,
    transactions.c.staged,
    transactions.c.staged_epoch,
    transactions.c.created_at,
    transactions.c.ended_at,
)
# The statement has ended and the driver that owned the transaction is gone. After the end of its
# session, a driver may need a moment to exit.
_ORPHANED = (
    _LIVE,
    statements.c.ended_at.is_not(None),
    or_(
        sessions.c.ended_at < clock(-GONE_SECONDS),
        and_(
            sessions.c.ended_at.is_(None),
            sessions.c.epoch != transactions.c.epoch,
            sessions.c.fenced_driver.is_(None),
        ),
    ),
)
_IS_DUE = or_(transactions.c.retry_at.is_(None), transactions.c.retry_at <= clock())
"""Whether the pause after the last attempt to resolve an orphaned transaction is over."""
_SUMMARIES = (
    select(
        transactions.c.id,
        transactions.c.statement_id,
        transactions.c.session_id,
        transactions.c.state,
        transactions.c.catalog,
        transactions.c.target,
        # NULL means false: no condition for an orphan is known to be true.
        func.coalesce(and_(*_ORPHANED), false()).label("orphaned"),
        transactions.c.attempts,
        transactions.c.retry_at,
        transactions.c.last_error,
        transactions.c.created_at,
        transactions.c.ended_at,
    )
    .join_from(transactions, sessions, sessions.c.id == transactions.c.session_id)
    .join(statements, statements.c.id == transactions.c.statement_id)
)


def prepare(tx: Tx, new: Transaction, *, actor: str) -> bool:
    """Journal a transaction before its driver begins it. Repeating the call changes nothing.

    Return whether the transaction is in the journal. It is not if the driver does not own the
    statement, if the statement cannot create a table now, or if the id or the statement belongs to
    another transaction.

    Raises:
        TooManyTransactions: The driver has begun too many transactions for the statement.
    """
    lease = DriverLease(new.session_id, new.epoch)
    statement = lock_owned_statement(tx, new.statement_id, lease)
    if statement is None or statement.is_query or statement.state not in STATEMENT.executing:
        return False
    journalled = get(tx, new.id) or live(tx, new.statement_id)
    if journalled is not None:
        return _key(journalled) == _key(new)
    _check_count(tx, new)
    tx.execute(
        insert(transactions).values(
            id=new.id,
            statement_id=new.statement_id,
            session_id=new.session_id,
            epoch=new.epoch,
            state=new.state,
            catalog=new.staged.catalog,
            identity=new.staged.identity,
            target=new.staged.target,
            # A driver of an earlier version names no place.
            location=new.staged.place or new.staged.location,
            staged=new.staged,
            staged_epoch=new.staged_epoch,
            shares_target=new.staged.shares_target,
            created_at=clock(),
        )
    )
    detail = {"statement": new.statement_id, "target": new.staged.target}
    events.append(tx, TRANSACTION.entity, new.id, None, new.state, actor=actor, detail=detail)
    return True


def advance(
    tx: Tx,
    transaction_id: str,
    target: TransactionState,
    *,
    lease: DriverLease,
    actor: str,
    staged: Staged | None = None,
    published: bool = False,
) -> bool:
    """Change the state of a transaction that this driver owns, if the lifecycle allows it.

    A transaction whose statement is being cancelled does not begin to commit. A repeated
    change counts as applied and appends no event. The end of a transaction removes its record.

    Args:
        staged: The staged table, if it differs from the journal. Only the record and the counts
            may differ, and only in `committing`.
        published: Whether the catalog has published the table already, so that a cancel is too
            late. It counts only for a table that commits natively.

    Returns:
        Whether the change was applied.

    Raises:
        TableBusy: Another transaction publishes a table of that name, or at that LOCATION.
    """
    journalled = get(tx, transaction_id)
    if journalled is None:
        return False
    # Lock the statement first, as a cancel does: this decides which of the two is too late.
    statement = lock_owned_state(tx, journalled.statement_id, lease)
    owned = _get_one(tx, _select_owned(transaction_id, lease))
    if owned is None or not _may_replace(owned.staged, staged, target):
        return False
    if (source := owned.state) is target:
        return True
    published = published and owned.staged.commits_natively
    stopped = statement in {None, StatementState.CANCELLING} and not published
    if target is TransactionState.COMMITTING and stopped:
        return False
    kept = staged or owned.staged
    if target in TRANSACTION.terminal:
        kept = owned.staged.model_copy(update={"record": {}})
    values = {"staged": kept}
    try:
        is_applied = _TRANSITIONS.apply(
            tx, transaction_id, source, target, actor=actor, values=values
        )
    except IntegrityError as error:
        raise TableBusy(
            f"Another statement is publishing {owned.staged.target}, or a table at its LOCATION.",
            hint="Submit the statement again when the other one has ended.",
        ) from error
    if is_applied and target is TransactionState.COMMITTED:
        triggers.note_change(tx, owned)
    return is_applied


def adopt(tx: Tx, statement_id: str, lease: DriverLease) -> Transaction | None:
    """Give the live transaction of a statement to the driver that retries the statement.

    Return the transaction, or None if the statement has none.
    """
    transaction = live(tx, statement_id)
    if transaction is None:
        return None
    adoption = update(transactions).where(transactions.c.id == transaction.id)
    tx.execute(adoption.values(session_id=lease.session_id, epoch=lease.epoch))
    return replace(transaction, session_id=lease.session_id, epoch=lease.epoch)


def has_orphaned(tx: Tx, session_id: str, identities: Sequence[str] | None = None) -> bool:
    """Return whether the driver of a session may take over orphaned transactions now.

    Args:
        identities: Catalogs of the driver; None: any catalog.
    """
    query = _of_orphans(select(transactions.c.id), session_id, identities)
    return tx.execute(query.limit(1)).first() is not None


def find_recovering(tx: Tx, session_ids: Sequence[str]) -> set[str]:
    """Return those of the sessions whose drivers may take over orphaned transactions now."""
    own = sessions.alias()
    orphans = (
        select(statements.c.owner)
        .join_from(transactions, sessions, sessions.c.id == transactions.c.session_id)
        .join(statements, statements.c.id == transactions.c.statement_id)
        .where(*_ORPHANED, _IS_DUE)
    )
    query = select(own.c.id).where(own.c.id.in_(session_ids), own.c.owner.in_(orphans))
    return set(tx.execute(query).scalars())


def take_over_orphaned(
    tx: Tx, identities: Sequence[str], lease: DriverLease, *, limit: int
) -> list[Transaction]:
    """Give due orphaned transactions of these catalogs to this driver, at most `limit`.

    They belong to the owner of its session, whose rights the driver has. The oldest come first. The
    next attempt is due after a pause that grows, unless this driver ends the transaction.

    Return the transactions that now belong to the driver, as many as have a bounded size together.
    Transactions that another driver takes over at the same time are not among them.
    """
    sizes = _of_orphans(select(length_of(transactions.c.staged)), lease.session_id, identities)
    count, _more = count_within_budget(tx, sizes, limit)
    adopted = []
    query = _of_orphans(
        _SELECT.add_columns(transactions.c.attempts), lease.session_id, identities
    ).limit(count)
    for row in tx.execute(query).mappings().all():
        orphan = Transaction(**{key: row[key] for key in row if key != "attempts"})
        unchanged = (
            transactions.c.id == orphan.id,
            transactions.c.session_id == orphan.session_id,
            transactions.c.epoch == orphan.epoch,
            _LIVE,
        )
        adoption = update(transactions).where(*unchanged)
        adoption = adoption.values(
            session_id=lease.session_id,
            epoch=lease.epoch,
            attempts=transactions.c.attempts + 1,
            retry_at=clock(_retry_seconds(row["attempts"])),
        )
        if tx.execute(adoption).rowcount:
            adopted.append(replace(orphan, session_id=lease.session_id, epoch=lease.epoch))
    return adopted


def give_up(tx: Tx, transaction_id: str, lease: DriverLease, error: str) -> int | None:
    """Release an orphaned transaction that its driver could not resolve. It stays in its state.

    Return the number of attempts so far, or None if the driver does not own the transaction.
    """
    change = (
        update(transactions)
        .where(
            transactions.c.id == transaction_id,
            transactions.c.session_id == lease.session_id,
            transactions.c.epoch == lease.epoch,
            transactions.c.attempts > 0,
            _LIVE,
        )
        .values(epoch=_NO_EPOCH, last_error=error)
        .returning(transactions.c.attempts, transactions.c.state)
    )
    row = tx.execute(change).one_or_none()
    if row is None:
        return None
    if row.attempts == REPORTED_ATTEMPTS:
        detail = {"attempts": row.attempts, "error": error}
        actor = lease.actor
        events.append(
            tx, TRANSACTION.entity, transaction_id, row.state, row.state, actor=actor, detail=detail
        )
    attempts: int = row.attempts
    return attempts


def retry_now(tx: Tx, *, owners: Collection[str]) -> None:
    """End the pauses before the next attempts to resolve the transactions of these owners."""
    own = select(statements.c.id).where(statements.c.owner.in_(owners))
    change = update(transactions).where(_LIVE, transactions.c.statement_id.in_(own))
    tx.execute(change.where(transactions.c.retry_at.is_not(None)).values(retry_at=None))


def count_unresolved(tx: Tx) -> int:
    """Return the number of transactions that have failed as often as they are reported."""
    query = select(func.count()).where(_LIVE, transactions.c.attempts >= REPORTED_ATTEMPTS)
    count: int = tx.execute(query).scalar_one()
    return count


def live(tx: Tx, statement_id: str) -> Transaction | None:
    """Return the live transaction of a statement, or None if there is none."""
    return _get_one(tx, _SELECT.where(transactions.c.statement_id == statement_id, _LIVE))


def has_committed(tx: Tx, statement_id: str) -> bool:
    """Return whether a statement has changed a table, whatever became of the statement."""
    query = select(transactions.c.id).where(
        transactions.c.statement_id == statement_id,
        transactions.c.state == TransactionState.COMMITTED,
    )
    return tx.execute(query.limit(1)).first() is not None


def is_past_cancelling(tx: Tx, statement_id: str, state: StatementState) -> bool:
    """Return whether a cancel is too late because the table is being published, or may be.

    Args:
        state: Current state of the statement.
    """
    transaction = live(tx, statement_id)
    if transaction is None:
        return False
    if state in STATEMENT.queued:
        return transaction.in_doubt
    return transaction.state is TransactionState.COMMITTING


def in_doubt(tx: Tx, statement_id: str) -> bool:
    """Return whether the table of a statement may already be visible."""
    transaction = live(tx, statement_id)
    return transaction is not None and transaction.in_doubt


def get(tx: Tx, transaction_id: str) -> Transaction | None:
    """Return a transaction, or None if there is no such transaction."""
    return _get_one(tx, _SELECT.where(transactions.c.id == transaction_id))


def summary(
    tx: Tx, transaction_id: str, *, owners: Collection[str] | None
) -> TransactionSummary | None:
    """Return the summary of a transaction, or None if no statement of these owners has it."""
    query = _SUMMARIES.where(transactions.c.id == transaction_id, *_of_owners(owners))
    summaries = _read_summaries(tx, query)
    return summaries[0] if summaries else None


def page(
    tx: Tx, *, owners: Collection[str] | None, before: str | None, limit: int
) -> list[TransactionSummary]:
    """Return at most `limit` transactions of statements, newest first.

    Args:
        owners: Owners of the statements; None: all.
        before: Id of the last transaction of the previous page; None: the first page.
    """
    query = _SUMMARIES.where(*_of_owners(owners))
    if before is not None:
        query = query.where(transactions.c.id < before)
    return _read_summaries(tx, query.order_by(transactions.c.id.desc()).limit(limit))


def orphaned(tx: Tx, *, owners: Collection[str] | None, limit: int) -> list[TransactionSummary]:
    """Return at most `limit` orphaned transactions of these owners' statements, oldest first.

    A transaction is orphaned when its statement has ended and no driver works on it.
    """
    query = _SUMMARIES.where(*_ORPHANED, *_of_owners(owners))
    return _read_summaries(tx, query.order_by(transactions.c.id).limit(limit))


def _of_owners(owners: Collection[str] | None) -> list[ColumnElement[bool]]:
    return [] if owners is None else [statements.c.owner.in_(owners)]


def _read_summaries(tx: Tx, query: Select[Any]) -> list[TransactionSummary]:
    return [
        TransactionSummary(**{**row, "orphaned": bool(row["orphaned"])})
        for row in tx.execute(query).mappings()
    ]


def select_owner(session_id: str) -> ScalarSelect[Any]:
    """Return the query for the owner of a session, for use in another query."""
    own = sessions.alias()
    return select(own.c.owner).where(own.c.id == session_id).scalar_subquery()


def _of_orphans(
    query: Select[Any], session_id: str, identities: Sequence[str] | None
) -> Select[Any]:
    """Restrict a query to the orphaned transactions of these catalogs, oldest first.

    Only transactions of the owner of the session are included.
    """
    orphans = (
        query.join_from(transactions, sessions, sessions.c.id == transactions.c.session_id)
        .join(statements, statements.c.id == transactions.c.statement_id)
        .where(*_ORPHANED, _IS_DUE, statements.c.owner == select_owner(session_id))
        .order_by(transactions.c.id)
    )
    return orphans if identities is None else orphans.where(transactions.c.identity.in_(identities))


def _retry_seconds(attempts: int) -> float:
    """Return the pause after an attempt, given the number of attempts before it."""
    return float(min(_LONGEST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2 ** min(attempts, 10)))


def _check_count(tx: Tx, new: Transaction) -> None:
    """Raise TooManyTransactions if the driver may begin no further one for the statement."""
    query = select(func.count()).where(
        transactions.c.statement_id == new.statement_id,
        transactions.c.staged_epoch == new.staged_epoch,
    )
    if tx.execute(query).scalar_one() >= _MAX_PER_EPOCH:
        raise TooManyTransactions(
            f"Statement {new.statement_id} has begun {_MAX_PER_EPOCH} table transactions, and no"
            " statement may begin more in one driver."
        )


def _key(transaction: Transaction) -> tuple[object, ...]:
    """Return what a repetition of `prepared` must have in common with the journal."""
    return (
        transaction.id,
        transaction.statement_id,
        transaction.session_id,
        transaction.epoch,
        transaction.staged,
    )


def _may_replace(journalled: Staged, staged: Staged | None, target: TransactionState) -> bool:
    """Return whether a driver may journal this description of its staged table.

    The locks, and the drivers that recover the transaction, rely on what `prepared` journalled.
    """
    if staged is None or staged == journalled:
        return True
    facts = {"record": journalled.record, "expectation_counts": journalled.expectation_counts}
    same_table = staged.model_copy(update=facts) == journalled
    return target is TransactionState.COMMITTING and same_table


def _select_owned(transaction_id: str, lease: DriverLease) -> Select[Any]:
    """Return a locking query for a transaction, empty unless the driver owns it and its session."""
    return (
        _SELECT.join_from(transactions, sessions, sessions.c.id == transactions.c.session_id)
        .where(
            transactions.c.id == transaction_id,
            transactions.c.session_id == lease.session_id,
            transactions.c.epoch == lease.epoch,
            sessions.c.epoch == lease.epoch,
            sessions.c.ended_at.is_(None),
        )
        .with_for_update()
    )


def _get_one(tx: Tx, query: Select[Any]) -> Transaction | None:
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else Transaction(**row)
