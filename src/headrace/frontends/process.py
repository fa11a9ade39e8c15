"""The process of one node: its socket, its home, its first driver, the node and its servers.

An embedded node starts in the order of what its user waits for: first the driver, then the node,
then the servers.
"""

from __future__ import annotations

import logging
import shlex
import signal
import socket
import sys
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headrace.config.node_file import END_ALL_SIGNAL, REPLACE_SIGNAL
from headrace.config.process_start import resume_garbage_collection
from headrace.config.settings import Settings
from headrace.control.host.home_ownership import own_home, refuse_second_node
from headrace.control.sessions.early_launch import LocalParts, launch_early
from headrace.errors import InvalidSetting
from headrace.frontends.http.allowed_hosts import AllowedHosts, is_loopback
from headrace.frontends.http.tls import ServerTls
from headrace.grammar.masking import mask_text
from headrace.text.readable import describe_count, escape_character, escape_controls

if TYPE_CHECKING:
    from headrace.control.node import Node
    from headrace.frontends.servers import Servers

_MIN_TOKEN = 32
"""Smallest number of characters of a token if callers of other hosts can try to guess it."""


class EscapingFormatter(logging.Formatter):
    """Escapes control characters, because a message can contain text of users and drivers.

    A line feed in a message is escaped too: it could otherwise forge a record. Stack traces keep
    their lines.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides
        return "".join(map(escape_character, mask_text(super().formatMessage(record))))

    def formatException(  # noqa: N802 - overrides
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None],
    ) -> str:
        return escape_controls(mask_text(super().formatException(ei)))


def serve(settings: Settings, *, embedded: bool, opens_pool: bool = False) -> int:
    """Serve until the process is asked to stop; return the exit code 0.

    Args:
        opens_pool: Whether to start the driver of the pool session at once, because the command
            that starts this embedded node needs it.

    Raises:
        InvalidSetting: If the node cannot listen on the address, would be reachable from other
            hosts without TLS or without a token that is hard to guess, or cannot use its
            certificate.
        StoreInUse: If another node serves the home.
        HeadraceError: As `Node` raises it.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    # Alembic writes a line for each step of a new store.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    _check_auth(settings, embedded=embedded)
    _check_tls(settings)
    if embedded:  # it has a token of its own
        settings = settings.for_embedded()
    else:
        _check_token(settings)
    layout = settings.layout
    refuse_second_node(layout)
    with (
        ExitStack() as starting,
        _listen(settings) as listener,
        own_home(layout, starting, embedded=embedded),
        ExitStack() as not_adopted,
    ):
        host, port = listener.getsockname()[:2]
        scheme = "http" if settings.tls.cert is None else "https"
        address = settings.http.advertise or f"{scheme}://{_url_host(host)}:{port}"
        tls = None if settings.tls.cert is None else ServerTls(settings.tls, address)
        AllowedHosts(address=address, host=settings.http.host, names=settings.http.allowed_hosts)
        parts = LocalParts.create(settings, embedded=embedded)
        early = launch_early(settings, parts, address=address) if opens_pool else None
        if early is not None:
            not_adopted.callback(early.kill)
            early.wait_for_jvm()
        # This import takes a second, in which Spark starts.
        from headrace.control.node import Node  # noqa: PLC0415

        node = Node(settings, address=address, embedded=embedded, parts=parts)
        stop = _Stop(node)
        try:
            node.start(request_stop=stop.request, early=early)
            not_adopted.pop_all()
            # As above: the driver does not wait for the servers before Spark is up.
            from headrace.frontends.app import create_servers  # noqa: PLC0415

            servers = create_servers(node, listener, tls)
            stop.attach(servers)
            if not stop.is_requested:
                node.announce()
            starting.close()
            if not embedded:
                _print_access(node, settings)
            resume_garbage_collection()
            servers.run()
        finally:
            node.stop()
    return 0


def exit_on_signals() -> None:
    """Let signals raise SystemExit until there is a node, so that `serve` ends an early driver."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT, REPLACE_SIGNAL, END_ALL_SIGNAL):
        signal.signal(number, end)


class _Stop:
    """Requests to stop, which may arrive before there are servers."""

    def __init__(self, node: Node) -> None:
        """Handle the signals of this process."""
        self._node = node
        self._servers: Servers | None = None
        self.is_requested = False
        signal.signal(signal.SIGTERM, lambda *_: self._terminate())
        signal.signal(signal.SIGINT, lambda *_: self._interrupt())
        signal.signal(REPLACE_SIGNAL, lambda *_: self._request_end(ends_drivers=False))
        signal.signal(END_ALL_SIGNAL, lambda *_: self._request_end(ends_drivers=True))

    def request(self) -> None:
        """Stop the servers, now or as soon as they exist. Safe in any thread."""
        self.is_requested = True
        if self._servers is not None:
            self._servers.request_stop()

    def attach(self, servers: Servers) -> None:
        """Pass requests to the servers from now on."""
        self._servers = servers
        if self.is_requested:
            servers.request_stop()

    def _terminate(self) -> None:
        """Drain the node at the first SIGTERM."""
        if self._servers is None or not self._node.drain():
            self.request()

    def _interrupt(self) -> None:
        if self.is_requested and self._servers is not None:
            self._servers.hurry()
        self.request()

    def _request_end(self, *, ends_drivers: bool) -> None:
        self._node.ends_drivers = ends_drivers
        self.request()


def _check_auth(settings: Settings, *, embedded: bool) -> None:
    http = settings.http
    if not http.auth and settings.auth.methods != ["token"]:
        raise InvalidSetting(
            "http.auth = false (--no-auth) makes everyone an administrator, and auth.methods names"
            f" {', '.join(settings.auth.methods)}. Remove one of the two."
        )
    if embedded or http.auth or http.allow_unauthenticated or is_loopback(http.host):
        return
    raise InvalidSetting(
        f"http.host {http.host!r} is reachable from other hosts. Without a token, anyone could run "
        "SQL here. Remove --no-auth (http.auth = false), or allow this with "
        "http.allow_unauthenticated = true."
    )


def _check_tls(settings: Settings) -> None:
    host, tls, advertise = settings.http.host, settings.tls, settings.http.advertise
    if tls.cert is not None:
        if advertise is not None and urlsplit(advertise).scheme != "https":
            raise InvalidSetting(
                f"http.advertise {advertise!r} is no address of a node with tls.cert.",
                hint="write https://",
            )
    elif not (tls.terminated_by_proxy or is_loopback(host)):
        raise InvalidSetting(
            f"http.host {host!r} is reachable from other hosts. Without TLS, everyone on the way"
            " could read tokens and rows. Choose one of three ways: serve HTTPS with tls.cert and"
            " tls.key; set tls.terminated_by_proxy = true if a proxy in front of the node has a"
            " certificate, or if no other host reaches the port; or listen on this host only,"
            " with http.host = 127.0.0.1."
        )


def _check_token(settings: Settings) -> None:
    token, http = settings.token, settings.http
    if not token or not http.auth:
        return
    new = "create one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
    if any(character.isspace() for character in token):
        raise InvalidSetting(
            "The token of HEADRACE_TOKEN or headrace.toml contains spaces or line feeds, which no"
            " request can send.",
            hint=new,
        )
    is_reachable = settings.tls.terminated_by_proxy or not is_loopback(http.host)
    if is_reachable and len(token) < _MIN_TOKEN:
        length = describe_count(len(token), "character")
        raise InvalidSetting(
            f"The token of HEADRACE_TOKEN or headrace.toml has {length}. A node that other hosts"
            f" reach needs a token of at least {_MIN_TOKEN} random characters.",
            hint=new,
        )


def _print_access(node: Node, settings: Settings) -> None:
    """Print how to send requests. Standard error may be a log, so never print the token itself."""
    address, file = node.context.address, settings.layout.token_file
    if node.token is None:
        lines = [f"{address} serves without a token: every local user can run SQL as this account."]
    elif settings.token:
        lines = [f"{address} requires the token of HEADRACE_TOKEN or headrace.toml."]
    else:
        token = f'"$(cat {shlex.quote(str(file))})"'
        ca = settings.tls.ca
        trust = "" if ca is None else f" --cacert {shlex.quote(str(ca.absolute()))}"
        lines = [
            f"{address} requires the token in {file}.",
            "Commands of this home find the token. Other clients send it:",
            f"  curl{trust} --oauth2-bearer {token} {address}/api/v1/sessions",
        ]
    print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - for the user who starts it


def _listen(settings: Settings) -> socket.socket:
    host, port = settings.http.host, settings.http.port
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except OSError as error:
        raise InvalidSetting(
            f"The node cannot listen on {host}:{port}: {error.strerror}. "
            "Choose another port with --port."
        ) from error


def _url_host(host: str) -> str:
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        return socket.getfqdn()
    return f"[{host}]" if ":" in host else host
