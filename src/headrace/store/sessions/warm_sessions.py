"""Warm sessions: each keeps a driver ready until it is assigned to the owner of a new session."""

from __future__ import annotations

from sqlalchemy import ColumnElement, ScalarSelect, case, false, func, select, update
from sqlalchemy.exc import IntegrityError

from headrace.model.lifecycle import SESSION, SessionState
from headrace.model.session import NewSession, Session, SessionKind
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.notifications import LAUNCH, session_topic
from headrace.store.sessions.sessions import build_name_error, columns_of, fetch, select_live
from headrace.store.tables import WARM, sessions

UNASSIGNED_OWNER = ""
"""Owner of a warm session that is not assigned yet."""


def live(tx: Tx, profile: str) -> list[Session]:
    """Return the warm sessions of a profile that have not ended, oldest first."""
    query = select_live().where(WARM, sessions.c.profile == profile)
    return fetch(tx, query.order_by(sessions.c.id))


def failed_recently(tx: Tx, profile: str, seconds: float) -> bool:
    """Return whether a warm session of a profile has failed within the last `seconds`."""
    query = select(func.count()).where(
        WARM,
        sessions.c.profile == profile,
        sessions.c.state == SessionState.FAILED,
        sessions.c.ended_at > clock(-seconds),
    )
    return bool(tx.execute(query).scalar_one())


def unnamed_ended_within(tx: Tx, profile: str, seconds: float) -> bool:
    """Return whether a session that `is_unnamed_live` describes has ended within `seconds`."""
    query = select(func.count()).where(
        *_is_unnamed(profile),
        sessions.c.state == SessionState.DEAD,
        sessions.c.started_at.is_not(None),
        sessions.c.ended_at > clock(-seconds),
    )
    return bool(tx.execute(query).scalar_one())


def is_unnamed_live(tx: Tx, profile: str) -> bool:
    """Return whether a session lives that runs statements, has no name, and is no pool session."""
    query = select(func.count()).where(*_is_unnamed(profile), sessions.c.ended_at.is_(None))
    return bool(tx.execute(query).scalar_one())


def _is_unnamed(profile: str) -> list[ColumnElement[bool]]:
    return [
        sessions.c.warm.is_(false()),
        sessions.c.pool.is_(false()),
        sessions.c.kind.in_([SessionKind.INTERACTIVE, SessionKind.BATCH]),
        sessions.c.name.is_(None),
        sessions.c.profile == profile,
    ]


def lock(tx: Tx, session_id: str, epoch: int) -> bool:
    """Lock a session if it is still warm and still has this epoch. Return whether it was locked.

    A session that another transaction has locked is skipped, because it may be assigned there.
    """
    query = select(sessions.c.id).where(
        sessions.c.id == session_id, sessions.c.epoch == epoch, WARM
    )
    return tx.execute(query.with_for_update(skip_locked=True)).one_or_none() is not None


def assign(tx: Tx, new: NewSession) -> str | None:
    """Turn a warm session of the same profile into the new session.

    A session whose driver runs or starts is preferred to one that waits for its driver.

    Returns:
        Id of the warm session, which replaces the id of the new one. None if there is no warm
        session.

    Raises:
        SessionNameExists: A live session of this owner has the name.
    """
    assignment = (
        update(sessions)
        .where(sessions.c.id == _first_ready(new.spec.profile), WARM)
        .values(
            {
                **columns_of(new, without=("id", "spec", "for_jobs")),
                "warm": false(),
                "created_at": clock(),
                "last_used_at": clock(),
            }
        )
        .returning(sessions.c.id, sessions.c.state)
    )
    try:
        row = tx.execute(assignment).one_or_none()
    except IntegrityError as error:
        if new.name is None:
            raise
        raise build_name_error(new) from error
    if row is None:
        return None
    session_id: str = row.id
    detail = {"reason": "assigned with its warm driver"}
    events.append(
        tx, "session", session_id, row.state, row.state, actor=new.actor or new.owner, detail=detail
    )
    tx.wake(session_topic(session_id), LAUNCH)
    return session_id


def _first_ready(profile: str) -> ScalarSelect[str]:
    """Return a query for the id of the session to assign.

    The query skips sessions that other transactions have locked and are assigning.
    """
    rank = case(
        {state: rank for rank, state in enumerate(SESSION.assignable)}, value=sessions.c.state
    )
    return (
        select(sessions.c.id)
        .where(
            sessions.c.ended_at.is_(None),
            WARM,
            sessions.c.profile == profile,
            sessions.c.state.in_(SESSION.assignable),
            sessions.c.fenced_driver.is_(None),
        )
        .order_by(rank, sessions.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
