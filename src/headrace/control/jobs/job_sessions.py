"""The sessions in which jobs run: found by name, created when needed, replaced when outdated."""

from __future__ import annotations

from headrace.control.sessions.ending import close_session
from headrace.control.sessions.opening import create_session
from headrace.durations import seconds_of
from headrace.model.deployment import JobSession
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState
from headrace.model.session import NewSession, Session, SessionKind
from headrace.settings import Settings
from headrace.store import sessions, statements, stream_queries
from headrace.store.database import Tx

_TASKS_AT_ONCE = 4
"""Parallelism of the session of jobs: a long copy does not delay the other tasks."""


def find_session(tx: Tx, owner: str, wanted: JobSession) -> Session | None:
    """Return the live session with the name, or None. Its configuration may differ."""
    session_id = sessions.id_of_name(tx, owner, wanted.name)
    return None if session_id is None else sessions.get(tx, session_id)


def open_check_session(tx: Tx, settings: Settings, owner: str, wanted: JobSession) -> str:
    """Return the session that checks jobs: their own, or a new one if its configuration differs.

    The new one shows that a session with this configuration can start. It ends soon.
    """
    present = find_session(tx, owner, wanted)
    if present is not None and present.state is not SessionState.CLOSING:
        if present.spec == wanted.spec:
            return present.id
        unnamed = NewSession(
            id=new_id("se"),
            owner=owner,
            kind=SessionKind.INTERACTIVE,
            spec=wanted.spec,
            idle_seconds=seconds_of(settings.sessions.unnamed_idle_timeout),
        )
        return create_session(tx, settings, unnamed)
    if present is not None:
        # The name is taken until the session has ended.
        unnamed = NewSession(id=new_id("se"), owner=owner, spec=wanted.spec)
        return create_session(tx, settings, unnamed)
    return _create(tx, settings, owner, wanted)


def open_session(tx: Tx, settings: Settings, owner: str, wanted: JobSession) -> str | None:
    """Return the session in which a job can run now; None: ask again a moment later.

    A session with another configuration is closed as soon as it has no work, and replaced.
    """
    present = find_session(tx, owner, wanted)
    if present is None:
        return _create(tx, settings, owner, wanted)
    if present.state is SessionState.CLOSING:
        return None
    if present.spec == wanted.spec:
        return present.id
    sessions.lock(tx, present.id)
    is_used = stream_queries.count_live(tx, present.id) or statements.live_ids(tx, present.id)
    if not is_used:
        close_session(tx, present.id, actor=owner, reason="the configuration of its jobs changed")
    return None


def _create(tx: Tx, settings: Settings, owner: str, wanted: JobSession) -> str:
    new = NewSession(
        id=new_id("se"),
        owner=owner,
        kind=SessionKind.INTERACTIVE,
        name=wanted.name,
        spec=wanted.spec,
        parallelism=_TASKS_AT_ONCE,
    )
    return create_session(tx, settings, new)
