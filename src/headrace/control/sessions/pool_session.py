"""The pool session of an owner, in which the statements run that name no session."""

from __future__ import annotations

from headrace.config.settings import Settings
from headrace.model.session import NewSession
from headrace.model.text import new_id
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
