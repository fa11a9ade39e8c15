"""Choice of the node that a command uses.

The candidates, in this order: the configured node, the node of this home, a node on the default
port, and an embedded node that the command starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from headrace.cli.config import EMBEDDED, ClientConfig
from headrace.cli.embedded import start_node
from headrace.cli.home import NodeFile, acquire_commands_lock, read_node_file, start_lock
from headrace.cli.output.text import Number
from headrace.client.http import Client
from headrace.errors import HeadraceError, NodeUnreachable

DEFAULT_ADDRESS = "http://127.0.0.1:8040"
"""Port 8040 is headrace.settings.DEFAULT_PORT."""
_PROBE_SECONDS = 0.5
"""Seconds without a response after which a node counts as absent."""


def find_node(
    config: ClientConfig, *, new_home: bool = True, report: Callable[[str], None] = lambda _: None
) -> Client:
    """Return a client of the node to use. Start an embedded node if no other node responds.

    Args:
        new_home: Create the home if it does not exist. Commands that only read pass False.
        report: Receives a line about a start that takes time.

    Raises:
        NodeUnreachable: The configured node does not respond, the embedded node did not start, or
            the home does not exist and must not be created.
    """
    if config.server is not None and config.server != EMBEDDED:
        return _connect_configured(config, config.server)
    if config.home.exists():
        acquire_commands_lock(config.home)
        client = connect_home_node(read_node_file(config.home))
        if client is not None:
            return client
    if config.server is None:
        client = _verify(_make_client(DEFAULT_ADDRESS, config.token), retry_seconds=0)
        if client is not None:
            return client
    if not new_home and not config.home.exists():
        raise NodeUnreachable(
            f"No node responds, and the home {config.home} does not exist.",
            hint="name a node with --server, or choose another home with --home",
        )
    return _start_embedded(config, report)


def connect_home_node(node: NodeFile | None) -> Client | None:
    """Return a client of the node that a node file describes.

    Returns None if its process has ended, or if another node responds at its address.
    """
    if node is None or not _is_alive(node.pid):
        return None
    return _verify(_make_client(node.address, node.token), node_id=node.node_id)


def _connect_configured(config: ClientConfig, server: str) -> Client:
    client = _verify(_make_client(server, config.token))
    if client is None:
        source = config.source("server")
        raise NodeUnreachable(
            f"No Headrace node responds at {server} (set by {source}).",
            hint=f"start the node, or change {source}",
        )
    return client


def _start_embedded(config: ClientConfig, report: Callable[[str], None]) -> Client:
    acquire_commands_lock(config.home)
    with start_lock(config.home):
        # Another command may have started the node while this one waited for the lock.
        client = connect_home_node(read_node_file(config.home))
        if client is None:
            report(f"Starting a node in {config.home} …")
            client = connect_home_node(start_node(config.home))
    if client is None:
        raise NodeUnreachable(f"The node started in {config.home} does not respond.")
    return client


def _make_client(address: str, token: str | None) -> Client:
    return Client(address, token, parse_float=Number)


def _verify(
    client: Client, *, node_id: str | None = None, retry_seconds: float = _PROBE_SECONDS
) -> Client | None:
    """Return the client if a node responds; otherwise close the client and return None.

    With `node_id`, the node must also have this id.
    """
    usual_seconds, client.retry_seconds = client.retry_seconds, retry_seconds
    try:
        health = client.health()
    except HeadraceError:
        health = {}
    client.retry_seconds = usual_seconds
    if "node_id" in health and node_id in {None, health["node_id"]}:
        return client
    client.close()
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
