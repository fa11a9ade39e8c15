"""Checks of drivers that start: a start that has died is a failed start, and is repeated.

A node observes the end of the drivers that it starts itself. It also asks about two other kinds of
starts, because their end would be noticed only after the start timeout:

- A start whose node has ended or restarted since. A node on the host of the driver asks once, and
  then watches the process as if it had started it.
- A start outside this host that takes long. Its own node asks from time to time.
"""

from __future__ import annotations

import logging
import time
from functools import partial

from headrace.control.backend_pools import BackendPace, BackendPools
from headrace.control.context import NodeContext
from headrace.control.host.process_identity import this_host
from headrace.control.launchers.base import Handle
from headrace.control.launchers.registry import LauncherRegistry
from headrace.control.periodic_tasks import isolate_errors
from headrace.control.sessions.takeover import Takeovers
from headrace.errors import BackendUnreachable, DriverOnOtherHost
from headrace.model.session import DriverLease, Session
from headrace.store.sessions import takeovers

_LOG = logging.getLogger("headrace.launch")
_BATCH = 100
_THREADS = 4
_SLOW_START_SECONDS = 60.0
"""Time between two questions about one start."""


class StartChecks:
    """Checks the starts of the whole store that this node can see. Call `run` in every sweep."""

    def __init__(
        self, context: NodeContext, launchers: LauncherRegistry, driver_takeovers: Takeovers
    ) -> None:
        self._database = context.database
        self._node_id = context.node_id
        self._launchers = launchers
        self._takeovers = driver_takeovers
        self._pools = BackendPools("start-check", threads=_THREADS)
        self._pace = BackendPace(context.database, context.settings)
        self._asked: dict[DriverLease, float] = {}
        """Monotonic time of the last question about each start in the last sweep."""

    def run(self) -> None:
        """Ask about the starts that no node observes, in threads."""
        with self._database.read() as tx:
            starts = takeovers.unobserved_starts(
                tx, self._node_id, _BATCH, slow_seconds=_SLOW_START_SECONDS
            )
        leases = {DriverLease(session.id, session.epoch) for session in starts}
        self._asked = {lease: at for lease, at in self._asked.items() if lease in leases}
        for session in starts:
            handle = session.handle
            if handle is not None and self._is_due(session, handle):
                with isolate_errors(f"the start of session {session.id} could not be checked"):
                    self._asked[DriverLease(session.id, session.epoch)] = time.monotonic()
                    check = partial(self._check, session, handle)
                    self._pools.submit(handle["backend"], session.id, check)

    def stop(self) -> None:
        """Wait for the questions that are in progress."""
        self._pools.stop()

    def _is_due(self, session: Session, handle: Handle) -> bool:
        asked_at = self._asked.get(DriverLease(session.id, session.epoch))
        return (
            (asked_at is None or time.monotonic() - asked_at > _SLOW_START_SECONDS)
            and handle["backend"] in self._launchers.backends
            and self._pools.count_free(handle["backend"]) > 0
        )

    def _check(self, session: Session, handle: Handle) -> None:
        lease = DriverLease(session.id, session.epoch)
        try:
            self._pace.wait(handle["backend"])
            status = self._launchers.poll(handle)
        except DriverOnOtherHost:
            # Only the nodes on that host can see the driver.
            return
        except BackendUnreachable as error:
            _LOG.warning(
                "session %s: its start could not be checked: %s", session.id, error.message
            )
            return
        if not status.alive:
            self._takeovers.declare_lost(lease, status.message)
            return
        self._launchers.watch(lease, handle)
        with self._database.write("launch.watch") as tx:
            takeovers.take_over_start(tx, lease, node=self._node_id, host=this_host().to_record())
