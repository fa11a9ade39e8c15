"""An issuer of OpenID Connect whose keys, tokens and faults a test chooses. It has no server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from joserfc import jwt
from joserfc.jwk import RSAKey

from headrace.config.auth import OidcSettings
from headrace.control.identity.oidc import IssuerKeys, OidcMethod
from headrace.errors import SignInUnavailable

ISSUER = "https://id.example.com/realms/data"
KEYS_URL = "https://id.example.com/keys"
CLIENT = "headrace"


class ScriptedIssuer:
    """An issuer that answers as `IssuerHttp` does."""

    def __init__(self) -> None:
        self.keys = [RSAKey.generate_key(2048, {"kid": "first", "use": "sig"}, private=True)]
        self.discovered: dict[str, Any] = {"issuer": ISSUER, "jwks_uri": KEYS_URL}
        self.given: dict[str, Any] = {}
        """What it gives for a code."""
        self.posted: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.is_away = False
        self.fetched: list[str] = []
        self.now = 1000.0

    def fetch(self, location: str) -> Any:
        self.fetched.append(location)
        if self.is_away:
            raise SignInUnavailable("The issuer is away.")
        if location.endswith("/openid-configuration"):
            return self.discovered
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    def post(
        self, location: str, fields: Mapping[str, str], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        self.posted.append((location, dict(fields), dict(headers)))
        if self.is_away:
            raise SignInUnavailable("The issuer is away.")
        return self.given

    def make_method(self, **settings: Any) -> OidcMethod:
        chosen = OidcSettings(issuer=ISSUER, audience=[CLIENT], **settings)
        keys = IssuerKeys(chosen, fetch=self.fetch, clock=lambda: self.now)
        return OidcMethod("corp", chosen, keys)

    def sign(self, key: Any = None, algorithm: str = "RS256", **claims: Any) -> str:
        """Return a token of Ada with changed claims; None removes a claim."""
        key = key or self.keys[0]
        now = int(time.time())
        standard = {
            "iss": ISSUER,
            "sub": "0042",
            "aud": CLIENT,
            "exp": now + 60,
            "iat": now,
            "preferred_username": "ada",
            "groups": ["etl", "bi"],
        }
        content = {name: value for name, value in (standard | claims).items() if value is not None}
        header = {"alg": algorithm, "kid": key.kid}
        return jwt.encode(header, content, key, algorithms=[algorithm])
