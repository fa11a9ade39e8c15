"""Ports of the loopback interface for test servers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port on which nothing listens: it refuses connections during the block.

    Only a server that asks for this port, with SO_REUSEADDR, gets it meanwhile.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def free_ports(count: int) -> list[int]:
    """Return different ports that are free at the moment."""
    with ExitStack() as stack:
        return [stack.enter_context(reserved_port()) for _ in range(count)]


def free_port() -> int:
    """Return a port that is free at the moment."""
    [port] = free_ports(1)
    return port
