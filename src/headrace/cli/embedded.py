"""Starting the node that serves a home while its commands need one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from headrace.cli.home import NodeFile, read_node_file
from headrace.client.http import Client
from headrace.errors import EXIT_USAGE, HeadraceError, InvalidSetting, NodeUnreachable

LOG_FILE = Path("logs", "node.log")
_PATIENCE = 60.0
_PAUSE = 0.02
_TAIL = 4096


def node_command(*flags: str) -> list[str]:
    """The command that is a node. `-P`: what lies in the working directory is not imported."""
    return [sys.executable, "-P", "-m", "headrace.api", *flags]


def start(home: Path) -> NodeFile:
    """Start a node of its own session for the home; returns once it is ready.

    The caller holds the home's start lock. Raises NodeUnreachable, or InvalidSetting when the node
    refuses its settings, with the end of its log.
    """
    log = home / LOG_FILE
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        begin = stream.tell()
        process = subprocess.Popen(
            node_command("--embedded", "--port", "0"),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env={**os.environ, "HEADRACE_HOME": str(home)},
            start_new_session=True,
        )
    return _wait_until_ready(home, process, log, begin)


def _wait_until_ready(
    home: Path, process: subprocess.Popen[bytes], log: Path, begin: int
) -> NodeFile:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        node = read_node_file(home)
        if node is not None and node.pid == process.pid and _ready(node):
            return node
        if process.poll() is not None:
            raise _ended(process.returncode, log, begin)
        time.sleep(_PAUSE)
    raise NodeUnreachable(
        f"The node of {home} was not ready within {_PATIENCE:g} s.", hint=f"its log: {log}"
    )


def _ready(node: NodeFile) -> bool:
    with Client(node.address, node.token, patience=0) as client:
        try:
            return client.ready()
        except HeadraceError:
            return False


def _ended(status: int, log: Path, begin: int) -> HeadraceError:
    with log.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(begin, stream.tell() - _TAIL))
        said = stream.read().decode(errors="replace").strip()
    last = said.rpartition("\n")[2].removeprefix("headrace: ") or f"it ended with status {status}"
    kind = InvalidSetting if status == EXIT_USAGE else NodeUnreachable
    return kind(f"The node did not start: {last}\n{said}", hint=f"its log: {log}")
