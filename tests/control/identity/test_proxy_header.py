"""A proxy names the users: only a listed address with the secret may do so."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.waiting import wait_until

from headrace.config.auth import HeaderSettings
from headrace.control.identity.credentials import ProxyUser
from headrace.control.identity.proxy_header import HeaderMethod
from headrace.errors import InvalidSetting, Unauthorized
from headrace.store.identity import users
from headrace.store.tables import metadata

SECRET = "0123456789abcdef0123456789abcdef"
PROXY = {"X-Headrace-Proxy-Secret": SECRET}
TOKEN = "of-the-node"


def write_secret(folder: Path, text: str = SECRET, mode: int = 0o600) -> Path:
    file = folder / "proxy.secret"
    folder.mkdir(parents=True, exist_ok=True)
    file.touch()
    file.chmod(mode)
    file.write_text(f"{text}\n")
    return file


def serve_for(folder: Path, *addresses: str, **changes: Any) -> Any:
    header = {
        "addresses": addresses or ["127.0.0.1"],
        "secret_file": write_secret(folder),
        "groups_header": "X-Forwarded-Groups",
        **changes,
    }
    auth = {
        "methods": ["token", "header"],
        "header": header,
        "roles": {"admin": ["header:admins"]},
    }
    return serve_node(make_settings(folder / "home", token=TOKEN, auth=auth))


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessNode]:
    with serve_for(tmp_path_factory.mktemp("proxied")) as node:
        yield node


def whoami(node: InProcessNode, **headers: str) -> Any:
    """Ask who calls, with headers whose names have `_` for `-`."""
    named = {name.replace("_", "-"): value.encode() for name, value in headers.items()}
    return node.http.get("/api/v1/me", headers={**PROXY, **named})


def test_a_proxy_names_the_user_and_the_groups(proxied: InProcessNode) -> None:
    ada = whoami(proxied, X_Forwarded_User="ada", X_Forwarded_Groups="etl, admins,,").json()
    assert (ada["owner"], ada["roles"]) == ("ada", ["admin", "user"])
    assert ada["groups"] == ["group:header:admins", "group:header:etl"]
    assert whoami(proxied, X_Forwarded_User="eve").json()["groups"] == []


def test_the_groups_are_those_of_the_last_request(proxied: InProcessNode) -> None:
    whoami(proxied, X_Forwarded_User="mia", X_Forwarded_Groups="admins")
    assert "admin" not in whoami(proxied, X_Forwarded_User="mia").json()["roles"]


@pytest.mark.parametrize("name", ["Zoë Å", "o'neil", "a/b", "..", "😀", "ada@example.com"])
def test_unusual_names_are_users(proxied: InProcessNode, name: str) -> None:
    answer = whoami(proxied, X_Forwarded_User=name)
    assert answer.status_code == 200
    assert "/" not in answer.json()["owner"]
    assert answer.json()["owner"] not in {"", ".."}


def test_the_case_of_a_name_makes_no_other_user(proxied: InProcessNode) -> None:
    owners = {whoami(proxied, X_Forwarded_User=name).json()["owner"] for name in ("Bob", "bob")}
    assert owners == {"bob"}


@pytest.mark.parametrize(
    "name",
    ["", "a" * 201, "ａda", "a\u200bda", "ada,bob", "ﬁ", "\u212a"],  # noqa: RUF001
)
def test_names_that_could_be_taken_for_others_are_refused(
    proxied: InProcessNode, name: str
) -> None:
    """An empty name is refused as well: the request must not become one of another caller."""
    answer = whoami(proxied, X_Forwarded_User=name)
    assert answer.status_code == 401
    assert "X-Forwarded-User" in answer.json()["detail"]


@pytest.mark.parametrize("secret", [None, "", "wrong", SECRET[:-1], SECRET + "0", "é"])
def test_a_wrong_secret_is_refused(proxied: InProcessNode, secret: str | None) -> None:
    headers = {"X-Forwarded-User": b"ada"}
    if secret is not None:
        headers["X-Headrace-Proxy-Secret"] = secret.encode()
    answer = proxied.http.get("/api/v1/me", headers=headers)
    assert answer.status_code == 401
    assert SECRET not in answer.text


@pytest.mark.parametrize("addresses", [["192.0.2.0/24"], ["127.0.0.2"], ["::1"]])
def test_a_header_from_a_foreign_address_is_refused(tmp_path: Path, addresses: list[str]) -> None:
    with serve_for(tmp_path, *addresses) as node:
        answer = whoami(node, X_Forwarded_User="ada", X_Forwarded_For="192.0.2.1")
        assert answer.status_code == 401
        assert "127.0.0.1" in answer.json()["detail"]
        # Nor does the request become one of the caller of a token.
        authorization = f"Bearer {TOKEN}"
        both = whoami(node, X_Forwarded_User="ada", Authorization=authorization)
        assert (both.status_code, both.json()["code"]) == (400, "invalid_request")
        assert whoami(node, Authorization=authorization).status_code == 200


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["X-Forwarded-User: ada"], 200),
        (["x-forwarded-user: ada"], 200),
        (["X-Forwarded-User: ada", "X-Forwarded-User: root"], 400),
        (["X-Forwarded-User: ada", "X-Forwarded-User: ada"], 400),
        (["X-Forwarded-User: ada", "X_Forwarded_User: root"], 400),
        (["X_Forwarded_User: root"], 400),
        (["X-Forwarded_User: root"], 400),
        (["X-Forwarded-User: ada", "X_Forwarded_Groups: admins"], 400),
        (["X-Forwarded-User: ada", "X-Forwarded-Groups: a", "X-Forwarded-Groups: admins"], 400),
        (["X-Forwarded-User: ada", f"X-Headrace-Proxy-Secret: {SECRET}"], 400),
        (["X-Forwarded-User: ada", "Authorization: Bearer of-the-node"], 400),
        (["Authorization: Bearer of-the-node", "Authorization: Bearer of-the-node"], 400),
        (["X-Forwarded-User: \xff\xfe"], 400),
        (["X-Forwarded-User:"], 401),
        (["X-Remote-User: ada"], 401),
        ([], 401),
    ],
)
def test_headers_that_a_caller_could_have_added_are_refused(
    proxied: InProcessNode, lines: list[str], status: int
) -> None:
    url = urlsplit(proxied.address)
    head = [
        "GET /api/v1/me HTTP/1.1",
        f"Host: {url.netloc}",
        "Connection: close",
        f"X-Headrace-Proxy-Secret: {SECRET}",
        *lines,
    ]
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode("latin-1"))
        answer = connection.makefile("rb").read()
    assert answer.split(b" ", 2)[1] == str(status).encode()


def test_without_the_method_the_header_names_no_one(tmp_path: Path) -> None:
    with serve_node(make_settings(tmp_path / "home", token=TOKEN)) as node:
        assert whoami(node, X_Forwarded_User="ada").status_code == 401
        caller = whoami(node, X_Forwarded_User="ada", Authorization=f"Bearer {TOKEN}").json()
        assert caller["owner"] != "ada"


def test_users_of_two_sources_are_never_one(proxied: InProcessNode) -> None:
    with proxied.database.write("test.sign_in") as tx:
        other = users.sign_in(tx, "ldap", "carl", name="carl", groups=["etl"])
    assert whoami(proxied, X_Forwarded_User="carl").json()["owner"] == f"{other.id}-2"


def test_a_disabled_user_is_refused(proxied: InProcessNode) -> None:
    owner = whoami(proxied, X_Forwarded_User="dora").json()["owner"]
    with proxied.database.write("test.disable") as tx:
        assert users.set_disabled(tx, owner, is_disabled=True, actor="root")
    wait_until(lambda: whoami(proxied, X_Forwarded_User="dora").status_code == 401)


def test_the_secret_is_in_no_row(proxied: InProcessNode) -> None:
    whoami(proxied, X_Forwarded_User="hugo")
    with proxied.database.read() as tx:
        rows = [str(row) for table in metadata.tables.values() for row in tx.execute(select(table))]
    assert rows
    assert all(SECRET not in row for row in rows)
    assert SECRET not in repr(ProxyUser("ada", None, SECRET, "127.0.0.1"))


@pytest.mark.parametrize(
    ("address", "is_proxy"),
    [
        ("10.0.0.7", True),
        ("::ffff:10.0.0.7", True),
        ("10.0.1.7", False),
        ("2001:db8::7", True),
        ("2001:db8::8", False),
        ("", False),
        ("proxy", False),
    ],
)
def test_a_proxy_is_known_by_the_address_of_its_connection(
    tmp_path: Path, address: str, is_proxy: bool
) -> None:
    settings = HeaderSettings.model_validate(
        {"addresses": ["10.0.0.0/24", "2001:db8::7"], "secret_file": write_secret(tmp_path)}
    )
    user = ProxyUser("ada", None, SECRET, address)
    if is_proxy:
        assert HeaderMethod(settings).identify(user).name == "ada"
    else:
        with pytest.raises(Unauthorized, match="No proxy"):
            HeaderMethod(settings).identify(user)


def test_a_user_of_too_many_groups_is_refused(tmp_path: Path) -> None:
    with serve_for(tmp_path, max_groups=2) as node:
        assert whoami(node, X_Forwarded_User="a", X_Forwarded_Groups="1,2").status_code == 200
        assert whoami(node, X_Forwarded_User="a", X_Forwarded_Groups="1,2,3").status_code == 401


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("short", 0o600, "less than 32"),
        ("", 0o600, "contains no secret"),
        (SECRET, 0o644, "Other users can read"),
        (SECRET, 0o660, "Other users can read"),
    ],
)
def test_a_secret_that_is_short_or_open_to_others_is_refused(
    tmp_path: Path, text: str, mode: int, message: str
) -> None:
    file = write_secret(tmp_path, text, mode)
    settings = HeaderSettings.model_validate({"addresses": ["10.0.0.1"], "secret_file": file})
    with pytest.raises(InvalidSetting, match=message):
        HeaderMethod(settings)


def test_a_missing_secret_is_refused(tmp_path: Path) -> None:
    settings = HeaderSettings.model_validate(
        {"addresses": ["10.0.0.1"], "secret_file": tmp_path / "none"}
    )
    with pytest.raises(InvalidSetting, match="cannot be read"):
        HeaderMethod(settings)
