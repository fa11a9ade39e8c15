"""Access of commands to HEADRACE_HOME: the node file and the locks."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import InvalidSetting, NodeUnreachable
from headrace.home import HomeLayout

_LOCK_TIMEOUT = 60.0
_POLL_INTERVAL = 0.02


@dataclass(frozen=True, slots=True)
class NodeFile:
    """Description of a running node, which the node wrote into its home."""

    address: str
    token: str | None = field(repr=False)
    pid: int
    node_id: str


def read_node_file(home: Path) -> NodeFile | None:
    """Return the node file of a home. None if it does not exist or is not valid.

    The node may have ended since it wrote the file.
    """
    try:
        record = json.loads(HomeLayout.at(home).node_file.read_text(encoding="utf-8"))
        return NodeFile(
            address=record["address"],
            token=record.get("token"),
            pid=record["pid"],
            node_id=record["node_id"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def acquire_commands_lock(home: Path) -> int:
    """Acquire the shared lock that keeps the home's embedded node alive.

    The process holds the lock until it ends. A node that stops holds the lock exclusively: this
    function then waits for the end of the node.

    Returns:
        The open file descriptor.

    Raises:
        NodeUnreachable: The node did not end in time.
        InvalidSetting: The home cannot be written.
    """
    descriptor = _open_lock_file(HomeLayout.at(home).commands_lock)
    _acquire(
        descriptor,
        fcntl.LOCK_SH,
        f"The previous node of {home} has not stopped within {_LOCK_TIMEOUT:g} s.",
        hint="end its process, or choose another home with --home",
    )
    return descriptor


@contextmanager
def start_lock(home: Path) -> Iterator[None]:
    """Hold the exclusive lock under which a command starts the home's node.

    Raises NodeUnreachable if another command holds it for too long, and InvalidSetting if the home
    cannot be written.
    """
    descriptor = _open_lock_file(HomeLayout.at(home).start_lock)
    try:
        _acquire(
            descriptor,
            fcntl.LOCK_EX,
            f"Another command has been starting the node of {home} for {_LOCK_TIMEOUT:g} s.",
            hint=f"see the log of the node: {HomeLayout.at(home).node_log}",
        )
        yield
    finally:
        os.close(descriptor)


def _open_lock_file(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InvalidSetting(
            f"The home {file.parent} cannot be written: {error.strerror}.",
            hint="choose another home with --home or HEADRACE_HOME, or name a node with --server",
        ) from error


def _acquire(descriptor: int, operation: int, timeout_message: str, *, hint: str) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise NodeUnreachable(timeout_message, hint=hint) from None
            time.sleep(_POLL_INTERVAL)
        else:
            return
