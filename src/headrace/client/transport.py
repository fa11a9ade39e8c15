"""HTTP/1.1 requests to one node over one connection that is kept alive.

The transport uses http.client because a command must start fast: importing httpx takes longer than
a whole command (ARCHITECTURE.md, "Never").
"""

from __future__ import annotations

import http.client
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from headrace.errors import InvalidSetting, NodeUnreachable

BLOCK = 256 * 1024
"""Largest number of bytes in a block of a streamed body."""
_RETRIED_STATUSES = frozenset({502, 503, 504})


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


class Transport:
    """Connection to one node. It must not be used by several threads at once."""

    def __init__(self, address: str, *, retry_seconds: float = 30.0) -> None:
        """Prepare a connection; the first request opens it.

        Raises InvalidSetting if the address is not an HTTP or HTTPS URL.
        """
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidSetting(
                f"{address!r} is not the address of a node. Write http://HOST:PORT or "
                "https://HOST:PORT."
            )
        try:
            self._port = parts.port
        except ValueError:
            raise InvalidSetting(
                f"The port in {address!r} is not valid. Write a number from 1 to 65535."
            ) from None
        self.address = address.rstrip("/")
        self.retry_seconds = retry_seconds
        """Seconds for which requests are repeated while no node responds."""
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._prefix = parts.path.rstrip("/")
        self._connection: http.client.HTTPConnection | None = None

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
        deadline = time.monotonic() + self.retry_seconds
        pause = 0.05
        while True:
            try:
                response = read(self._send_once(request))
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not _may_retry(request, error) or time.monotonic() >= deadline:
                    raise self._unreachable(error) from error
            except BaseException:
                # An interrupt: the next request must not read the rest of this response.
                self.close()
                raise
            else:
                retry = response.status in _RETRIED_STATUSES and request.idempotent
                if not retry or time.monotonic() >= deadline:
                    return response
            time.sleep(random.uniform(pause, 2 * pause))  # noqa: S311 - jitter, not a secret
            pause = min(1.25 * pause, 0.5)

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
        connection.timeout = request.timeout
        if connection.sock is not None:
            connection.sock.settimeout(request.timeout)
        target = self._prefix + request.path
        if request.query:
            target += "?" + urlencode(request.query)
        headers = dict(request.headers or {})
        connection.request(request.method, target, body=request.body, headers=headers)
        return connection.getresponse()

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, context=context)
        return http.client.HTTPConnection(self._host, self._port)

    def _unreachable(self, error: Exception) -> NodeUnreachable:
        reason = str(error) or type(error).__name__
        return NodeUnreachable(f"No node responds at {self.address}: {reason}.")


def _read_response(response: http.client.HTTPResponse) -> HttpResponse:
    return HttpResponse(response.status, dict(response.getheaders()), response.read())


def _may_retry(request: HttpRequest, error: Exception) -> bool:
    """Return whether the request can be repeated without harm after this error."""
    if isinstance(error, ssl.SSLCertVerificationError | http.client.InvalidURL):
        return False
    # A refused connection never reached the node.
    return request.idempotent or isinstance(error, ConnectionRefusedError)
