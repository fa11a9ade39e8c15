"""The names under which a node may be addressed.

A web page can make its own name resolve to a loopback address (DNS rebinding). A browser then sends
requests to the node that belong to the page's origin. The Host header still contains the name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from headrace.errors import InvalidSetting

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_DEFAULT_PORTS = (80, 443)
_CACHED_NAMES = 128
"""Names of hosts that are kept parsed. The requests to a node have few different ones."""

ServerAddress = tuple[str, int | None]
"""IP address and port at which a request arrived."""


@dataclass(frozen=True, slots=True)
class HostAndPort:
    """A host and its port, from a Host header or a URL."""

    name: str
    """Name in lower case, or IP address in its canonical form."""
    port: int | None
    """None if the text has no port: the default port of the scheme."""


@lru_cache(_CACHED_NAMES)
def parse_host(text: str) -> HostAndPort | None:
    """Parse `name`, `name:port`, `1.2.3.4:port` or `[::1]:port`; return None for other text."""
    if not text or any(character in text for character in "/?#@\\, \t"):
        return None
    try:
        parts = urlsplit(f"//{text}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    return HostAndPort(_canonical(name), port) if name else None


def parse_origin(text: str) -> HostAndPort | None:
    """Return the host of an origin such as `https://name:port`; None for `null` and other text."""
    scheme, separator, host = text.partition("://")
    if not separator or scheme not in {"http", "https"}:
        return None
    return parse_host(host)


class AllowedHosts:
    """The hosts that a node serves: its own addresses, and the names from its settings."""

    def __init__(self, *, address: str, host: str, names: Iterable[str]) -> None:
        """Collect the hosts.

        Args:
            address: URL at which drivers and other nodes reach the node.
            host: Address on which the node listens.
            names: Further names (setting `http.allowed_hosts`). A name without a port is allowed
                with the default ports and with the port of the node.

        Raises:
            InvalidSetting: If one of the names is not a host name.
        """
        self._names = {*_LOOPBACK_NAMES, _canonical(host)}
        self._hosts: set[HostAndPort] = set()
        for parsed in (_parse_setting(name) for name in names):
            self._add(parsed)
            if parsed.port is None:
                self._names.add(parsed.name)
        advertised = parse_host(urlsplit(address).netloc)
        if advertised is not None:
            self._add(advertised)

    def contains(self, host: HostAndPort, server: ServerAddress | None) -> bool:
        """Return whether a host is one of this node.

        Args:
            server: Address at which the request arrived. A node that listens on all interfaces
                learns its addresses in this way. A page cannot put such an address into its name.
        """
        if host in self._hosts:
            return True
        if server is None:
            return False
        own_name, own_port = server
        is_own_port = host.port == own_port or (host.port is None and own_port in _DEFAULT_PORTS)
        return is_own_port and (host.name in self._names or host.name == _canonical(own_name))

    def _add(self, host: HostAndPort) -> None:
        """Allow a host. Without a port, it is also allowed with the default ports."""
        ports = (None, *_DEFAULT_PORTS) if host.port is None else (host.port,)
        self._hosts |= {HostAndPort(host.name, port) for port in ports}


def _parse_setting(name: str) -> HostAndPort:
    host = parse_host(name)
    if host is None:
        raise InvalidSetting(
            f"http.allowed_hosts: {name!r} is not a host. Write name or name:port, without a "
            "scheme and without a path."
        )
    return host


def is_loopback(host: str) -> bool:
    """Return whether only processes of the same host have this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(_CACHED_NAMES)
def _canonical(name: str) -> str:
    """Return a name in lower case without the final dot, or an IP address in its short form."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name.lower().rstrip(".")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
