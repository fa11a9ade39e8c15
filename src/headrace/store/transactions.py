"""The journal of two-phase tables: who creates which, and how far it has come.

Who holds a transaction is the driver of one epoch of one session. From `committing` on there is
nothing but its end: whoever finds it without a driver finishes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Select, and_, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from headrace.errors import TableBusy
from headrace.model.lifecycle import TRANSACTION, StatementState, TransactionState
from headrace.model.transaction import Staged, Transaction
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.locks import lock_owned_state
from headrace.store.tables import sessions, statements, transactions

GONE_SECONDS = 15.0
"""After its session has ended, a driver's process may be about to end for so long."""
_ENTITY = "transaction"
_LIVE = transactions.c.ended_at.is_(None)
_SELECT = select(
    transactions.c.id,
    transactions.c.statement_id,
    transactions.c.session_id,
    transactions.c.epoch,
    transactions.c.state,
    transactions.c.staged,
    transactions.c.created_at,
    transactions.c.ended_at,
)
# Nobody drives it any more: its statement has ended, and the driver that held it is gone. One of a
# session that has ended may take a moment to go.
_LEFT = (
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


def prepare(tx: Tx, new: Transaction, *, actor: str) -> bool:
    """Journal a table that is about to be begun, for a statement that this driver has in hand.

    Returns whether it landed: not for a statement that is being cancelled. Saying it again changes
    nothing.
    """
    state = lock_owned_state(tx, new.statement_id, new.epoch)
    if state in {None, StatementState.CANCELLING}:
        return False
    known = get(tx, new.id)
    if known is not None:
        return (known.statement_id, known.epoch) == (new.statement_id, new.epoch)
    tx.execute(
        insert(transactions).values(
            id=new.id,
            statement_id=new.statement_id,
            session_id=new.session_id,
            epoch=new.epoch,
            state=new.state,
            identity=new.staged.identity,
            target=new.staged.target,
            location=new.staged.location,
            staged=new.staged,
            created_at=clock(),
        )
    )
    detail = {"statement": new.statement_id, "target": new.staged.target}
    events.append(tx, _ENTITY, new.id, None, new.state, actor=actor, detail=detail)
    return True


def advance(
    tx: Tx,
    transaction_id: str,
    target: TransactionState,
    *,
    session_id: str,
    epoch: int,
    actor: str,
    staged: Staged | None = None,
    published: bool = False,
) -> bool:
    """Change the state, as the lifecycle allows it, while that driver holds the transaction.

    Nothing begins to commit that a cancel has come for, unless it is `published` already. Returns
    whether it landed; saying it again lands again. Raises TableBusy while another one publishes a
    table of that name, or at that LOCATION.
    """
    known = get(tx, transaction_id)
    if known is None:
        return False
    # Who cancels locks the statement too, and first.
    statement = lock_owned_state(tx, known.statement_id, epoch)
    found = _one(tx, _held(transaction_id, session_id, epoch))
    if found is None:
        return False
    if (source := found.state) is target:
        return True
    stopped = statement in {None, StatementState.CANCELLING} and not published
    too_late = target is TransactionState.COMMITTING and stopped
    if too_late or not TRANSACTION.allows(source, target):
        return False
    values: dict[str, Any] = {"state": target, "staged": staged or found.staged}
    if target in TRANSACTION.terminal:
        values["ended_at"] = clock()
    try:
        tx.execute(update(transactions).where(transactions.c.id == transaction_id).values(values))
    except IntegrityError as error:
        raise TableBusy(
            f"Another statement is just creating {found.staged.target}, or one at its LOCATION."
        ) from error
    events.append(tx, _ENTITY, transaction_id, source, target, actor=actor)
    return True


def adopt(tx: Tx, statement_id: str, session_id: str, epoch: int) -> Transaction | None:
    """The live transaction of a statement, which a driver before this one has left to it."""
    found = live(tx, statement_id)
    if found is None:
        return None
    mine = update(transactions).where(transactions.c.id == found.id)
    tx.execute(mine.values(session_id=session_id, epoch=epoch))
    return replace(found, session_id=session_id, epoch=epoch)


def orphaned(
    tx: Tx,
    *,
    limit: int,
    identities: Sequence[str] | None = None,
    among: Sequence[str] | None = None,
) -> list[Transaction]:
    """Transactions that nobody drives any more, oldest first.

    Of certain catalogs, or among certain ids, if given.
    """
    query = (
        _SELECT.join_from(transactions, sessions, sessions.c.id == transactions.c.session_id)
        .join(statements, statements.c.id == transactions.c.statement_id)
        .where(*_LEFT)
        .order_by(transactions.c.id)
        .limit(limit)
    )
    if identities is not None:
        query = query.where(transactions.c.identity.in_(identities))
    if among is not None:
        query = query.where(transactions.c.id.in_(among))
    return [Transaction(**row) for row in tx.execute(query).mappings()]


def take_over_orphaned(
    tx: Tx, identities: Sequence[str], session_id: str, epoch: int, *, limit: int
) -> list[Transaction]:
    """Those that nobody drives, now in the hands of this driver, which has these catalogs."""
    taken = []
    for found in orphaned(tx, limit=limit, identities=identities):
        still = (
            transactions.c.id == found.id,
            transactions.c.session_id == found.session_id,
            transactions.c.epoch == found.epoch,
            _LIVE,
        )
        mine = update(transactions).where(*still).values(session_id=session_id, epoch=epoch)
        if tx.execute(mine).rowcount:
            taken.append(replace(found, session_id=session_id, epoch=epoch))
    return taken


def live(tx: Tx, statement_id: str) -> Transaction | None:
    """The transaction of a statement that has not ended."""
    return _one(tx, _SELECT.where(transactions.c.statement_id == statement_id, _LIVE))


def is_past_cancelling(tx: Tx, statement_id: str, state: StatementState) -> bool:
    """Whether the statement's table is being published, or may be, so that nothing stops it."""
    found = live(tx, statement_id)
    if found is None:
        return False
    if state is StatementState.WAITING:
        return found.in_doubt
    return found.state is TransactionState.COMMITTING


def in_doubt(tx: Tx, statement_id: str) -> bool:
    """Whether, when its driver is gone, nobody can say if the statement's table is published."""
    found = live(tx, statement_id)
    return found is not None and found.in_doubt


def get(tx: Tx, transaction_id: str) -> Transaction | None:
    """One transaction."""
    return _one(tx, _SELECT.where(transactions.c.id == transaction_id))


def page(tx: Tx, *, owner: str, before: str | None, limit: int) -> list[Transaction]:
    """An owner's transactions, newest first."""
    query = _SELECT.join_from(
        transactions, statements, statements.c.id == transactions.c.statement_id
    ).where(statements.c.owner == owner)
    if before is not None:
        query = query.where(transactions.c.id < before)
    rows = tx.execute(query.order_by(transactions.c.id.desc()).limit(limit)).mappings()
    return [Transaction(**row) for row in rows]


def is_owned(tx: Tx, owner: str, transaction_id: str) -> bool:
    """Whether a transaction is of a statement of theirs."""
    query = (
        select(transactions.c.id)
        .join_from(transactions, statements, statements.c.id == transactions.c.statement_id)
        .where(transactions.c.id == transaction_id, statements.c.owner == owner)
    )
    return tx.execute(query).one_or_none() is not None


def _held(transaction_id: str, session_id: str, epoch: int) -> Select[Any]:
    """It, while it is that driver's and the driver has its session; nobody else changes it."""
    return (
        _SELECT.join_from(transactions, sessions, sessions.c.id == transactions.c.session_id)
        .where(
            transactions.c.id == transaction_id,
            transactions.c.session_id == session_id,
            transactions.c.epoch == epoch,
            sessions.c.epoch == epoch,
        )
        .with_for_update()
    )


def _one(tx: Tx, query: Select[Any]) -> Transaction | None:
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else Transaction(**row)
