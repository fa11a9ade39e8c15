"""Settings of the ways to sign in: what would be unsafe is refused."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.in_process_node import make_settings

from headrace.config.auth import AuthSettings
from headrace.config.settings import Settings

LDAP = {"url": "ldaps://ldap.example.com", "user_base": "dc=example"}
HEADER = {"addresses": ["10.0.0.0/24", "2001:db8::7"], "secret_file": "/run/secret"}


def ldap(**changes: Any) -> AuthSettings:
    return AuthSettings.model_validate({"methods": ["ldap"], "ldap": LDAP | changes})


def header(**changes: Any) -> AuthSettings:
    return AuthSettings.model_validate({"methods": ["header"], "header": HEADER | changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": "ldap://ldap.example.com"}, "ldaps://host, or ldap://host with start_tls"),
        ({"start_tls": True}, "ldaps://host, or ldap://host with start_tls"),
        ({"url": "ldaps://"}, "ldaps://host"),
        ({"url": "ldapi:///run/slapd"}, "ldaps://host"),
        ({"bind_dn": "cn=reader"}, "bind_dn needs bind_password_file"),
        ({"bind_password_file": "/run/password"}, "bind_dn needs bind_password_file"),
        ({"user_filter": "(uid=ada)"}, r"user_filter contains \{name\}"),
        ({"group_filter": "(cn=etl)"}, r"group_filter contains \{dn\} or \{name\}"),
        ({"timeout": "0s"}, "above 0s and at most 1m"),
        ({"timeout": "2m"}, "above 0s and at most 1m"),
        ({"max_connections": 0}, "max_connections"),
        ({"password": "x"}, "password"),
    ],
)
def test_settings_of_a_directory_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ldap(**changes)


def test_a_directory_is_reached_by_tls_of_either_kind() -> None:
    assert ldap().ldap is not None
    started = ldap(url="ldap://ldap.example.com:1389", start_tls=True).ldap
    assert started is not None
    assert started.start_tls


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"addresses": []}, "addresses"),
        ({"addresses": ["0.0.0.0/0"]}, "a network of all addresses"),
        ({"addresses": ["10.0.0.0/24", "::/0"]}, "a network of all addresses"),
        ({"addresses": ["10.0.0.5/24"]}, "addresses"),
        ({"addresses": ["proxy.example.com"]}, "addresses"),
        ({"user_header": "X_Forwarded_User"}, "is no name of a header"),
        ({"user_header": "X-Forwarded-User\r\n"}, "is no name of a header"),
        ({"user_header": "x-headrace-proxy-secret"}, "three different ones"),
        ({"groups_header": "X-FORWARDED-USER"}, "three different ones"),
        ({"user_header": "Authorization"}, "none is Authorization"),
    ],
)
def test_settings_of_a_proxy_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        header(**changes)


def test_an_address_without_a_length_is_one_host() -> None:
    settings = header().header
    assert settings is not None
    assert [str(network) for network in settings.addresses] == ["10.0.0.0/24", "2001:db8::7/128"]


@pytest.mark.parametrize(
    "settings",
    [
        {"methods": ["ldap"]},
        {"methods": ["header"]},
        {"ldap": LDAP},
        {"header": HEADER},
    ],
)
def test_a_method_and_its_settings_belong_together(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="if, and only if"):
        AuthSettings.model_validate(settings)


@pytest.mark.parametrize("name", ["os", "ldap", "header"])
def test_an_issuer_cannot_have_the_name_of_another_source(name: str) -> None:
    """Its groups would be those of the other source."""
    issuer = {"issuer": "https://login.example.com", "audience": ["headrace"]}
    with pytest.raises(ValidationError, match="cannot be the name of an issuer"):
        AuthSettings.model_validate({"methods": ["oidc"], "oidc": {name: issuer}})


def test_the_settings_of_the_guide_are_accepted() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "share-a-server.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    methods = set()
    for block in blocks:
        settings: dict[str, Any] = tomllib.loads(block).get("auth", {})
        # A part of the guide shows the settings of an issuer only.
        settings.setdefault("methods", list(settings.keys() & {"oidc", "ldap", "header"}))
        methods |= set(AuthSettings.model_validate(settings).methods)
    assert methods == {"token", "oidc", "ldap", "header"}


def with_pages(
    home: Path, address: str | None, *, provider: str | None = "environment", **changes: Any
) -> Settings:
    issuer = {"issuer": "https://id.example.com", "audience": ["headrace"], **changes}
    return make_settings(
        home,
        auth={"methods": ["oidc"], "oidc": {"corp": issuer}},
        web={} if address is None else {"public_address": address},
        secrets={"provider": provider},
    )


@pytest.mark.parametrize(
    ("address", "changes", "message"),
    [
        (None, {"web_client_id": "pages"}, "auth.oidc.corp.web_client_id needs web.public_address"),
        (
            "https://x.example.com",
            {"web_client_secret": "${secret:pages}"},
            "web_client_secret needs web_client_id",
        ),
        (
            "https://x.example.com",
            {"web_client_id": "pages", "web_client_secret": "the secret itself"},
            r"is a reference to a secret: \$\{secret:NAME\}",
        ),
        (
            "https://x.example.com",
            {
                "web_client_id": "pages",
                "web_client_secret": "${secret:pages}",
                "provider": None,
            },
            "needs secrets.provider",
        ),
    ],
)
def test_settings_of_a_client_of_the_pages_are_refused(
    tmp_path: Path, address: str | None, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message) as refusal:
        with_pages(tmp_path, address, **changes)
    assert "the secret itself" not in refusal.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    "address",
    [
        *("", "/", "x.example.com", "//x.example.com", "ftp://x.example.com", "https://"),
        *("http://x.example.com", "https://x.example.com/?a=b", "https://x.example.com/#a"),
        *("https://u:p@x.example.com", "https://x.example.com/a/../b", "https://x.example.com//a"),
        *("https://x.example.com/ui", "https://x.example.com/a/ui/", "https://x.example.com:0"),
        *("https://x.example.com:99999", "https://[::1", "https://x.example.com/a b;c"),
        "https://x.example.com/%2e",
    ],
)
def test_an_address_that_browsers_cannot_come_back_to_is_refused(
    tmp_path: Path, address: str
) -> None:
    with pytest.raises(ValidationError, match=r"web.public_address"):
        with_pages(tmp_path, address)


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("https://x.example.com/", "https://x.example.com"),
        ("https://x.example.com:8443/a/b/", "https://x.example.com:8443/a/b"),
        ("http://127.0.0.1:8040", "http://127.0.0.1:8040"),
        ("https://[2001:db8::7]:8040/~ada", "https://[2001:db8::7]:8040/~ada"),
    ],
)
def test_an_address_of_the_pages_has_no_slash_at_its_end(
    tmp_path: Path, address: str, kept: str
) -> None:
    settings = with_pages(
        tmp_path, address, web_client_id="pages", web_client_secret="${secret:pages}"
    )
    assert settings.web.public_address == kept
