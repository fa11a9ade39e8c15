"""Sign-in of browsers at an issuer: the authorization code flow with PKCE (RFC 6749, RFC 7636).

No node keeps a sign-in that has begun: the browser does, in a cookie, so that any node of a cluster
can continue it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from headrace.control.context import NodeContext
from headrace.control.identity.credentials import Identity, is_printable
from headrace.control.identity.oidc import IssuerDocument, IssuerHttp, OidcMethod, read_endpoint
from headrace.control.secret_values import Secrets
from headrace.errors import (
    HeadraceError,
    NotFound,
    SignInExpired,
    SignInRefused,
    SignInUnavailable,
    Unauthorized,
)
from headrace.grammar.secret_references import find_names
from headrace.text.readable import describe_duration

_LOG = logging.getLogger("headrace.auth")

ATTEMPT_SECONDS = 600
"""Time that a user has to sign in at the issuer."""
CALLBACK_PATH = "/ui/sign-in/callback"
"""Path to which issuers send browsers back."""
_CLOCK_SECONDS = 60
"""Largest difference between the clocks of two nodes."""
_SECRET_BYTES = 32
_MAX_TEXT = 3500
"""Largest number of characters of an attempt: browsers drop cookies of more than 4096 bytes."""
_MAX_CODE = 4096
_SHOWN = 200
_TEXT = re.compile(
    r"(?P<secret>[A-Za-z0-9_-]{43})\.(?P<time>[0-9]{1,12})\.(?P<issuer>[a-z0-9-]{1,32})"
    r"\.(?P<page>[A-Za-z0-9_-]*)"
)
_ERROR = re.compile(r"[a-z_]{1,50}")
_AWAY = frozenset({"server_error", "temporarily_unavailable"})
"""Errors of OAuth that say that the issuer does not work at the moment."""
_AGAIN = "Sign in again."


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """A sign-in that a browser has begun. The browser keeps its text.

    State, nonce and code verifier are derived from the whole text, which contains a random secret.
    The text therefore needs no signature of a node: after a change of the page, of the time or of
    the issuer, the text does not belong to the state and to the nonce any more, and the issuer has
    signed the nonce.
    """

    text: str = field(repr=False)
    issuer: str
    """Name of the issuer in the settings."""
    page: str
    """Page that the user wants to open."""
    started_at: int
    """Unix time, in seconds."""

    @classmethod
    def begin(cls, issuer: str, page: str) -> SignInAttempt:
        """Return a new attempt. One with a very long page leads to the first page."""
        started_at = int(time.time())
        head = f"{secrets.token_urlsafe(_SECRET_BYTES)}.{started_at}.{issuer}"
        encoded = base64.urlsafe_b64encode(page.encode("utf-8", "replace")).decode().rstrip("=")
        text = f"{head}.{encoded}"
        if len(text) > _MAX_TEXT:
            text, page = f"{head}.", ""
        return cls(text, issuer, page, started_at)

    @classmethod
    def read(cls, text: str) -> SignInAttempt | None:
        """Return the attempt with a text; None for a text of another form."""
        match = _TEXT.fullmatch(text)
        if match is None or len(text) > _MAX_TEXT:
            return None
        try:
            page = base64.urlsafe_b64decode(match["page"] + "=" * (-len(match["page"]) % 4))
            return cls(text, match["issuer"], page.decode(), int(match["time"]))
        except (binascii.Error, UnicodeDecodeError):
            return None

    @property
    def state(self) -> str:
        """The parameter `state`, which the issuer returns with the code."""
        return self._derive("state")

    @property
    def nonce(self) -> str:
        """The nonce, which the issuer writes into the ID token."""
        return self._derive("nonce")

    @property
    def verifier(self) -> str:
        """The secret without which the code is of no use (PKCE)."""
        return self._derive("verifier")

    @property
    def challenge(self) -> str:
        """The hash of the verifier."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def _derive(self, purpose: str) -> str:
        key = self.text.encode()
        return hmac.new(key, f"headrace sign-in {purpose}".encode(), hashlib.sha256).hexdigest()


class CodeFlow:
    """Signs in browsers at one issuer. Its methods may wait for the issuer for a few seconds."""

    def __init__(
        self,
        method: OidcMethod,
        client_id: str,
        redirect_uri: str,
        secret_values: Secrets,
        http: IssuerHttp | None = None,
    ) -> None:
        """Create the flow for one client, without a call to the issuer."""
        self._method = method
        self._settings = method.settings
        self._client_id = client_id
        self._redirect_uri = redirect_uri
        self._secrets = secret_values
        self._http = http or IssuerHttp(method.settings)
        self._document = IssuerDocument(method.settings, self._http.fetch)

    def make_link(self, attempt: SignInAttempt) -> str:
        """Return the address at which the user signs in.

        Raises:
            SignInUnavailable: The issuer does not answer, or has no authorization code flow.
        """
        scopes = [each for each in self._settings.scopes if each != "offline_access"]
        if "openid" not in scopes:
            scopes.insert(0, "openid")
        parameters = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        endpoint = read_endpoint(self._document.get(), "authorization_endpoint")
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}"

    def read_answer(self, attempt: SignInAttempt, answer: Mapping[str, str]) -> Identity:
        """Return the user whom the issuer has signed in.

        Args:
            answer: Parameters with which the issuer has sent the browser back (RFC 6749, 4.1.2).

        Raises:
            SignInRefused: The issuer has not signed in the user, or another issuer has answered.
            Unauthorized: The ID token is not valid, or belongs to another sign-in or client.
            SignInUnavailable: The issuer does not answer, or the client has no secret.
        """
        self._check_issuer(answer.get("iss"))
        if "error" in answer:
            raise self._explain(answer)
        code = answer.get("code", "")
        if not 0 < len(code) <= _MAX_CODE:
            raise SignInRefused(f"{self._name} has sent no code.", hint=_AGAIN)
        token = self._exchange(attempt, code).get("id_token")
        if not isinstance(token, str):
            raise SignInRefused(f"{self._name} has sent no ID token.")
        return self._method.identify_by_id_token(token, self._client_id, attempt.nonce)

    @property
    def _name(self) -> str:
        return f"The issuer {self._method.name}"

    def _check_issuer(self, issuer: str | None) -> None:
        """Raise SignInRefused for the answer of another issuer (RFC 9207).

        It could otherwise get the code of this one.
        """
        must_name = (
            self._document.get().get("authorization_response_iss_parameter_supported") is True
        )
        if issuer != self._settings.issuer and (must_name or issuer is not None):
            raise SignInRefused(f"{self._name} has not sent this answer.", hint=_AGAIN)

    def _explain(self, answer: Mapping[str, object]) -> HeadraceError:
        """Return the error for an error of the issuer."""
        code, detail = str(answer.get("error")), str(answer.get("error_description", ""))[:_SHOWN]
        reason = code if _ERROR.fullmatch(code) else "an unknown error"
        if detail and is_printable(detail):
            reason += f" ({detail.rstrip('.')})"
        if code in _AWAY:
            return SignInUnavailable(f"{self._name} answers {reason}.", hint="Try again later.")
        return SignInRefused(f"{self._name} has not signed you in: {reason}.", hint=_AGAIN)

    def _exchange(self, attempt: SignInAttempt, code: str) -> dict[str, object]:
        """Return what the issuer gives for a code."""
        document = self._document.get()
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": attempt.verifier,
        }
        headers, more = self._authenticate(document.get("token_endpoint_auth_methods_supported"))
        endpoint = read_endpoint(document, "token_endpoint")
        answer = self._http.post(endpoint, fields | more, headers)
        if "error" in answer:
            raise self._explain(answer)
        return answer

    def _authenticate(self, methods: object) -> tuple[dict[str, str], dict[str, str]]:
        """Return the headers and the fields that prove which client calls (RFC 6749, 2.3.1).

        Args:
            methods: Methods that the issuer supports; unless it lists others, HTTP Basic.
        """
        reference = self._settings.web_client_secret
        if reference is None:
            return {}, {"client_id": self._client_id}
        [name] = find_names(reference)
        try:
            # The operator of the node uses it, as in a profile.
            secret = self._secrets.find([name], owners=None)[name]
        except HeadraceError as error:
            _LOG.warning("the secret of the client of %s: %s", self._method.name, error.message)
            raise SignInUnavailable(
                f"The node cannot read the secret of its client at the issuer {self._method.name}.",
                hint="The log of the node has the reason.",
            ) from None
        if isinstance(methods, list) and "client_secret_basic" not in methods:
            return {}, {"client_id": self._client_id, "client_secret": secret}
        pair = f"{quote(self._client_id, safe='')}:{quote(secret, safe='')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, {}


class CodeFlows:
    """Signs in browsers at the issuers of a node that have a client for it."""

    def __init__(self, context: NodeContext, methods: Sequence[OidcMethod]) -> None:
        self.public_address = context.settings.web.public_address or ""
        """URL below which browsers open the pages."""
        self._flows = {
            each.name: CodeFlow(
                each,
                each.settings.web_client_id,
                f"{self.public_address}{CALLBACK_PATH}",
                context.secrets,
            )
            for each in methods
            if each.settings.web_client_id is not None
        }

    @property
    def issuers(self) -> list[str]:
        """Names of the issuers, in the order of the settings."""
        return list(self._flows)

    def begin(self, attempt: SignInAttempt) -> str:
        """Return the address at which a user signs in.

        Raises:
            NotFound: Browsers cannot sign in at this issuer.
            SignInUnavailable: The issuer does not answer.
        """
        flow = self._flows.get(attempt.issuer)
        if flow is None:
            raise NotFound(f"Browsers cannot sign in at an issuer {attempt.issuer[:_SHOWN]!r}.")
        return flow.make_link(attempt)

    def finish(self, attempt: SignInAttempt | None, answer: Mapping[str, str]) -> Identity:
        """Return the user who has signed in.

        Args:
            attempt: What the browser has kept; None: nothing that belongs to the answer.
            answer: Parameters with which the issuer has sent the browser back.

        Raises:
            SignInExpired: The browser has not begun this sign-in, or too long ago.
            SignInRefused, SignInUnavailable, Unauthorized: As `CodeFlow.read_answer`.
        """
        state = answer.get("state", "")
        flow = None if attempt is None else self._flows.get(attempt.issuer)
        is_same = attempt is not None and hmac.compare_digest(
            attempt.state.encode(), state.encode("utf-8", "replace")
        )
        if attempt is None or flow is None or not is_same:
            raise SignInExpired(
                "This browser has not begun this sign-in, or has finished it already.",
                hint=f"{_AGAIN} The browser must keep the cookies of {self.public_address}.",
            )
        if not -_CLOCK_SECONDS <= time.time() - attempt.started_at <= ATTEMPT_SECONDS:
            longest = describe_duration(ATTEMPT_SECONDS)
            raise SignInExpired(f"The sign-in took longer than {longest}.", hint=_AGAIN)
        try:
            return flow.read_answer(attempt, answer)
        except HeadraceError as error:
            if not isinstance(error, Unauthorized):
                _LOG.warning("sign-in at the issuer %s: %s", attempt.issuer, error.message)
            raise
