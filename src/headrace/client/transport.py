"""HTTP/1.1 requests to one node over one connection that is kept alive.

The transport uses http.client because a command must start fast: importing httpx takes longer than
a whole command (ARCHITECTURE.md, "Never").
"""

from __future__ import annotations

import base64
import http.client
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlencode, urlsplit

from headrace.client.tls import SYSTEM_TRUST, ClientTls, describe_tls_error
from headrace.errors import InvalidSetting, NodeUnreachable, TlsFailed
from headrace.text.readable import describe_duration

BLOCK = 256 * 1024
"""Largest number of bytes in a block of a streamed body."""
_RETRIED_STATUSES = frozenset({502, 503, 504})
_CONNECT_SECONDS = 3.0
"""Longest time to open a connection if other nodes can take the place of this one."""
_REPORT_SECONDS = 1.0
"""Length of an outage after which it is reported."""


@dataclass(frozen=True, slots=True)
class PasswordCredentials:
    """A user of the directory with which the nodes check passwords."""

    user: str
    password: str = field(repr=False)


TokenSource = str | Callable[[], str | None] | PasswordCredentials | None
"""A token, or a function that returns the one for the next request: tokens of a login expire. Or a
user and a password in place of a token."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a node, and the token for this address. No other address receives it."""

    address: str
    token: TokenSource = field(default=None, repr=False)
    tls: ClientTls = SYSTEM_TRUST

    def authorization(self) -> str | None:
        """Return the header `Authorization` of the next request; None without credentials."""
        if isinstance(self.token, PasswordCredentials):
            pair = f"{self.token.user}:{self.token.password}".encode()
            return "Basic " + base64.b64encode(pair).decode()
        token = self.token() if callable(self.token) else self.token
        return f"Bearer {token}" if token else None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response with its whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request. The transport repeats it after a failure only if it is idempotent."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    headers: Mapping[str, str] | None = None
    timeout: float = 30.0
    idempotent: bool = True
    accepts_errors: bool = False
    """Whether a response with one of the retried statuses is returned at once."""
    authenticated: bool = True
    """Whether the request carries the token. Probes do not: any process may hold the port."""

    @property
    def repeats_errors(self) -> bool:
        """Whether the request is repeated after a response with one of the retried statuses."""
        return self.idempotent and not self.accepts_errors


def parse_address(address: str) -> SplitResult:
    """Return the parts of the address of a node. Raise InvalidSetting if it is no URL of one."""
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidSetting(
            f"{address!r} is not the address of a node. Write http://HOST:PORT or "
            "https://HOST:PORT."
        )
    try:
        _ = parts.port
    except ValueError:
        raise InvalidSetting(
            f"The port in {address!r} is not valid. Write a number from 1 to 65535."
        ) from None
    return parts


def check_addresses(addresses: str) -> None:
    """Raise InvalidSetting unless these are the addresses of nodes, separated by commas."""
    for address in addresses.split(","):
        parse_address(address.strip())


class Transport:
    """Connection to one node. It must not be used by several threads at once."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        retry_seconds: float = 30.0,
        has_others: bool = False,
        relocate: Callable[[], Endpoint | None] = lambda: None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare a connection; the first request opens it.

        Args:
            endpoint: Node to connect to.
            retry_seconds: Seconds for which requests are repeated while no node responds.
            has_others: Whether `relocate` names other nodes. Then a node that cannot be reached
                soon is left.
            relocate: Called while no node responds. Returns the endpoint of the node to use from
                then on, or None if it is not known.
            report: Receives a line when an outage lasts, and a line when it is over.

        Raises:
            InvalidSetting: The address is not an HTTP or HTTPS URL.
        """
        self._has_others = has_others
        self.retry_seconds = retry_seconds
        self._relocate = relocate
        self._report = report
        self._connection: http.client.HTTPConnection | None = None
        self._use(endpoint)

    @property
    def address(self) -> str:
        return self._endpoint.address.rstrip("/")

    def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response, whatever its status.

        The statuses 502, 503 and 504 are retried like lost connections.

        Raises:
            NodeUnreachable: No node responded within `retry_seconds`.
        """
        return self._send_with_retries(request, _read_response)

    def stream(self, request: HttpRequest) -> tuple[HttpResponse, Iterator[bytes]]:
        """Send a request and return the response with an iterator over the blocks of its body.

        If the status is 400 or above, `HttpResponse.body` holds the body and the iterator is empty.

        Raises:
            NodeUnreachable: No node responded within `retry_seconds`. The iterator raises it if
                the body ends early, so that no result is cut silently.
        """
        open_responses: list[http.client.HTTPResponse] = []

        def read_head(response: http.client.HTTPResponse) -> HttpResponse:
            if response.status >= 400:
                return _read_response(response)
            open_responses.append(response)
            return HttpResponse(response.status, dict(response.getheaders()), b"")

        response = self._send_with_retries(request, read_head)
        return response, self._read_blocks(open_responses[0]) if open_responses else iter(())

    def _send_with_retries(
        self, request: HttpRequest, read: Callable[[http.client.HTTPResponse], HttpResponse]
    ) -> HttpResponse:
        outage = _Outage(self.retry_seconds, self._report)
        while True:
            try:
                response = read(self._send_once(request))
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not self._may_retry(request, error) or outage.is_too_long:
                    raise self._unreachable(error) from error
                outage.wait(self.address, str(error) or type(error).__name__)
                self._move()
            except BaseException:
                # An interrupt: the next request must not read the rest of this response.
                self.close()
                raise
            else:
                retry = response.status in _RETRIED_STATUSES and request.repeats_errors
                if not retry or outage.is_too_long:
                    outage.end()
                    return response
                outage.wait(self.address, f"status {response.status}")
                self._move()

    def _may_retry(self, request: HttpRequest, error: Exception) -> bool:
        """Return whether the request can be repeated without harm after this error."""
        if _is_tls_failure(error) or isinstance(error, http.client.InvalidURL):
            return False
        if isinstance(error, socket.gaierror):
            return self._has_others or error.errno != socket.EAI_NONAME
        # A refused connection never reached the node.
        return request.idempotent or isinstance(error, ConnectionRefusedError)

    def _move(self) -> None:
        """Continue with the node that takes the place of this one, if it is known."""
        endpoint = self._relocate()
        if endpoint is not None and endpoint != self._endpoint:
            self.close()
            self._use(endpoint)

    def _use(self, endpoint: Endpoint) -> None:
        """Send the following requests to this endpoint. Raise InvalidSetting if it is no URL."""
        parts = parse_address(endpoint.address)
        self._endpoint = endpoint
        self._port = parts.port
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._prefix = parts.path.rstrip("/")

    def _read_blocks(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            while block := response.read(BLOCK):
                yield block
            # http.client does not report an early end when the body is read in blocks.
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._unreachable(error) from error
        except BaseException:
            self.close()
            raise

    def _send_once(self, request: HttpRequest) -> http.client.HTTPResponse:
        if not request.idempotent:
            # An idle connection may be dead, and this request cannot be repeated: use a new one.
            self.close()
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        if connection.sock is None and self._has_others:
            connection.timeout = min(request.timeout, _CONNECT_SECONDS)
            connection.connect()
        connection.timeout = request.timeout
        if connection.sock is not None:
            connection.sock.settimeout(request.timeout)
        target = self._prefix + request.path
        if request.query:
            target += "?" + urlencode(request.query)
        headers = dict(request.headers or {})
        authorization = self._endpoint.authorization() if request.authenticated else None
        if authorization:
            headers["Authorization"] = authorization
        connection.request(request.method, target, body=request.body, headers=headers)
        return connection.getresponse()

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            context = self._endpoint.tls.make_context()
            return http.client.HTTPSConnection(self._host, self._port, context=context)
        return http.client.HTTPConnection(self._host, self._port)

    def _unreachable(self, error: Exception) -> NodeUnreachable:
        if isinstance(error, ssl.SSLCertVerificationError):
            return TlsFailed(
                f"The certificate of {self.address} is not accepted: {describe_tls_error(error)}.",
                hint="use a host name of the certificate; name the file of a private CA in tls.ca"
                " (HEADRACE_TLS__CA)",
            )
        if isinstance(error, ssl.SSLError) and _is_tls_failure(error):
            return TlsFailed(
                f"TLS with {self.address} has failed: {describe_tls_error(error)}.",
                hint="write http:// for a node without TLS; a node that requires a certificate of"
                " its clients accepts that of tls.client_cert",
            )
        reason = str(error) or type(error).__name__
        return NodeUnreachable(f"No node responds at {self.address}: {reason}.")


def _is_tls_failure(error: Exception) -> bool:
    """Return whether TLS fails in the same way again. A connection that ends may do better."""
    ends = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
    return isinstance(error, ssl.SSLError) and not isinstance(error, ends)


class _Outage:
    """The time during which one request is repeated."""

    def __init__(self, longest: float, report: Callable[[str], None]) -> None:
        self._begin = time.monotonic()
        self._longest = longest
        self._report = report
        self._is_reported = False
        self._pause = 0.05

    @property
    def is_too_long(self) -> bool:
        return self._seconds >= self._longest

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begin

    def wait(self, address: str, reason: str) -> None:
        """Wait before the next attempt, and report an outage that lasts."""
        if not self._is_reported and self._seconds >= min(_REPORT_SECONDS, self._longest / 2):
            self._is_reported = True
            self._report(
                f"Node unreachable, retrying for up to {describe_duration(self._longest)}:"
                f" {address} ({reason})"
            )
        time.sleep(random.uniform(self._pause, 2 * self._pause))  # noqa: S311 - not a secret
        self._pause = min(1.25 * self._pause, 0.5)

    def end(self) -> None:
        """Report the end of an outage that was reported."""
        if self._is_reported:
            self._report(f"The node responds again, after {describe_duration(self._seconds)}.")


def _read_response(response: http.client.HTTPResponse) -> HttpResponse:
    return HttpResponse(response.status, dict(response.getheaders()), response.read())
