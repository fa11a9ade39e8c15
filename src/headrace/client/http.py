"""A node's API as Python calls. Objects are the JSON of the API, as dictionaries."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from headrace.client.errors import from_answer
from headrace.client.transport import HttpRequest, HttpResponse, Transport
from headrace.errors import NodeUnreachable

Json = dict[str, Any]

LONGEST_POLL = 10.0
"""Seconds of one long poll; a longer wait is several."""
_MARGIN = 20.0


class Client:
    """One node. Every method raises the HeadraceError that the node answered with, or
    NodeUnreachable when no node answered for `patience` seconds.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        patience: float = 30.0,
        parse_float: Callable[[str], Any] = float,
    ) -> None:
        """`parse_float` makes the value of each JSON number that is no integer from its text."""
        self._transport = Transport(address, patience=patience)
        self._token = token
        self._parse_float = parse_float

    @property
    def address(self) -> str:
        return self._transport.address

    @property
    def patience(self) -> float:
        """For how many seconds requests are repeated while no node answers."""
        return self._transport.patience

    @patience.setter
    def patience(self, seconds: float) -> None:
        self._transport.patience = seconds

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # The node itself.

    def health(self) -> Json:
        """What the node says of itself."""
        return self._call("GET", "/health")

    def ready(self) -> bool:
        """Whether the node can serve, its store included."""
        patience, self.patience = self.patience, 0
        try:
            return self._transport.send(self._ask("GET", "/ready")).status == 200
        finally:
            self.patience = patience

    # Statements.

    def submit(self, body: Mapping[str, Any], *, key: str | None = None) -> Json:
        """Submit one statement; `body` as `POST /api/v1/statements` takes it.

        Repeated after a lost connection under the same Idempotency-Key, so it runs once.
        """
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return self._call("POST", "/api/v1/statements", body=body, headers=headers)

    def statement(self, statement: str, *, wait: float = 0.0, trace: bool = False) -> Json:
        """A statement's present state; with `wait` seconds, once it has ended or they are over."""
        query = {"wait_timeout": f"{wait:g}s"} if wait > 0 else {}
        if trace:
            query["trace"] = "true"
        path = f"/api/v1/statements/{_part(statement)}"
        return self._call("GET", path, query=query, timeout=wait + _MARGIN)

    def statements(self, **query: str | None) -> Json:
        """A page of statements, newest first: `{items, next}`."""
        return self._call("GET", "/api/v1/statements", query=query)

    def rows(self, statement: str, chunk: int = 0, *, plain_numbers: bool = False) -> Json:
        """One chunk of a result: `{schema, rows, chunk, next_chunk}`.

        bigint and decimal are texts; with `plain_numbers`, numbers where a double holds them.
        """
        query = {"format": "json", "chunk": str(chunk)}
        if plain_numbers:
            query["numbers"] = "plain"
        return self._call("GET", f"/api/v1/statements/{_part(statement)}/result", query=query)

    def download(self, statement: str, format: str) -> Iterator[bytes]:  # noqa: A002
        """A whole result in a format of the API's, in blocks."""
        path = f"/api/v1/statements/{_part(statement)}/result"
        answer, blocks = self._transport.stream(self._ask("GET", path, query={"format": format}))
        _check(answer)
        return blocks

    def cancel(self, statement: str, *, force: bool = False) -> Json:
        """Ask for a statement's end; the answer is its state now.

        With `force` its driver is ended if need be, with everything that runs there.
        """
        path = f"/api/v1/statements/{_part(statement)}/cancel"
        query = {"force": "true"} if force else {}
        return self._call("POST", path, body={}, query=query)

    # Sessions.

    def create_session(self, body: Mapping[str, Any]) -> Json:
        return self._call("POST", "/api/v1/sessions", body=body, repeatable=False)

    def session(self, session: str) -> Json:
        return self._call("GET", f"/api/v1/sessions/{_part(session)}")

    def sessions(self, **query: str | None) -> Json:
        """A page of sessions: `{items, next}`."""
        return self._call("GET", "/api/v1/sessions", query=query)

    def session_log(self, session: str, tail: int | None = None) -> str:
        """The log of a session's driver, or its last `tail` bytes."""
        query = {} if tail is None else {"tail": str(tail)}
        path = f"/api/v1/sessions/{_part(session)}/log"
        answer = self._transport.send(self._ask("GET", path, query=query))
        _check(answer)
        return answer.body.decode(errors="replace")

    def close_session(self, session: str) -> Json:
        return self._call("DELETE", f"/api/v1/sessions/{_part(session)}")

    # Transactions.

    def transactions(self, **query: str | None) -> Json:
        """A page of table transactions: `{items, next}`."""
        return self._call("GET", "/api/v1/transactions", query=query)

    def transaction(self, transaction: str) -> Json:
        return self._call("GET", f"/api/v1/transactions/{_part(transaction)}")

    # Plumbing.

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | None] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = LONGEST_POLL + _MARGIN,
        repeatable: bool = True,
    ) -> HttpRequest:
        sent = {"Accept": "application/json, */*;q=0.5", **(headers or {})}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            sent["Content-Type"] = "application/json"
        return HttpRequest(
            method=method,
            path=path,
            query={key: value for key, value in (query or {}).items() if value is not None},
            body=None if body is None else json.dumps(body).encode(),
            headers=sent,
            timeout=timeout,
            repeatable=repeatable,
        )

    def _call(self, method: str, path: str, **rest: Any) -> Json:
        answer = self._transport.send(self._ask(method, path, **rest))
        _check(answer)
        try:
            value = json.loads(answer.body or b"{}", parse_float=self._parse_float)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise NodeUnreachable(
                f"What answers at {self.address} is no Headrace node: {method} {path} gave no JSON "
                "object."
            )
        return value


def _check(answer: HttpResponse) -> None:
    if answer.status >= 300:
        raise from_answer(answer.status, answer.body)


def _part(name: str) -> str:
    return quote(name, safe="")
