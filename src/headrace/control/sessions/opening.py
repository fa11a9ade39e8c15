"""Lookup and creation of sessions, inside a transaction of the caller."""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.config.limits import LimitedOwner
from headrace.config.settings import Settings
from headrace.control.limits import check_sessions
from headrace.control.policy import Action, Caller, check, find_named
from headrace.errors import NotPermitted, SessionNotFound
from headrace.model.ids import looks_like_id, new_id
from headrace.model.lifecycle import SESSION
from headrace.model.session import NewSession, Session, SessionSpec, is_session_name
from headrace.store.database import Tx
from headrace.store.sessions import sessions, warm_sessions
from headrace.store.sessions.sessions import NamedSession
from headrace.store.statements import limits
from headrace.store.statements.limits import Counted
from headrace.text.durations import seconds_of


def new_pool_session(settings: Settings, owner: str) -> NewSession:
    """Return a pool session that is not in the store yet."""
    return NewSession(
        id=new_id("se"),
        owner=owner,
        idle_seconds=seconds_of(settings.sessions.pool_idle_timeout),
        parallelism=settings.sessions.pool_parallelism,
        pool=True,
    )


_SHOWN = 200
"""Largest number of characters of a name in a message."""
_NUMBER = re.compile(r"[0-9]{1,18}")
"""The number of a session. No name begins with a digit."""


def resolve_session(tx: Tx, caller: Caller, name_or_id: str, action: Action = Action.READ) -> str:
    """Return the id of a session that `find_session` finds. Raises as it does."""
    return find_session(tx, caller, name_or_id, action).id


def find_session(
    tx: Tx, caller: Caller, name_or_id: str, action: Action = Action.READ
) -> NamedSession:
    """Return id and owner of a session, given by its id, its number, or its name while it is live.

    Raises:
        SessionNotFound: There is no such session that the caller may read.
        AmbiguousName: Several owners have a session with this name.
        NotPermitted: The caller may read the session, and do no more.
    """
    found: NamedSession | None = None
    if looks_like_id(name_or_id):
        owner = sessions.owner_of(tx, name_or_id)
        found = None if owner is None else NamedSession(name_or_id, owner)
    elif _NUMBER.fullmatch(name_or_id):
        found = sessions.find_number(tx, int(name_or_id))
    elif is_session_name(name_or_id):
        own_id = sessions.id_of_name(tx, caller.owner, name_or_id)
        own = None if own_id is None else NamedSession(own_id, caller.owner)
        found = find_named(caller, own, lambda owners: sessions.list_named(tx, owners, name_or_id))
    missing = SessionNotFound(f"Session {name_or_id[:_SHOWN]!r} does not exist.")
    return check(caller, action, found, missing)


def find_own_session(tx: Tx, caller: Caller, name_or_id: str) -> NamedSession:
    """Return a session in which the caller may run statements. Raises as `find_session`.

    A driver acts for the owner of its session. Not even an administrator runs SQL for others.
    """
    found = find_session(tx, caller, name_or_id, Action.CHANGE)
    if found.owner not in caller.owners:
        raise NotPermitted(
            f"Session {name_or_id[:_SHOWN]!r} runs the statements of its owner only.",
            hint="Use a session of your own.",
        )
    return found


def get_session(tx: Tx, session_id: str) -> Session:
    """Return a session of any owner. Raise SessionNotFound if it does not exist."""
    session = sessions.get(tx, session_id)
    if session is None:
        raise SessionNotFound(f"Session {session_id!r} does not exist.")
    return session


def find_usable_session(
    tx: Tx, caller: Caller, name_or_id: str | None, catalog: str | None
) -> str | None:
    """Return the id of a session of the caller that accepts statements and has this catalog.

    Return None if there is none.
    """
    if name_or_id is None:
        return None
    try:
        found = find_session(tx, caller, name_or_id)
    except SessionNotFound:
        return None
    if found.owner not in caller.owners:
        return None
    session = get_session(tx, found.id)
    is_usable = session.state in SESSION.accepting and session.spec.catalog == catalog
    return session.id if is_usable else None


def create_session(tx: Tx, settings: Settings, new: NewSession) -> str:
    """Create a session and return its id: a warm session if one fits, otherwise a new one.

    Raise SessionNameExists if a live session of the owner has the name.
    """
    complete = _with_defaults(settings, new)
    # `headrace recover` names a parallelism above 1 because it needs a driver that starts.
    fits_warm = new.pool or new.parallelism in {None, 1}
    # A warm driver of an earlier configuration runs as the node.
    fits_warm = fits_warm and settings.profile(new.spec.profile).run_as == "node"
    if fits_warm and not complete.spec.needs_own_driver:
        assigned = warm_sessions.assign(tx, complete)
        if assigned is not None:
            return assigned
    sessions.insert(tx, complete, actor=new.actor or new.owner)
    return new.id


def choose_pool_session(
    tx: Tx, settings: Settings, owner: LimitedOwner, new: NewSession | None = None
) -> str:
    """Return the id of the owner's pool session, which is created if there is none.

    Args:
        new: The session to create; default: one with a new id.

    Raise TooManySessions if it must be created and a limit on live sessions is reached.
    """
    profile = SessionSpec().profile
    found = sessions.find_open_pool(tx, owner.id, profile)
    if found is None:
        # Two transactions must not both create one. The second finds that of the first.
        limits.lock(tx, Counted.SESSIONS)
        found = sessions.find_open_pool(tx, owner.id, profile)
    if found is not None:
        return found
    check_sessions(tx, settings, owner)
    return create_session(tx, settings, new or new_pool_session(settings, owner.id))


def _with_defaults(settings: Settings, new: NewSession) -> NewSession:
    """Return the session, with what the settings say where the request says nothing."""
    idle_seconds, ttl_seconds = new.idle_seconds, new.ttl_seconds
    if idle_seconds is None:
        idle_seconds = seconds_of(settings.sessions.idle_timeout)
    if ttl_seconds is None:
        ttl_seconds = seconds_of(settings.sessions.ttl)
    return replace(
        new,
        idle_seconds=idle_seconds,
        ttl_seconds=ttl_seconds,
        parallelism=new.parallelism or settings.sessions.parallelism,
    )
