"""Spare sessions: nobody's yet, each with a warm driver, until somebody's new session takes one."""

from __future__ import annotations

from sqlalchemy import ScalarSelect, case, false, func, select, true, update
from sqlalchemy.exc import IntegrityError

from headrace.errors import SessionNameExists
from headrace.model.lifecycle import SessionState
from headrace.model.session import NewSession, Session
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.notifications import LAUNCH, session_topic
from headrace.store.sessions import all_of, live_query
from headrace.store.tables import sessions

UNASSIGNED_OWNER = ""
"""The owner of a spare session."""

_READY = [SessionState.STARTING, SessionState.RUNNING]


def live(tx: Tx, profile: str) -> list[Session]:
    """The spare sessions of a profile, oldest first."""
    query = live_query().where(sessions.c.warm.is_(true()), sessions.c.profile == profile)
    return all_of(tx, query.order_by(sessions.c.id))


def failed_recently(tx: Tx, profile: str, seconds: float) -> bool:
    """Whether a spare session of a profile could not be started within the last `seconds`."""
    query = select(func.count()).where(
        sessions.c.warm.is_(true()),
        sessions.c.profile == profile,
        sessions.c.state == SessionState.FAILED,
        sessions.c.ended_at > clock(-seconds),
    )
    return bool(tx.execute(query).scalar_one())


def assign(tx: Tx, new: NewSession) -> str | None:
    """Make a new session of a spare one: its id, or None when there is none of that profile.

    One whose driver is up goes first. Raises NameTaken as an insert does.
    """
    taken = (
        update(sessions)
        .where(sessions.c.id == _first(new.profile), sessions.c.warm.is_(true()))
        .values(
            warm=false(),
            owner=new.owner,
            name=new.name,
            kind=new.kind,
            idle_seconds=new.idle_seconds,
            ttl_seconds=new.ttl_seconds,
            created_at=clock(),
            last_used_at=clock(),
        )
        .returning(sessions.c.id, sessions.c.state)
    )
    try:
        row = tx.execute(taken).one_or_none()
    except IntegrityError as error:
        raise SessionNameExists(f"A live session is named {new.name!r} already.") from error
    if row is None:
        return None
    detail = {"reason": "taken with its warm driver"}
    events.append(tx, "session", row.id, row.state, row.state, actor=new.owner, detail=detail)
    tx.wake(session_topic(row.id), LAUNCH)
    taken_id: str = row.id
    return taken_id


def _first(profile: str) -> ScalarSelect[str]:
    """The id of the one to take; others that are about to be taken are passed over."""
    ready = sessions.c.state == SessionState.RUNNING
    return (
        select(sessions.c.id)
        .where(
            sessions.c.ended_at.is_(None),
            sessions.c.warm.is_(true()),
            sessions.c.profile == profile,
            sessions.c.state.in_(_READY),
            sessions.c.fenced_driver.is_(None),
        )
        .order_by(case((ready, 0), else_=1), sessions.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
