"""Authentication by the token of a node."""

from __future__ import annotations

import base64
import logging
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode, make_settings

from headrace.config.settings import Settings
from headrace.control.host.home_ownership import load_or_create_token
from headrace.control.node import Node
from headrace.errors import InvalidSetting
from headrace.frontends import process
from headrace.frontends.http.refusals import AuthenticationFailures
from headrace.model.messages import LINK_PREFIX

PROTECTED = (
    ("GET", "/api/v1/statements"),
    ("POST", "/api/v1/statements"),
    ("POST", "/api/v1/sessions"),
    ("GET", "/api/v1/sessions/x/log"),
    ("GET", "/api/v1/events"),
    ("GET", "/api/v1/nodes"),
    ("POST", "/_plugins/_async_query"),
    ("GET", "/metrics"),
    ("GET", "/api/v1/nothing"),
    ("GET", "//health"),
)


@pytest.fixture
def node_with_token(start_node: StartNode) -> InProcessNode:
    return start_node(token="secret")


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", "Basic secret", "secret"]
)
def test_a_call_without_a_valid_token_gets_401_and_changes_nothing(
    node_with_token: InProcessNode, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    with node_with_token.expect_no_changes():
        for method, path in PROTECTED:
            body = {"statement": "SELECT 1"} if method == "POST" else None
            url = f"{node_with_token.address}{path}"
            response = node_with_token.http.request(method, url, json=body, headers=headers)
            assert response.status_code == 401
            if not path.startswith("/_plugins"):
                assert response.json()["code"] == "unauthorized"
            assert response.headers["www-authenticate"] == "Bearer"
            assert "secret" not in response.text


@pytest.mark.parametrize("prefix", ["/docs", LINK_PREFIX, "/health", "/ready"])
@pytest.mark.parametrize("dots", ["..", "%2e%2e", ".%2E", "..%2f.."])
def test_no_path_below_one_that_needs_no_token_leads_out_of_it(
    node_with_token: InProcessNode, prefix: str, dots: str
) -> None:
    with node_with_token.expect_no_changes():
        for depth in (1, 2, 3):
            path = "/".join([prefix, *[dots] * depth, "api/v1/statements"])
            body = b'{"statement": "SELECT 1"}'
            head = f"POST {path} HTTP/1.1\r\nHost: {urlsplit(node_with_token.address).netloc}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            answer = _answer_to(node_with_token, head + body.decode())
            assert answer.split()[1] in {b"401", b"404", b"405"}, answer


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_call_with_the_token_is_accepted_whatever_the_case_of_the_scheme(
    node_with_token: InProcessNode, scheme: str
) -> None:
    node_with_token.http.headers["Authorization"] = f"{scheme} secret"
    assert node_with_token.submit()["owner"] == LOCAL_OWNER


def test_health_and_readiness_need_no_token(node_with_token: InProcessNode) -> None:
    assert node_with_token.http.get("/health").status_code == 200
    assert node_with_token.http.get("/ready").status_code == 200


@pytest.mark.finding("S7")
def test_a_node_without_a_configured_token_requires_the_token_in_its_home(
    start_node: StartNode,
) -> None:
    node = start_node(http={"auth": True})
    file = node.node.settings.layout.token_file
    assert file.stat().st_mode & 0o777 == 0o600
    assert node.http.get("/api/v1/statements").status_code == 401
    node.http.headers["Authorization"] = f"Bearer {file.read_text()}"
    assert node.http.get("/api/v1/statements").status_code == 200


@pytest.mark.finding("S7")
def test_the_token_of_a_home_is_kept_for_the_next_node_and_made_private_again(
    tmp_path: Path,
) -> None:
    file = tmp_path / "home" / "token"
    token = load_or_create_token(file)
    assert len(token) >= 43
    file.chmod(0o644)
    assert load_or_create_token(file) == token
    assert file.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == ["token"]


@pytest.mark.parametrize("content", ["", " \n"])
def test_an_empty_token_is_replaced(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    assert len(load_or_create_token(file)) >= 43
    assert load_or_create_token(file) == file.read_text()


def test_an_empty_configured_token_does_not_open_the_node(start_node: StartNode) -> None:
    node = start_node(token="")
    assert node.http.get("/api/v1/statements").status_code == 401


_PROXY = {"tls": {"terminated_by_proxy": True}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"token": "s" * 31, "http": {"host": "192.0.2.1"}, **_PROXY},
            "31 characters.*at least 32",
        ),
        ({"token": "t", **_PROXY}, r"has 1 character\."),
        ({"token": " "}, "contains spaces or line feeds"),
        ({"token": "s" * 40 + "\n"}, "contains spaces or line feeds"),
        ({"token": "s" * 20 + " " + "s" * 20}, "contains spaces or line feeds"),
    ],
)
def test_a_node_does_not_start_with_a_token_that_can_be_guessed_or_not_be_sent(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidSetting, match=message) as error:
        process.serve(make_settings(tmp_path, **changes), embedded=False)
    assert "secrets.token_urlsafe" in str(error.value.hint)
    assert "sss" not in error.value.message


@pytest.mark.parametrize(
    "changes", [{"token": "t"}, {"token": "s" * 32, **_PROXY}, {"token": "", **_PROXY}]
)
def test_a_token_is_accepted_that_is_long_or_for_this_host_only(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    process._check_token(make_settings(tmp_path, **changes))


@pytest.mark.finding("S11")
def test_a_configured_token_is_in_no_file_of_the_home(node_with_token: InProcessNode) -> None:
    home = node_with_token.node.settings.layout
    assert "secret" not in home.node_file.read_text()
    assert not home.token_file.exists()


@pytest.mark.finding("S7")
def test_a_node_without_authentication_listens_on_loopback_only(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, http={"auth": False, "host": "0.0.0.0", "port": 0})
    with pytest.raises(InvalidSetting, match=r"--no-auth.*allow_unauthenticated"):
        process.serve(settings, embedded=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"http": {"auth": True}}, '--oauth2-bearer "$(cat'),
        ({"token": "secret"}, "HEADRACE_TOKEN"),
        ({"http": {"auth": False}}, "without a token"),
    ],
)
def test_a_node_prints_how_to_send_requests_but_never_its_token(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    changes: dict[str, object],
    expected: str,
) -> None:
    settings: Settings = make_settings(tmp_path, **changes)
    node = Node(settings, address="http://127.0.0.1:8040", embedded=False)
    process._print_access(node, settings)
    node.database.close()
    printed = capfd.readouterr().err
    assert expected in printed
    assert "http://127.0.0.1:8040" in printed
    assert node.token is None or node.token not in printed


def list_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged about authentication. Nodes of other tests may log, too."""
    return [record.message for record in caplog.records if record.name == "headrace.auth"]


@pytest.mark.finding("S17")
def test_failed_authentication_is_logged_once_with_the_address_of_the_caller(
    node_with_token: InProcessNode, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="headrace.auth"):
        for _ in range(20):
            headers = {"Authorization": "Bearer wrong"}
            node_with_token.http.get("/api/v1/statements", headers=headers)
    (line,) = list_messages(caplog)
    assert "127.0.0.1" in line
    assert "/api/v1/statements" in line
    assert "wrong" not in line


@pytest.mark.finding("S17")
def test_a_driver_with_a_wrong_token_is_logged_as_well(
    start_node: StartNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = start_node()
    session_id, _driver = node.start_session()
    with caplog.at_level(logging.WARNING, logger="headrace.auth"):
        response = node.http.post(
            f"/driver/v1/sessions/{session_id}/1/renew",
            json={},
            headers={"Authorization": "Bearer wrong"},
        )
    assert response.status_code == 401
    assert [record.name for record in caplog.records if "127.0.0.1" in record.message]


@pytest.mark.finding("S17")
def test_the_address_of_failed_authentication_cannot_be_forged(
    start_node: StartNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = start_node(token="secret")
    with caplog.at_level(logging.WARNING, logger="headrace.auth"):
        response = node.http.get("/api/v1/sessions", headers={"X-Forwarded-For": "203.0.113.7"})
    assert response.status_code == 401
    [message] = list_messages(caplog)
    assert "127.0.0.1" in message
    assert "203.0.113.7" not in message


CANARY = "canary-in-a-coal-mine"
FORMS = (CANARY, base64.b64encode(f"token:{CANARY}".encode()).decode())


def test_credentials_are_in_no_output_of_the_node(
    start_node: StartNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of a request that is refused, nor of one that fails with the credentials in reach."""
    caplog.set_level(logging.DEBUG)
    node = start_node(token=CANARY)
    known = [{"Authorization": f"Bearer {CANARY}"}, {"Authorization": f"Basic {FORMS[1]}"}]
    wrong = [{"Authorization": f"Bearer hr_{CANARY}"}, {"Authorization": f"{CANARY} x"}]
    paths = ("/api/v1/sessions", "/_plugins/_async_query/x", "/metrics", "/health", "/docs")
    answers = [
        (400, node.http.get(path, params={"access_token": CANARY}, headers=headers))
        for path in paths
        for headers in known
    ]
    answers += [(400, node.http.get("/health", params={"access_token": CANARY}))]
    answers += [(401, node.http.get(paths[0], params={"access_token": CANARY}))]
    answers += [(401, node.http.get(paths[0], headers=headers)) for headers in wrong]

    def fail(*arguments: object, **_options: object) -> None:
        raise RuntimeError(f"an error of {arguments!r}")

    monkeypatch.setattr(node.node.sessions, "page", fail)
    # The node closes a connection after such an error.
    url = f"{node.address}{paths[0]}"
    answers += [(500, httpx.get(url, headers=headers, timeout=60)) for headers in known]
    with monkeypatch.context() as patch:
        patch.setattr(node.node.authenticator, "find", fail)
        answers += [(500, httpx.get(url, headers=each, timeout=60)) for each in [*known, wrong[0]]]
    for status, answer in answers:
        assert answer.status_code == status, (answer.url, answer.text)
        assert answer.headers["x-content-type-options"] == "nosniff"
    for _, answer in answers[: len(paths) * len(known)]:
        assert "'access_token'" in answer.text

    node.node.context.audit.flush()
    outputs = {str(answer.url.path): f"{answer.headers}{answer.text}" for _, answer in answers}
    for path in ("/api/v1/events", "/api/v1/audit", "/metrics"):
        outputs[path] = node.http.get(path, headers=known[0]).text
    assert "sign_in_failed" in outputs["/api/v1/audit"]
    # The client of this test runs in the same process.
    logged = [each for each in caplog.records if each.name.partition(".")[0] not in CLIENT]
    outputs["log"] = "\n".join(map(logging.Formatter().format, logged))
    assert "an error of" in outputs["log"]
    for file in node.node.settings.layout.path.rglob("*"):
        if file.is_file():
            outputs[str(file)] = file.read_bytes().decode("latin-1")
    for name, text in outputs.items():
        assert not [form for form in FORMS if form in text], name


CLIENT = {"httpx", "httpcore"}
"""Loggers of the client of the tests."""


def test_a_node_does_not_ignore_the_methods_that_its_settings_name(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 40)
    secret.chmod(0o600)
    header = {"addresses": ["10.0.0.5"], "secret_file": str(secret)}
    auth = {"methods": ["token", "header"], "header": header}
    settings = make_settings(tmp_path / "home", http={"auth": False}, auth=auth)
    with pytest.raises(InvalidSetting, match="everyone an administrator"):
        process.serve(settings, embedded=False)


@pytest.mark.finding("S17")
def test_failed_authentication_cannot_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    failures = AuthenticationFailures(clock=lambda: now)
    with caplog.at_level(logging.WARNING, logger="headrace.auth"):
        for number in range(10_000):
            failures.record(f"10.0.{number % 256}.{number // 256}", "GET", "/a\nb" * 200, "wrong")
        logged = len(list_messages(caplog))
        assert 0 < logged <= 100
        now = 61.0
        failures.record("10.0.0.0", "GET", "/", "wrong")
    messages = list_messages(caplog)
    assert len(messages) == logged + 1
    assert f"{10_000 - logged} more" in messages[-1]
    assert all("\n" not in message for message in messages)
    assert max(map(len, messages)) < 1500


@pytest.mark.finding("S16")
def test_a_body_is_not_read_before_the_token_is_checked(node_with_token: InProcessNode) -> None:
    node_with_token.http.headers["Authorization"] = "Bearer secret"
    session_id, _driver = node_with_token.start_session()
    host = urlsplit(node_with_token.address).netloc
    for path in ("/api/v1/statements", f"/driver/v1/sessions/{session_id}/1/ended"):
        for authorization in ("", "Authorization: Bearer wrong\r\n"):
            head = (
                f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
                f"Content-Length: 1000000\r\n{authorization}\r\n"
            )
            assert _answer_to(node_with_token, head).startswith(b"HTTP/1.1 401 ")


def _answer_to(node: InProcessNode, head: str) -> bytes:
    """Send the head of a request without its body, and return the beginning of the response."""
    url = urlsplit(node.address)
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        connection.sendall(head.encode())
        return connection.recv(65536)
