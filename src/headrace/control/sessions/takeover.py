"""Takeover of sessions whose driver is lost: fence, kill, resolve.

The node first raises the session's epoch in the store, so that the driver can report nothing more.
Then the node ends the process, and the backend confirms the end. Only then does the node decide
what happens to the statements and to the session. If the node dies in between, its lease on the
takeover expires, and any other node continues.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from headrace.control.backend_pools import BackendPace, BackendPools
from headrace.control.context import NodeContext
from headrace.control.launchers.base import DriverStatus, Handle, launch_name
from headrace.control.launchers.registry import LauncherRegistry
from headrace.control.periodic_tasks import isolate_errors
from headrace.control.sessions.driver_owner import fill_templates
from headrace.control.sessions.ending import close_session, fail_session, finish_close
from headrace.errors import (
    BackendUnreachable,
    DriverLost,
    DriverOnOtherHost,
    HeadraceError,
    InvalidSetting,
    LaunchFailed,
)
from headrace.model.failure import Failure
from headrace.model.lifecycle import SESSION, SessionState
from headrace.model.session import DriverLease, FencedDriver, Session, SessionKind
from headrace.model.text import MAX_SUMMARY, cut_text
from headrace.store import nodes
from headrace.store.database import Tx
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import statement_queue, statements
from headrace.store.streams import stream_transitions

_LOG = logging.getLogger("headrace.takeover")
_BATCH = 100
"""Size of a page of overdue sessions, and largest number of takeovers that wait on a backend."""
_MAX_STARTS = 3
_THREADS = 8
"""Largest number of takeovers at once on one backend."""
_EXIT_SECONDS = 10.0
"""Time that a driver of a closed session has to exit after its goodbye. Then it is killed."""
_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.05, 1.0


class Takeovers:
    """Takes over sessions of the whole store. Several nodes may do so at the same time.

    Backend calls run in threads, so that a slow backend delays nothing else.
    """

    def __init__(
        self,
        context: NodeContext,
        launchers: LauncherRegistry,
        *,
        observe_loss: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the threads when they are needed.

        Args:
            observe_loss: Called for each driver that this node has found lost.
        """
        self._observe_loss = observe_loss
        self._database = context.database
        self._settings = context.settings
        self._node_id = context.node_id
        self._secrets = context.secrets
        self._lease_seconds = context.lease_seconds
        self._close_seconds = context.settings.lease.close_grace.total_seconds()
        self._launchers = launchers
        self._pools = BackendPools("takeover", threads=_THREADS)
        self._pace = BackendPace(context.database, context.settings)

    def run(self) -> None:
        """Start takeovers: of drivers that have exited, that are overdue, or that do not close."""
        for driver_exit in self._launchers.exits():
            with isolate_errors(f"the exit of {driver_exit.lease} could not be handled"):
                # Most drivers have sent a goodbye, so their epoch is already superseded.
                self.declare_lost(driver_exit.lease, driver_exit.reason)
        self._check_all_overdue()
        with self._database.read() as tx:
            unclosed = self._list_unclosed(tx)
        for session in unclosed:
            with isolate_errors(f"the driver of session {session.id} could not be ended"):
                lease = DriverLease(session.id, session.epoch)
                self.declare_lost(lease, "its session was closed, and it did not end in time")

    def _list_unclosed(self, tx: Tx) -> list[Session]:
        """Return the closed sessions whose drivers have had the grace period to end."""
        grace = self._close_seconds
        if not nodes.is_present(tx, self._node_id, self._lease_seconds, patience=grace):
            return []
        return takeovers.unclosed(tx, grace, _BATCH)

    def _check_all_overdue(self) -> None:
        """Start the next step of the overdue takeovers, up to a limit for each backend.

        The limits are separate, so that a backend that does not answer delays no other backend.
        """
        offset = 0
        while any(self._has_room(backend) for backend in self._launchers.backends):
            with self._database.read() as tx:
                overdue = takeovers.overdue(
                    tx, _BATCH, node=self._node_id, seconds=self._lease_seconds, offset=offset
                )
            for session in overdue:
                with isolate_errors(f"session {session.id} is overdue and could not be checked"):
                    self._take_over(session)
            if len(overdue) < _BATCH:
                return
            # The takeovers that have begun may move the page. The next sweep reads what it misses.
            offset += _BATCH

    def _has_room(self, backend: str) -> bool:
        """Return whether another takeover may wait for a thread of the backend."""
        return self._pools.count_busy(backend) < _BATCH

    def _take_over(self, session: Session) -> None:
        """Start the next step of a takeover in a thread, if this node can call the backend."""
        backend = self._backend_of(session)
        if backend not in self._launchers.backends or not self._has_room(backend):
            return
        if self._pools.is_busy(session.id):
            return
        if session.fenced_driver is None:
            self._pools.submit(backend, session.id, partial(self._check_overdue, session))
            return
        if session.fenced_driver.is_exiting and self._other_node_decides(session):
            # That node is on the host of the driver, and observes its exit.
            return
        lease = DriverLease(session.id, session.epoch)
        if self._reclaim(lease):
            self._pools.submit(backend, session.id, partial(self._finish, lease))

    def declare_lost(
        self, lease: DriverLease, reason: str, *, only_if_alone_with: str | None = None
    ) -> None:
        """Fence a driver and start the takeover, unless another takeover has superseded the epoch.

        Args:
            only_if_alone_with: If given, do nothing unless only this statement runs in the driver.
        """
        fenced = self._fence(lease, reason, only_if_alone_with=only_if_alone_with)
        if fenced is None:
            return
        with self._database.read() as tx:
            session = sessions.get(tx, lease.session_id)
        backend = self._backend_of(session) if session is not None else ""
        if backend in self._launchers.backends:
            self._pools.submit(backend, lease.session_id, partial(self._finish, fenced))

    @property
    def has_work(self) -> bool:
        """Whether a takeover is in progress on this node."""
        return self._pools.has_work

    def stop(self) -> None:
        """Wait for the takeovers in flight. Another node continues unfinished takeovers."""
        self._pools.stop()

    def _backend_of(self, session: Session) -> str:
        """Return the backend of the session's driver; empty if this node does not know it."""
        handle = session.handle
        if session.fenced_driver is not None:
            handle = session.fenced_driver.handle
        if handle is not None:
            return str(handle["backend"])
        try:
            return self._settings.profile(session.spec.profile).backend
        except InvalidSetting:
            return ""

    def _fence(
        self,
        lease: DriverLease,
        reason: str,
        *,
        only_if_overdue: bool = False,
        only_if_alone_with: str | None = None,
        start_timed_out: bool = False,
    ) -> DriverLease | None:
        """Call `store.takeovers.fence`; return the session with its new epoch, or None."""
        # An exception in the log of a backend can quote a value of the configuration.
        reason = cut_text(self._secrets.known_of(lease.session_id).mask_text(reason), MAX_SUMMARY)
        with self._database.write("takeover.fence") as tx:
            epoch = takeovers.fence(
                tx,
                lease,
                actor=self._node_id,
                reason=reason,
                seconds=self._lease_seconds,
                only_if_overdue=only_if_overdue,
                only_if_alone_with=only_if_alone_with,
                start_timed_out=start_timed_out,
            )
        if epoch is None:
            return None
        self._observe_loss()
        _LOG.warning(
            "session %s: the driver of epoch %d is lost: %s", lease.session_id, lease.epoch, reason
        )
        return DriverLease(lease.session_id, epoch)

    def _check_overdue(self, session: Session) -> None:
        """Take over a session whose lease has expired, unless its driver renews it meanwhile.

        A node asks the backend only about overdue drivers. If the backend does not answer, the
        lease is extended.
        """
        lease = DriverLease(session.id, session.epoch)
        is_starting = session.state in SESSION.launching
        reason = "its start was not finished" if is_starting else "it did not renew its lease"
        start_timed_out = is_starting
        try:
            handle = session.handle or self._find_process(session, lease)
            if handle is not None:
                status = self._poll(handle)
                if is_starting and session.handle is None and status.alive:
                    # The node that has started it could not store the handle.
                    self.adopt(lease, handle)
                    return
                if is_starting or not status.alive:
                    reason = status.message
                # A driver that has ended is a failed start, however long it took to notice.
                start_timed_out = is_starting and status.alive
        except BackendUnreachable as error:
            if not self._may_take_over_unconfirmed(session, error):
                return
            handle, reason = None, "its host is lost"
        fenced = self._fence(
            lease,
            reason,
            only_if_overdue=True,
            start_timed_out=start_timed_out and handle is not None,
        )
        if fenced is not None:
            self._finish(fenced)

    def adopt(self, lease: DriverLease, handle: Handle) -> None:
        """Store the handle of a live driver whose start its node could not confirm."""
        with self._database.write("launch.adopt") as tx:
            sessions.set_handle(tx, lease, handle)

    def _reclaim(self, lease: DriverLease) -> bool:
        with self._database.write("takeover.reclaim") as tx:
            return takeovers.reclaim_takeover(tx, lease, seconds=self._lease_seconds)

    def _finish(self, lease: DriverLease) -> None:
        """End the process of a fenced driver, then resolve its statements and the session."""
        with self._database.read() as tx:
            session = sessions.get(tx, lease.session_id)
        if session is None or session.fenced_driver is None or session.epoch != lease.epoch:
            return
        fenced_driver = session.fenced_driver
        try:
            self._end_process(session, fenced_driver)
        except (BackendUnreachable, LaunchFailed) as error:
            # The lease of this takeover expires, and then a node tries again.
            _LOG.error(
                "session %s: its lost driver could not be ended: %s", session.id, error.message
            )
            return
        with self._database.write("takeover.finish") as tx:
            # The session may have been closed meanwhile.
            sessions.lock(tx, session.id)
            current = sessions.get(tx, session.id)
            if current is not None and takeovers.finish_takeover(tx, lease):
                self._resolve(tx, current, fenced_driver)

    def _end_process(self, session: Session, fenced_driver: FencedDriver) -> None:
        """End the process of a fenced driver, unless the session may continue without that.

        Raises BackendUnreachable and LaunchFailed.
        """
        lost = DriverLease(session.id, fenced_driver.epoch)
        try:
            handle = fenced_driver.handle or self._find_process(session, lost)
            if handle is not None and fenced_driver.is_exiting:
                self._wait_for_exit(handle)
            if handle is not None:
                # Also ends the processes that a driver has left behind.
                self._launchers.kill(handle)
        except DriverOnOtherHost:
            if not self._may_continue_without(lost):
                raise

    def _may_take_over_unconfirmed(self, session: Session, error: BackendUnreachable) -> bool:
        """Return whether a session is taken over although the state of its driver is not known.

        If it is not, a live node on the host of the driver decides, or the lease is extended.
        """
        lease = DriverLease(session.id, session.epoch)
        if isinstance(error, DriverOnOtherHost):
            if self._other_node_decides(session):
                return False
            if self._may_continue_without(lease):
                return True
        _LOG.error(
            "session %s: its driver is overdue, and its state is not known: %s",
            session.id,
            error.message,
        )
        with self._database.write("takeover.extend") as tx:
            takeovers.extend_lease(tx, lease, seconds=self._lease_seconds)
        return False

    def _other_node_decides(self, session: Session) -> bool:
        """Return whether another node, which launched the driver on its host, is live."""
        if session.launched_by is None or session.launched_by == self._node_id:
            return False
        with self._database.read() as tx:
            return nodes.is_live(tx, session.launched_by)

    def _may_continue_without(self, lost: DriverLease) -> bool:
        """Return whether a session may continue without a driver that no node can reach."""
        orphan_seconds = self._settings.lease.orphan.total_seconds()
        with self._database.read() as tx:
            return nodes.may_continue_without(
                tx, lost, orphan_seconds=orphan_seconds, end_seconds=self._lease_seconds
            )

    def _is_alive(self, handle: Handle) -> bool:
        if "host" in handle:
            # A process of this host is asked without a backend.
            return self._launchers.poll(handle).alive
        return self._poll(handle).alive

    def _poll(self, handle: Handle) -> DriverStatus:
        self._pace.wait(handle["backend"])
        return self._launchers.poll(handle)

    def _wait_for_exit(self, handle: Handle) -> None:
        """Give a driver that closes its application time to exit. Raise BackendUnreachable."""
        deadline = time.monotonic() + _EXIT_SECONDS
        pause = _FIRST_POLL_SECONDS
        while self._is_alive(handle) and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_POLL_SECONDS)

    def _find_process(self, session: Session, lease: DriverLease) -> Handle | None:
        """Return the handle of a live driver whose handle was never stored, or None."""
        profile = fill_templates(self._settings.profile(session.spec.profile), session.owner)
        self._pace.wait(profile.backend)
        return self._launchers.find(launch_name(lease), profile, session.host)

    def _resolve(self, tx: Tx, session: Session, fenced_driver: FencedDriver) -> None:
        """Decide what happens to the session and its statements, now that the driver is gone."""
        lost = _driver_lost(session.id, fenced_driver.reason)
        if session.state is SessionState.CLOSING:
            finish_close(tx, session.id, actor=self._node_id)
            return
        failure = fenced_driver.failure or _final_failure(session, fenced_driver, lost)
        if failure is not None:
            fail_session(tx, session.id, failure, actor=self._node_id)
            return
        takeovers.resolve_lost(
            tx,
            session.id,
            actor=self._node_id,
            failure=Failure.of(lost),
            max_attempts=self._settings.statements.max_attempts,
        )
        stream_transitions.release(tx, session.id, actor=self._node_id, reason=fenced_driver.reason)
        if session.kind is SessionKind.BATCH and (
            statement_queue.is_stopped(tx, session.id) or not statements.live_ids(tx, session.id)
        ):
            close_session(tx, session.id, actor=self._node_id, reason="the batch has ended")


def _driver_lost(session_id: str, reason: str) -> DriverLost:
    return DriverLost(f"The driver was lost: {reason}. See: headrace session log {session_id}")


def _final_failure(
    session: Session, fenced_driver: FencedDriver, lost: DriverLost
) -> Failure | None:
    """Return the failure that ends the session; None if another driver can be started."""
    error: HeadraceError
    report = session.driver or {}
    if fenced_driver.start_timed_out:
        error = LaunchFailed(
            "The driver did not report within its start_timeout. Its backend says: "
            f"{fenced_driver.reason}. See: headrace session log {session.id}"
        )
    elif session.starts >= _MAX_STARTS:
        error = LaunchFailed(
            f"The driver did not start in {session.starts} attempts. {lost.message}"
        )
    elif session.state is SessionState.RECOVERING and not report.get("keeps_tables", True):
        error = DriverLost(
            f"{lost.message}. The tables were in the memory of that driver, so the session cannot "
            "be restored. A persistent catalog (catalog.kind) would keep them."
        )
    else:
        return None
    return Failure.of(error)


_CLOSE_SECONDS = 15.0


class DriverEnds:
    """Ends drivers, with their unnamed sessions. Named sessions can be recovered later."""

    def __init__(self, context: NodeContext, driver_takeovers: Takeovers) -> None:
        self._database = context.database
        self._node_id = context.node_id
        self._lease_seconds = context.lease_seconds
        self._takeovers = driver_takeovers

    def end_own(self) -> None:
        """End the drivers that this node has launched, for at most 15 s. Raises StoreUnavailable.

        The only node of a store also has the sessions that no node has launched.
        """
        is_only_node = not self._database.is_shared
        launched_by = None if is_only_node else self._node_id
        with self._database.read() as tx:
            own = sessions.live(tx, launched_by=launched_by)
        self._end(own, "its node has stopped", seconds=_CLOSE_SECONDS)

    def end_where(self, is_here: Callable[[Session], bool]) -> tuple[list[Session], list[Session]]:
        """End the drivers of the sessions of the store for which `is_here` is true.

        Return these sessions, and those of them whose drivers may still run. A takeover that
        another node has begun is awaited until its lease expires. Raises StoreUnavailable.
        """
        with self._database.read() as tx:
            leased = [each for each in sessions.live(tx) if each.lease_until is not None]
        chosen = [session for session in leased if is_here(session)]
        seconds = _CLOSE_SECONDS + self._lease_seconds
        return chosen, self._end(chosen, "headrace stop has ended it", seconds=seconds)

    def _end(self, chosen: list[Session], reason: str, *, seconds: float) -> list[Session]:
        """End the drivers of these sessions; return the sessions whose drivers may still run."""
        with self._database.write("node.close_sessions") as tx:
            for session in chosen:
                if session.name is None or not _can_be_recovered(session):
                    close_session(tx, session.id, actor=self._node_id)
        for session in chosen:
            # The server has stopped, so that no driver can learn of the end by itself.
            self._takeovers.declare_lost(DriverLease(session.id, session.epoch), reason)
        deadline = time.monotonic() + seconds
        while (remaining := self._list_leased(chosen)) and time.monotonic() < deadline:
            self._takeovers.run()
            time.sleep(0.1)
        return remaining

    def _list_leased(self, chosen: list[Session]) -> list[Session]:
        """Return those of the sessions whose driver runs or starts, or is being ended."""
        with self._database.read() as tx:
            current = [sessions.get(tx, session.id) for session in chosen]
        return [each for each in current if each is not None and each.lease_until is not None]


def _can_be_recovered(session: Session) -> bool:
    """Return whether another driver can restore the session with its tables."""
    return session.driver is None or bool(session.driver.get("keeps_tables"))
