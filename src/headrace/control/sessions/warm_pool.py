"""The warm pool: sessions without an owner. The setting `warm` of a profile is their number.

A caller who creates a session receives one of the pool, whose driver runs or is starting.

An embedded node also keeps warm drivers of the default profile (`embedded.warm`), from the end of
the first session without a name until `embedded.linger` after the last one. The next script or
batch of `headrace sql` is then fast. Single statements and refreshes run in a pool session, and do
not need them.
"""

from __future__ import annotations

import logging
import time

from headrace.control.context import NodeContext
from headrace.control.periodic_tasks import isolate_errors
from headrace.control.sessions.ending import close_session
from headrace.model.ids import new_id
from headrace.model.lifecycle import SESSION, SessionState
from headrace.model.session import NewSession, Session, SessionSpec
from headrace.store.database import Tx
from headrace.store.sessions import sessions, warm_sessions

_LOG = logging.getLogger("headrace.warm")
_PAUSE_SECONDS = 60.0
"""Pause after a driver that could not be started; the next one would probably fail too."""
_DEFAULT_PROFILE = "default"


class WarmPool:
    """Adjusts the pool. If several nodes create too many sessions, a later round closes some."""

    def __init__(self, context: NodeContext, *, embedded: bool = False) -> None:
        settings = context.settings
        self._database = context.database
        self._node_id = context.node_id
        self._sizes = {name: settings.profile(name).warm for name in settings.profiles}
        if embedded or not context.database.is_shared:
            # This is the only node. Without an entry, the warm sessions of a node with other
            # settings would remain, for example those of an embedded node.
            self._sizes.setdefault(_DEFAULT_PROFILE, 0)
        # A driver that runs as its owner cannot start before it has one.
        has_owners = settings.profile(_DEFAULT_PROFILE).run_as == "owner"
        self._size_after_use = settings.embedded.warm if embedded and not has_owners else 0
        self._linger_seconds = settings.embedded.linger.total_seconds()
        self._start = time.monotonic()

    def run(self) -> None:
        """Create or close warm sessions until each profile has the configured number."""
        for profile in self._sizes:
            with isolate_errors(f"the warm pool of the profile {profile!r} could not be adjusted"):
                self._adjust_if_needed(profile)

    def _adjust_if_needed(self, profile: str) -> None:
        with self._database.read() as tx:
            size = self._size(tx, profile)
            current, kept = _list_pool(tx, profile, size)
            is_paused = warm_sessions.failed_recently(tx, profile, _PAUSE_SECONDS)
        if len(current) > len(kept) or (len(kept) < size and not is_paused):
            with self._database.write("warm_pool.adjust") as tx:
                self._adjust(tx, profile, size)

    def _size(self, tx: Tx, profile: str) -> int:
        """Return the number of warm sessions that the pool should have now."""
        size = self._sizes[profile]
        if profile != _DEFAULT_PROFILE or size >= self._size_after_use:
            return size
        # What an earlier node ran says nothing: a driver would only delay the first statement.
        seconds = min(self._linger_seconds, time.monotonic() - self._start)
        if not warm_sessions.unnamed_ended_within(tx, profile, seconds):
            return size
        if warm_sessions.is_unnamed_live(tx, profile):
            # A new driver would compete with the one at work; a driver that exists stays.
            existing = [session.state for session in warm_sessions.live(tx, profile)]
            kept = sum(state in SESSION.assignable for state in existing)
            return max(size, min(kept, self._size_after_use))
        return self._size_after_use

    def _adjust(self, tx: Tx, profile: str, size: int) -> None:
        current, kept = _list_pool(tx, profile, size)
        for session in current:
            # A user may have received the session since the list was read.
            if session not in kept and warm_sessions.lock(tx, session.id, session.epoch):
                close_session(tx, session.id, actor=self._node_id, reason="not needed in the pool")
        if len(kept) < size and not warm_sessions.failed_recently(tx, profile, _PAUSE_SECONDS):
            for _ in range(size - len(kept)):
                new = NewSession(
                    id=new_id("se"),
                    owner=warm_sessions.UNASSIGNED_OWNER,
                    spec=SessionSpec(profile=profile),
                    warm=True,
                )
                sessions.insert(tx, new, actor=self._node_id)
            _LOG.info("profile %s: starting %d warm drivers", profile, size - len(kept))


def _list_pool(tx: Tx, profile: str, size: int) -> tuple[list[Session], list[Session]]:
    """Return the warm sessions that are not closing, and the part of them that the pool keeps."""
    current = [
        session
        for session in warm_sessions.live(tx, profile)
        if session.state is not SessionState.CLOSING
    ]
    return current, [session for session in current if session.state in SESSION.assignable][:size]
