"""Launches and takeovers of drivers.

A takeover has two steps. First, a node fences the lost driver: it raises the epoch, so that the
driver can no longer change anything in the store. Then the node confirms with the backend that the
process is gone. Between the two steps the session has a `fenced_driver`, and no other driver is
launched, because the process may still write files or tables.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, case, exists, null, or_, select, update

from headrace.model.failure import Failure
from headrace.model.lifecycle import (
    SESSION,
    STATEMENT,
    SessionState,
    StatementState,
    TransactionState,
)
from headrace.model.result import GoneReason
from headrace.model.session import DriverLease, FencedDriver, FlightAccess, Session, SessionKind
from headrace.model.statement import RETRIED
from headrace.model.transaction import Transaction
from headrace.store import events, nodes
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.notifications import LAUNCH, session_topic
from headrace.store.sessions.sessions import add_hook_calls, fetch, select_leased
from headrace.store.statements import results
from headrace.store.statements.statement_transitions import (
    change_state,
    commit_in_doubt,
    outcome_of_cancel,
    record,
)
from headrace.store.statements.time_limits import has_other_work
from headrace.store.streams import stream_queries
from headrace.store.tables import sessions, statements, transactions
from headrace.store.transactions import live as find_live_transaction

_ID_BATCH = 500


def overdue(tx: Tx, limit: int, *, node: str, seconds: float, offset: int = 0) -> list[Session]:
    """Return at most `limit` sessions whose lease has expired by the database's clock.

    The sessions that the node itself has launched come first, because another node may be unable to
    reach their host.

    The expired lease belongs to the node of an unfinished takeover, or to a driver. A driver is
    overdue only for a node that may judge it (`store.nodes.may_judge`). A launch is overdue as soon
    as the node that has claimed it has no lease.

    Args:
        node: Id of the node that asks.
        seconds: Length of a lease.
        offset: Number of sessions to skip.
    """
    may_act = or_(sessions.c.fenced_driver.is_not(None), nodes.may_judge(node, seconds))
    query = select_leased().where(_is_overdue(), may_act)
    is_foreign = case((sessions.c.launched_by == node, 0), else_=1)
    return fetch(tx, query.order_by(is_foreign, sessions.c.id).limit(limit).offset(offset))


def unclosed(tx: Tx, seconds: float, limit: int) -> list[Session]:
    """Return at most `limit` sessions that have been closing for longer than `seconds`.

    A session whose driver is fenced already is not included.
    """
    query = select_leased().where(
        sessions.c.state == SessionState.CLOSING,
        sessions.c.fenced_driver.is_(None),
        seconds_since(sessions.c.closing_since) > seconds,
    )
    return fetch(tx, query.order_by(sessions.c.id).limit(limit))


def unconfirmed_launches(tx: Tx, node: str) -> list[Session]:
    """Return the sessions whose launch this node has claimed and for which no handle is stored."""
    query = select_leased().where(
        sessions.c.launched_by == node,
        sessions.c.handle.is_(None),
        sessions.c.fenced_driver.is_(None),
    )
    return fetch(tx, query.order_by(sessions.c.id))


def unobserved_starts(tx: Tx, node: str, limit: int, *, slow_seconds: float) -> list[Session]:
    """Return at most `limit` sessions with a start whose end no node might observe.

    The node that launched the driver has no lease, or has restarted since. Starts of the given node
    that take longer than `slow_seconds` are included: the driver may run outside its host.
    """
    observed = nodes.has_served_since(sessions.c.launched_by, sessions.c.last_update_time)
    is_own = sessions.c.launched_by == node
    is_slow = seconds_since(sessions.c.last_update_time) > slow_seconds
    query = select_leased().where(
        sessions.c.state.in_(sorted(SESSION.launching)),
        sessions.c.handle.is_not(None),
        sessions.c.fenced_driver.is_(None),
        or_(~observed, and_(is_own, is_slow)),
    )
    return fetch(tx, query.order_by(case((is_own, 0), else_=1), sessions.c.id).limit(limit))


def take_over_start(tx: Tx, lease: DriverLease, *, node: str, host: dict[str, Any]) -> None:
    """Record the node that observes a start whose own node has ended or restarted since.

    Args:
        host: Identity of the host of the node.
    """
    unobserved = (
        *_has_epoch(lease),
        sessions.c.state.in_(sorted(SESSION.launching)),
        sessions.c.fenced_driver.is_(None),
        ~nodes.has_served_since(sessions.c.launched_by, sessions.c.last_update_time),
    )
    values = {"launched_by": node, "host": host, "last_update_time": clock()}
    tx.execute(update(sessions).where(*unobserved).values(**values))


def fence(
    tx: Tx,
    lease: DriverLease,
    *,
    actor: str,
    reason: str,
    seconds: float,
    only_if_overdue: bool = False,
    only_if_alone_with: str | None = None,
    start_timed_out: bool = False,
    failure: Failure | None = None,
    is_exiting: bool = False,
) -> int | None:
    """Fence a driver: raise the epoch of its session, so that it can no longer change the store.

    Args:
        reason: Why the driver counts as lost.
        seconds: Time for the actor to confirm that the process is gone. After that, any node can
            reclaim the takeover.
        only_if_overdue: Fence only if the lease has expired, and if the actor is a node that may
            judge it (`store.nodes.may_judge`) with leases of `seconds`.
        only_if_alone_with: Fence only if this statement is the only one in flight and the driver
            runs no streaming query.
        start_timed_out: Whether the driver used up the start timeout.
        failure: Why the session must fail; None: another driver can continue.
        is_exiting: Whether the driver is about to exit because its session closes.

    Returns:
        The new epoch. None if the session has another epoch already, or a condition does not hold.
    """
    conditions = []
    if only_if_overdue:
        conditions = [_is_overdue(), nodes.may_judge(actor, seconds)]
    session = _lock_driven(tx, lease, conditions, only_if_alone_with=only_if_alone_with)
    if session is None:
        return None
    source = session.state
    target = SessionState.RECOVERING if source is SessionState.RUNNING else source
    fenced_driver = FencedDriver(
        epoch=lease.epoch,
        handle=session.handle,
        reason=reason,
        start_timed_out=start_timed_out,
        streams=max(session.streams, stream_queries.count_live(tx, lease.session_id)),
        failure=failure,
        is_exiting=is_exiting,
    )
    tx.execute(
        update(sessions)
        .where(sessions.c.id == lease.session_id)
        .values(
            state=target,
            epoch=lease.epoch + 1,
            token_hash=None,
            flight_secret=None,
            fenced_driver=fenced_driver,
            handle=None,
            streams=0,
            lease_until=clock(seconds),
        )
    )
    gone_reason = GoneReason.SESSION_CLOSED if is_exiting else GoneReason.DRIVER_LOST
    results.mark_held_gone(tx, lease.session_id, gone_reason)
    detail = {"reason": reason, "epoch": lease.epoch}
    events.append(tx, SESSION.entity, lease.session_id, source, target, actor=actor, detail=detail)
    tx.wake(session_topic(lease.session_id), LAUNCH)
    return lease.epoch + 1


def _lock_driven(
    tx: Tx,
    lease: DriverLease,
    conditions: Sequence[ColumnElement[bool]],
    *,
    only_if_alone_with: str | None,
) -> Row[Any] | None:
    """Lock a session that a driver owns, under the conditions of `fence`.

    Return its state and handle, or None if a condition does not hold. A claim takes the same lock,
    so that no statement is claimed between the check for other work and the fence.
    """
    query = select(sessions.c.state, sessions.c.handle, sessions.c.streams).where(
        *_has_epoch(lease),
        sessions.c.state.in_(sorted(SESSION.leased)),
        sessions.c.lease_until.is_not(None),
        sessions.c.fenced_driver.is_(None),
        *conditions,
    )
    if only_if_alone_with is not None:
        query = query.where(sessions.c.streams == 0)
    session = tx.execute(query.with_for_update()).one_or_none()
    if session is None or only_if_alone_with is None:
        return session
    return None if has_other_work(tx, lease.session_id, only_if_alone_with) else session


def reclaim_takeover(tx: Tx, lease: DriverLease, *, seconds: float) -> bool:
    """Reclaim a takeover that another node has not finished in time.

    Return whether the takeover was reclaimed.
    """
    expired = (
        *_has_epoch(lease),
        sessions.c.fenced_driver.is_not(None),
        sessions.c.lease_until < clock(),
    )
    claim = update(sessions).where(*expired).values(lease_until=clock(seconds))
    return tx.execute(claim).rowcount > 0


def extend_lease(tx: Tx, lease: DriverLease, *, seconds: float) -> None:
    """Extend the lease of an overdue driver, because the backend cannot say whether it is gone."""
    driven = (
        *_has_epoch(lease),
        sessions.c.fenced_driver.is_(None),
        # A driver that has sent `goodbye` in the meantime has no lease.
        sessions.c.lease_until.is_not(None),
    )
    tx.execute(update(sessions).where(*driven).values(lease_until=clock(seconds)))


def finish_takeover(tx: Tx, lease: DriverLease) -> bool:
    """Finish a takeover after the process of the fenced driver is confirmed to be gone.

    Return whether it was finished; another node may have finished it before.
    """
    fenced = (*_has_epoch(lease), sessions.c.fenced_driver.is_not(None))
    release = update(sessions).where(*fenced)
    # Whoever waits for a batch reads the id of its application after its end.
    kept = case((sessions.c.kind == SessionKind.BATCH, sessions.c.driver), else_=null())
    release = release.values(fenced_driver=None, lease_until=None, driver=kept)
    if not tx.execute(release).rowcount:
        return False
    tx.wake(session_topic(lease.session_id), LAUNCH)
    return True


def claim_launch(
    tx: Tx,
    session_id: str,
    *,
    node: str,
    seconds: float,
    token_hash: str,
    owner: str | None = None,
    results_location: str | None = None,
    flight: FlightAccess | None = None,
    host: dict[str, Any] | None = None,
) -> int | None:
    """Claim the launch of a session's driver.

    Args:
        seconds: Time until the driver must have reported `hello`.
        token_hash: Hash of the driver's token.
        owner: Owner for whom the driver is to act; None: any. A warm session may have been
            assigned to another owner since it was read.
        results_location: Where the driver writes stored results.
        flight: How the driver serves held results; None: it holds none.
        host: Identity of the host of the node.

    Returns:
        The new epoch. None if the session needs no driver, if it has another owner, or if another
        node claimed the launch first.
    """
    needs_driver = (
        sessions.c.id == session_id,
        *([] if owner is None else [sessions.c.owner == owner]),
        sessions.c.state.in_(sorted(SESSION.launching | {SESSION.initial})),
        sessions.c.lease_until.is_(None),
        sessions.c.fenced_driver.is_(None),
    )
    source = tx.execute(select(sessions.c.state).where(*needs_driver).with_for_update()).scalar()
    if source is None:
        return None
    target = SessionState.STARTING if source is SessionState.NOT_STARTED else source
    claim = (
        update(sessions)
        .where(*needs_driver)
        .values(
            state=target,
            epoch=sessions.c.epoch + 1,
            starts=sessions.c.starts + 1,
            launched_by=node,
            host=host,
            handle=None,
            token_hash=token_hash,
            results_location=results_location,
            flight_host=None if flight is None else flight.host,
            flight_secret=None if flight is None else flight.secret,
            lease_until=clock(seconds),
            last_update_time=clock(),
        )
        .returning(sessions.c.epoch)
    )
    epoch: int = tx.execute(claim).scalar_one()
    events.append(
        tx, SESSION.entity, session_id, source, target, actor=node, detail={"epoch": epoch}
    )
    tx.wake(session_topic(session_id))
    return epoch


def find_ended_launches(
    tx: Tx, leases: Collection[DriverLease]
) -> tuple[set[DriverLease], set[DriverLease]]:
    """Return which drivers, or their hosts, are confirmed to be gone, and which are not known.

    A driver is not known if the store does not have its session. After the end of its session, a
    driver may need a moment to exit.
    """
    ids = sorted({lease.session_id for lease in leases})
    columns = (sessions.c.id, sessions.c.epoch, sessions.c.ended_at, sessions.c.fenced_driver)
    rows: dict[str, Row[Any]] = {}
    for start in range(0, len(ids), _ID_BATCH):
        query = select(*columns).where(sessions.c.id.in_(ids[start : start + _ID_BATCH]))
        rows |= {row.id: row for row in tx.execute(query)}
    ended, unknown = set(), set()
    for lease in leases:
        session = rows.get(lease.session_id)
        if session is None:
            unknown.add(lease)
        elif session.ended_at is not None or (
            session.epoch != lease.epoch and session.fenced_driver is None
        ):
            ended.add(lease)
    return ended, unknown


def _is_overdue() -> ColumnElement[bool]:
    """Return the condition that the lease of a session has expired, or that of its launch."""
    is_abandoned_launch = and_(
        sessions.c.state.in_(sorted(SESSION.launching)),
        sessions.c.handle.is_(None),
        sessions.c.fenced_driver.is_(None),
        sessions.c.launched_by.is_not(None),
        ~nodes.has_lease(sessions.c.launched_by),
    )
    return or_(sessions.c.lease_until < clock(), is_abandoned_launch)


def _has_epoch(lease: DriverLease) -> tuple[ColumnElement[bool], ...]:
    return (sessions.c.id == lease.session_id, sessions.c.epoch == lease.epoch)


_IS_CLOSING = sessions.c.state == SessionState.CLOSING
_HAS_WAITING = exists().where(
    statements.c.session_id == sessions.c.id,
    statements.c.ended_at.is_(None),
    statements.c.state.in_(sorted(STATEMENT.queued)),
    # A statement whose table is being published ends with its session.
    ~exists().where(
        transactions.c.statement_id == statements.c.id, transactions.c.ended_at.is_(None)
    ),
)


def list_closing(tx: Tx, limit: int) -> list[str]:
    """Return the ids of at most `limit` closing sessions that a node must work on.

    Statements still wait in these sessions, or they have no driver that could end them.
    """
    needs_work = or_(sessions.c.lease_until.is_(None), _HAS_WAITING)
    query = select(sessions.c.id).where(sessions.c.ended_at.is_(None), _IS_CLOSING, needs_work)
    return list(tx.execute(query.order_by(sessions.c.id).limit(limit)).scalars())


def lock_closing(tx: Tx, session_id: str, *, epoch: int | None = None) -> bool:
    """Lock a session if it is closing.

    Args:
        epoch: Lock it only if this is its current epoch; None: in any epoch.

    Returns:
        Whether the session was locked.
    """
    query = select(sessions.c.id).where(sessions.c.id == session_id, _IS_CLOSING)
    if epoch is not None:
        query = query.where(sessions.c.epoch == epoch)
    return tx.execute(query.with_for_update()).one_or_none() is not None


def closing_has_driver(tx: Tx, session_id: str) -> bool:
    """Return whether a driver of the session may still act."""
    query = select(sessions.c.id).where(
        sessions.c.id == session_id, sessions.c.lease_until.is_not(None)
    )
    return tx.execute(query).one_or_none() is not None


def release_closing(tx: Tx, session_id: str) -> None:
    """Release a session from its driver, which is gone. A later call of that driver is fenced."""
    names = ("lease_until", "fenced_driver", "handle", "token_hash", "flight_secret")
    results.mark_held_gone(tx, session_id, GoneReason.SESSION_CLOSED)
    driverless = update(sessions).where(sessions.c.id == session_id, _IS_CLOSING)
    tx.execute(driverless.values(epoch=sessions.c.epoch + 1, **dict.fromkeys(names)))


COMMIT_ATTEMPTS = 5
"""Number of drivers that try to finish the commit of a statement, before others may."""


def resolve_lost(
    tx: Tx, session_id: str, *, actor: str, failure: Failure, max_attempts: int
) -> None:
    """Resolve the statements in flight of a driver that is confirmed to be gone.

    - A statement that can have had no effect, a CTAS or another write that can be rolled back, or a
      statement on streams waits for another driver until it has had `max_attempts` attempts.
    - A write that was committing waits for the next driver to finish it, until it has had
      `COMMIT_ATTEMPTS`. Then it fails with `commit_in_doubt`, and any driver finishes the orphaned
      transaction.
    - A statement with a requested cancel ends as `cancelled` or `timeout`, or fails with
      `commit_in_doubt` if its table may be visible.
    - Any other statement fails.

    Statements that end get a pending hook call, which the next driver makes.
    """
    query = (
        select(
            statements.c.id,
            statements.c.state,
            statements.c.cancel_reason,
            statements.c.is_query,
            statements.c.command,
            statements.c.attempts,
            statements.c.may_have_effects,
        )
        .where(
            statements.c.session_id == session_id,
            statements.c.ended_at.is_(None),
            statements.c.state.in_(sorted(STATEMENT.in_flight)),
        )
        .order_by(statements.c.ordinal)
        .with_for_update()
    )
    ended = []
    for row in tx.execute(query).all():
        transaction = None if row.is_query else find_live_transaction(tx, row.id)
        target, reason = _outcome_of_loss(row, transaction, failure, max_attempts)
        detail = _describe_retry(row, failure) if target is StatementState.WAITING else None
        change_state(tx, row.id, row.state, target, failure=reason)
        record(
            tx, row.id, session_id, row.state, target, actor=actor, detail=detail, failure=reason
        )
        if target is not StatementState.WAITING:
            ended.append(row.id)
    add_hook_calls(tx, session_id, ended)


def _describe_retry(row: Row[Any], failure: Failure) -> dict[str, Any]:
    """Return the detail of the event that lets a statement wait for another driver."""
    detail: dict[str, Any] = {"reason": failure.message}
    if not (row.is_query or row.may_have_effects):
        detail["effects"] = False
    return detail


def _outcome_of_loss(
    row: Row[Any], transaction: Transaction | None, failure: Failure, max_attempts: int
) -> tuple[StatementState, Failure | None]:
    """Return the next state and the failure of a statement whose driver was lost."""
    in_doubt = transaction is not None and transaction.in_doubt
    if row.state is StatementState.CANCELLING and not in_doubt:
        return outcome_of_cancel(row.cancel_reason)
    if row.state is not StatementState.CANCELLING and _can_retry(row, transaction, max_attempts):
        return StatementState.WAITING, None
    return StatementState.FAILED, commit_in_doubt(failure) if in_doubt else failure


def _can_retry(row: Row[Any], transaction: Transaction | None, max_attempts: int) -> bool:
    attempts_remain: bool = row.attempts < max_attempts
    if transaction is not None:
        # The next driver only has to publish the rows.
        may_publish = row.attempts < COMMIT_ATTEMPTS
        is_committing = transaction.state is TransactionState.COMMITTING
        return attempts_remain or (is_committing and may_publish)
    is_harmless = row.is_query or row.command in RETRIED or not row.may_have_effects
    return attempts_remain and is_harmless
