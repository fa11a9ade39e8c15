"""Cancels that a driver does not carry out: its process is ended, through the launcher.

A statement is never called cancelled while its JVM may still write. The session goes on with
another driver.
"""

from __future__ import annotations

from headrace.control.sessions.takeover import Takeovers
from headrace.settings import Settings
from headrace.store.database import Database
from headrace.store.timeouts import UnansweredCancel, set_cancel_note, unanswered_cancels

_BATCH = 100
_SHARED = (
    "Its driver has not stopped it, and other work runs in the same driver. "
    "Cancel it with force to end that too."
)


class ForcedCancels:
    """Sweeps the whole store; any number of nodes may do so at once."""

    def __init__(self, database: Database, settings: Settings, takeovers: Takeovers) -> None:
        self._database = database
        self._settings = settings
        self._takeovers = takeovers

    def sweep(self) -> None:
        """One round: ends the drivers that have not stopped a cancelled statement in time."""
        grace = self._settings.lease.cancel_grace.total_seconds()
        with self._database.read() as tx:
            found = unanswered_cancels(tx, grace, _BATCH)
        for stuck in found:
            if stuck.alone or stuck.forced:
                self._kill(stuck)
            elif not stuck.noted:
                with self._database.write() as tx:
                    set_cancel_note(tx, stuck.statement_id, _SHARED)

    def _kill(self, stuck: UnansweredCancel) -> None:
        reason = f"it was ended because it did not stop {stuck.statement_id} when asked to"
        # A neighbour may have come since.
        spared = None if stuck.forced else stuck.statement_id
        self._takeovers.declare_lost(stuck.session_id, stuck.epoch, reason, if_alone=spared)
