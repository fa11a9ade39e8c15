"""The authenticator: turns the credentials of a request into its caller, for every front end."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from headrace.config.auth import LOCAL_SOURCE, AuthSettings, Role
from headrace.control.context import NodeContext
from headrace.control.identity.code_flow import CodeFlows, SignInAttempt
from headrace.control.identity.credentials import (
    WRONG_PASSWORD,
    BearerToken,
    BrowserToken,
    Credentials,
    Identity,
    Password,
    ProxyUser,
)
from headrace.control.identity.ldap import LdapMethod
from headrace.control.identity.oidc import OidcMethod, read_expiry
from headrace.control.identity.proxy_header import HeaderMethod
from headrace.control.policy import Caller
from headrace.errors import Unauthorized
from headrace.files.private_files import name_of_user
from headrace.model.identity import BROWSER_TOKEN, GROUP_PREFIX, ApiToken, User, group_owner
from headrace.model.ids import looks_like_id
from headrace.store.database import Tx
from headrace.store.identity import tokens, users

_CACHE_SECONDS = 1.0
"""Time for which a caller is not looked up again. A revoked token is refused after it."""
_MAX_CACHED = 10_000
_PREFIX = "hr"
"""Prefix of each token, by which scanners for secrets recognise tokens."""
_SECRET_BYTES = 32
_LOCAL_SUBJECT = "node"
"""Subject of the user who runs the nodes: the same for all nodes of a store, whose operating
systems may know different users."""
_NOT_VALID = {
    BearerToken: "The token is not valid.",
    BrowserToken: "The sign-in has ended.",
    # As for a wrong password: callers must not learn that a user exists.
    Password: WRONG_PASSWORD,
    ProxyUser: "The user whom the proxy names is disabled.",
}


class NewToken(NamedTuple):
    """The secret of a token that is to be stored."""

    secret: str
    secret_hash: str

    def text(self, token_id: str) -> str:
        """Return the token as callers send it."""
        return f"{_PREFIX}_{token_id.removeprefix('tk_')}_{self.secret}"


def make_token() -> NewToken:
    """Return a new random secret."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return NewToken(secret, _hash(secret))


class _CachedCaller(NamedTuple):
    caller: Caller
    until: float
    """Time of the process's clock."""


class Authenticator:
    """Finds the callers of one node."""

    def __init__(self, context: NodeContext, *, node_token: str | None) -> None:
        """Sign in the user of the operating system who runs the node: its first administrator.

        Args:
            node_token: Token of the node itself. None: the node needs no credentials.

        Raises:
            InvalidSetting: A file that `auth` names cannot be used.
            PackagesMissing: The packages of a method are not installed.
        """
        self._database = context.database
        self._settings: AuthSettings = context.settings.auth
        self._node_token = node_token
        self._issuers = [OidcMethod(name, each) for name, each in self._settings.oidc.items()]
        self.code_flows = CodeFlows(context, self._issuers)
        """Sign-in of browsers at the issuers."""
        ldap, header = self._settings.ldap, self._settings.header
        self._ldap = None if ldap is None else LdapMethod(ldap, context)
        self._header = None if header is None else HeaderMethod(header)
        self._cached: OrderedDict[bytes, _CachedCaller] = OrderedDict()
        self._key = secrets.token_bytes(32)
        """Key of this process, without which a copy of its memory reveals no password."""
        name = name_of_user(os.geteuid())
        with context.database.write("node.sign_in") as tx:
            user = users.sign_in(tx, LOCAL_SOURCE, _LOCAL_SUBJECT, name=name, groups=())
        self.local_caller = Caller(
            owner=user.id,
            roles=frozenset({Role.ADMIN, Role.USER}),
            account=f"{LOCAL_SOURCE}:{name}",
        )
        """The user who runs the node."""

    @property
    def is_open(self) -> bool:
        """Whether requests need no credentials."""
        return self._node_token is None

    def find(self, credentials: Credentials | None) -> Caller | None:
        """Return the caller with these credentials if no read of the store is needed."""
        if self._node_token is None:
            return self.local_caller
        if credentials is None:
            return None
        if isinstance(credentials, BearerToken) and secrets.compare_digest(
            credentials.text.encode(), self._node_token.encode()
        ):
            return self.local_caller
        cached = self._cached.get(self._key_of(credentials))
        return cached.caller if cached is not None and time.monotonic() < cached.until else None

    def identify(self, credentials: Credentials | None) -> Caller:
        """Return the caller with these credentials. May ask the store, an issuer or a directory.

        Raises:
            Unauthorized: The credentials are not valid.
            TooManyFailures: Too many attempts with this name or from this address have failed.
            SignInUnavailable: The issuer or the directory does not answer.
        """
        known = self.find(credentials)
        if known is not None:
            return known
        caller = None if credentials is None else self._try_methods(credentials)
        if credentials is None or caller is None:
            raise Unauthorized(_NOT_VALID.get(type(credentials)))
        key = self._key_of(credentials)
        self._cached[key] = _CachedCaller(caller, time.monotonic() + _CACHE_SECONDS)
        while len(self._cached) > _MAX_CACHED:
            self._cached.popitem(last=False)
        return caller

    def finish_code_flow(self, attempt: SignInAttempt | None, answer: Mapping[str, str]) -> Caller:
        """Return the caller of a user whom an issuer has signed in, as `CodeFlows.finish`.

        Raises:
            Unauthorized: The user is disabled, or the answer of the issuer is refused.
            SignInUnavailable: The issuer does not answer.
        """
        caller = self._sign_in(self.code_flows.finish(attempt, answer))
        if caller is None:
            raise Unauthorized("An administrator has disabled this user.")
        return caller

    def find_expiry(self, credentials: Credentials) -> datetime | None:
        """Return when the token of an issuer expires, which `identify` has accepted.

        None: the credentials are others.
        """
        expiry = None
        if isinstance(credentials, BearerToken) and self._issuers:
            expiry = read_expiry(credentials.text)
        try:
            return None if expiry is None else datetime.fromtimestamp(expiry, UTC)
        except (OverflowError, ValueError):
            return None  # after the year 9999

    def forget_callers(self) -> None:
        """Forget all callers after a change of rights. Other nodes notice it within a second."""
        self._cached.clear()

    def _key_of(self, credentials: Credentials) -> bytes:
        """Return a key that does not reveal the credentials."""
        fields = [getattr(credentials, name) for name in credentials.__slots__]
        text = repr((type(credentials).__name__, *fields))
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256")

    def _try_methods(self, credentials: Credentials) -> Caller | None:
        """Return the caller whom the credentials name, or None. Each kind has its methods."""
        match credentials:
            case BearerToken(text):
                return self._try_token(text)
            case BrowserToken(text):
                return self._look_up(text, of_browser=True)
            case Password():
                identity = None if self._ldap is None else self._ldap.identify(credentials)
            case ProxyUser():
                identity = None if self._header is None else self._header.identify(credentials)
        return None if identity is None else self._sign_in(identity)

    def _try_token(self, token: str) -> Caller | None:
        """Return the caller whom the first method that knows the token names, or None."""
        for method in self._settings.methods:
            if method == "token":
                caller = self._look_up(token)
                if caller is not None:
                    return caller
            elif method == "oidc":
                for issuer in self._issuers:
                    identity = issuer.identify(token)
                    if identity is not None:
                        return self._sign_in(identity)
        return None

    def _sign_in(self, identity: Identity) -> Caller | None:
        """Return the caller of a user who has signed in; None: the user is disabled."""
        source, subject, name, groups, issued_at = identity
        with self._database.read() as tx:
            user = users.find(tx, source, subject)
            is_same = user is not None and (user.name, user.groups) == (name, groups)
            must_write = user is None or not is_same or users.is_seen_due(tx, user.id)
        if must_write:
            with self._database.write("user.sign_in") as tx:
                user = users.sign_in(
                    tx, source, subject, name=name, groups=groups, issued_at=issued_at
                )
        assert user is not None
        return None if user.disabled_at is not None else self._caller_of(user)

    def _look_up(self, token: str, *, of_browser: bool = False) -> Caller | None:
        """Return the caller with a token of the store, or None.

        Browsers send cookies to every port of a host, also to programs of other users. A copy of a
        cookie is therefore no token for the API, and a token for the API is no cookie.
        """
        prefix, _, rest = token.partition("_")
        number, _, secret = rest.partition("_")
        token_id = f"tk_{number}"
        # Only a text with the form of a token costs a read. A cache of wrong ones would not help
        # against callers that invent ids; the threads for sign-ins bound what they cost.
        if prefix != _PREFIX or not looks_like_id(token_id):
            return None
        with self._database.read() as tx:
            found = tokens.find_usable(tx, token_id)
            # The same work for a wrong secret as for an unknown token.
            expected = _hash("") if found is None else found.secret_hash
            if not hmac.compare_digest(_hash(secret), expected) or found is None:
                return None
            if found.token.name.startswith(BROWSER_TOKEN) is not of_browser:
                return None
            caller = self._describe(tx, found.token)
        if caller is not None and found.is_use_due:
            with self._database.write("token.use") as tx:
                tokens.record_use(tx, token_id)
        return caller

    def _describe(self, tx: Tx, token: ApiToken) -> Caller | None:
        """Return the caller with a token.

        None: its owner or its creator may not sign in, or the creator is not in the group any more.
        """
        owner, creator = token.owner, users.get(tx, token.created_by)
        if creator is None or creator.disabled_at is not None:
            return None
        if owner.startswith(GROUP_PREFIX):
            _prefix, source, name = owner.split(":", 2)
            if owner not in self._caller_of(creator).groups:
                return None
            # The members may be administrators; a token of the group acts on its objects only.
            roles = self._settings.roles_of(source, frozenset({name})) & {Role.USER}
            caller = Caller(owner=owner, user=creator.id, roles=roles)
        else:
            user = creator if owner == creator.id else users.get(tx, owner)
            if user is None or user.disabled_at is not None:
                return None
            caller = self._caller_of(user)
        return replace(caller, scope=token.scope, token_id=token.id)

    def _caller_of(self, user: User) -> Caller:
        """Return the caller who is a user, with what the settings and its groups allow."""
        if user.id == self.local_caller.owner:
            return self.local_caller
        # Names of groups are those of the settings: the URL of an issuer is no name.
        source = self._settings.name_of_source(user.source)
        return Caller(
            owner=user.id,
            groups=frozenset(group_owner(source, name) for name in user.groups),
            roles=self._settings.roles_of(source, user.groups),
            account=f"{source}:{user.name}",
        )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
