"""Taking over from lost drivers: fence, kill, settle.

First the session's epoch is raised in the store, so that the driver can report nothing any more;
then its process is ended, and the backend confirms it; only then is it decided what becomes of its
statements and of the session. A node that dies in between leaves a lease that runs out, and any
other goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from headrace.control.launchers.base import Handle, launch_name
from headrace.control.launchers.registry import LauncherRegistry
from headrace.control.sessions.service import close_session, end_session, finish_close
from headrace.errors import (
    BackendUnreachable,
    DriverLost,
    HeadraceError,
    LaunchFailed,
    StoreUnavailable,
)
from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState
from headrace.model.session import FencedDriver, Session, SessionKind
from headrace.settings import Settings
from headrace.store import sessions, statement_transitions, statements, takeovers
from headrace.store.database import Database, Tx

_LOG = logging.getLogger("headrace.takeover")
_BATCH = 100
_MOST_STARTS = 3
_THREADS = 8
_STARTING = {SessionState.STARTING, SessionState.RECOVERING}


class Takeovers:
    """Sweeps the whole store; any number of nodes may do so at once.

    Backends are asked in threads: one that answers late, or not at all, holds up nothing else.
    """

    def __init__(
        self, database: Database, settings: Settings, *, node_id: str, backends: LauncherRegistry
    ) -> None:
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._backends = backends
        self._lease = settings.lease.duration.total_seconds()
        self._workers = ThreadPoolExecutor(_THREADS, thread_name_prefix="headrace-takeover")
        self._in_hand: dict[str, Future[None]] = {}

    def sweep(self) -> None:
        """One round: drivers that were seen to end, and leases that have run out."""
        self._in_hand = {key: one for key, one in self._in_hand.items() if not one.done()}
        for driver in self._backends.exits():
            # Most have said goodbye before.
            self.declare_lost(driver.session_id, driver.epoch, driver.reason)
        with self._database.read() as tx:
            overdue = takeovers.overdue(tx, _BATCH)
        for session in overdue:
            if session.id in self._in_hand:
                continue
            if session.fenced_driver is None:
                self._begin(session.id, self._overdue, session)
            elif self._retaken(session):
                self._begin(session.id, self._finish, session.id, session.epoch)

    def declare_lost(
        self, session_id: str, epoch: int, reason: str, *, if_alone: str | None = None
    ) -> None:
        """Takes a session from the driver of an epoch, unless it has another already.

        With `if_alone`, only while that driver has nothing else in hand than that statement.
        """
        fence = self._condemned(session_id, epoch, reason, if_alone=if_alone)
        if fence is not None:
            self._begin(session_id, self._finish, session_id, fence)

    def stop(self) -> None:
        """Waits for what is in hand. What it has not finished, another node does."""
        self._workers.shutdown(wait=True)

    def _condemned(self, session_id: str, epoch: int, reason: str, **terms: Any) -> int | None:
        """The first step, on the terms of `store.takeovers.condemn`. Returns the new epoch."""
        with self._database.write() as tx:
            fence = takeovers.fence(
                tx,
                session_id,
                epoch,
                actor=self._node_id,
                reason=reason,
                seconds=self._lease,
                **terms,
            )
        if fence is not None:
            _LOG.warning("session %s: driver of epoch %d lost: %s", session_id, epoch, reason)
        return fence

    def _begin(self, session_id: str, act: Callable[..., None], *facts: Any) -> None:
        self._in_hand[session_id] = self._workers.submit(self._guarded, session_id, act, *facts)

    def _guarded(self, session_id: str, act: Callable[..., None], *facts: Any) -> None:
        try:
            act(*facts)
        except StoreUnavailable as error:
            _LOG.error("session %s: its takeover has to wait: %s", session_id, error.message)
        except Exception:  # noqa: BLE001 - the lease runs out, and it is tried again
            _LOG.exception("session %s: its takeover failed", session_id)

    def _overdue(self, session: Session) -> None:
        """The lease has run out: only now is the backend asked.

        A driver that renews meanwhile is left alone.
        """
        starting = session.state in _STARTING
        reason = "its start was never finished" if starting else "it did not renew its lease"
        try:
            handle = session.handle or self._found(session, session.epoch)
            if handle is not None:
                status = self._backends.poll(handle)
                if starting or not status.alive:
                    reason = status.words
        except BackendUnreachable as error:
            _LOG.error("session %s: its driver is overdue, and %s", session.id, error.message)
            with self._database.write() as tx:
                takeovers.extend_lease(tx, session.id, session.epoch, seconds=self._lease)
            return
        terms = {"if_overdue": True, "start_timed_out": starting and handle is not None}
        fence = self._condemned(session.id, session.epoch, reason, **terms)
        if fence is not None:
            self._finish(session.id, fence)

    def _retaken(self, session: Session) -> bool:
        with self._database.write() as tx:
            return takeovers.reclaim_takeover(tx, session.id, session.epoch, seconds=self._lease)

    def _finish(self, session_id: str, epoch: int) -> None:
        """Ends a condemned driver's process and settles what it left."""
        with self._database.read() as tx:
            session = sessions.get(tx, session_id)
        if session is None or session.fenced_driver is None or session.epoch != epoch:
            return
        try:
            handle = session.fenced_driver.handle or self._found(
                session, session.fenced_driver.epoch
            )
            if handle is not None:
                self._backends.kill(handle)
        except (BackendUnreachable, LaunchFailed) as error:
            # The lease of this takeover runs out, and then it is tried again.
            _LOG.error("session %s: its lost driver is not gone: %s", session_id, error.message)
            return
        with self._database.write() as tx:
            # It may have been closed meanwhile.
            sessions.lock(tx, session_id)
            known = sessions.get(tx, session_id)
            if known is not None and takeovers.finish_takeover(tx, session_id, epoch):
                self._settle(tx, known, session.fenced_driver)

    def _found(self, session: Session, epoch: int) -> Handle | None:
        """What was started for a session when nobody had the time to keep its handle."""
        profile = self._settings.profile(session.profile)
        return self._backends.find(launch_name(session.id, epoch), profile)

    def _settle(self, tx: Tx, session: Session, fenced_driver: FencedDriver) -> None:
        """The driver is gone: what becomes of its statements, and of the session."""
        lost = _lost(session.id, fenced_driver.reason)
        if session.state is SessionState.CLOSING:
            finish_close(tx, session.id, actor=self._node_id)
            return
        end = _end_of(session, fenced_driver, lost)
        if end is not None:
            end_session(tx, session.id, Failure.of(end), actor=self._node_id)
            return
        statement_transitions.resolve_lost_statements(
            tx,
            session.id,
            actor=self._node_id,
            failure=Failure.of(lost),
            max_attempts=self._settings.statements.max_attempts,
        )
        if session.kind is SessionKind.BATCH and not statements.live_ids(tx, session.id):
            known = sessions.get(tx, session.id)
            assert known is not None
            close_session(tx, known, actor=self._node_id, reason="its one statement has ended")


def _lost(session_id: str, reason: str) -> DriverLost:
    return DriverLost(f"The driver was lost: {reason}. See: headrace session log {session_id}")


def _end_of(
    session: Session, fenced_driver: FencedDriver, lost: DriverLost
) -> HeadraceError | None:
    """Why a session cannot go on without its driver; None when another can be started."""
    if fenced_driver.start_timed_out:
        return LaunchFailed(f"Its driver did not start in time. {lost.message}")
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
