"""The node of a home: the file that describes it, and the lock that it holds while it runs.

A node with this lock also holds its listening socket. While the lock is held, no other process can
therefore listen at the address in the file, and a token that is sent there reaches the node.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headrace.config.home import HomeLayout
from headrace.errors import InvalidSetting
from headrace.files.file_locks import lock_file
from headrace.files.private_files import belongs_to_other_user, write_private

REPLACE_SIGNAL = signal.SIGUSR1
"""Signal to an embedded node: end, but leave the drivers to the next node of the home."""
END_ALL_SIGNAL = signal.SIGUSR2
"""Signal to a node: end, and end the drivers and the metastore of the home too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFile:
    """Description of a running node, which the node writes into its home."""

    address: str
    token: str | None = field(repr=False)
    """Token of an embedded node; None if the token is elsewhere, or if the node needs none."""
    token_in_home: bool
    """Whether the node's token is in the token file of the home."""
    pid: int
    node_id: str
    version: str
    embedded: bool
    """Whether a command has started the node."""
    ca: str | None = None
    """File with the CAs of the node's certificate; None: those of the system."""

    @property
    def started_by(self) -> str:
        """Command that starts such a node."""
        return "headrace sql" if self.embedded else "headrace serve"

    def write(self, layout: HomeLayout) -> None:
        """Write the file. Raises OSError."""
        write_private(layout.node_file, json.dumps(asdict(self)))


def read_node_file(layout: HomeLayout) -> NodeFile | None:
    """Return the node file of a home. None if it does not exist or is not valid.

    The node may have ended since it wrote the file; see `find_running_node`. Raises InvalidSetting
    if the file belongs to another user, who could name any address.
    """
    try:
        is_foreign = belongs_to_other_user(layout.node_file)
        record = json.loads(layout.node_file.read_text(encoding="utf-8"))
        node = NodeFile(
            address=str(record["address"]),
            token=record["token"],
            token_in_home=bool(record["token_in_home"]),
            pid=int(record["pid"]),
            node_id=str(record["node_id"]),
            version=str(record["version"]),
            embedded=bool(record["embedded"]),
            ca=record.get("ca"),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if is_foreign:
        raise InvalidSetting(
            f"{layout.node_file} belongs to another user, so the node that it names is not used.",
            hint="choose a home of your own with --home or HEADRACE_HOME",
        )
    return node


def choose_token(layout: HomeLayout, node: NodeFile, configured: str | None) -> str | None:
    """Return the token for the node of a home, or None if it is not known.

    Args:
        configured: Token of the settings, for a node that was started with such a token.
    """
    if node.token is not None:
        return node.token
    if not node.token_in_home:
        return configured
    try:
        return layout.token_file.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def find_running_node(layout: HomeLayout) -> NodeFile | None:
    """Return the node file of a home if that node runs and is neither starting nor stopping."""
    node = read_node_file(layout)
    return node if node is not None and is_home_in_use(layout) else None


def is_home_in_use(layout: HomeLayout) -> bool:
    """Return whether a process holds the lock of the home's node."""
    if not layout.node_lock.exists():
        return False
    # Commands that ask at the same time share the lock, so that only a node excludes them.
    descriptor = lock_file(layout.node_lock, shared=True)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def request_end(node: NodeFile, *, with_drivers: bool = False) -> bool:
    """Ask a node to end, as Ctrl-C does. Return False if its process cannot be reached.

    Args:
        with_drivers: End the drivers too. An embedded node always does so.
    """
    return _send_signal(node, END_ALL_SIGNAL if with_drivers else signal.SIGTERM)


def request_replacement(node: NodeFile) -> bool:
    """Ask an embedded node to end and to leave its drivers to the next node of the home.

    Return False if its process cannot be reached.
    """
    return _send_signal(node, REPLACE_SIGNAL)


def _send_signal(node: NodeFile, number: signal.Signals) -> bool:
    """Send a signal to a node, unless its process id belongs to another process on this host.

    The home may be shared with a container, whose process ids mean something else here.
    """
    if not _is_node_process(node.pid):
        return False
    try:
        os.kill(node.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _is_node_process(pid: int) -> bool:
    if not Path("/proc/self/cmdline").exists():
        # Only Linux has containers with process ids of their own.
        return True
    try:
        return b"headrace.frontends" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
