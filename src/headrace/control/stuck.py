"""Cancels that a driver does not carry out: its process is ended, through the launcher.

In three steps, so that a crash between any two leaves nothing wrong: the driver is fenced off in
the store, then its process is ended, then what it had in hand is told to have ended. A statement is
never called cancelled while its JVM may still write.
"""

from __future__ import annotations

import logging

from headrace.control.launchers.backends import Backends
from headrace.control.sessions import end_session
from headrace.errors import DriverLost
from headrace.model.failure import Failure
from headrace.settings import Settings
from headrace.store import sessions
from headrace.store.database import Database
from headrace.store.overtime import StuckCancel, note, stuck_cancels

_LOG = logging.getLogger("headrace.cancel")
_BATCH = 100
_SHARED = (
    "Its driver has not stopped it, and other work runs in the same driver. "
    "Cancel it with force to end that too."
)


class StuckCancels:
    """Sweeps the whole store; any number of nodes may do so at once."""

    def __init__(
        self, database: Database, settings: Settings, *, node_id: str, backends: Backends
    ) -> None:
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._backends = backends

    def sweep(self) -> None:
        """One round: ends the drivers that have not stopped a cancelled statement in time."""
        grace = self._settings.lease.cancel_grace.total_seconds()
        with self._database.read() as tx:
            found = stuck_cancels(tx, grace, _BATCH)
        for stuck in found:
            if stuck.alone or stuck.forced:
                self._kill(stuck)
            elif not stuck.noted:
                with self._database.write() as tx:
                    note(tx, stuck.statement_id, _SHARED)

    def _kill(self, stuck: StuckCancel) -> None:
        lease = self._settings.lease.duration.total_seconds()
        with self._database.write() as tx:
            epoch = sessions.fence(tx, stuck.session_id, stuck.epoch, seconds=lease)
        if epoch is None:
            return
        if stuck.handle is not None:
            self._backends.kill(stuck.handle)
        reason = f"The driver was ended: it did not stop {stuck.statement_id} when asked to."
        _LOG.warning("session %s: %s", stuck.session_id, reason)
        with self._database.write() as tx:
            end_session(
                tx,
                stuck.session_id,
                Failure.of(DriverLost(reason)),
                who=self._node_id,
                epoch=epoch,
            )
