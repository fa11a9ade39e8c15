"""Access tokens of OpenID Connect: which are accepted, and how the keys of an issuer are kept.

The issuer is a stand-in whose answers a test chooses. `test_oidc_provider.py` has a real one.
"""

from __future__ import annotations

import base64
import hmac
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from sqlalchemy import select
from tests.support.certificates import Authority
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.ports import reserved_port
from tests.support.scripted_issuer import CLIENT, ISSUER, KEYS_URL
from tests.support.scripted_issuer import ScriptedIssuer as Issuer

from headrace.config.auth import OidcSettings
from headrace.control.identity.oidc import OidcMethod
from headrace.errors import SignInUnavailable, Unauthorized
from headrace.store.tables import users


@pytest.fixture
def issuer() -> Issuer:
    """Return an issuer with one key."""
    return Issuer()


def test_a_token_names_the_user_by_issuer_and_subject(issuer: Issuer) -> None:
    identity = issuer.make_method().identify(issuer.sign())
    assert identity is not None
    assert identity[:4] == (ISSUER, "0042", "ada", {"etl", "bi"})
    assert identity.issued_at == pytest.approx(time.time(), abs=30)


def test_a_token_without_a_name_and_groups_has_the_subject_as_its_name(issuer: Issuer) -> None:
    identity = issuer.make_method().identify(issuer.sign(preferred_username=None, groups=None))
    assert identity is not None
    assert identity[:4] == (ISSUER, "0042", "0042", frozenset())


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other"},
        {"aud": ["other", "headrace-test"]},
        {"aud": None},
        {"exp": None},
        # Times are in seconds from now; the leeway is 60 s.
        {"exp": -90},
        {"nbf": 90},
        {"iat": 90},
        {"sub": None},
        {"sub": ""},
        {"sub": 42},
        {"sub": "x" * 256},
        {"sub": "a\0b"},
        {"groups": ["a\0b"]},
        {"groups": {"etl": True}},
        {"groups": [1]},
        {"groups": [str(number) for number in range(1001)]},
        {"preferred_username": ["ada"]},
    ],
)
def test_a_token_with_a_missing_or_wrong_claim_is_refused(
    issuer: Issuer, claims: dict[str, Any]
) -> None:
    token = issuer.sign(**from_now(claims))
    with pytest.raises(Unauthorized) as refusal:
        issuer.make_method().identify(token)
    assert token not in refusal.value.message
    assert token.rsplit(".", 1)[1] not in refusal.value.message


@pytest.mark.parametrize(
    "claims", [{"aud": [CLIENT, "other"]}, {"exp": -30}, {"iat": 30}, {"nbf": 30}]
)
def test_one_of_several_audiences_and_a_clock_that_is_slow_are_accepted(
    issuer: Issuer, claims: dict[str, Any]
) -> None:
    assert issuer.make_method().identify(issuer.sign(**from_now(claims))) is not None


def from_now(claims: dict[str, Any]) -> dict[str, Any]:
    """Return claims in which the times, which are seconds from now, are those of a token."""
    now = int(time.time())
    times = {
        name: now + seconds
        for name, seconds in claims.items()
        if name in {"exp", "nbf", "iat"} and seconds is not None
    }
    return claims | times


@pytest.fixture
def served(issuer: Issuer, tmp_path: Path) -> Iterator[InProcessNode]:
    """Serve a node that accepts the tokens of the issuer."""
    auth = {"methods": ["oidc"], "oidc": {"corp": {"issuer": ISSUER, "audience": [CLIENT]}}}
    with serve_node(make_settings(tmp_path / "home", token="of-the-node", auth=auth)) as node:
        node.node.authenticator._issuers = [issuer.make_method()]
        yield node


def whoami(node: InProcessNode, token: str) -> httpx.Response:
    return node.http.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})


def read_users(node: InProcessNode) -> list[Any]:
    with node.database.read() as tx:
        return list(tx.execute(select(users).order_by(users.c.id)))


@pytest.mark.parametrize(
    "name",
    ["a" * 300, "a/b", "../ada", "ada lovelace ", "\U0001f600", ""],
    ids=lambda name: ascii(name)[:30],
)
def test_unusual_names_of_an_issuer_are_users_with_ids_that_can_be_in_a_path(
    issuer: Issuer, served: InProcessNode, name: str
) -> None:
    answer = whoami(served, issuer.sign(sub=f"of {name}"[:255], preferred_username=name))
    assert answer.status_code == 200
    owner = answer.json()["owner"]
    assert owner
    assert len(owner) <= 200
    assert "/" not in owner
    (user,) = [each for each in read_users(served) if each.id == owner]
    assert user.name == name[:200]


def test_a_token_that_is_refused_creates_no_user(issuer: Issuer, served: InProcessNode) -> None:
    before = read_users(served)
    unsigned = issuer.sign().rpartition(".")[0] + "."
    foreign = issuer.sign(RSAKey.generate_key(2048, {"kid": "first"}, private=True))
    expired, other = issuer.sign(**from_now({"exp": -90})), issuer.sign(aud="other")
    for token in (unsigned, foreign, expired, other, issuer.sign(preferred_username="a\0b")):
        assert whoami(served, token).status_code == 401
    assert read_users(served) == before
    # The same users with a valid token.
    assert whoami(served, issuer.sign()).json()["owner"] == "ada"
    assert len(read_users(served)) == len(before) + 1


def test_a_node_starts_while_its_issuer_is_away(issuer: Issuer, tmp_path: Path) -> None:
    with reserved_port() as port:
        address = f"http://127.0.0.1:{port}"
        auth = {
            "methods": ["token", "oidc"],
            "oidc": {"corp": {"issuer": address, "audience": [CLIENT]}},
        }
        with serve_node(make_settings(tmp_path / "home", token="of-the-node", auth=auth)) as node:
            before = read_users(node)
            answer = whoami(node, issuer.sign(iss=address))
            assert (answer.status_code, answer.json()["code"]) == (503, "sign_in_unavailable")
            assert whoami(node, "of-the-node").status_code == 200
            assert read_users(node) == before


@pytest.mark.parametrize("wrong", [None, "host", "authority", "time"])
def test_the_certificate_of_an_issuer_is_verified(
    issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: str | None
) -> None:
    authority, foreign = Authority(tmp_path / "own"), Authority(tmp_path / "foreign")
    pair = authority.issue(
        "issuer",
        "127.0.0.2" if wrong == "host" else "127.0.0.1",
        ends=timedelta(hours=-1 if wrong == "time" else 1),
    )
    requests = []

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            content = json.dumps(issuer.fetch(KEYS_URL)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            """Write nothing to standard error."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    with HTTPServer(("127.0.0.1", 0), Keys) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        settings = OidcSettings(
            issuer=ISSUER,
            audience=[CLIENT],
            jwks_url=f"https://127.0.0.1:{server.server_port}/keys",
            ca=foreign.ca if wrong == "authority" else authority.ca,
        )
        method = OidcMethod("corp", settings)
        try:
            if wrong is None:
                assert method.identify(issuer.sign()) is not None
            else:
                with pytest.raises(SignInUnavailable):
                    method.identify(issuer.sign())
        finally:
            server.shutdown()
            thread.join()
    assert requests == ([] if wrong else ["/keys"])
    assert ("certificate verify failed" in caplog.text.lower()) == (wrong is not None)


@pytest.mark.parametrize(
    "issuer_of_token", [None, "https://id.example.com/realms", ISSUER + "/", ISSUER.upper(), 7]
)
def test_a_token_of_another_issuer_is_left_to_other_methods(
    issuer: Issuer, issuer_of_token: object
) -> None:
    assert issuer.make_method().identify(issuer.sign(iss=issuer_of_token)) is None
    assert issuer.fetched == []


@pytest.mark.parametrize(
    "text", ["", "a", "a.b.c", "....", "é.é.é", "hr_" + "0" * 32 + "_x", "e30.e30.e30"]
)
def test_a_text_that_is_no_token_is_left_to_other_methods(issuer: Issuer, text: str) -> None:
    assert issuer.make_method().identify(text) is None


def _encode(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def test_a_token_without_a_signature_is_refused(issuer: Issuer) -> None:
    _, claims, signature = issuer.sign().split(".")
    for text in (
        f"{_encode({'alg': 'none'})}.{claims}.",
        f"{_encode({'alg': 'none', 'kid': 'first'})}.{claims}.{signature}",
        f"{_encode({'alg': 'RS256', 'kid': 'first'})}.{claims}.",
    ):
        with pytest.raises(Unauthorized):
            issuer.make_method().identify(text)


def _is_refused(method: OidcMethod, token: str) -> bool:
    """Return whether no one signs in with a token, with or without an error."""
    try:
        return method.identify(token) is None
    except Unauthorized:
        return True


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "RS256", "crit": None},
        {"alg": "RS256", "crit": 5},
        {"alg": "RS256", "crit": [[]]},
        {"alg": ["RS256"]},
        {"alg": "RS256", "kid": 5},
        ["alg"],
        "alg",
    ],
    ids=str,
)
def test_a_header_of_another_form_is_refused(issuer: Issuer, header: Any) -> None:
    _head, content, signature = issuer.sign().split(".")
    forged = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    with suppress(Unauthorized):
        assert issuer.make_method().identify(f"{forged}.{content}.{signature}") is None


@pytest.mark.parametrize(
    "odd",
    [
        {"kty": "EC", "crv": "P-0", "x": "a", "y": "b"},
        {"kty": "new"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {},
        "key",
        None,
    ],
    ids=str,
)
def test_a_key_that_cannot_be_used_does_not_disable_the_others(issuer: Issuer, odd: Any) -> None:
    """RFC 7517, section 5."""
    listed = issuer.fetch(KEYS_URL)["keys"]
    issuer.fetch = lambda location: (  # type: ignore[method-assign]
        issuer.discovered if location != KEYS_URL else {"keys": [odd, *listed]}
    )
    assert issuer.make_method().identify(issuer.sign()) is not None


def test_the_public_key_is_no_shared_secret(issuer: Issuer) -> None:
    _, claims, _ = issuer.sign().split(".")
    signed = f"{_encode({'alg': 'HS256', 'kid': 'first'})}.{claims}"
    for form in (issuer.keys[0].as_pem(private=False), issuer.keys[0].as_der(private=False), b""):
        digest = hmac.digest(form, signed.encode(), "sha256")
        signature = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        assert _is_refused(issuer.make_method(), f"{signed}.{signature}")


def test_a_key_in_the_token_is_ignored(issuer: Issuer) -> None:
    own = RSAKey.generate_key(2048, {"kid": "first"}, private=True)
    _, claims, _ = issuer.sign().split(".")
    content = json.loads(_decode(claims))
    public = own.as_dict(private=False)
    for more in ({}, {"jwk": public}, {"jku": KEYS_URL}, {"x5u": KEYS_URL}):
        forged = jwt.encode({"alg": "RS256", "kid": "first", **more}, content, own)
        assert _is_refused(issuer.make_method(), forged)


def _decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_a_signature_that_the_settings_do_not_list_is_refused(issuer: Issuer) -> None:
    issuer.keys.append(ECKey.generate_key("P-384", {"kid": "second"}, private=True))
    token = issuer.sign(issuer.keys[1], "ES384")
    with pytest.raises(Unauthorized):
        issuer.make_method().identify(token)
    assert issuer.make_method(algorithms=["ES384"]).identify(token) is not None


def test_only_tokens_of_listed_clients_are_accepted(issuer: Issuer) -> None:
    method = issuer.make_method(authorized_parties=["cli"])
    assert method.identify(issuer.sign(azp="cli")) is not None
    assert method.identify(issuer.sign(client_id="cli")) is not None
    for party in ({}, {"azp": "web"}, {"azp": "web", "client_id": "cli"}, {"azp": ["cli"]}):
        with pytest.raises(Unauthorized, match="client"):
            method.identify(issuer.sign(**party))


def test_a_new_key_is_fetched_once_and_a_removed_one_dies(issuer: Issuer) -> None:
    method = issuer.make_method()
    old = issuer.sign()
    assert method.identify(old) is not None
    issuer.keys = [RSAKey.generate_key(2048, {"kid": "second"}, private=True)]
    issuer.now += 31
    assert method.identify(issuer.sign()) is not None
    with pytest.raises(Unauthorized, match="key of today"):
        method.identify(old)
    assert issuer.fetched.count(KEYS_URL) == 2


def test_tokens_with_unknown_keys_cause_one_fetch_in_half_a_minute(issuer: Issuer) -> None:
    method = issuer.make_method()
    assert method.identify(issuer.sign()) is not None
    issuer.now += 31
    for number in range(50):
        key = RSAKey.import_key(issuer.keys[0].as_dict(private=True) | {"kid": f"k{number}"})
        with pytest.raises(Unauthorized):
            method.identify(issuer.sign(key))
    assert issuer.fetched.count(KEYS_URL) == 2


def test_known_keys_stay_valid_while_the_issuer_is_away(issuer: Issuer) -> None:
    method = issuer.make_method()
    assert method.identify(issuer.sign()) is not None
    issuer.is_away = True
    for _ in range(3):
        issuer.now += 601
        assert method.identify(issuer.sign()) is not None


def test_without_keys_a_sign_in_is_not_possible_and_is_tried_again(issuer: Issuer) -> None:
    issuer.is_away = True
    method = issuer.make_method()
    for _ in range(3):
        with pytest.raises(SignInUnavailable):
            method.identify(issuer.sign())
    assert len(issuer.fetched) == 1
    issuer.is_away = False
    issuer.now += 31
    assert method.identify(issuer.sign()) is not None


@pytest.mark.parametrize(
    "discovered",
    [{}, {"issuer": ISSUER}, {"issuer": ISSUER + "x", "jwks_uri": KEYS_URL}, [], "text"],
)
def test_a_discovery_document_of_another_issuer_is_not_believed(
    issuer: Issuer, discovered: Any
) -> None:
    issuer.discovered = discovered
    with pytest.raises(SignInUnavailable):
        issuer.make_method().identify(issuer.sign())
    assert KEYS_URL not in issuer.fetched


def test_an_issuer_needs_tls_and_an_audience() -> None:
    for values in (
        {"issuer": "http://id.example.com", "audience": [CLIENT]},
        {"issuer": "id.example.com", "audience": [CLIENT]},
        {"issuer": ISSUER, "audience": []},
        {"issuer": ISSUER},
        {"issuer": ISSUER, "audience": [CLIENT], "algorithms": ["HS256"]},
        {"issuer": ISSUER, "audience": [CLIENT], "algorithms": ["none"]},
    ):
        with pytest.raises(ValueError, match="validation error"):
            OidcSettings.model_validate(values)
    assert OidcSettings(issuer="http://localhost:3000", audience=[CLIENT]).leeway.seconds == 60
