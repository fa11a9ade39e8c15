"""Web pages of other sites cannot call a node through a user's browser."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.errors import InvalidSetting
from headrace.frontends.http.browser_rules import read_origins

pytestmark = pytest.mark.finding("S7")

PROXIED = ["sql.example.com", "sql.example.com:8443"]


def cancel(node: InProcessNode, statement_id: str, headers: dict[str, str]) -> httpx.Response:
    """Send a cancel: a POST without a body, which every web page can send with a form."""
    return node.http.post(f"/api/v1/statements/{statement_id}/cancel", headers=headers)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "localhost:1", "127.0.0.1.evil.example:{port}"]
)
def test_a_name_that_was_rebound_to_the_address_of_the_node_gets_421(
    node: InProcessNode, host: str
) -> None:
    host = host.format(port=urlsplit(node.address).port)
    with node.expect_no_changes():
        for method, path, body in (
            ("POST", "/api/v1/statements", {"statement": "SELECT 1"}),
            ("GET", "/api/v1/statements", None),
            ("GET", "/health", None),
            ("GET", "/api/v1/statements/", None),
        ):
            response = node.http.request(method, path, json=body, headers={"Host": host})
            assert (response.status_code, response.json()["code"]) == (421, "unknown_host")
            assert "allowed_hosts" in response.json()["hint"]


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
def test_loopback_names_with_the_port_of_the_node_are_served(
    node: InProcessNode, host: str
) -> None:
    headers = {"Host": host.format(port=urlsplit(node.address).port)}
    assert node.http.get("/api/v1/statements", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    ],
)
def test_a_post_without_a_body_from_another_site_gets_403_and_cancels_nothing(
    node: InProcessNode, headers: dict[str, str]
) -> None:
    session_id, _driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    response = cancel(node, statement_id, headers)
    assert (response.status_code, response.json()["code"]) == (403, "foreign_origin")
    assert node.statement(statement_id)["state"] == "waiting"


def test_pages_of_the_node_and_programs_without_the_headers_are_served(node: InProcessNode) -> None:
    for headers in ({"Origin": node.address, "Sec-Fetch-Site": "same-origin"}, {}):
        session_id, _driver = node.start_session()
        statement_id = node.submit(session=session_id)["id"]
        assert cancel(node, statement_id, headers).status_code == 202


def test_the_host_of_a_reverse_proxy_is_served_once_the_settings_name_it(
    start_node: StartNode,
) -> None:
    node = start_node(http={"allowed_hosts": PROXIED})
    for host in PROXIED:
        headers = {"Host": host, "Origin": f"https://{host}"}
        assert node.http.get("/api/v1/statements", headers=headers).status_code == 200
    response = node.http.get("/health", headers={"Host": "sql.example.com:9000"})
    assert response.status_code == 421


def test_drivers_reach_the_node_at_its_advertised_address_only(start_node: StartNode) -> None:
    node = start_node()
    session_id, driver = node.start_session()
    path = f"/driver/v1/sessions/{session_id}/{driver.bootstrap.epoch}/renew"
    headers = {"Authorization": f"Bearer {driver.bootstrap.token}"}

    def renew(**more: str) -> int:
        return node.http.post(path, json={}, headers=headers | more).status_code

    assert renew() == 200
    assert renew(Host="evil.example") == 421
    assert renew(Origin="https://evil.example") == 403


def test_a_path_with_a_slash_at_its_end_gets_404_and_no_redirect(node: InProcessNode) -> None:
    response = node.http.get("/api/v1/statements/", headers={"X-Forwarded-Host": "evil.example"})
    assert response.status_code == 404
    assert "location" not in response.headers


APP = "https://app.example.com"


def test_a_page_of_an_allowed_origin_calls_the_node_as_its_browser_does(
    start_node: StartNode,
) -> None:
    node = start_node(http={"allowed_origins": [f"{APP}:443"]})
    cross_site = {"Origin": APP, "Sec-Fetch-Site": "cross-site"}
    preflight = {
        **cross_site,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
    }
    asked = node.http.options("/api/v1/statements", headers=preflight)
    submitted = node.http.post(
        "/api/v1/statements", json={"statement": "SELECT 1"}, headers=cross_site
    )
    missing = node.http.get("/api/v1/statements/st_none", headers=cross_site)

    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == APP
    assert "Authorization" in asked.headers["access-control-allow-headers"]
    for response, status in ((submitted, 201), (missing, 404)):
        assert response.status_code == status
        assert response.headers["access-control-allow-origin"] == APP
        assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://app.example.com"},
        {"Origin": f"{APP}:8443"},
        {"Origin": "https://app.example.com.evil.example"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_pages_of_other_origins_are_refused_and_the_hint_leads_to_the_setting(
    start_node: StartNode, headers: dict[str, str]
) -> None:
    node = start_node(http={"allowed_origins": [APP]})
    response = node.http.get("/api/v1/statements", headers=headers)
    assert (response.status_code, response.json()["code"]) == (403, "foreign_origin")
    assert "access-control-allow-origin" not in response.headers
    if "Origin" in headers:
        assert "http.allowed_origins" in response.json()["hint"]


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://App.Example.com", "https://app.example.com"),
        ("https://app.example.com:443", "https://app.example.com"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://[::1]:80", "http://[::1]"),
    ],
)
def test_an_allowed_origin_has_the_form_that_browsers_send(text: str, origin: str) -> None:
    assert read_origins([text]) == [origin]


@pytest.mark.parametrize(
    "text", ["*", "null", "app.example.com", "https://", "https://a/path", "ftp://a", "https://*.a"]
)
def test_a_setting_that_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="is not an origin"):
        read_origins([text])
