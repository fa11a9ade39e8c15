"""HTTP/1.1 to one node over one kept-alive connection.

It stands on http.client because a shell command must start at once: importing httpx takes longer
than a whole command (docs/cli.md, "Start-up").
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
_PASSING = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request. Only what is `repeatable` without harm is sent again after a failure."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    headers: Mapping[str, str] | None = None
    timeout: float = 30.0
    repeatable: bool = True


class Transport:
    """Sends requests; raises NodeUnreachable when nothing answers for `patience` seconds.

    Not for use by several threads at once.
    """

    def __init__(self, address: str, *, patience: float = 30.0) -> None:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidSetting(
                f"{address!r} is no address of a node: write http://HOST:PORT or https://HOST:PORT."
            )
        try:
            self._port = parts.port
        except ValueError:
            raise InvalidSetting(f"{address!r} has no valid port.") from None
        self.address = address.rstrip("/")
        self.patience = patience
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._prefix = parts.path.rstrip("/")
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Drop the connection; the next request makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, ask: HttpRequest) -> HttpResponse:
        """The answer, whatever its status. 502, 503 and 504 are retried like lost connections."""
        return self._repeated(ask, _whole)

    def stream(self, ask: HttpRequest) -> tuple[HttpResponse, Iterator[bytes]]:
        """An answer whose body comes in blocks. Errors come whole, in `Answer.body`.

        A body that ends early raises NodeUnreachable from the iterator: nothing is cut silently.
        """
        opened: list[http.client.HTTPResponse] = []

        def take(response: http.client.HTTPResponse) -> HttpResponse:
            if response.status >= 400:
                return _whole(response)
            opened.append(response)
            return HttpResponse(response.status, dict(response.getheaders()), b"")

        answer = self._repeated(ask, take)
        return answer, self._blocks(opened[0]) if opened else iter(())

    def _repeated(
        self, ask: HttpRequest, take: Callable[[http.client.HTTPResponse], HttpResponse]
    ) -> HttpResponse:
        deadline = time.monotonic() + self.patience
        pause = 0.05
        while True:
            try:
                answer = take(self._open(ask))
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not _may_repeat(ask, error) or time.monotonic() >= deadline:
                    raise self._unreachable(error) from error
            except BaseException:
                self.close()  # an interrupt: the rest of this answer must not meet the next request
                raise
            else:
                passing = answer.status in _PASSING and ask.repeatable
                if not passing or time.monotonic() >= deadline:
                    return answer
            time.sleep(random.uniform(pause, 2 * pause))  # noqa: S311 - jitter, no secret
            pause = min(1.25 * pause, 0.5)

    def _blocks(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            while block := response.read(BLOCK):
                yield block
            if response.length:  # http.client does not tell an early end when read by blocks
                raise http.client.IncompleteRead(b"", response.length)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._unreachable(error) from error
        except BaseException:
            self.close()
            raise

    def _open(self, ask: HttpRequest) -> http.client.HTTPResponse:
        if not ask.repeatable:
            self.close()  # a connection that has been idle may be lost without our knowing
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        connection.timeout = ask.timeout
        if connection.sock is not None:
            connection.sock.settimeout(ask.timeout)
        target = self._prefix + ask.path
        if ask.query:
            target += "?" + urlencode(ask.query)
        connection.request(ask.method, target, body=ask.body, headers=dict(ask.headers or {}))
        return connection.getresponse()

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, context=context)
        return http.client.HTTPConnection(self._host, self._port)

    def _unreachable(self, error: Exception) -> NodeUnreachable:
        reason = str(error) or type(error).__name__
        return NodeUnreachable(f"No node answers at {self.address}: {reason}.")


def _whole(response: http.client.HTTPResponse) -> HttpResponse:
    return HttpResponse(response.status, dict(response.getheaders()), response.read())


def _may_repeat(ask: HttpRequest, error: Exception) -> bool:
    if isinstance(error, ssl.SSLCertVerificationError | http.client.InvalidURL):
        return False
    return ask.repeatable or isinstance(error, ConnectionRefusedError)
