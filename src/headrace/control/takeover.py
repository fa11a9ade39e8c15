"""Taking over from lost drivers: fence, kill, settle.

First the session's epoch is raised in the store, so that the driver can report nothing any more;
then its process is ended, and the backend confirms it; only then is it decided what becomes of its
statements and of the session. A node that dies in between leaves a lease that runs out, and any
other goes on from there.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from headrace.control.launchers.backends import Backends
from headrace.control.launchers.contract import Exit, Handle, launch_name
from headrace.control.sessions import bury, close_in, end_session
from headrace.errors import BackendUnreachable, DriverLost, HeadraceError, LaunchFailed
from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState
from headrace.model.session import Condemned, Session, SessionKind
from headrace.settings import Settings
from headrace.store import changes, sessions, statements, takeovers
from headrace.store.database import Database, Tx

_LOG = logging.getLogger("headrace.takeover")
_BATCH = 100
_MOST_STARTS = 3


class Takeovers:
    """Sweeps the whole store; any number of nodes may do so at once."""

    def __init__(
        self, database: Database, settings: Settings, *, node_id: str, backends: Backends
    ) -> None:
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._backends = backends
        self._lease = settings.lease.duration.total_seconds()

    def sweep(self) -> None:
        """One round: drivers that were seen to end, and leases that have run out."""
        for driver in self._backends.exits():
            self._seen(driver)
        with self._database.read() as tx:
            overdue = takeovers.overdue(tx, _BATCH)
        for session in overdue:
            if session.condemned is None:
                self._overdue(session)
            elif self._retaken(session):
                self._finish(session.id, session.epoch)

    def lose(self, session_id: str, epoch: int, reason: str, *, if_overdue: bool = False) -> bool:
        """Takes a session from the driver of an epoch. False when it has another already."""
        with self._database.write() as tx:
            fence = takeovers.condemn(
                tx,
                session_id,
                epoch,
                who=self._node_id,
                reason=reason,
                seconds=self._lease,
                if_overdue=if_overdue,
            )
        if fence is None:
            return False
        _LOG.warning("session %s: driver of epoch %d lost: %s", session_id, epoch, reason)
        self._finish(session_id, fence)
        return True

    def _seen(self, driver: Exit) -> None:
        """Most have said goodbye before."""
        self.lose(driver.session_id, driver.epoch, driver.reason)

    def _overdue(self, session: Session) -> None:
        """The lease has run out: only now is the backend asked.

        A driver that renews meanwhile is left alone.
        """
        reason = "its start was never finished"
        try:
            handle = session.handle or self._found(session, session.epoch)
            if handle is not None:
                status = self._backends.poll(handle)
                reason = "it did not report within its lease" if status.alive else status.words
        except BackendUnreachable as error:
            _LOG.error("session %s: its driver is overdue, and %s", session.id, error.message)
            with self._database.write() as tx:
                takeovers.prolong(tx, session.id, session.epoch, seconds=self._lease)
            return
        self.lose(session.id, session.epoch, reason, if_overdue=True)

    def _retaken(self, session: Session) -> bool:
        with self._database.write() as tx:
            return takeovers.retake(tx, session.id, session.epoch, seconds=self._lease)

    def _finish(self, session_id: str, epoch: int) -> None:
        """Ends a condemned driver's process and settles what it left."""
        with self._database.read() as tx:
            session = sessions.get(tx, session_id)
        if session is None or session.condemned is None or session.epoch != epoch:
            return
        try:
            handle = session.condemned.handle or self._found(session, session.condemned.epoch)
            if handle is not None:
                self._backends.kill(handle)
        except (BackendUnreachable, LaunchFailed) as error:
            # The lease of this takeover runs out, and then it is tried again.
            _LOG.error("session %s: its lost driver is not gone: %s", session_id, error.message)
            return
        with self._database.write() as tx:
            if takeovers.release(tx, session_id, epoch):
                # It may have been closed while its driver was being ended.
                now = sessions.get(tx, session_id)
                assert now is not None
                self._settle(tx, replace(session, state=now.state), session.condemned)

    def _found(self, session: Session, epoch: int) -> Handle | None:
        """What was started for a session when nobody had the time to keep its handle."""
        profile = self._settings.profile(session.profile)
        return self._backends.find(launch_name(session.id, epoch), profile)

    def _settle(self, tx: Tx, session: Session, condemned: Condemned) -> None:
        """The driver is gone: what becomes of its statements, and of the session."""
        lost = _lost(session.id, condemned.reason)
        if session.state is SessionState.CLOSING:
            bury(tx, session.id, who=self._node_id)
            return
        end = _end_of(session, lost)
        if end is not None:
            end_session(tx, session.id, Failure.of(end), who=self._node_id)
            return
        changes.settle(
            tx,
            session.id,
            who=self._node_id,
            failure=Failure.of(lost),
            max_attempts=self._settings.statements.max_attempts,
        )
        if session.kind is SessionKind.BATCH and not statements.live_ids(tx, session.id):
            known = sessions.get(tx, session.id)
            assert known is not None
            close_in(tx, known, who=self._node_id, reason="its one statement has ended")


def _lost(session_id: str, reason: str) -> DriverLost:
    return DriverLost(f"The driver was lost: {reason}. See: headrace session log {session_id}")


def _end_of(session: Session, lost: DriverLost) -> HeadraceError | None:
    """Why a session cannot go on without its driver; None when another can be started."""
    if session.starts >= _MOST_STARTS:
        return LaunchFailed(
            f"Its driver did not start in {session.starts} attempts. {lost.message}"
        )
    told = session.driver or {}
    if session.state is SessionState.RECOVERING and not told.get("keeps_tables", True):
        return DriverLost(
            f"{lost.message}. Its tables were in the memory of that driver: the session cannot be "
            "rebuilt without a persistent catalog."
        )
    return None
