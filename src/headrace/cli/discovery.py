"""Which node a command talks to: the one that is set, this home's, the default port's, or one that
it starts itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from headrace.cli import embedded
from headrace.cli.config import EMBEDDED, ClientConfig
from headrace.cli.home import NodeFile, hold_commands_lock, read_node_file, start_lock
from headrace.cli.output.text import Number
from headrace.client.http import Client
from headrace.errors import HeadraceError, NodeUnreachable

DEFAULT_ADDRESS = "http://127.0.0.1:8040"
"""Port 8040 is headrace.settings.DEFAULT_PORT."""
_FIRST_CONTACT = 0.5
"""Seconds for which a node must not answer until it counts as absent."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Found:
    """A node that answered just now."""

    client: Client
    embedded: bool
    """Whether it lives for the commands of this home only."""


def find(config: ClientConfig, *, new_home: bool = True, tell: Tell = lambda _: None) -> Found:
    """The node to use; started when there is none.

    Without `new_home` only in a home that is there: a command that reads makes none.

    Raises NodeUnreachable, saying which address was tried and what set it.
    """
    if config.server is not None and config.server != EMBEDDED:
        return _set_one(config, config.server)
    if config.home.exists():
        hold_commands_lock(config.home)
        node = answering(read_node_file(config.home))
        if node is not None:
            return node
    if config.server is None:
        node = _default_one(config)
        if node is not None:
            return node
    if not new_home and not config.home.exists():
        raise NodeUnreachable(
            f"No node answers, and there is nothing yet in {config.home}.",
            hint="name a node with --server, or another home with --home",
        )
    return _start(config, tell)


def _set_one(config: ClientConfig, server: str) -> Found:
    client = _client(server, config.token)
    if not _is_node(client):
        raise NodeUnreachable(
            f"No Headrace node answers at {server} (set by {config.source('server')})."
        )
    return Found(client, embedded=False)


def _default_one(config: ClientConfig) -> Found | None:
    client = _client(DEFAULT_ADDRESS, config.token)
    return Found(client, embedded=False) if _is_node(client, patience=0) else None


def answering(node: NodeFile | None) -> Found | None:
    """The node that a home names, if it lives and is the one that answers there."""
    if node is None or not _alive(node.pid):
        return None
    client = _client(node.address, node.token)
    return Found(client, node.embedded) if _is_node(client, node_id=node.node_id) else None


def _client(address: str, token: str | None) -> Client:
    return Client(address, token, parse_float=Number)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_node(
    client: Client, *, node_id: str | None = None, patience: float = _FIRST_CONTACT
) -> bool:
    """Whether a node answers, and that one if it is told which; if not, the client is closed."""
    usual, client.patience = client.patience, patience
    try:
        says = client.health()
    except HeadraceError:
        says = {}
    client.patience = usual
    if "node_id" in says and node_id in {None, says["node_id"]}:
        return True
    client.close()
    return False


def _start(config: ClientConfig, tell: Tell) -> Found:
    hold_commands_lock(config.home)
    with start_lock(config.home):
        node = answering(read_node_file(config.home))  # another command may have been faster
        if node is None:
            tell(f"Starting a node in {config.home} …")
            node = answering(embedded.start(config.home))
    if node is None:
        raise NodeUnreachable(f"The node that was started in {config.home} does not answer.")
    return node
