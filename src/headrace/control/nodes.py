"""The service for nodes: list, drain, and confirm the end of one that is lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from headrace.control.context import NodeContext
from headrace.control.policy import Action, Caller, Shared, require
from headrace.errors import NodeNotFound, NodeStateConflict, StoreUnavailable
from headrace.model.audit import AuditAction
from headrace.model.lifecycle import NodeState
from headrace.model.node import NodeRecord
from headrace.store import nodes
from headrace.store.database import Tx


class Nodes:
    """The nodes of the cluster, served by one of them."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._audit = context.audit

    def list_nodes(self, caller: Caller) -> list[NodeRecord]:
        """Return the record of every node in the store, including nodes that are gone.

        Raise NotPermitted.
        """
        require(caller, Action.READ, Shared.NODES)
        with self._database.read() as tx:
            return nodes.page(tx)

    def drain(self, caller: Caller, node_id: str) -> NodeRecord:
        """Ask a node to leave. It learns so when it renews its lease.

        Raises:
            NotPermitted: The caller is neither operator nor administrator.
            NodeNotFound: There is no such node.
            NodeStateConflict: The node is gone.
        """
        require(caller, Action.CHANGE, Shared.NODES)
        with self._database.write("node.request_drain") as tx:
            node = _get(tx, node_id)
            if node.ended_at is not None:
                raise NodeStateConflict(
                    f"The node {node_id} cannot drain: it is gone.",
                    hint="headrace node list shows the nodes that are up.",
                )
            nodes.transition(tx, node_id, NodeState.DRAINING, actor=caller.actor)
            self._audit.record_in(tx, AuditAction.NODE_DRAINED, caller, target=node_id)
            return _get(tx, node_id)

    def confirm_gone(self, caller: Caller, node_id: str) -> NodeRecord:
        """Record that a node, and every driver on its host, have ended for certain.

        Sessions of drivers that only this node could reach continue in other drivers.

        Raises:
            NotPermitted: The caller is neither operator nor administrator.
            NodeNotFound: There is no such node.
            NodeStateConflict: The node has a valid lease.
        """
        require(caller, Action.CHANGE, Shared.NODES)
        with self._database.write("node.confirm_gone") as tx:
            node = _get(tx, node_id)
            if not nodes.confirm_gone(tx, node_id, actor=caller.actor):
                raise NodeStateConflict(
                    f"The node {node_id} is not gone: its lease is valid until"
                    f" {node.lease_until:%Y-%m-%d %H:%M:%S} UTC.",
                    hint=f"Stop its process, or drain it: headrace node drain {node_id}.",
                )
            self._audit.record_in(tx, AuditAction.NODE_CONFIRMED_GONE, caller, target=node_id)
            return _get(tx, node_id)


def _get(tx: Tx, node_id: str) -> NodeRecord:
    node = nodes.get(tx, node_id)
    if node is None:
        raise NodeNotFound(f"There is no node {node_id[:100]!r}.")
    return node


_LOG = logging.getLogger("headrace.node")
_POLL_SECONDS = 0.1


class Drain:
    """Whether a node is to leave, and the thread that waits until it can."""

    def __init__(
        self,
        context: NodeContext,
        *,
        hand_over: Callable[[], None],
        is_busy: Callable[[], bool],
        leave: Callable[[], None],
    ) -> None:
        """Create a drain that has not begun.

        Args:
            hand_over: Ends the work that other nodes can continue.
            is_busy: Returns whether the node is still doing work that it has begun.
            leave: Asks the server to stop.
        """
        self._context = context
        self._hand_over = hand_over
        self._is_busy = is_busy
        self._leave = leave
        self._begun = threading.Event()
        self._is_left = threading.Event()
        self._lock = threading.Lock()

    @property
    def has_begun(self) -> bool:
        """Whether the node begins nothing new."""
        return self._begun.is_set()

    def begin(self) -> None:
        """Begin to drain, unless the node drains already. The drain continues in a thread."""
        with self._lock:
            if self._begun.is_set():
                return
            self._begun.set()
        threading.Thread(target=self._run, name="headrace-drain", daemon=True).start()

    def _run(self) -> None:
        limit = self._context.settings.cluster.drain_timeout.total_seconds()
        deadline = time.monotonic() + limit
        _LOG.info("the node drains: it begins nothing new, and leaves within %g s", limit)
        try:
            self._hand_over()
            if self._announce():
                self._wait_for_drivers(deadline)
            while self._is_busy() and time.monotonic() < deadline:
                self._is_left.wait(_POLL_SECONDS)
        except StoreUnavailable as error:
            _LOG.warning("the node leaves while the store does not answer: %s", error.message)
        finally:
            self._leave()

    def _announce(self) -> bool:
        """Record in the store that the node drains. Return whether another node is up."""
        context = self._context
        with context.database.write("node.drain") as tx:
            nodes.transition(tx, context.node_id, NodeState.DRAINING, actor=context.node_id)
            return bool(nodes.addresses(tx))

    def _wait_for_drivers(self, deadline: float) -> None:
        """Wait until every driver has renewed its lease, and so knows the nodes that stay."""
        renewal = self._context.settings.lease.renew.total_seconds()
        self._is_left.wait(min(renewal, max(0.0, deadline - time.monotonic())))
