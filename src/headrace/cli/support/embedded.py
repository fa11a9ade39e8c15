"""Start of a node in the background, for example of the embedded node of a home."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from headrace.client.http import Client
from headrace.client.tls import SYSTEM_TRUST, ClientTls
from headrace.config.extras import install_command, require_extra
from headrace.config.home import HomeLayout
from headrace.config.node_file import NodeFile, read_node_file
from headrace.errors import EXIT_USAGE, HeadraceError, InvalidSetting, NodeUnreachable
from headrace.files.private_files import open_private_log
from headrace.text.readable import describe_duration

_START_TIMEOUT = 120.0
_POLL_INTERVAL = 0.02
_LOG_TAIL_BYTES = 4096


def require_node_packages() -> None:
    """Raise PackagesMissing if no node can run in this Python, for example in the light client."""
    require_extra(
        "server",
        "A node on this host",
        hint=lambda: f"install them with {install_command('all')}, or name a node with --server",
    )


def node_command(*flags: str) -> list[str]:
    """Return the command line of a node process.

    `-P` keeps Python from importing modules out of the working directory.
    """
    return [sys.executable, "-P", "-m", "headrace.frontends", *flags]


def choose_tls(node: NodeFile, configured: ClientTls) -> ClientTls:
    """Return how to verify the node of a home: with the CAs that it names, if it names some."""
    return configured if node.ca is None else replace(configured, ca=Path(node.ca))


def start_embedded_node(layout: HomeLayout, *, opens_pool: bool = False) -> NodeFile:
    """Start the embedded node of a home and wait until it is ready.

    The caller holds the start lock of the home. Raises as `start_node` does.

    Args:
        opens_pool: Whether the command needs the driver of the pool session.
    """
    flags = ["--open-pool"] if opens_pool else []
    return start_node(layout, "--embedded", "--port", "0", *flags)


def start_node(layout: HomeLayout, *flags: str) -> NodeFile:
    """Start a node of a home in the background and wait until it is ready.

    Raises:
        InvalidSetting: The node refused its settings; the message holds the end of its log.
        NodeUnreachable: The node ended for another reason, or was not ready in time.
    """
    with open_private_log(layout.node_log) as stream:
        log_offset = stream.tell()
        process = subprocess.Popen(
            node_command(*flags),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env={**os.environ, "HEADRACE_HOME": str(layout.path)},
            start_new_session=True,
        )
    return _wait_until_ready(layout, process, log_offset)


def _wait_until_ready(
    layout: HomeLayout, process: subprocess.Popen[bytes], log_offset: int
) -> NodeFile:
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline:
        node = read_node_file(layout)
        if node is not None and node.pid == process.pid and _is_ready(node):
            return node
        if process.poll() is not None:
            raise _start_error(process.returncode, layout.node_log, log_offset)
        time.sleep(_POLL_INTERVAL)
    raise NodeUnreachable(
        f"The node of {layout.path} was not ready within {describe_duration(_START_TIMEOUT)}.",
        hint=f"see the log of the node: {layout.node_log}",
    )


def _is_ready(node: NodeFile) -> bool:
    with Client(node.address, tls=choose_tls(node, SYSTEM_TRUST), retry_seconds=0) as client:
        try:
            return client.ready()
        except HeadraceError:
            return False


def _start_error(exit_code: int, log: Path, log_offset: int) -> HeadraceError:
    """Return the error for a node that ended during its start.

    Args:
        log_offset: Position in the log at which the output of this node begins.
    """
    with log.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(log_offset, stream.tell() - _LOG_TAIL_BYTES))
        output = stream.read().decode(errors="replace").strip()
    last_line = output.rpartition("\n")[2].removeprefix("headrace: ")
    reason = last_line or f"its process ended with exit code {exit_code}"
    error_class = InvalidSetting if exit_code == EXIT_USAGE else NodeUnreachable
    return error_class(
        f"The node did not start: {reason}\n{output}", hint=f"see the log of the node: {log}"
    )
