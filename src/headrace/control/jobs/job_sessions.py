"""The sessions in which jobs run: found by name, created when needed, replaced when outdated."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.config.settings import Settings
from headrace.control.limits import check_sessions, describe_owner
from headrace.control.sessions.ending import close_session
from headrace.control.sessions.opening import create_session
from headrace.errors import SessionConflict
from headrace.model.deployment import Job, JobSession, JobVersion
from headrace.model.ids import new_id
from headrace.model.lifecycle import SESSION, SessionState
from headrace.model.session import NewSession, Session, SessionKind, SessionSpec
from headrace.store.database import Tx
from headrace.store.sessions import sessions
from headrace.store.statements import statements
from headrace.store.streams import stream_queries
from headrace.text.durations import seconds_of

_OWN_HINT = "Close that session, or give the job another `session`."
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
    is_open = present is not None and present.state is not SessionState.CLOSING
    if present is not None and is_open and present.spec == wanted.spec:
        return present.id
    # A plan is a new request: its drivers count like those of other sessions.
    check_sessions(tx, settings, describe_owner(tx, settings, owner))
    if is_open:
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

    Raises:
        SessionConflict: A user has opened the session, so that no deployment closes it.
    """
    present = find_session(tx, owner, wanted)
    if present is None:
        return _create(tx, settings, owner, wanted)
    if present.state is SessionState.CLOSING:
        return None
    sessions.lock(tx, present.id)
    locked = sessions.get(tx, present.id)
    if locked is None or locked.state not in SESSION.accepting:
        # Another node has closed the session meanwhile.
        return None
    if locked.spec == wanted.spec:
        return present.id
    if not locked.for_jobs:
        raise SessionConflict(_describe_own(wanted, locked), hint=_OWN_HINT)
    is_used = stream_queries.count_live(tx, present.id) or statements.live_ids(tx, present.id)
    if not is_used:
        close_session(tx, present.id, actor=owner, reason="the configuration of its jobs changed")
    return None


def find_conflict(
    wanted: JobSession, present: Session | None, others: Iterable[tuple[Job, JobVersion]]
) -> SessionConflict | None:
    """Return why a job cannot run in its session, or None if it can.

    Args:
        wanted: The session of the job.
        present: The live session with its name.
        others: Running jobs besides this one, with their versions.
    """
    for job, version in others:
        session = version.spec.session
        if session.name == wanted.name and session.spec != wanted.spec:
            keys = _list_differences(wanted.spec, session.spec)
            return SessionConflict(
                f"The session {wanted.name} also runs the job {job.name}, which has other"
                f" properties of the Spark application: {keys}.",
                hint=f"Stop {job.name}, or deploy both together with the same properties.",
            )
    if present is not None and not present.for_jobs and present.spec != wanted.spec:
        return SessionConflict(_describe_own(wanted, present), hint=_OWN_HINT)
    return None


def _describe_own(wanted: JobSession, present: Session) -> str:
    keys = _list_differences(wanted.spec, present.spec)
    return (
        f"A user has opened the session {wanted.name} ({present.id}) with other properties of the"
        f" Spark application: {keys}."
    )


def _list_differences(first: SessionSpec, second: SessionSpec) -> str:
    one, two = first.model_dump() | first.conf, second.model_dump() | second.conf
    keys = sorted({*one, *two} - {"conf"})
    return ", ".join(key for key in keys if one.get(key) != two.get(key))


def _create(tx: Tx, settings: Settings, owner: str, wanted: JobSession) -> str:
    new = NewSession(
        id=new_id("se"),
        owner=owner,
        kind=SessionKind.INTERACTIVE,
        name=wanted.name,
        spec=wanted.spec,
        parallelism=_TASKS_AT_ONCE,
        for_jobs=True,
    )
    return create_session(tx, settings, new)
