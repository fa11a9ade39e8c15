"""The node of a request."""

from __future__ import annotations

from fastapi import Request

from headrace.control.node import Node


def node_of(request: Request) -> Node:
    """Return the node that answers a request."""
    node: Node = request.app.state.node
    return node
