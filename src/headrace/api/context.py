"""What a request handler works with."""

from __future__ import annotations

from fastapi import Request

from headrace.api.waiting import Waiters
from headrace.control.node import Node


def node_of(request: Request) -> Node:
    """The node that answers this request."""
    node: Node = request.app.state.node
    return node


def waiters_of(request: Request) -> Waiters:
    """Where this request waits, when it has to."""
    waiters: Waiters = request.app.state.waiters
    return waiters
