"""Opening, finding and closing sessions."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import replace

from headrace.durations import seconds_of
from headrace.errors import (
    Committing,
    InvalidRequest,
    InvalidSetting,
    SessionClosed,
    SessionNotFound,
)
from headrace.model import atomicity, trigger
from headrace.model.failure import Failure
from headrace.model.ids import looks_like_id
from headrace.model.lifecycle import SESSION, SessionState
from headrace.model.session import NewSession, Session
from headrace.model.statement import CancelReason
from headrace.settings import Settings
from headrace.store import sessions, statement_transitions, statements, warm_sessions
from headrace.store.database import Database, Tx

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_DRIVERS_OWN = ("conf", "catalog", "database", "jars", "files", "py_files")
"""What a driver is started with: a session that asks for any of it cannot have another's."""
_CONF_PREFIXES = ("spark.", "hive.")
_SETTINGS: dict[str, Callable[[str], object]] = {
    atomicity.KEY: atomicity.Atomicity.of,
    trigger.KEY: trigger.Trigger.of,
}
"""Headrace's own settings of sessions and statements, and what reads them."""


def check_conf(conf: dict[str, str]) -> None:
    """Raises InvalidSetting for keys that are neither Spark's nor a session's."""
    for key, value in conf.items():
        if key in _SETTINGS:
            _SETTINGS[key](value)
        elif not key.startswith(_CONF_PREFIXES):
            raise InvalidSetting(
                f"Unknown setting {key!r}: Spark configuration begins with 'spark.' or 'hive.'; "
                f"beside it there are {', '.join(sorted(_SETTINGS))}."
            )
        if key.startswith("spark.headrace."):
            raise InvalidSetting(f"{key!r} is set by Headrace alone.")


def resolve(tx: Tx, owner: str, name_or_id: str) -> str:
    """The id of the session with that id, or of the live one with that name.

    Raises SessionNotFound.
    """
    session_id: str | None
    if looks_like_id(name_or_id):
        session_id = name_or_id if sessions.is_owned(tx, owner, name_or_id) else None
    else:
        session_id = sessions.id_of_name(tx, owner, name_or_id)
    if session_id is None:
        raise SessionNotFound(f"There is no session {name_or_id!r}.")
    return session_id


def _with_defaults(settings: Settings, new: NewSession) -> NewSession:
    """A new session that ends by itself as the settings say where it does not say so itself."""
    idle_seconds, ttl_seconds = new.idle_seconds, new.ttl_seconds
    if idle_seconds is None:
        idle_seconds = seconds_of(settings.sessions.idle_timeout)
    if ttl_seconds is None:
        ttl_seconds = seconds_of(settings.sessions.ttl)
    return replace(new, idle_seconds=idle_seconds, ttl_seconds=ttl_seconds)


def create_session(tx: Tx, settings: Settings, new: NewSession) -> str:
    """The id of a new session: a spare one with a warm driver, where there is one that fits.

    Raises NameTaken.
    """
    complete = _with_defaults(settings, new)
    fits = complete.parallelism == 1 and not any(getattr(complete, name) for name in _DRIVERS_OWN)
    taken = (
        warm_sessions.assign(tx, complete) if fits and settings.profile(new.profile).warm else None
    )
    if taken is not None:
        return taken
    sessions.insert(tx, complete, actor=new.owner)
    return new.id


class Sessions:
    """Opens and closes sessions for one node."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def open(self, new: NewSession) -> Session:
        """Makes a session durable; a node then launches its driver.

        Raises InvalidRequest, InvalidSetting and NameTaken.
        """
        self._settings.profile(new.profile)
        check_conf(new.conf)
        if new.name is not None:
            _check_name(new.name)
        with self._database.write() as tx:
            return _stored(tx, create_session(tx, self._settings, new))

    def get(self, owner: str, name_or_id: str) -> Session:
        """One session. Raises SessionNotFound."""
        with self._database.read() as tx:
            return _stored(tx, resolve(tx, owner, name_or_id))

    def close(self, owner: str, name_or_id: str) -> Session:
        """Asks for the end of a session: what waits is failed, what runs is cancelled.

        Closing what has ended already changes nothing. Raises SessionNotFound.
        """
        with self._database.write() as tx:
            session = _stored(tx, resolve(tx, owner, name_or_id))
            if session.state in SESSION.live - {SessionState.CLOSING}:
                close_session(tx, session, actor=owner)
            return _stored(tx, session.id)


def close_session(tx: Tx, session: Session, *, actor: str, reason: str | None = None) -> None:
    """Moves a live session to `closing`, and on to `dead` when it has no driver."""
    detail = {"reason": reason} if reason else None
    sessions.transition(tx, session.id, SessionState.CLOSING, actor=actor, detail=detail)
    for statement_id in statements.live_ids(tx, session.id):
        # What is being published is finished before the driver hears of the close.
        with contextlib.suppress(Committing):
            statement_transitions.request_cancel(
                tx, statement_id, actor=actor, reason=CancelReason.CLOSED
            )
    if session.lease_until is None:
        finish_close(tx, session.id, actor=actor)


def finish_close(tx: Tx, session_id: str, *, actor: str, epoch: int | None = None) -> bool:
    """Ends a closing session whose driver is gone. Returns whether it landed."""
    if not sessions.transition(tx, session_id, SessionState.DEAD, actor=actor, epoch=epoch):
        return False
    closed = Failure.of(SessionClosed("The session was closed before the statement ended."))
    statement_transitions.end_all_statements(tx, session_id, actor=actor, failure=closed)
    return True


def end_session(
    tx: Tx, session_id: str, failure: Failure, *, actor: str, epoch: int | None = None
) -> bool:
    """Ends a session that cannot go on, and every statement of it that has not ended.

    One that was closing is dead, any other has failed. With `epoch`, only while that is the
    session's. Returns whether it landed.
    """
    session = sessions.get(tx, session_id)
    if session is not None and session.state is SessionState.CLOSING:
        return finish_close(tx, session_id, actor=actor, epoch=epoch)
    applied = sessions.transition(
        tx, session_id, SessionState.FAILED, actor=actor, epoch=epoch, failure=failure
    )
    if applied:
        waiting = Failure(code="session_failed", message=f"The session failed: {failure.message}")
        statement_transitions.end_all_statements(
            tx, session_id, actor=actor, failure=failure, waiting=waiting
        )
    return applied


def _check_name(name: str) -> None:
    if looks_like_id(name):
        raise InvalidRequest(f"A session cannot be named {name!r}: that is the form of an id.")
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"A session cannot be named {name!r}: use a letter, then up to 99 letters, digits, "
            "'_', '.' or '-'."
        )


def _stored(tx: Tx, session_id: str) -> Session:
    session = sessions.get(tx, session_id)
    if session is None:
        raise SessionNotFound(f"There is no session {session_id!r}.")
    return session
