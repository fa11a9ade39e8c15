"""Sign in at an issuer of OpenID Connect by the device flow (RFC 8628); renew and end the login."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from headrace.client.transport import Endpoint, HttpRequest, Transport
from headrace.errors import NodeUnreachable, SignInUnavailable, Unauthorized

Json = dict[str, Any]
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_TIMEOUT = 10.0
_MARGIN = 30.0
"""Seconds before the end of an access token at which it is renewed."""
_INTERVAL = 5.0
"""Seconds between two questions whether the user has signed in, unless the issuer names others."""
_SHORTEST_INTERVAL = 0.1
_CODE_SECONDS = 600.0
"""Seconds for which a code is valid, unless the issuer names others."""
_DEFAULT_LIFETIME = 300.0
"""Seconds for which an access token is valid if the issuer does not say it."""
_FORM = "application/x-www-form-urlencoded"
_SIGN_IN_AGAIN = "sign in again: headrace login"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What an issuer has given to a user for one server."""

    issuer: str
    client_id: str
    token_url: str
    revocation_url: str | None = None
    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float
    """Unix time at which the access token expires."""

    @property
    def is_fresh(self) -> bool:
        """Whether the access token can be used for a while."""
        return time.time() < self.expires_at - _MARGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """What a user needs to sign in with a browser."""

    user_code: str
    url: str
    """Page on which the user enters the code."""
    complete_url: str | None
    """Page that contains the code already."""


def sign_in(
    issuer: str,
    client_id: str,
    scopes: list[str],
    parameters: Mapping[str, str],
    show: Callable[[DeviceCode], None],
) -> Login:
    """Let the user sign in with a browser on any device. Wait for it, and return the login.

    Args:
        parameters: Further parameters of the request that the issuer needs.
        show: Receives what the user needs.

    Raises:
        Unauthorized: The user has refused, or has taken too long.
        SignInUnavailable: The issuer does not answer, or has no device flow.
    """
    document = _discover(issuer)
    device_url = document.get("device_authorization_endpoint")
    if not isinstance(device_url, str):
        raise SignInUnavailable(f"The issuer {issuer} offers no sign-in with a device code.")
    given = _post(
        device_url, {**parameters, "client_id": client_id, "scope": " ".join(scopes)}
    ).require("device_code", "user_code", "verification_uri")
    show(
        DeviceCode(
            user_code=given["user_code"],
            url=given["verification_uri"],
            complete_url=given.get("verification_uri_complete"),
        )
    )
    fields = {
        "grant_type": _DEVICE_GRANT,
        "device_code": given["device_code"],
        "client_id": client_id,
    }
    pause = max(_read_seconds(given, "interval", _INTERVAL), _SHORTEST_INTERVAL)
    deadline = time.monotonic() + _read_seconds(given, "expires_in", _CODE_SECONDS)
    while time.monotonic() < deadline:
        time.sleep(pause)  # the issuer sends nothing: RFC 8628, section 3.4, has only questions
        try:
            answer = _post(document["token_endpoint"], fields)
        except SignInUnavailable:
            pause *= 2  # RFC 8628, section 3.5
            continue
        if answer.error is None:
            return _to_login(issuer, client_id, document, answer)
        if answer.error == "slow_down":
            pause += 5.0
        elif answer.error == "access_denied":
            raise Unauthorized("The sign-in was refused.", hint=_SIGN_IN_AGAIN)
        elif answer.error != "authorization_pending":
            break
    raise Unauthorized("The sign-in has taken too long.", hint=_SIGN_IN_AGAIN)


def revoke(login: Login) -> None:
    """Tell the issuer that a login has ended (RFC 7009). Raises SignInUnavailable."""
    if login.revocation_url is not None and login.refresh_token is not None:
        _post(login.revocation_url, {"token": login.refresh_token, "client_id": login.client_id})


def renew(login: Login) -> Login:
    """Return a login with a new access token, for one whose access token expires.

    Raises:
        Unauthorized: The issuer does not renew it.
        SignInUnavailable: The issuer does not answer.
    """
    if login.refresh_token is None:
        raise Unauthorized("The sign-in has expired.", hint=_SIGN_IN_AGAIN)
    fields = {
        "grant_type": "refresh_token",
        "refresh_token": login.refresh_token,
        "client_id": login.client_id,
    }
    answer = _post(login.token_url, fields)
    if answer.error is not None:
        raise Unauthorized(f"The sign-in has ended: {answer.error}.", hint=_SIGN_IN_AGAIN)
    endpoints = {"token_endpoint": login.token_url, "revocation_endpoint": login.revocation_url}
    return _to_login(login.issuer, login.client_id, endpoints, answer, login.refresh_token)


class _Answer(Json):
    """The JSON object that an issuer has answered."""

    @property
    def error(self) -> str | None:
        """Code of an error (RFC 6749, section 5.2)."""
        code = self.get("error")
        return None if code is None else str(code)

    def require(self, *names: str) -> _Answer:
        """Return itself. Raise SignInUnavailable if it has an error, or a field is missing."""
        if self.error is not None:
            detail = self.get("error_description", "without a reason")
            raise SignInUnavailable(f"The issuer refuses the sign-in: {self.error}: {detail}.")
        missing = [name for name in names if not isinstance(self.get(name), str)]
        if missing:
            raise SignInUnavailable(f"The answer of the issuer has no {missing[0]}.")
        return self


def _to_login(
    issuer: str,
    client_id: str,
    endpoints: Mapping[str, Any],
    answer: _Answer,
    refresh_token: str | None = None,
) -> Login:
    """Return the login of an answer. Without a new refresh token, the last one stays valid."""
    answer.require("access_token")
    return Login(
        issuer=issuer,
        client_id=client_id,
        token_url=endpoints["token_endpoint"],
        revocation_url=endpoints.get("revocation_endpoint"),
        access_token=answer["access_token"],
        refresh_token=answer.get("refresh_token") or refresh_token,
        expires_at=time.time() + _read_seconds(answer, "expires_in", _DEFAULT_LIFETIME),
    )


def _read_seconds(answer: Mapping[str, Any], name: str, default: float) -> float:
    """Return a length of time of an answer; the default for anything that is none."""
    value = answer.get(name)
    is_time = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return float(value) if is_time else default  # type: ignore[arg-type]


def _discover(issuer: str) -> Json:
    """Return the document that names the addresses of an issuer."""
    document = _send(f"{issuer.rstrip('/')}/.well-known/openid-configuration", None)
    if document.get("issuer") != issuer or not isinstance(document.get("token_endpoint"), str):
        raise SignInUnavailable(f"{issuer} is not an issuer of OpenID Connect.")
    return document


def _post(url: str, fields: Mapping[str, str]) -> _Answer:
    return _send(url, urlencode(fields).encode())


def _send(url: str, body: bytes | None) -> _Answer:
    """Send a request to an issuer. An answer with an error of OAuth is returned."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
        raise SignInUnavailable(f"{url} has no TLS. A token is not sent there.")
    request = HttpRequest(
        method="GET" if body is None else "POST",
        path=f"{parts.path}?{parts.query}" if parts.query else parts.path,
        body=body,
        headers={"Accept": "application/json", "Content-Type": _FORM},
        timeout=_TIMEOUT,
        idempotent=body is None,
        accepts_errors=True,
    )
    transport = Transport(Endpoint(f"{parts.scheme}://{parts.netloc}"), retry_seconds=0)
    try:
        response = transport.send(request)
    except NodeUnreachable as error:
        raise SignInUnavailable(f"The issuer does not answer at {url}.") from error
    finally:
        transport.close()
    if response.status >= 500:
        raise SignInUnavailable(f"{url} answered {response.status}.")
    content = response.body
    try:
        return _Answer(json.loads(content or b"{}"))
    except (ValueError, TypeError) as error:
        raise SignInUnavailable(f"{url} did not answer JSON.") from error
