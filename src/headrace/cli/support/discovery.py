"""Choice of the node that a command uses.

The candidates, in this order: the configured node, the node of this home, a node on the default
port, and an embedded node that the command starts.

A token goes only where it belongs. The token of a home is sent to the node that holds the lock of
this home. A configured token is sent to the configured server, and to the node of this home if that
node was started with a configured token. Without one, the configured server receives the token of
the user's login there. A node on the default port receives none.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from headrace.cli.output.text import Number
from headrace.cli.support.config import EMBEDDED, ClientConfig
from headrace.cli.support.embedded import choose_tls, require_node_packages, start_embedded_node
from headrace.cli.support.logins import Logins
from headrace.client.http import Client
from headrace.client.transport import Endpoint, TokenSource
from headrace.config.home import DEFAULT_HOME, HomeLayout, logins_file
from headrace.config.node_file import choose_token, find_running_node
from headrace.errors import (
    HeadraceError,
    InvalidSetting,
    NodeUnreachable,
    TlsFailed,
    Unauthorized,
)
from headrace.files.file_locks import lock_file
from headrace.text.readable import describe_duration

_LOCK_TIMEOUT = 120.0


def acquire_commands_lock(layout: HomeLayout) -> int:
    """Acquire the shared lock that keeps the home's embedded node alive.

    The process holds the lock until it ends. A node that stops holds the lock exclusively: this
    function then waits for the end of the node.

    Returns:
        The open file descriptor.

    Raises:
        NodeUnreachable: The node did not end in time.
        InvalidSetting: The home cannot be written.
    """
    descriptor = _lock(layout, layout.commands_lock, shared=True)
    if descriptor is None:
        raise NodeUnreachable(
            f"The previous node of {layout.path} has not stopped within"
            f" {describe_duration(_LOCK_TIMEOUT)}.",
            hint="end it with headrace stop, or choose another home with --home",
        )
    return descriptor


@contextmanager
def start_lock(layout: HomeLayout) -> Iterator[None]:
    """Hold the exclusive lock under which a command starts the home's node.

    A node that is starting holds the lock: this function then waits until the node has started.
    Raises NodeUnreachable if that takes too long, and InvalidSetting if the home cannot be written.
    """
    descriptor = _lock(layout, layout.start_lock, shared=False)
    if descriptor is None:
        raise NodeUnreachable(
            f"The node of {layout.path} has been starting for {describe_duration(_LOCK_TIMEOUT)}.",
            hint=f"see the log of the node: {layout.node_log}",
        )
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(layout: HomeLayout, file: Path, *, shared: bool) -> int | None:
    try:
        layout.create()
        return lock_file(file, shared=shared, timeout=_LOCK_TIMEOUT)
    except OSError as error:
        raise InvalidSetting(
            f"The home {layout.path} cannot be written: {error.strerror}.",
            hint="choose another home with --home or HEADRACE_HOME, or name a node with --server",
        ) from error


def find_parent_home(config: ClientConfig) -> Path | None:
    """Return the nearest home of this user in a parent folder, if the home is the default one.

    Returns None if a flag, a variable or a file has chosen the home.
    """
    if config.source("home") != "default":
        return None
    homes = (folder / DEFAULT_HOME for folder in config.home.parent.parents)
    return next((home for home in homes if _is_own_home(home)), None)


def report_parent_home(config: ClientConfig, notice: Callable[[str], None]) -> None:
    """Print a line if a home in a parent folder has other tables than the home in use."""
    parent_home = find_parent_home(config)
    if parent_home is not None:
        notice(
            f"Using the home {config.home}. A parent folder has another home with other tables, "
            f"{parent_home}: choose one with --home or HEADRACE_HOME."
        )


def _is_own_home(home: Path) -> bool:
    """Return whether a node of this user has used a home. A folder of that name is not enough."""
    try:
        return HomeLayout.at(home).node_id_file.stat().st_uid == os.geteuid()
    except OSError:
        return False


DEFAULT_ADDRESS = "http://127.0.0.1:8040"
"""Port 8040 is headrace.config.sections.DEFAULT_PORT."""
_PROBE_SECONDS = 2.0
"""Longest time to wait for a node on the default port, which may belong to any program."""
CONNECT_SECONDS = 30.0
"""Longest outage of a node that a request waits out."""


class Reports(NamedTuple):
    """Functions that print a line about what takes time, or what the user should know."""

    progress: Callable[[str], None] = lambda _: None
    notice: Callable[[str], None] = lambda _: None


_SILENT = Reports()


def find_node(
    config: ClientConfig,
    *,
    new_home: bool = True,
    opens_pool: bool = False,
    reports: Reports = _SILENT,
    credentials: TokenSource = None,
    retry_seconds: float = CONNECT_SECONDS,
) -> Client:
    """Return a client of the node to use. Start an embedded node if no other node responds.

    Args:
        new_home: Create the home if it does not exist. Commands that only read pass False.
        opens_pool: Whether an embedded node starts the driver of the pool session at once.
        reports: Receive a line about a start or an outage.
        credentials: Those for the configured server, in place of the configured token.
        retry_seconds: Longest outage of the configured server that a request waits out.

    Raises:
        NodeUnreachable: The configured node does not respond, the embedded node did not start, or
            the home does not exist and must not be created.
        Unauthorized: A node on the default port needs a token, which must be configured for it.
        PackagesMissing: A node must be started, but only the light client is installed.
    """
    if config.server is not None and config.server != EMBEDDED:
        return connect_configured(
            config,
            config.server,
            reports,
            retry_seconds=retry_seconds,
            credentials=credentials,
        )
    if credentials is not None:
        raise InvalidSetting(
            "A user and a password are sent only to a server that you name.",
            hint="name the URL of the node, or set HEADRACE_SERVER",
        )
    layout = HomeLayout.at(config.home)
    if layout.path.exists():
        acquire_commands_lock(layout)
        with start_lock(layout):
            pass  # a node that was starting has now started
        client = connect_home_node(config, reports)
        if client is not None:
            report_parent_home(config, reports.notice)
            return client
    if config.server is None:
        client = connect_default(config, reports)
        if client is not None:
            return client
    if not new_home and not layout.path.exists():
        raise _home_missing(config)
    require_node_packages()
    report_parent_home(config, reports.notice)
    return _start_embedded(config, reports, opens_pool=opens_pool)


def connect_home_node(config: ClientConfig, reports: Reports = _SILENT) -> Client | None:
    """Return a client of the node that runs for the home, or None if there is none.

    The client follows the home: if another node of the home takes the place of this one, requests
    go to the other node.

    Raises NodeUnreachable if the node does not respond.
    """
    layout = HomeLayout.at(config.home)
    node = find_running_node(layout)
    if node is None:
        return None
    client = Client(
        node.address,
        choose_token(layout, node, config.token),
        tls=choose_tls(node, config.tls),
        retry_seconds=CONNECT_SECONDS,
        parse_float=Number,
        relocate=lambda: _locate_home_node(config),
        report=reports.notice,
    )
    try:
        # Another node can be reached at the address if the setting http.advertise is wrong.
        if client.health().get("node_id") == node.node_id:
            return client
        reason = "another node responds"
    except HeadraceError as error:
        reason = error.message.rstrip(".")
    client.close()
    raise NodeUnreachable(
        f'Process {node.pid}, started by "{node.started_by}", serves the home {layout.path}, but '
        f"it does not respond at {node.address}: {reason}.",
        hint="end it with headrace stop",
    )


def _locate_home_node(config: ClientConfig) -> Endpoint | None:
    layout = HomeLayout.at(config.home)
    node = find_running_node(layout)
    if node is None:
        return None
    token = choose_token(layout, node, config.token)
    return Endpoint(node.address, token, choose_tls(node, config.tls))


def connect_configured(
    config: ClientConfig,
    server: str,
    reports: Reports = _SILENT,
    *,
    retry_seconds: float | None = None,
    credentials: TokenSource = None,
) -> Client:
    """Return a client of the configured server. Raise NodeUnreachable if it does not respond."""
    client = Client(
        server,
        credentials or config.token or _login_token(server),
        tls=config.tls,
        retry_seconds=CONNECT_SECONDS if retry_seconds is None else retry_seconds,
        parse_float=Number,
        report=reports.notice,
    )
    if _is_node(client):
        return client
    client.close()
    source = config.source("server")
    # A node that does not accept a certificate closes the connection without a reason.
    certificate = "" if config.tls.cert is None else " or tls.client_cert"
    raise NodeUnreachable(
        f"No Headrace node responds at {server} (set by {source}).",
        hint=f"start the node, or change {source}{certificate}",
    )


def server_of_login(config: ClientConfig) -> str:
    """Return the configured server. Raise InvalidSetting if there is none."""
    if config.server in {None, EMBEDDED}:
        raise InvalidSetting(
            "A login belongs to a server, and none is set.",
            hint="name it with --server, HEADRACE_SERVER, or `server` in headrace.toml",
        )
    assert config.server is not None
    return config.server


def _login_token(server: str) -> Callable[[], str | None]:
    """Return a function that returns the token of the user's login at a server, if there is one."""
    try:
        logins = Logins(logins_file())
    except RuntimeError:  # the user has no home directory, and so no logins
        return lambda: None
    return lambda: logins.find_token(server)


def connect_default(config: ClientConfig, reports: Reports = _SILENT) -> Client | None:
    """Return a client of a node on the default port that needs no token.

    Any user of this host can listen there, so that no token is sent. Returns None if no node
    responds, or if the node needs a token. Raises Unauthorized in the second case if a token is
    configured.
    """
    client = Client(DEFAULT_ADDRESS, parse_float=Number, report=reports.notice)
    with client.retrying(0):
        try:
            is_node = "node_id" in client.health(timeout=_PROBE_SECONDS)
            if is_node:
                client.sessions(limit=1)
                return client
        except Unauthorized:
            client.close()
            if config.token is not None:
                raise Unauthorized(
                    f"The node at {DEFAULT_ADDRESS} needs a token. The token of "
                    f"{config.source('token')} is sent only to a server that you name.",
                    hint=f"set HEADRACE_SERVER={DEFAULT_ADDRESS}, or pass --server embedded",
                ) from None
            reports.notice(
                f"The node at {DEFAULT_ADDRESS} belongs to another home and needs a token, so it "
                "is not used. To use it, set HEADRACE_SERVER and HEADRACE_TOKEN."
            )
        except HeadraceError:
            pass
    client.close()
    return None


def _is_node(client: Client) -> bool:
    """Return whether a node responds. Raise TlsFailed and InvalidSetting, which say what to fix."""
    try:
        return "node_id" in client.health()
    except (TlsFailed, InvalidSetting):
        client.close()
        raise
    except HeadraceError:
        return False


def _home_missing(config: ClientConfig) -> NodeUnreachable:
    parent_home = find_parent_home(config)
    example = "" if parent_home is None else f", for example --home {shlex.quote(str(parent_home))}"
    return NodeUnreachable(
        f"No node responds, and the home {config.home} does not exist.",
        hint=f"name a node with --server, or choose another home with --home{example}",
    )


def _start_embedded(config: ClientConfig, reports: Reports, *, opens_pool: bool) -> Client:
    layout = HomeLayout.at(config.home)
    acquire_commands_lock(layout)
    with start_lock(layout):
        # Another command may have started the node while this one waited for the lock.
        client = connect_home_node(config, reports)
        if client is None:
            reports.progress(f"Starting a node in {layout.path} …")
            start_embedded_node(layout, opens_pool=opens_pool)
            client = connect_home_node(config, reports)
    if client is None:
        raise NodeUnreachable(f"The node started in {layout.path} does not respond.")
    return client
