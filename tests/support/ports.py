"""Ports of the loopback interface for test servers."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.files.file_locks import exclusive_lock

_FIRST, _LAST = 10_000, 32_767
"""The kernel gives connections ports from 32,768 on: it could give away a port of a server that
has not started yet.
"""


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
    """Return different ports that are free, for servers that start later.

    The other callers on this machine are given other ports, until all ports have been given.
    """
    counter = Path(tempfile.gettempdir()) / f"headrace-test-ports-{os.geteuid()}"
    with exclusive_lock(counter.with_suffix(".lock")):
        # The file of a process that was killed while it wrote is empty.
        last = int((counter.exists() and counter.read_text()) or _FIRST - 1)
        ports: list[int] = []
        while len(ports) < count:
            last = last + 1 if last < _LAST else _FIRST
            if _is_free(last):
                ports.append(last)
        counter.write_text(str(last))
    return ports


def free_port() -> int:
    """Return a port that is free, for a server that starts later."""
    [port] = free_ports(1)
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
