"""Who calls, and in which session: credentials of headers, tokens, and connections of clients.

A client gets a bearer token that ends with the id of its connection, `TOKEN~cn_…`, and the id as a
cookie: clients that send back either of them have a session, at every node. The connection is
stored when a statement needs it.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple

from anyio import CapacityLimiter, to_thread

from headrace.control.identity.credentials import (
    BearerToken,
    Credentials,
    from_any_password,
)
from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import TooManyFailures, Unauthorized
from headrace.frontends.http.auth import SIGN_IN_THREADS
from headrace.frontends.http.refusals import AuthenticationFailures
from headrace.model.audit import AuditAction
from headrace.model.ids import looks_like_id, new_id

PROTOCOL = "flight_sql"
_COOKIE = "arrow_flight_session_id"
_HEADER, _SET_COOKIE = "authorization", "set-cookie"
_SEPARATOR = "~"
"""Separates token and connection. Tokens of headers may have it, and those of nodes have none."""
_OPEN = "open"
"""Token of clients of a node that needs none."""
_MAX_RENEWED = 10_000

Headers = Iterable[tuple[str, str | bytes]]


class SignedIn(NamedTuple):
    """The sender of a call."""

    caller: Caller
    connection: str
    """Id of its connection, which may not be stored yet."""
    is_offered: bool
    """Whether the client has sent no connection: it may not even send this one in later calls."""
    headers: tuple[tuple[str, str], ...]
    """Headers of the reply."""


class _Sent(NamedTuple):
    credentials: Credentials | None
    connection: str | None


class SignIns:
    """Signs in the clients of one node. Call its methods on the event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lifetime: timedelta = node.settings.flight_sql.token_lifetime
        self._tokens = node.tokens
        self._threads = CapacityLimiter(SIGN_IN_THREADS)
        self._failures = AuthenticationFailures()
        self._renewed: OrderedDict[str, float] = OrderedDict()

    async def identify(self, headers: Headers, address: str) -> SignedIn:
        """Return the sender of a call. Raise as `Authenticator.identify`."""
        fields = {name: _text(value) for name, value in headers}
        try:
            sent = self._read(fields, address)
            caller = replace(await self._find_caller(sent.credentials), address=address)
        except (Unauthorized, TooManyFailures) as error:
            self._record(address, error.message)
            raise
        await self.renew(caller)
        if sent.connection is not None:
            return SignedIn(caller, sent.connection, False, ())
        connection = new_id("cn")
        token = await self._token_for(sent.credentials, caller)
        offered = (
            (_HEADER, f"Bearer {token}{_SEPARATOR}{connection}"),
            (_SET_COOKIE, f"{_COOKIE}={connection}; HttpOnly"),
        )
        return SignedIn(caller, connection, True, offered)

    async def check(self, headers: Headers, address: str) -> None:
        """Raise Unauthorized if the credentials of a call that lasts are not valid any more."""
        fields = {name: _text(value) for name, value in headers}
        await self.renew(await self._find_caller(self._read(fields, address).credentials))

    async def renew(self, caller: Caller) -> None:
        """Renew the token of a sign-in, some times in its lifetime, as long as it is used."""
        token, now = caller.token_id, time.monotonic()
        if token is None or now < self._renewed.get(token, 0.0):
            return
        self._renewed[token] = now + self.renew_seconds
        self._renewed.move_to_end(token)
        while len(self._renewed) > _MAX_RENEWED:
            self._renewed.popitem(last=False)
        await to_thread.run_sync(self._tokens.renew, token, self._lifetime)

    @property
    def renew_seconds(self) -> float:
        """Time after which the token of a call that lasts is renewed."""
        return self._lifetime.total_seconds() / 4

    def _read(self, fields: dict[str, str], address: str) -> _Sent:
        """Return what a client has sent. Raise Unauthorized if a header cannot be read."""
        credentials: Credentials | None = None
        connection = None
        header = fields.get(_HEADER)
        if header is not None:
            scheme, _, value = header.partition(" ")
            match scheme.lower():
                case "bearer":
                    token, _, last = value.strip().rpartition(_SEPARATOR)
                    is_ours = bool(token) and _is_connection(last)
                    connection = last if is_ours else None
                    credentials = BearerToken(token if is_ours else value.strip())
                case "basic":
                    credentials = self._read_basic(value.strip(), address)
                case _:
                    raise Unauthorized("The header authorization needs Basic or Bearer.")
        return _Sent(credentials, connection or _read_cookie(fields.get("cookie", "")))

    def _read_basic(self, value: str, address: str) -> Credentials:
        try:
            # ADBC leaves the padding out; what is too much is ignored.
            user, _, password = (
                base64.b64decode(value + "==", validate=False).decode().partition(":")
            )
        except (binascii.Error, UnicodeDecodeError):
            raise Unauthorized("The header authorization cannot be read.") from None
        has_directory = self._node.settings.auth.ldap is not None
        return from_any_password(user, password, address, has_directory=has_directory)

    async def _find_caller(self, credentials: Credentials | None) -> Caller:
        authenticator = self._node.authenticator
        known = authenticator.find(credentials)
        if known is not None:
            return known
        return await to_thread.run_sync(authenticator.identify, credentials, limiter=self._threads)

    async def _token_for(self, credentials: Credentials | None, caller: Caller) -> str:
        """Return the token that a client sends from now on.

        Tokens of nodes stay as they are. For a password, and for a token of an issuer, which may
        expire soon, the client gets a token of the node.
        """
        if self._node.authenticator.is_open:
            return _OPEN
        is_node = caller == self._node.authenticator.local_caller
        if isinstance(credentials, BearerToken) and (is_node or caller.token_id is not None):
            return credentials.text
        return await to_thread.run_sync(self._tokens.sign_in, caller, PROTOCOL, self._lifetime)

    def _record(self, address: str, reason: str) -> None:
        counted = self._failures.record(address, PROTOCOL, "", reason)
        if counted is not None:
            detail = {"method": PROTOCOL, "reason": reason, "counted_before": counted}
            self._node.context.audit.record_refusal(
                AuditAction.SIGN_IN_FAILED, None, address, detail
            )


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _is_connection(text: str) -> bool:
    return text.startswith("cn_") and looks_like_id(text)


def _read_cookie(header: str) -> str | None:
    try:
        morsel = SimpleCookie(header).get(_COOKIE)
    except CookieError:
        return None
    return morsel.value if morsel is not None and _is_connection(morsel.value) else None
