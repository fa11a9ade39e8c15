"""What commands find and hold in a home: the node's address, and the locks between processes."""

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

NODE_FILE = "node.json"
COMMANDS_LOCK = "commands.lock"
START_LOCK = "start.lock"
_PATIENCE = 60.0
_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class NodeFile:
    """What a node wrote of itself into its home."""

    address: str
    token: str | None = field(repr=False)
    pid: int
    node_id: str
    embedded: bool


def read_node_file(home: Path) -> NodeFile | None:
    """The node that says it serves this home; None when none does or the file is no such record."""
    try:
        record = json.loads((home / NODE_FILE).read_text(encoding="utf-8"))
        return NodeFile(
            address=record["address"],
            token=record.get("token"),
            pid=record["pid"],
            node_id=record["node_id"],
            embedded=record["embedded"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def hold_commands_lock(home: Path) -> int:
    """Hold the shared lock that keeps the home's embedded node alive, until this process ends.

    Returns the open descriptor. Waits while a node that is about to end holds it exclusively.
    """
    descriptor = _open(home, COMMANDS_LOCK)
    _acquire(descriptor, fcntl.LOCK_SH, f"The node of {home} has been ending")
    return descriptor


@contextmanager
def start_lock(home: Path) -> Iterator[None]:
    """Only one command at a time looks for the home's node and starts it."""
    descriptor = _open(home, START_LOCK)
    try:
        _acquire(descriptor, fcntl.LOCK_EX, f"Another command has been starting the node of {home}")
        yield
    finally:
        os.close(descriptor)


def _open(home: Path, name: str) -> int:
    try:
        home.mkdir(parents=True, exist_ok=True)
        return os.open(home / name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InvalidSetting(
            f"The home {home} cannot be written: {error.strerror}.",
            hint="set another by --home or HEADRACE_HOME, or name a node with --server",
        ) from error


def _acquire(descriptor: int, operation: int, what_holds: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise NodeUnreachable(f"{what_holds} for {_PATIENCE:g} s.") from None
            time.sleep(_PAUSE)
        else:
            return
