"""The node and the long polls of a request."""

from __future__ import annotations

from fastapi import Request

from headrace.control.node import Node
from headrace.frontends.http.long_polls import LongPolls


def node_of(request: Request) -> Node:
    """Return the node that answers a request."""
    node: Node = request.app.state.node
    return node


def long_polls_of(request: Request) -> LongPolls:
    """Return the long polls of the node that answers a request."""
    long_polls: LongPolls = request.app.state.long_polls
    return long_polls
