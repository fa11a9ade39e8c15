"""The lease of a node, renewed in a thread of its own so that no backend call can delay it.

A node whose lease expired long ago is ended by another node.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.control.context import NodeContext
from headrace.control.periodic_tasks import read_boot_clock
from headrace.errors import InvalidSetting, StoreUnavailable
from headrace.model.lifecycle import NodeState
from headrace.store import nodes
from headrace.store.database import Precedence, Tx
from headrace.store.notifications import EVENTS, HEARTBEAT

_LOG = logging.getLogger("headrace.node")
_LATE = 2 / 3
"""Share of a lease after which a renewal is late: two renewals are regular within it."""
_GONE_SECONDS = 600.0
"""Time after the end of its lease at which a node counts as gone."""


class NodeLease:
    """A thread that renews the lease of one node until it is stopped."""

    def __init__(
        self,
        context: NodeContext,
        *,
        register: Callable[[Tx], None],
        on_draining: Callable[[], None],
        on_refused: Callable[[], None],
        observe_late_renewal: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the thread, without starting it.

        Args:
            register: Registers the node again, if another node has ended its registration.
            on_draining: Called when the store says that the node is to drain.
            on_refused: Called when the node cannot register again. It has no lease any more.
            observe_late_renewal: Called when a renewal came after two thirds of a lease.
        """
        self._context = context
        self._register = register
        self._on_draining = on_draining
        self._on_refused = on_refused
        self._observe_late_renewal = observe_late_renewal
        self._renewed_at = read_boot_clock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-lease", daemon=True)

    def start(self) -> None:
        """Start the thread. The registration of the node has given it a first lease."""
        self._renewed_at = read_boot_clock()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the current renewal."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        lease = self._context.settings.lease
        # Half a lease without a renewal means that the node was away.
        regular_pause = min(lease.renew, lease.duration / 3)
        pause = regular_pause
        while not self._stopping.wait(pause.total_seconds()):
            try:
                self._renew()
                self._note_renewal()
                pause = regular_pause
            except StoreUnavailable:
                # The periodic tasks log the outage. Retry sooner than the next regular renewal.
                pause = lease.sweep
            except InvalidSetting as error:
                _LOG.error("the node was gone and cannot return, so it stops: %s", error.message)
                self._on_refused()
            except Exception:  # noqa: BLE001 - a node without a lease launches nothing
                _LOG.exception("the lease of the node could not be renewed")

    def _note_renewal(self) -> None:
        previous, self._renewed_at = self._renewed_at, read_boot_clock()
        if self._renewed_at - previous > self._context.lease_seconds * _LATE:
            self._observe_late_renewal()

    def _renew(self) -> None:
        database = self._context.database
        with database.write("node.renew", precedence=Precedence.LEASES) as tx:
            tx.wake(HEARTBEAT)
            state = nodes.renew(
                tx,
                self._context.node_id,
                self._context.lease_seconds,
                event_process=self._find_event_process(),
            )
            database.others_stream_events = nodes.others_stream_events(tx, database.process)
        if state is None:
            # The node was away for so long that it counted as gone.
            with database.write("node.register") as tx:
                self._register(tx)
        if state is NodeState.DRAINING:
            self._on_draining()

    def _find_event_process(self) -> str | None:
        """Return this process if it streams events, else None."""
        database = self._context.database
        return database.process if database.notifications.find_subscribed([EVENTS]) else None


class ExpiredNodes:
    """Ends the registrations of nodes that have crashed. Several nodes may do so at the same time.

    A node that was only frozen registers again when it renews its lease.
    """

    def __init__(self, context: NodeContext) -> None:
        self._context = context

    def run(self) -> None:
        """End the registrations of nodes whose lease expired long ago."""
        context = self._context
        with context.database.write("node.expire") as tx:
            gone = nodes.end_expired(
                tx, context.node_id, context.lease_seconds, patience=_GONE_SECONDS
            )
        for node_id in gone:
            _LOG.warning(
                "node %s is gone: its lease expired more than %.0f s ago", node_id, _GONE_SECONDS
            )
