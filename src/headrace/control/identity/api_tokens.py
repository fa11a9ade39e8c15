"""The service for tokens: create, list, revoke."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import NamedTuple

from headrace.control.context import NodeContext
from headrace.control.identity.authenticator import Authenticator, make_token
from headrace.control.policy import (
    Action,
    Caller,
    check,
    find_named,
    listed_owners,
    require_creator,
    resolve_owner,
)
from headrace.errors import InvalidRequest, NotPermitted, TokenNotFound, Unauthorized
from headrace.model.audit import AuditAction
from headrace.model.identity import BROWSER_TOKEN, LONGEST_TOKEN, SHORTEST_TOKEN, ApiToken, Scope
from headrace.model.ids import looks_like_id, new_id
from headrace.store.database import Tx
from headrace.store.identity import tokens
from headrace.text.readable import describe_duration

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_SHOWN = 100
_SIGN_IN = "sign-in:"
"""Begin of the names of tokens that `sign_in` creates."""
_MAX_SIGNED_IN = 1000


class CreatedToken(NamedTuple):
    """A new token and its text. The store does not have the text."""

    token: ApiToken
    text: str


class _SignedIn(NamedTuple):
    created: CreatedToken
    until: float
    """Time of the process's clock until which further clients get this token."""


class ApiTokens:
    """Tokens of all callers, served by one node."""

    def __init__(self, context: NodeContext, authenticator: Authenticator) -> None:
        self._database = context.database
        self._audit = context.audit
        self._authenticator = authenticator
        self._signed_in: dict[Caller, _SignedIn] = {}

    def create(
        self,
        caller: Caller,
        *,
        name: str,
        expires: timedelta,
        scope: Scope,
        owner: str | None = None,
    ) -> CreatedToken:
        """Create a token for the caller or for one of its groups.

        Raises:
            NotPermitted: The caller may not act for the owner, or has sent a token itself.
            InvalidRequest: The name or the time is not allowed.
            TokenNameExists: The owner has a token with this name.
        """
        require_creator(caller, "tokens")
        _check_name(name)
        if not SHORTEST_TOKEN <= expires <= LONGEST_TOKEN:
            raise InvalidRequest(
                f"expires: A token is valid for 1m to {LONGEST_TOKEN.days}d, and not for"
                f" {describe_duration(expires.total_seconds())}."
            )
        if caller.token_id is not None:
            raise NotPermitted("A token cannot create another token.", hint="Sign in yourself.")
        if not caller.scope.includes(scope):
            raise NotPermitted(f"{caller.owner} may not create a token with the scope {scope}.")
        return self._insert(caller, resolve_owner(caller, owner), name, scope, expires)

    def sign_in(self, caller: Caller, protocol: str, lifetime: timedelta) -> str:
        """Return the text of a token with which a client continues a sign-in by other credentials.

        It is valid as long as `renew` is called within the lifetime. A node gives the same token to
        all clients of a caller for half of the lifetime.
        """
        half = lifetime.total_seconds() / 2
        known = self._signed_in.get(caller)
        if known is not None and time.monotonic() < known.until:
            with self._database.read() as tx:
                if tokens.find_usable(tx, known.created.token.id) is not None:
                    return known.created.text
        # No user can give a token a name with a colon.
        name = f"{_SIGN_IN}{protocol}:{new_id('tk')}"
        created = self._insert(caller, caller.owner, name, caller.scope, lifetime)
        self._signed_in[caller] = _SignedIn(created, time.monotonic() + half)
        while len(self._signed_in) > _MAX_SIGNED_IN:
            del self._signed_in[next(iter(self._signed_in))]
        return created.text

    def sign_in_browser(
        self, caller: Caller, lifetime: timedelta, until: datetime | None = None
    ) -> str:
        """Return the text of a token for the cookie of one browser. `sign_out` revokes it.

        After a sign-in with a token, the new one is valid no longer than that token.

        Args:
            until: When the token of an issuer expires with which the user has signed in.

        Raises:
            Unauthorized: The token with which the user has signed in is not valid any more.
        """
        new = make_token()
        with self._database.write("token.sign_in") as tx:
            parent = ""
            if caller.token_id is not None:
                # With the lock, a revocation of that token sees this one, or prevents it.
                entered = tokens.find_usable(tx, caller.token_id, locks=True)
                if entered is None:
                    raise Unauthorized("The token is not valid.")
                parent, until = caller.token_id, entered.token.expires_at
            token = tokens.insert_token(
                tx,
                new.secret_hash,
                owner=caller.owner,
                name=f"{_derived_prefix(parent)}{new_id('tk')}",
                scope=caller.scope,
                seconds=lifetime.total_seconds(),
                until=until,
                created_by=caller.actor,
            )
            if token.expires_at <= token.created_at:
                raise Unauthorized("The token has expired.")
            self._record_creation(tx, caller, token)
        return new.text(token.id)

    def sign_out(self, caller: Caller) -> None:
        """Revoke the token of the caller's browser. Other credentials stay valid."""
        if caller.token_id is None:
            return
        with self._database.write("token.sign_out") as tx:
            token = tokens.get(tx, caller.token_id)
            if token is not None and token.name.startswith(BROWSER_TOKEN):
                self._revoke_in(tx, caller, token)
        self._authenticator.forget_callers()

    def renew(self, token_id: str, lifetime: timedelta) -> None:
        """Let a token of a sign-in expire a lifetime from now. Other tokens stay as they are."""
        with self._database.write("token.renew") as tx:
            tokens.extend(tx, token_id, lifetime.total_seconds(), prefix=_SIGN_IN)

    def _insert(
        self,
        caller: Caller,
        owner: str,
        name: str,
        scope: Scope,
        expires: timedelta,
    ) -> CreatedToken:
        new = make_token()
        with self._database.write("token.create") as tx:
            token = tokens.insert_token(
                tx,
                new.secret_hash,
                owner=owner,
                name=name,
                scope=scope,
                seconds=expires.total_seconds(),
                created_by=caller.actor,
            )
            self._record_creation(tx, caller, token)
        return CreatedToken(token, new.text(token.id))

    def _record_creation(self, tx: Tx, caller: Caller, token: ApiToken) -> None:
        detail = {"name": token.name, "owner": token.owner, "scope": token.scope}
        self._audit.record_in(tx, AuditAction.TOKEN_CREATED, caller, target=token.id, detail=detail)

    def _revoke_in(self, tx: Tx, caller: Caller, token: ApiToken) -> None:
        if tokens.revoke(tx, token.id, actor=caller.actor):
            self._audit.record_in(tx, AuditAction.TOKEN_REVOKED, caller, target=token.id)

    def page(
        self, caller: Caller, *, before: str | None, limit: int, all_owners: bool = False
    ) -> list[ApiToken]:
        """Return at most `limit` tokens, newest first: those of the owners that `caller` lists."""
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            return tokens.page(tx, owners=owners, before=before, limit=limit)

    def revoke(self, caller: Caller, name_or_id: str) -> ApiToken:
        """Revoke a token, given by its id or its name, and return it.

        Raises:
            TokenNotFound: The caller may read no such token.
            NotPermitted: The caller may read the token, but not revoke it.
        """
        with self._database.write("token.revoke") as tx:
            token = self._find(tx, caller, name_or_id)
            self._revoke_in(tx, caller, token)
            # Only now: a sign-in with this token waits for its row, or has inserted its own.
            for each in tokens.list_with_prefix(tx, token.owner, _derived_prefix(token.id)):
                self._revoke_in(tx, caller, each)
            revoked = tokens.get(tx, token.id)
        self._authenticator.forget_callers()
        assert revoked is not None
        return revoked

    def _find(self, tx: Tx, caller: Caller, name_or_id: str) -> ApiToken:
        if looks_like_id(name_or_id):
            token = tokens.get(tx, name_or_id)
        else:
            own = next(iter(tokens.list_named(tx, [caller.owner], name_or_id)), None)
            token = find_named(
                caller, own, lambda owners: tokens.list_named(tx, owners, name_or_id)
            )
        missing = TokenNotFound(f"There is no token {name_or_id[:_SHOWN]!r}.")
        return check(caller, Action.CHANGE, token, missing)


def _derived_prefix(parent: str) -> str:
    """Return the begin of the names of browsers' tokens after a sign-in with this token."""
    return f"{BROWSER_TOKEN}{parent}:"


def _check_name(name: str) -> None:
    if looks_like_id(name) or _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"{name[:_SHOWN]!r} cannot be the name of a token. Use a letter or a digit, then up to"
            " 99 letters, digits, '_', '.' or '-'."
        )
