"""Warm drivers: as many spare sessions of each profile as it asks for, with their drivers up."""

from __future__ import annotations

import logging

from headrace.control.sessions.service import close_session
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState
from headrace.model.session import NewSession, Session
from headrace.settings import Settings
from headrace.store import sessions, warm_sessions
from headrace.store.database import Database, Tx

_LOG = logging.getLogger("headrace.warm")
_PAUSE_SECONDS = 60.0
"""After a driver that could not be started; the next one would hardly do better."""
_KEPT = {SessionState.NOT_STARTED, SessionState.STARTING, SessionState.RUNNING}


class WarmPool:
    """Sweeps the whole store; of any number of nodes, each corrects what another did too much."""

    def __init__(self, database: Database, settings: Settings, *, node_id: str) -> None:
        self._database = database
        self._node_id = node_id
        self._wanted = {name: settings.profile(name).warm for name in settings.profiles}

    def sweep(self) -> None:
        """One round."""
        for profile, wanted in self._wanted.items():
            with self._database.read() as tx:
                found, kept = _found(tx, profile, wanted)
                paused = warm_sessions.failed_recently(tx, profile, _PAUSE_SECONDS)
            if len(found) > len(kept) or (len(kept) < wanted and not paused):
                with self._database.write() as tx:
                    self._correct(tx, profile, wanted)

    def _correct(self, tx: Tx, profile: str, wanted: int) -> None:
        found, kept = _found(tx, profile, wanted)
        for session in found:
            if session not in kept:
                close_session(tx, session, actor=self._node_id, reason="not needed as a spare one")
        if len(kept) < wanted and not warm_sessions.failed_recently(tx, profile, _PAUSE_SECONDS):
            for _ in range(wanted - len(kept)):
                new = NewSession(
                    id=new_id("se"),
                    owner=warm_sessions.UNASSIGNED_OWNER,
                    profile=profile,
                    warm=True,
                )
                sessions.insert(tx, new, actor=self._node_id)
            _LOG.info("profile %s: %d more warm drivers", profile, wanted - len(kept))


def _found(tx: Tx, profile: str, wanted: int) -> tuple[list[Session], list[Session]]:
    """The spare sessions that are not closing yet, and those of them that are to stay."""
    found = [
        one for one in warm_sessions.live(tx, profile) if one.state is not SessionState.CLOSING
    ]
    return found, [one for one in found if one.state in _KEPT][:wanted]
