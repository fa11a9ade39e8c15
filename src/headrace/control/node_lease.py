"""The lease of a node, renewed in a thread of its own so that no backend call can delay it."""

from __future__ import annotations

import logging
import threading

from headrace.control.context import NodeContext
from headrace.errors import StoreUnavailable
from headrace.store import nodes

_LOG = logging.getLogger("headrace.node")


class NodeLease:
    """A thread that renews the lease of one node until it is stopped."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-lease", daemon=True)

    def start(self) -> None:
        """Start the thread. The registration of the node has given it a first lease."""
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
                with self._context.database.write("node.renew") as tx:
                    nodes.renew(tx, self._context.node_id, self._context.lease_seconds)
                pause = regular_pause
            except StoreUnavailable:
                # The periodic tasks log the outage. Retry sooner than the next regular renewal.
                pause = lease.sweep
            except Exception:  # noqa: BLE001 - a node without a lease launches nothing
                _LOG.exception("the lease of the node could not be renewed")
