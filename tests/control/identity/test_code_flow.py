"""The authorization code flow, with answers of an issuer that a test chooses.

`frontends/web/test_sign_in_at_an_issuer.py` has a real issuer.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey
from tests.support.scripted_issuer import ISSUER, ScriptedIssuer

from headrace.config.auth import OidcSettings
from headrace.config.sections import SecretSettings
from headrace.config.settings import Settings
from headrace.control.identity import oidc
from headrace.control.identity.code_flow import CodeFlow, SignInAttempt
from headrace.control.identity.oidc import IssuerHttp
from headrace.control.secret_values import Secrets
from headrace.errors import SignInRefused, SignInUnavailable, Unauthorized

PAGES = "pages"
REDIRECT_URI = "https://tools.example.com/headrace/ui/sign-in/callback"
ENDPOINTS = {
    "authorization_endpoint": "https://id.example.com/auth?realm=data",
    "token_endpoint": "https://id.example.com/token",
}


@pytest.fixture
def issuer() -> ScriptedIssuer:
    issuer = ScriptedIssuer()
    issuer.discovered |= ENDPOINTS
    return issuer


@pytest.fixture
def attempt() -> SignInAttempt:
    return SignInAttempt.begin("corp", "statements")


def make_flow(issuer: ScriptedIssuer, **settings: Any) -> CodeFlow:
    method = issuer.make_method(web_client_id=PAGES, **settings)
    secrets = SecretSettings(provider="environment", environment_prefix="OF_TEST_")
    values = Secrets(Settings.model_construct(secrets=secrets))
    return CodeFlow(method, PAGES, REDIRECT_URI, values, cast("IssuerHttp", issuer))


def give(issuer: ScriptedIssuer, attempt: SignInAttempt, **claims: Any) -> None:
    """Let the issuer give an ID token of this sign-in, with changed claims, for the next code."""
    standard = {"aud": PAGES, "nonce": attempt.nonce}
    issuer.given = {"id_token": issuer.sign(**standard | claims), "token_type": "Bearer"}


def test_the_link_asks_for_a_code_that_only_this_sign_in_can_use(
    issuer: ScriptedIssuer, attempt: SignInAttempt
) -> None:
    parts = urlsplit(make_flow(issuer).make_link(attempt))
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "https://id.example.com/auth"
    digest = hashlib.sha256(attempt.verifier.encode()).digest()
    assert parse_qs(parts.query, strict_parsing=True) == {
        "realm": ["data"],
        "response_type": ["code"],
        "client_id": [PAGES],
        "redirect_uri": [REDIRECT_URI],
        "scope": ["openid profile groups"],
        "state": [attempt.state],
        "nonce": [attempt.nonce],
        "code_challenge": [base64.urlsafe_b64encode(digest).decode().rstrip("=")],
        "code_challenge_method": ["S256"],
    }
    assert len({attempt.text, attempt.state, attempt.nonce, attempt.verifier}) == 4
    assert attempt.verifier not in repr(attempt)


def test_a_scope_without_openid_gets_it(issuer: ScriptedIssuer, attempt: SignInAttempt) -> None:
    link = make_flow(issuer, scopes=["profile"]).make_link(attempt)
    assert "scope=openid+profile&" in link


def test_a_code_gives_the_user_of_the_id_token(
    issuer: ScriptedIssuer, attempt: SignInAttempt
) -> None:
    give(issuer, attempt)
    identity = make_flow(issuer).read_answer(attempt, {"code": "the-code"})
    assert identity[:4] == (ISSUER, "0042", "ada", {"etl", "bi"})
    assert issuer.posted == [
        (
            ENDPOINTS["token_endpoint"],
            {
                "grant_type": "authorization_code",
                "code": "the-code",
                "redirect_uri": REDIRECT_URI,
                "code_verifier": attempt.verifier,
                "client_id": PAGES,
            },
            {},
        )
    ]


@pytest.mark.parametrize(
    ("methods", "is_basic"),
    [
        (None, True),
        (["client_secret_post", "client_secret_basic"], True),
        (["client_secret_post"], False),
    ],
)
def test_the_secret_of_the_client_is_read_for_each_sign_in(
    issuer: ScriptedIssuer,
    attempt: SignInAttempt,
    monkeypatch: pytest.MonkeyPatch,
    methods: list[str] | None,
    is_basic: bool,
) -> None:
    if methods is not None:
        issuer.discovered["token_endpoint_auth_methods_supported"] = methods
    give(issuer, attempt)
    flow = make_flow(issuer, web_client_secret="${secret:pages}")
    for secret in ("first secret", "second/secret"):
        monkeypatch.setenv("OF_TEST_pages", secret)
        flow.read_answer(attempt, {"code": "x"})
        _url, fields, headers = issuer.posted[-1]
        if is_basic:
            encoded = secret.replace(" ", "%20").replace("/", "%2F")
            pair = base64.b64encode(f"{PAGES}:{encoded}".encode()).decode()
            assert headers == {"Authorization": f"Basic {pair}"}
            assert "client_id" not in fields
        else:
            assert (fields["client_id"], fields["client_secret"]) == (PAGES, secret)


def test_a_missing_secret_is_no_fault_of_the_user(
    issuer: ScriptedIssuer, attempt: SignInAttempt, caplog: pytest.LogCaptureFixture
) -> None:
    flow = make_flow(issuer, web_client_secret="${secret:missing}")
    with pytest.raises(SignInUnavailable) as refusal:
        flow.read_answer(attempt, {"code": "x"})
    assert "missing" not in refusal.value.message
    assert "${secret:missing}" in caplog.text
    assert issuer.posted == []


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": None},
        {"nonce": "0" * 64},
        {"nonce": ["0" * 64]},
        {"aud": None},
        {"aud": "headrace"},
        {"aud": ["headrace"]},
        {"aud": [PAGES, "headrace"]},
        {"aud": [PAGES, "headrace"], "azp": "headrace"},
        {"azp": "headrace"},
        {"iss": "https://id.example.com/realms/other"},
        {"iat": None},
        {"iat": 4_000_000_000},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"sub": None},
        {"groups": ["a\0b"]},
    ],
    ids=str,
)
def test_an_id_token_of_another_sign_in_client_issuer_or_time_is_refused(
    issuer: ScriptedIssuer, attempt: SignInAttempt, claims: dict[str, Any]
) -> None:
    give(issuer, attempt, **claims)
    with pytest.raises(Unauthorized) as refusal:
        make_flow(issuer).read_answer(attempt, {"code": "x"})
    assert issuer.given["id_token"].rsplit(".", 1)[1] not in refusal.value.message


@pytest.mark.parametrize(
    "claims",
    [{"aud": [PAGES]}, {"azp": PAGES}, {"aud": [PAGES, "headrace"], "azp": PAGES}],
    ids=str,
)
def test_an_id_token_may_name_its_client(
    issuer: ScriptedIssuer, attempt: SignInAttempt, claims: dict[str, Any]
) -> None:
    give(issuer, attempt, **claims)
    # It restricts the tokens that programs send.
    flow = make_flow(issuer, authorized_parties=["cli"])
    assert flow.read_answer(attempt, {"code": "x"}).name == "ada"


def test_an_id_token_that_the_issuer_has_not_signed_is_refused(
    issuer: ScriptedIssuer, attempt: SignInAttempt
) -> None:
    claims = {"aud": PAGES, "nonce": attempt.nonce}
    foreign = RSAKey.generate_key(2048, {"kid": "first"}, private=True)
    head, content, _ = issuer.sign(**claims).split(".")
    for token in (
        issuer.sign(foreign, **claims),
        f"{head}.{content}.",
        "no token",
        issuer.sign(**claims, more="x" * 17_000),
    ):
        issuer.given = {"id_token": token}
        with pytest.raises(Unauthorized):
            make_flow(issuer).read_answer(attempt, {"code": "x"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "has sent no ID token"),
        ({"id_token": None}, "has sent no ID token"),
        ({"id_token": ["a"]}, "has sent no ID token"),
        ({"error": "invalid_grant"}, "invalid_grant"),
        (
            {"error": "invalid_grant", "error_description": "the code is used"},
            "invalid_grant (the code is used).",
        ),
        ({"error": "<b>", "error_description": "a\nb"}, "an unknown error."),
        ({"error": {"a": 1}}, "an unknown error."),
    ],
    ids=str,
)
def test_what_an_issuer_gives_instead_of_an_id_token_is_an_error(
    issuer: ScriptedIssuer, attempt: SignInAttempt, given: dict[str, Any], message: str
) -> None:
    issuer.given = given
    with pytest.raises(SignInRefused) as refusal:
        make_flow(issuer).read_answer(attempt, {"code": "x"})
    assert message in refusal.value.message


@pytest.mark.parametrize("code", [None, "", "x" * 5000])
def test_an_answer_without_a_code_is_refused_before_a_call(
    issuer: ScriptedIssuer, attempt: SignInAttempt, code: str | None
) -> None:
    with pytest.raises(SignInRefused, match="no code"):
        make_flow(issuer).read_answer(attempt, {} if code is None else {"code": code})
    assert issuer.posted == []


def test_an_error_of_the_issuer_has_its_reason(
    issuer: ScriptedIssuer, attempt: SignInAttempt
) -> None:
    with pytest.raises(SignInRefused, match="access_denied"):
        make_flow(issuer).read_answer(attempt, {"error": "access_denied", "code": "x"})
    with pytest.raises(SignInUnavailable, match="temporarily_unavailable"):
        make_flow(issuer).read_answer(attempt, {"error": "temporarily_unavailable"})
    assert issuer.posted == []


@pytest.mark.parametrize(
    ("names_itself", "answer", "is_accepted"),
    [
        (False, {}, True),
        (False, {"iss": ISSUER}, True),
        (False, {"iss": "https://evil.test"}, False),
        (True, {"iss": ISSUER}, True),
        (True, {}, False),
    ],
)
def test_the_answer_of_another_issuer_gets_no_code(
    issuer: ScriptedIssuer,
    attempt: SignInAttempt,
    names_itself: bool,
    answer: dict[str, str],
    is_accepted: bool,
) -> None:
    issuer.discovered["authorization_response_iss_parameter_supported"] = names_itself
    give(issuer, attempt)
    if is_accepted:
        make_flow(issuer).read_answer(attempt, {"code": "x", **answer})
        return
    with pytest.raises(SignInRefused, match="has not sent this answer"):
        make_flow(issuer).read_answer(attempt, {"code": "x", **answer})
    assert issuer.posted == []


@pytest.mark.parametrize("endpoint", list(ENDPOINTS))
@pytest.mark.parametrize("url", [None, 7, "http://id.example.com/x", "javascript:alert(1)", ""])
def test_an_endpoint_without_tls_is_not_used(
    issuer: ScriptedIssuer, attempt: SignInAttempt, endpoint: str, url: Any
) -> None:
    issuer.discovered[endpoint] = url
    flow = make_flow(issuer)
    with pytest.raises(SignInUnavailable, match=endpoint):
        if endpoint == "token_endpoint":
            flow.read_answer(attempt, {"code": "x"})
        else:
            flow.make_link(attempt)
    assert issuer.posted == []


def test_an_issuer_that_is_away_is_not_asked_for_each_browser(
    issuer: ScriptedIssuer, attempt: SignInAttempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    # The time of other modules passes: nodes of other tests wait in their threads.
    monkeypatch.setattr(oidc, "time", SimpleNamespace(monotonic=lambda: now))
    flow = make_flow(issuer)
    issuer.is_away = True
    for _ in range(3):
        with pytest.raises(SignInUnavailable, match="does not answer"):
            flow.make_link(attempt)
    assert len(issuer.fetched) == 1
    issuer.is_away = False
    now += 3
    first = flow.make_link(attempt)
    # Its last document counts while it is away.
    issuer.is_away = True
    now += 601
    assert flow.make_link(attempt) == first
    assert flow.make_link(attempt) == first
    assert len(issuer.fetched) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text[1:],
        lambda text: text.replace(".corp.", ".Corp."),
        lambda text: text.replace(".corp.", "."),
        lambda text: text + ".",
        lambda text: text + "é",
        lambda text: text.rpartition(".")[0] + "._w",
        lambda text: text.rpartition(".")[0] + ".abcde",
        lambda text: text + "A" * 4000,
    ],
    ids=range(9),
)
def test_a_text_of_another_form_is_no_attempt(
    attempt: SignInAttempt, change: Callable[[str], str]
) -> None:
    assert SignInAttempt.read(attempt.text) == attempt
    assert SignInAttempt.read(change(attempt.text)) is None


def test_a_changed_attempt_has_another_state_nonce_and_verifier(attempt: SignInAttempt) -> None:
    longer = SignInAttempt.read(attempt.text.replace(f".{attempt.started_at}.", ".9999999999."))
    assert longer is not None
    assert longer.started_at == 9999999999
    for name in ("state", "nonce", "verifier"):
        assert getattr(longer, name) != getattr(attempt, name)


@pytest.mark.parametrize("page", ["statements?x=" + "é" * 1900, "statements?x=" + "a" * 1900])
def test_a_browser_can_keep_every_attempt(page: str) -> None:
    attempt = SignInAttempt.begin("corp", page)
    assert len(attempt.text) < 3600
    assert attempt.page in {page, ""}
    assert SignInAttempt.read(attempt.text) == attempt


@contextmanager
def serving(status: int, content: bytes) -> Iterator[str]:
    """Serve one answer to every form, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            """Write nothing to standard error."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "content", "is_answer"),
    [
        (200, b'{"a": 1}', True),
        (400, b'{"error": "invalid_grant"}', True),
        (401, b'{"error": "invalid_client"}', True),
        (400, b'{"message": "no"}', False),
        (200, b"[]", False),
        (200, b"<html>", False),
        (307, b"{}", False),
        (500, b'{"error": "x"}', False),
        (200, b'"' + b"x" * 1_100_000 + b'"', False),
    ],
    ids=range(9),
)
def test_the_answers_of_a_token_endpoint(status: int, content: bytes, is_answer: bool) -> None:
    http = IssuerHttp(OidcSettings(issuer=ISSUER, audience=[PAGES]))
    with serving(status, content) as address:
        if is_answer:
            assert http.post(address, {"a": "b"}, {})
        else:
            with pytest.raises(SignInUnavailable):
                http.post(address, {"a": "b"}, {})
    with pytest.raises(SignInUnavailable):
        http.post(address, {"a": "b"}, {})
