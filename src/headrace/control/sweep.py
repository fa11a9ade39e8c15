"""What every node looks after, again and again: launches, lost drivers, expired results."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from headrace.control.expiry import Expiry
from headrace.control.launch import Launches
from headrace.control.launchers.backends import Backends
from headrace.control.launchers.contract import Exit
from headrace.control.local import Locals
from headrace.control.retention import Retention
from headrace.control.sessions import end_session
from headrace.control.stuck import StuckCancels
from headrace.errors import DriverLost, StoreUnavailable
from headrace.model.failure import Failure
from headrace.model.session import Session
from headrace.settings import Settings
from headrace.store import nodes, sessions
from headrace.store.database import Database

_LOG = logging.getLogger("headrace.sweep")
_RETENTION_SECONDS = 60.0


class Sweeper:
    """One thread of a node. A wake-up brings the next round forward."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        node_id: str,
        backends: Backends,
        launches: Launches,
        retention: Retention,
        expiry: Expiry,
        stuck: StuckCancels,
        locals_: Locals,
        after_round: Callable[[], None],
    ) -> None:
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._backends = backends
        self._launches = launches
        self._retention = retention
        self._expiry = expiry
        self._stuck = stuck
        self._locals = locals_
        self._after_round = after_round
        self._stopping = threading.Event()
        self._away = True
        self._retained_at = 0.0
        self._thread = threading.Thread(target=self._run, name="headrace-sweep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the round in hand."""
        self._stopping.set()
        self._database.signals.publish(["launch"])
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        period = self._settings.lease.sweep.total_seconds()
        with self._database.signals.subscribe("launch") as launch:
            while not self._stopping.is_set():
                try:
                    self._round()
                    self._after_round()
                except StoreUnavailable as error:
                    if not self._away:
                        _LOG.error("the store does not answer: %s", error.message)
                    self._away = True
                except Exception:  # noqa: BLE001 - launches and leases must be looked after still
                    _LOG.exception("a sweep failed")
                launch.wait(period)

    def _round(self) -> None:
        lease = self._settings.lease.duration.total_seconds()
        with self._database.write() as tx:
            nodes.renew(tx, self._node_id, lease)
            if self._away:
                # Drivers could not reach a node meanwhile: each gets one full lease to come back.
                sessions.extend_all(tx, node=self._node_id, seconds=lease)
        if self._away:
            _LOG.info("the store answers")
            self._away = False
        for driver in self._backends.exits():
            self._lost(driver)
        with self._database.read() as tx:
            overdue = sessions.overdue(tx, 100)
        for session in overdue:
            self._overdue(session)
        self._expiry.sweep()
        self._stuck.sweep()
        self._locals.run_due()
        self._launches.start_pending()
        if time.monotonic() - self._retained_at > _RETENTION_SECONDS:
            self._retention.sweep()
            self._retained_at = time.monotonic()

    def _lost(self, driver: Exit) -> None:
        """A driver that this node started has ended; most have said goodbye before."""
        self._end(driver.session_id, driver.epoch, driver.reason, if_overdue=False)

    def _overdue(self, session: Session) -> None:
        """The lease has run out: only now is the backend asked.

        The session ends first, by a compare-and-set on the lease: a driver that renews meanwhile is
        left alone, and one that does not can change nothing any more when it is killed.
        """
        reason = "its start was never finished"
        if session.handle is not None:
            alive = self._backends.poll(session.handle).alive
            reason = "it did not report within its lease" if alive else "its process is gone"
        ended = self._end(session.id, session.epoch, reason, if_overdue=True)
        if ended and session.handle is not None:
            self._backends.kill(session.handle)

    def _end(self, session_id: str, epoch: int, reason: str, *, if_overdue: bool) -> bool:
        message = f"The driver was lost: {reason}. See: headrace session log {session_id}"
        with self._database.write() as tx:
            ended = end_session(
                tx,
                session_id,
                Failure.of(DriverLost(message)),
                who=self._node_id,
                epoch=epoch,
                if_overdue=if_overdue,
            )
        if ended:
            _LOG.warning("session %s: driver of epoch %d lost: %s", session_id, epoch, reason)
        return ended
