"""Access tokens of OpenID Connect: JWTs that an issuer has signed (RFC 9068, RFC 7519)."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import urllib3
from joserfc import jws, jwt
from joserfc.errors import ClaimError, InvalidKeyIdError, JoseError
from joserfc.jwk import Key, KeySet

from headrace.config.auth import OidcSettings, has_tls
from headrace.control.identity.credentials import Identity
from headrace.errors import SignInUnavailable, Unauthorized

_LOG = logging.getLogger("headrace.auth")

_MAX_TOKEN = 16 * 1024
_MAX_ANSWER = 1024 * 1024
_FETCH_SECONDS = 5.0
_BLOCK = 64 * 1024
_MIN_PAUSE_SECONDS = 30.0
"""Shortest time between two fetches of the keys, whatever callers send."""
_MAX_AGE_SECONDS = 600.0
"""Age at which the keys are fetched again, so that removed keys are no longer accepted."""
_MAX_SUBJECT = 255
"""Largest number of characters of a subject (OpenID Connect Core, section 2)."""
_MAX_NAME = 200
_MALFORMED = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
"""Errors of joserfc for a token whose header or claims have unexpected types."""
_DISCOVERY = "/.well-known/openid-configuration"


class IssuerKeys:
    """The public keys of one issuer. Its methods may block for a few seconds."""

    def __init__(
        self,
        settings: OidcSettings,
        *,
        fetch: Callable[[str], Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the object without keys. The first token fetches them.

        Args:
            fetch: Returns the JSON document at a URL. Raises SignInUnavailable.
        """
        self._settings = settings
        self._fetch = fetch or _Documents(settings).fetch
        self._clock = clock
        self._keys: KeySet | None = None
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._lock = threading.Lock()

    def get(self, *, unknown: str | None = None) -> KeySet:
        """Return the keys. Keys that cannot be fetched again stay valid.

        Args:
            unknown: Id of a key that the keys of the last call do not have.

        Raises:
            SignInUnavailable: No keys could be fetched yet.
        """
        # While one thread reads the keys, the others use the last ones. They wait for the first.
        if self._is_due(unknown) and self._lock.acquire(blocking=self._keys is None):
            try:
                self._refresh(unknown)
            finally:
                self._lock.release()
        keys = self._keys
        if keys is None:
            raise SignInUnavailable(
                f"The keys of the issuer {self._settings.issuer} could not be read.",
                hint="Try again later.",
            )
        return keys

    def _refresh(self, unknown: str | None) -> None:
        """Read the keys, unless another thread has just done so."""
        if not self._is_due(unknown):
            return
        self._tried_at = self._clock()
        try:
            self._keys = self._read()
            self._fetched_at = self._clock()
        except SignInUnavailable as error:
            _LOG.warning("the keys of %s: %s", self._settings.issuer, error.message)

    def _is_due(self, unknown: str | None) -> bool:
        now = self._clock()
        if self._tried_at is not None and now - self._tried_at < _MIN_PAUSE_SECONDS:
            return False
        if self._keys is None or self._fetched_at is None:
            return True
        is_unknown = unknown is not None and all(key.kid != unknown for key in self._keys)
        return is_unknown or now - self._fetched_at >= _MAX_AGE_SECONDS

    def _read(self) -> KeySet:
        location = self._settings.jwks_url or self._discover()
        document = self._fetch(location)
        listed = document.get("keys") if isinstance(document, dict) else None
        keys = [key for each in listed or () for key in _import_public(each)]
        if not keys:
            raise SignInUnavailable(f"{location} has no keys that can be used.")
        return KeySet(keys)

    def _discover(self) -> str:
        """Return the URL of the keys. The document must be that of the issuer."""
        location = self._settings.issuer.rstrip("/") + _DISCOVERY
        document = self._fetch(location)
        if not isinstance(document, dict) or document.get("issuer") != self._settings.issuer:
            raise SignInUnavailable(f"{location} is not the document of this issuer.")
        keys = document.get("jwks_uri")
        if not isinstance(keys, str) or not has_tls(keys):
            raise SignInUnavailable(f"{location} names no address of keys with https.")
        return keys


def _import_public(key: Any) -> list[Key]:
    """Return a public key in a list; nothing for a key that cannot be used (RFC 7517, section 5).

    A shared secret, which could sign tokens too, is never used.
    """
    try:
        if key.get("kty") == "oct":
            return []
        return list(KeySet.import_key_set({"keys": [key]}))
    except (JoseError, AttributeError, KeyError, TypeError, ValueError):
        return []


class _Documents:
    """Fetches JSON documents of an issuer, with limits."""

    def __init__(self, settings: OidcSettings) -> None:
        timeout = urllib3.Timeout(connect=_FETCH_SECONDS, read=_FETCH_SECONDS)
        certificates = None if settings.ca is None else str(settings.ca)
        self._http = urllib3.PoolManager(
            timeout=timeout, retries=False, cert_reqs="CERT_REQUIRED", ca_certs=certificates
        )

    def fetch(self, location: str) -> Any:
        try:
            # A redirect could lead to a host that the operator has not named.
            answer = self._http.request("GET", location, redirect=False, preload_content=False)
            try:
                content = _read_in_time(answer)
            finally:
                answer.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise SignInUnavailable(f"{location} did not answer: {error}") from error
        if answer.status != 200:
            raise SignInUnavailable(f"{location} answered {answer.status}.")
        try:
            return json.loads(content)
        except ValueError as error:
            raise SignInUnavailable(f"{location} did not answer JSON.") from error


def _read_in_time(answer: urllib3.BaseHTTPResponse) -> bytes:
    """Return the body of an answer. Raise SignInUnavailable if it is too slow or too large.

    The timeout of a connection is that of each read: a server could send one byte at a time.
    """
    deadline = time.monotonic() + _FETCH_SECONDS
    content = bytearray()
    while block := answer.read1(_BLOCK):
        content += block
        if time.monotonic() > deadline or len(content) > _MAX_ANSWER:
            raise SignInUnavailable("The answer of the issuer is too slow or too large.")
    return bytes(content)


class OidcMethod:
    """Verifies the access tokens of one issuer."""

    def __init__(self, name: str, settings: OidcSettings, keys: IssuerKeys | None = None) -> None:
        """Create the method of one issuer.

        Args:
            name: Name of the issuer in the settings.
        """
        self.name = name
        self._settings = settings
        self._keys = keys or IssuerKeys(settings)
        leeway = int(settings.leeway.total_seconds())
        self._claims = jwt.JWTClaimsRegistry(
            leeway=leeway,
            iss={"essential": True, "value": settings.issuer},
            aud={"essential": True, "values": settings.audience},
            sub={"essential": True},
            exp={"essential": True},
        )

    def identify(self, token: str) -> Identity | None:
        """Return the user of a token; None if the token is no JWT of this issuer.

        Raises:
            Unauthorized: The issuer has not signed the token, or the node refuses its claims.
            SignInUnavailable: The keys of the issuer cannot be read.
        """
        if len(token) > _MAX_TOKEN or _peek_issuer(token) != self._settings.issuer:
            return None
        claims = self._verify(token)
        try:
            self._claims.validate(claims)
        except ClaimError as error:
            # The text of other errors may contain the token.
            raise Unauthorized(f"The token is not valid: {error.error} ({error.claim}).") from None
        self._check_party(claims)
        return self._read_claims(claims)

    def _verify(self, token: str) -> dict[str, Any]:
        algorithms = list(self._settings.algorithms)
        try:
            return jwt.decode(token, self._keys.get(), algorithms=algorithms).claims
        except InvalidKeyIdError:
            keys = self._keys.get(unknown=_peek_key_id(token))
        except JoseError as error:
            raise Unauthorized(_describe(error)) from None
        except _MALFORMED:
            raise Unauthorized("The token is not valid.") from None
        try:
            return jwt.decode(token, keys, algorithms=algorithms).claims
        except (JoseError, *_MALFORMED):
            raise Unauthorized("The issuer has not signed the token with a key of today.") from None

    def _check_party(self, claims: dict[str, Any]) -> None:
        allowed = self._settings.authorized_parties
        if not allowed:
            return
        party = claims.get("azp", claims.get("client_id"))
        if party not in allowed:
            raise Unauthorized("The token was issued to a client that this node does not accept.")

    def _read_claims(self, claims: dict[str, Any]) -> Identity:
        subject = claims["sub"]
        if not isinstance(subject, str) or len(subject) > _MAX_SUBJECT:
            raise Unauthorized("The token is not valid: sub is not a text of 255 characters.")
        name = claims.get(self._settings.name_claim, subject)
        groups = claims.get(self._settings.groups_claim, [])
        if isinstance(groups, str):
            groups = [groups]
        if not isinstance(name, str) or not _are_texts(groups):
            raise Unauthorized("The token is not valid: name or groups have another type.")
        if not all(map(_can_be_stored, [subject, name, *groups])):
            raise Unauthorized("The token is not valid: a name has characters that no text has.")
        if len(groups) > self._settings.max_groups:
            raise Unauthorized(
                f"The token names {len(groups)} groups, and a node accepts"
                f" {self._settings.max_groups}."
            )
        issued_at = claims.get("iat")
        return Identity(
            self._settings.issuer,
            subject,
            name[:_MAX_NAME],
            frozenset(groups),
            float(issued_at) if isinstance(issued_at, int | float) else None,
        )


def _can_be_stored(text: str) -> bool:
    """Return whether a database accepts a text: PostgreSQL refuses NUL and lone surrogates."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) for each in values)


def _describe(error: JoseError) -> str:
    """Return why a token was refused, without its text."""
    return f"The token is not valid: {error.error}."


def _peek_issuer(token: str) -> object:
    """Return the issuer that a token claims, unverified; None if it is no JWT."""
    try:
        return json.loads(jws.extract_compact(token.encode()).payload).get("iss")
    except (JoseError, ValueError, AttributeError, RecursionError):
        return None


def _peek_key_id(token: str) -> str | None:
    """Return the id of the key with which a token claims to be signed."""
    key_id = jws.extract_compact(token.encode()).headers().get("kid")
    return key_id if isinstance(key_id, str) else None
