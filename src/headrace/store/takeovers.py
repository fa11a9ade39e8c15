"""Drivers that are lost, in the store: fenced off, then confirmed to be gone.

Between the two the session is `condemned`: its epoch is raised, so that the driver can report
nothing any more, and no other driver is started, because its process may still write elsewhere.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, select, update

from headrace.model.lifecycle import SESSION, SessionState
from headrace.model.session import FencedDriver, Session
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.notifications import LAUNCH, session_topic
from headrace.store.sessions import all_of, overdue_query
from headrace.store.tables import sessions
from headrace.store.timeouts import has_other_work

_ENTITY = "session"
_HELD = sorted(SESSION.live - {SessionState.NOT_STARTED})


def overdue(tx: Tx, limit: int) -> list[Session]:
    """Sessions whose lease has run out by the database's clock."""
    return all_of(tx, overdue_query().order_by(sessions.c.id).limit(limit))


def unconfirmed_launches(tx: Tx, node: str) -> list[Session]:
    """Sessions whose launch this node has claimed and whose handle nobody has kept."""
    query = overdue_query(over=False).where(
        sessions.c.launched_by == node,
        sessions.c.handle.is_(None),
        sessions.c.fenced_driver.is_(None),
    )
    return all_of(tx, query.order_by(sessions.c.id))


def fence(
    tx: Tx,
    session_id: str,
    epoch: int,
    *,
    actor: str,
    reason: str,
    seconds: float,
    if_overdue: bool = False,
    if_alone: str | None = None,
    start_timed_out: bool = False,
) -> int | None:
    """Take a session from its driver: the new epoch, or None when it has another already.

    The driver can report nothing any more. Who condemns has `seconds` to see that its process is
    gone; then any node does it. With `if_overdue`, only when its lease has run out; with
    `if_alone`, only when it has nothing in hand but that statement, and no stream runs in it.
    """
    found = _held(tx, session_id, epoch, if_overdue=if_overdue, if_alone=if_alone)
    if found is None:
        return None
    source = found.state
    target = SessionState.RECOVERING if source is SessionState.RUNNING else source
    tx.execute(
        update(sessions)
        .where(sessions.c.id == session_id)
        .values(
            state=target,
            epoch=epoch + 1,
            token_hash=None,
            fenced_driver=FencedDriver(
                epoch=epoch, handle=found.handle, reason=reason, start_timed_out=start_timed_out
            ),
            handle=None,
            streams=0,
            lease_until=clock(seconds),
        )
    )
    detail = {"reason": reason, "epoch": epoch}
    events.append(tx, _ENTITY, session_id, source, target, actor=actor, detail=detail)
    tx.wake(session_topic(session_id), LAUNCH)
    return epoch + 1


def _held(
    tx: Tx, session_id: str, epoch: int, *, if_overdue: bool, if_alone: str | None
) -> Row[Any] | None:
    """The state and handle of a session that the driver of this epoch has, on those terms.

    Locked as a claim locks it: no neighbour comes while this looks for one.
    """
    mine = select(sessions.c.state, sessions.c.handle).where(
        sessions.c.id == session_id,
        sessions.c.epoch == epoch,
        sessions.c.state.in_(_HELD),
        sessions.c.lease_until.is_not(None),
        sessions.c.fenced_driver.is_(None),
    )
    if if_overdue:
        mine = mine.where(sessions.c.lease_until < clock())
    if if_alone is not None:
        mine = mine.where(sessions.c.streams == 0)
    found = tx.execute(mine.with_for_update()).one_or_none()
    if found is None or (if_alone is not None and has_other_work(tx, session_id, if_alone)):
        return None
    return found


def reclaim_takeover(tx: Tx, session_id: str, epoch: int, *, seconds: float) -> bool:
    """Go on with a takeover that another has not finished in time. Returns whether it landed."""
    stale = (
        sessions.c.id == session_id,
        sessions.c.epoch == epoch,
        sessions.c.fenced_driver.is_not(None),
        sessions.c.lease_until < clock(),
    )
    taken = update(sessions).where(*stale).values(lease_until=clock(seconds))
    return tx.execute(taken).rowcount > 0


def extend_lease(tx: Tx, session_id: str, epoch: int, *, seconds: float) -> None:
    """Give an overdue driver another lease: nobody can tell whether it is gone."""
    mine = (
        sessions.c.id == session_id,
        sessions.c.epoch == epoch,
        sessions.c.fenced_driver.is_(None),
        # It may have said goodbye meanwhile.
        sessions.c.lease_until.is_not(None),
    )
    tx.execute(update(sessions).where(*mine).values(lease_until=clock(seconds)))


def finish_takeover(tx: Tx, session_id: str, epoch: int) -> bool:
    """The condemned driver is gone for certain: nobody answers for the session any more.

    Returns whether it landed; another may have been quicker.
    """
    held = (
        sessions.c.id == session_id,
        sessions.c.epoch == epoch,
        sessions.c.fenced_driver.is_not(None),
    )
    freed = update(sessions).where(*held).values(fenced_driver=None, lease_until=None, driver=None)
    if not tx.execute(freed).rowcount:
        return False
    tx.wake(session_topic(session_id), LAUNCH)
    return True


def claim_launch(
    tx: Tx, session_id: str, *, node: str, seconds: float, token_hash: str
) -> int | None:
    """Win the launch of a session: the new epoch, or None when another node was quicker.

    The driver has `seconds` to say hello, and speaks with the token of this hash.
    """
    free = (
        sessions.c.id == session_id,
        sessions.c.state.in_(
            [SessionState.NOT_STARTED, SessionState.STARTING, SessionState.RECOVERING]
        ),
        sessions.c.lease_until.is_(None),
        sessions.c.fenced_driver.is_(None),
    )
    source = tx.execute(select(sessions.c.state).where(*free).with_for_update()).scalar()
    if source is None:
        return None
    new = source is SessionState.NOT_STARTED
    target = SessionState.STARTING if new else source
    claimed = (
        update(sessions)
        .where(*free)
        .values(
            state=target,
            epoch=sessions.c.epoch + 1,
            starts=sessions.c.starts + 1,
            launched_by=node,
            handle=None,
            token_hash=token_hash,
            lease_until=clock(seconds),
            last_update_time=clock(),
        )
        .returning(sessions.c.epoch)
    )
    epoch: int = tx.execute(claimed).scalar_one()
    events.append(tx, _ENTITY, session_id, source, target, actor=node, detail={"epoch": epoch})
    tx.wake(session_topic(session_id))
    return epoch
