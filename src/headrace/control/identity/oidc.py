"""Access tokens of OpenID Connect: JWTs that an issuer has signed (RFC 9068, RFC 7519)."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

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
_AWAY_SECONDS = 2.0
"""Time for which an issuer that did not answer is not asked again for its addresses."""
_ERRORS_OF_OAUTH = frozenset({400, 401})
"""Statuses of answers with an error of OAuth (RFC 6749, section 5.2)."""
_FORM = "application/x-www-form-urlencoded"


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
        self._fetch = fetch or IssuerHttp(settings).fetch
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
        location = self._settings.jwks_url
        if location is None:
            location = read_endpoint(discover(self._settings, self._fetch), "jwks_uri")
        document = self._fetch(location)
        listed = document.get("keys") if isinstance(document, dict) else None
        keys = [key for each in listed or () for key in _import_public(each)]
        if not keys:
            raise SignInUnavailable(f"{location} has no keys that can be used.")
        return KeySet(keys)


def discover(settings: OidcSettings, fetch: Callable[[str], Any]) -> dict[str, Any]:
    """Return the discovery document of an issuer. Raise SignInUnavailable for that of another."""
    location = settings.issuer.rstrip("/") + _DISCOVERY
    document = fetch(location)
    if not isinstance(document, dict) or document.get("issuer") != settings.issuer:
        raise SignInUnavailable(f"{location} is not the document of this issuer.")
    return document


def read_endpoint(document: dict[str, Any], name: str) -> str:
    """Return an address of a discovery document. Raise SignInUnavailable for one without TLS."""
    url = document.get(name)
    if not isinstance(url, str) or not has_tls(url):
        raise SignInUnavailable(
            f"The document of the issuer {document['issuer']} names no {name} with https."
        )
    return url


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


class IssuerHttp:
    """Calls an issuer, with limits on the time and the size of its answers."""

    def __init__(self, settings: OidcSettings) -> None:
        timeout = urllib3.Timeout(connect=_FETCH_SECONDS, read=_FETCH_SECONDS)
        certificates = None if settings.ca is None else str(settings.ca)
        self._http = urllib3.PoolManager(
            timeout=timeout, retries=False, cert_reqs="CERT_REQUIRED", ca_certs=certificates
        )

    def fetch(self, location: str) -> Any:
        """Return the JSON document at a URL. Raise SignInUnavailable."""
        status, document = self._send("GET", location)
        if status != 200:
            raise SignInUnavailable(f"{location} answered {status}.")
        return document

    def post(
        self, location: str, fields: Mapping[str, str], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the JSON object with which an issuer answers a form. It may be an error of OAuth.

        Raise SignInUnavailable.
        """
        sent = {"Accept": "application/json", "Content-Type": _FORM, **headers}
        status, document = self._send("POST", location, urlencode(fields), sent)
        if not isinstance(document, dict) or not (status == 200 or "error" in document):
            raise SignInUnavailable(f"{location} answered {status}.")
        return document

    def _send(
        self,
        method: str,
        location: str,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Return the status and the JSON of an answer. An answer of 500 or above has none."""
        try:
            # A redirect could lead to a host that the operator has not named.
            answer = self._http.request(
                method, location, body=body, headers=headers, redirect=False, preload_content=False
            )
            try:
                content = _read_in_time(answer)
            finally:
                answer.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise SignInUnavailable(f"{location} did not answer: {error}") from error
        if answer.status >= 300 and answer.status not in _ERRORS_OF_OAUTH:
            return answer.status, None
        try:
            return answer.status, json.loads(content)
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


class IssuerDocument:
    """The discovery document of one issuer. Its methods may block for a few seconds."""

    def __init__(self, settings: OidcSettings, fetch: Callable[[str], Any]) -> None:
        self._settings = settings
        self._fetch = fetch
        self._document: dict[str, Any] | None = None
        self._due_at = 0.0
        self._lock = threading.Lock()

    def get(self) -> dict[str, Any]:
        """Return the document. One that cannot be fetched again stays valid.

        Raises:
            SignInUnavailable: It could not be fetched yet.
        """
        with self._lock:
            if time.monotonic() >= self._due_at:
                self._refresh()
        if self._document is None:
            raise SignInUnavailable(
                f"The issuer {self._settings.issuer} does not answer.", hint="Try again later."
            )
        return self._document

    def _refresh(self) -> None:
        try:
            self._document = discover(self._settings, self._fetch)
        except SignInUnavailable as error:
            _LOG.warning("the document of %s: %s", self._settings.issuer, error.message)
            pause = _AWAY_SECONDS if self._document is None else _MIN_PAUSE_SECONDS
        else:
            pause = _MAX_AGE_SECONDS
        self._due_at = time.monotonic() + pause


class OidcMethod:
    """Verifies the tokens of one issuer."""

    def __init__(self, name: str, settings: OidcSettings, keys: IssuerKeys | None = None) -> None:
        """Create the method of one issuer.

        Args:
            name: Name of the issuer in the settings.
        """
        self.name = name
        self.settings = settings
        self._keys = keys or IssuerKeys(settings)
        self._claims = self._make_claims(settings.audience)

    def identify(self, token: str) -> Identity | None:
        """Return the user of a token; None if the token is no JWT of this issuer.

        Raises:
            Unauthorized: The issuer has not signed the token, or the node refuses its claims.
            SignInUnavailable: The keys of the issuer cannot be read.
        """
        if len(token) > _MAX_TOKEN or _peek_issuer(token) != self.settings.issuer:
            return None
        claims = self._verify(token)
        _validate(self._claims, claims)
        self._check_party(claims)
        return self._read_claims(claims)

    def identify_by_id_token(self, token: str, client_id: str, nonce: str) -> Identity:
        """Return the user of an ID token (OpenID Connect Core, section 3.1.3.7).

        Args:
            client_id: Client to which the issuer must have given the token.
            nonce: Nonce of the sign-in to which the token must belong.

        Raises:
            Unauthorized: The issuer has not signed the token, or its claims are others.
            SignInUnavailable: The keys of the issuer cannot be read.
        """
        if len(token) > _MAX_TOKEN:
            raise Unauthorized(f"The token is not valid: it has more than {_MAX_TOKEN} characters.")
        claims = self._verify(token)
        _validate(self._make_claims([client_id], nonce), claims)
        has_others = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if has_others else client_id) != client_id:
            raise Unauthorized("The token is not valid: it was issued to another client (azp).")
        return self._read_claims(claims)

    def _make_claims(self, audience: list[str], nonce: str | None = None) -> jwt.JWTClaimsRegistry:
        """Return the rules for the claims of a token."""
        more: dict[str, Any] = {}
        if nonce is not None:
            more = {"nonce": {"essential": True, "value": nonce}, "iat": {"essential": True}}
        return jwt.JWTClaimsRegistry(
            leeway=int(self.settings.leeway.total_seconds()),
            iss={"essential": True, "value": self.settings.issuer},
            aud={"essential": True, "values": audience},
            sub={"essential": True},
            exp={"essential": True},
            **more,
        )

    def _verify(self, token: str) -> dict[str, Any]:
        algorithms = list(self.settings.algorithms)
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
        allowed = self.settings.authorized_parties
        if not allowed:
            return
        party = claims.get("azp", claims.get("client_id"))
        if party not in allowed:
            raise Unauthorized("The token was issued to a client that this node does not accept.")

    def _read_claims(self, claims: dict[str, Any]) -> Identity:
        subject = claims["sub"]
        if not isinstance(subject, str) or len(subject) > _MAX_SUBJECT:
            raise Unauthorized("The token is not valid: sub is not a text of 255 characters.")
        name = claims.get(self.settings.name_claim, subject)
        groups = claims.get(self.settings.groups_claim, [])
        if isinstance(groups, str):
            groups = [groups]
        if not isinstance(name, str) or not _are_texts(groups):
            raise Unauthorized("The token is not valid: name or groups have another type.")
        if not all(map(_can_be_stored, [subject, name, *groups])):
            raise Unauthorized("The token is not valid: a name has characters that no text has.")
        if len(groups) > self.settings.max_groups:
            raise Unauthorized(
                f"The token names {len(groups)} groups, and a node accepts"
                f" {self.settings.max_groups}."
            )
        issued_at = claims.get("iat")
        return Identity(
            self.settings.issuer,
            subject,
            name[:_MAX_NAME],
            frozenset(groups),
            float(issued_at) if isinstance(issued_at, int | float) else None,
        )


def _validate(rules: jwt.JWTClaimsRegistry, claims: dict[str, Any]) -> None:
    """Raise Unauthorized for claims that break the rules."""
    try:
        rules.validate(claims)
    except ClaimError as error:
        # The text of other errors may contain the token.
        raise Unauthorized(f"The token is not valid: {error.error} ({error.claim}).") from None


def read_expiry(token: str) -> float | None:
    """Return the Unix time at which a JWT expires, unverified; None for a text that is none."""
    try:
        expiry = json.loads(jws.extract_compact(token.encode()).payload).get("exp")
    except (JoseError, ValueError, AttributeError, RecursionError):
        return None
    return float(expiry) if isinstance(expiry, int | float) else None


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
