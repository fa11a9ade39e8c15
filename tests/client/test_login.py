"""The device flow, with a real issuer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.oidc_provider import SCOPES, Issuer, running_issuer

from headrace.client.login import DeviceCode, renew, revoke, sign_in
from headrace.errors import SignInUnavailable, Unauthorized

pytestmark = pytest.mark.oidc


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer")) as running:
        yield running


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask soon again whether the user has signed in."""
    monkeypatch.setattr("headrace.client.login._INTERVAL", 0.1)


def test_a_user_signs_in_and_the_login_is_renewed_until_it_is_revoked(issuer: Issuer) -> None:
    login = issuer.sign_in("ada")
    renewed = renew(login)
    assert renewed.access_token != login.access_token
    assert renewed.is_fresh
    revoke(renewed)
    with pytest.raises(Unauthorized, match="invalid_grant"):
        renew(renewed)


def test_who_refuses_a_code_does_not_sign_in(issuer: Issuer) -> None:
    def show(code: DeviceCode) -> None:
        issuer.refuse(code.complete_url or "")

    with pytest.raises(Unauthorized, match="was refused"):
        sign_in(issuer.url, "headrace", SCOPES, {}, show)


def test_an_unknown_client_cannot_sign_in(issuer: Issuer) -> None:
    with pytest.raises(SignInUnavailable, match="invalid_client"):
        sign_in(issuer.url, "unknown", SCOPES, {}, lambda _code: None)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://login.example.com", "has no TLS"),
        ("http://127.0.0.1:1", "does not answer"),
    ],
)
def test_an_issuer_that_cannot_be_used_is_named(address: str, message: str) -> None:
    with pytest.raises(SignInUnavailable, match=message):
        sign_in(address, "headrace", SCOPES, {}, lambda _code: None)


def test_another_server_is_no_issuer(issuer: Issuer) -> None:
    with pytest.raises(SignInUnavailable, match="is not an issuer"):
        sign_in(issuer.url.replace("127.0.0.1", "localhost"), "x", SCOPES, {}, lambda _code: None)
