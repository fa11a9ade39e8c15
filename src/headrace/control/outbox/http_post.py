"""One HTTP request to an endpoint that a user has named.

The host is resolved for each request, all of its addresses are checked, and the connection goes to
an address that was checked: a name that changes its address between check and connection (DNS
rebinding) gains nothing. Redirects are not followed. The response is read up to a limit.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from headrace.text.readable import describe_duration

_MOST_READ = 4096
"""Bytes of a response that are read."""
_NAT64 = IPv6Network("64:ff9b::/96")
_DEFAULT_PORTS = {"https": 443, "http": 80}
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class PostOutcome:
    """What a request has led to."""

    status: int | None = None
    """HTTP status; None: there was no response."""
    body: str = ""
    """Begin of the response."""
    error: str | None = None
    """Why the request counts as failed, without the URL; None: the status is 2xx."""


class _NotSent(Exception):
    """The request was not sent, or has no response."""


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    seconds: float,
    private_networks: Collection[Network] | None = (),
) -> PostOutcome:
    """Send a request, and return what it has led to.

    Args:
        seconds: Longest time of the request, from the connection on.
        private_networks: Networks that are allowed although they are not public; None: an operator
            has chosen the URL, and every address is allowed.
    """
    parts = urlsplit(url)
    try:
        addresses = _resolve(parts)
        if private_networks is not None:
            _check_addresses(addresses, private_networks)
        return _exchange(parts, addresses, body, headers, seconds)
    except _NotSent as error:
        return PostOutcome(error=str(error))


def _port_of(parts: SplitResult) -> int:
    return parts.port or _DEFAULT_PORTS[parts.scheme]


def _resolve(parts: SplitResult) -> list[str]:
    """Return the addresses of a host. Raise _NotSent if it has none."""
    try:
        found = socket.getaddrinfo(parts.hostname, _port_of(parts), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _NotSent("the host name cannot be resolved") from None
    return [str(each[4][0]) for each in found]


def _check_addresses(addresses: Sequence[str], private_networks: Collection[Network]) -> None:
    """Raise _NotSent unless all addresses are public or in an allowed network."""
    for text in addresses:
        address = ip_address(text)
        if not any(address in network for network in private_networks) and not _is_public(address):
            raise _NotSent(
                f"the address {address} is not public, and not in outbox.private_networks"
            )


def _is_public(address: Address) -> bool:
    """Return whether an address, and the IPv4 address inside of it, is one of the Internet."""
    embedded: list[IPv4Address | None] = []
    if isinstance(address, IPv6Address):
        embedded = [address.ipv4_mapped, address.sixtofour]
        if address.teredo is not None:
            embedded.extend(address.teredo)
        if address in _NAT64:
            embedded.append(IPv4Address(int(address) & 0xFFFFFFFF))
        if address.ipv4_mapped is not None:
            return _is_public(address.ipv4_mapped)
    everything = [address, *(each for each in embedded if each is not None)]
    return all(each.is_global and not each.is_multicast for each in everything)


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to a checked address of a host, which ends at a deadline.

    The limit of a socket is one for each read: an endpoint that sends a byte now and then would
    keep a thread for ever.
    """

    def __init__(self, parts: SplitResult, addresses: Sequence[str], seconds: float) -> None:
        super().__init__(parts.hostname or "", _port_of(parts), timeout=seconds)
        self.default_port = _DEFAULT_PORTS[parts.scheme]
        self._addresses = addresses
        self._deadline = time.monotonic() + seconds
        self._has_tls = parts.scheme == "https"
        self._guard: socket.socket | None = None
        self._timer: threading.Timer | None = None

    def connect(self) -> None:
        """Connect to the first address that answers."""
        opened = self._open()
        self._guard = opened.dup()
        self._timer = threading.Timer(self._remaining, self._cut)
        self._timer.daemon = True
        self._timer.start()
        if self._has_tls:
            context = ssl.create_default_context()
            opened = context.wrap_socket(opened, server_hostname=self.host)
        self.sock = opened

    @property
    def _remaining(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)

    def _open(self) -> socket.socket:
        problem: OSError | None = None
        for address in self._addresses:
            try:
                return socket.create_connection((address, self.port), timeout=self._remaining)
            except OSError as error:
                problem = error
        raise problem or OSError("no address")

    def _cut(self) -> None:
        assert self._guard is not None
        with suppress(OSError):
            self._guard.shutdown(socket.SHUT_RDWR)

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._deadline

    def close(self) -> None:
        """Close the connection, and forget its deadline."""
        super().close()
        if self._timer is not None:
            self._timer.cancel()
        if self._guard is not None:
            self._guard.close()


def _exchange(
    parts: SplitResult,
    addresses: Sequence[str],
    body: bytes,
    headers: Mapping[str, str],
    seconds: float,
) -> PostOutcome:
    connection = _PinnedConnection(parts, addresses, seconds)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, body=body, headers=dict(headers))
        response = connection.getresponse()
        content = response.read(_MOST_READ)
    except (OSError, http.client.HTTPException, ValueError) as error:
        problem = _describe(error)
    else:
        problem = ""
    finally:
        connection.close()
    # A response that was cut off can look complete: its headers end with the connection.
    if connection.is_late:
        raise _NotSent(f"no complete response within {describe_duration(seconds)}")
    if problem:
        raise _NotSent(problem)
    text = content.decode(errors="replace")
    return PostOutcome(status=response.status, body=text, error=_judge(response.status))


def _judge(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    redirect = ", and redirects are not followed" if 300 <= status < 400 else ""
    return f"the endpoint answered {status}{redirect}"


def _describe(error: Exception) -> str:
    """Return what went wrong, without text that the endpoint has chosen."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the endpoint is not valid: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return f"the connection failed: {error.strerror}"
    return f"the endpoint does not speak HTTP: {type(error).__name__}"
