"""The service for nodes: list, drain, and confirm the end of one that is lost."""

from __future__ import annotations

from headrace.control.caller import Caller
from headrace.control.context import NodeContext
from headrace.errors import NodeNotFound, NodeStateConflict
from headrace.model.lifecycle import NodeState
from headrace.model.node import NodeRecord
from headrace.store import nodes
from headrace.store.database import Tx


class Nodes:
    """The nodes of the cluster, served by one of them."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def list_nodes(self) -> list[NodeRecord]:
        """Return the record of every node in the store, including nodes that are gone."""
        with self._database.read() as tx:
            return nodes.page(tx)

    def drain(self, caller: Caller, node_id: str) -> NodeRecord:
        """Ask a node to leave. It learns so when it renews its lease.

        Raises:
            NodeNotFound: There is no such node.
            NodeStateConflict: The node is gone.
        """
        with self._database.write("node.request_drain") as tx:
            node = _get(tx, node_id)
            if node.ended_at is not None:
                raise NodeStateConflict(
                    f"The node {node_id} cannot drain: it is gone.",
                    hint="headrace node list shows the nodes that are up.",
                )
            nodes.transition(tx, node_id, NodeState.DRAINING, actor=caller.owner)
            return _get(tx, node_id)

    def confirm_gone(self, caller: Caller, node_id: str) -> NodeRecord:
        """Record that a node, and every driver on its host, have ended for certain.

        Sessions of drivers that only this node could reach continue in other drivers.

        Raises:
            NodeNotFound: There is no such node.
            NodeStateConflict: The node has a valid lease.
        """
        with self._database.write("node.confirm_gone") as tx:
            node = _get(tx, node_id)
            if not nodes.confirm_gone(tx, node_id, actor=caller.owner):
                raise NodeStateConflict(
                    f"The node {node_id} is not gone: its lease is valid until"
                    f" {node.lease_until:%Y-%m-%d %H:%M:%S} UTC.",
                    hint=f"Stop its process, or drain it: headrace node drain {node_id}.",
                )
            return _get(tx, node_id)


def _get(tx: Tx, node_id: str) -> NodeRecord:
    node = nodes.get(tx, node_id)
    if node is None:
        raise NodeNotFound(f"There is no node {node_id[:100]!r}.")
    return node
