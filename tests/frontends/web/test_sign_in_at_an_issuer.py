"""Browsers sign in at a real issuer, through a proxy with a path, at the nodes of a cluster."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc.jws import extract_compact
from playwright.sync_api import Browser as Chromium
from sqlalchemy import select
from tests.support.browsers import Browser, Page
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.oidc_provider import CLIENT_SECRET, Issuer, running_issuer
from tests.support.prefix_proxy import PrefixProxy, running_proxy
from tests.support.waiting import wait_until

from headrace.config.auth import Role
from headrace.control.identity.code_flow import SignInAttempt
from headrace.control.identity.credentials import BrowserToken
from headrace.model.identity import ApiToken
from headrace.store.identity import tokens
from headrace.store.tables import audit as audit_table

pytestmark = pytest.mark.oidc

TOKEN = "of-the-node"
AXE = Path(".tools/axe/node_modules/axe-core/axe.min.js")
FROM_OTHER_SITE = {
    "Sec-Fetch-Site": "cross-site",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
}
"""What browsers send when an issuer leads them to a page."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[PrefixProxy]:
    with running_proxy("/a/b") as running:
        yield running


@pytest.fixture(scope="module")
def issuer(proxy: PrefixProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    uri = f"{proxy.url}/ui/sign-in/callback"
    folder = tmp_path_factory.mktemp("issuer")
    # Its tokens expire long before the sign-in of a browser, and not while a page is opened.
    with running_issuer(folder, seconds=10, redirect_uris=[uri]) as running:
        yield running


@contextmanager
def serve_pages(
    issuer: Issuer, proxy: PrefixProxy, home: Path, *, store: str | None = None, **settings: Any
) -> Iterator[InProcessNode]:
    """Serve a node whose pages offer the sign-in at the issuer, with further settings of it."""
    own = {"issuer": issuer.url, "audience": ["headrace"], "web_client_id": "pages", **settings}
    auth = {
        "methods": ["token", "oidc"],
        "oidc": {"corp": own},
        "roles": {"admin": ["corp:admins"], "user": ["corp:people"]},
    }
    made = make_settings(
        home,
        token=TOKEN,
        auth=auth,
        store={"url": store},
        web={"public_address": proxy.url},
        secrets={"provider": "environment", "environment_prefix": "OF_TEST_"},
    )
    with serve_node(made) as node:
        proxy.target = node.address
        yield node


@pytest.fixture(scope="module")
def served(
    issuer: Issuer, proxy: PrefixProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InProcessNode]:
    with serve_pages(issuer, proxy, tmp_path_factory.mktemp("served") / "home") as node:
        yield node


@pytest.fixture
def node(served: InProcessNode, proxy: PrefixProxy) -> InProcessNode:
    proxy.target = served.address
    return served


@pytest.fixture
def browser(node: InProcessNode, proxy: PrefixProxy) -> Iterator[Browser]:
    with Browser(proxy.url) as browser:
        yield browser


def find_link(page: Page) -> str:
    """Return where the button of the issuer leads."""
    [link] = [each for each in page.links if "sign-in/oidc" in each]
    return link


def come_back(browser: Browser, issuer: Issuer, link: str = "statements", name: str = "ada") -> str:
    """Open a page, sign in at the issuer, and return the address to which it sends the browser."""
    begun = browser.http.get(find_link(browser.open(link)))
    assert begun.status_code == 303, begun.text
    return issuer.fill_in(browser.http, begun, name).headers["location"]


def finish(browser: Browser, address: str) -> Page:
    return browser.open(address, headers=FROM_OTHER_SITE)


@pytest.mark.parametrize("link", ["statements", "statements?state=failed&owner=all", "nodes"])
def test_a_link_leads_to_its_page_after_the_sign_in(
    browser: Browser, issuer: Issuer, proxy: PrefixProxy, link: str
) -> None:
    page = finish(browser, come_back(browser, issuer, link))
    assert page.response.status_code == 200
    assert str(page.response.url) == f"{proxy.url}/ui/{link}"
    assert "corp:ada" in page.text
    # The issuer keeps its own cookies: those of the pages are one, of their folder.
    cookies = [(each.name, each.path) for each in browser.http.cookies.jar]
    own = [each for each in cookies if each[0].startswith("headrace")]
    assert own == [(browser.cookie_name, "/a/b/ui")]
    assert browser.submit(page, "sign-out").response.url.path == "/a/b/ui/sign-in"
    assert browser.open("statements").response.url.path == "/a/b/ui/sign-in"


def test_a_sign_in_that_one_node_begins_ends_at_another(
    issuer: Issuer, proxy: PrefixProxy, tmp_path: Path, postgres_url: str
) -> None:
    with (
        serve_pages(issuer, proxy, tmp_path / "one", store=postgres_url) as one,
        serve_pages(issuer, proxy, tmp_path / "two", store=postgres_url) as two,
        Browser(proxy.url) as browser,
    ):
        proxy.target = one.address
        address = come_back(browser, issuer, "nodes")
        proxy.target = two.address
        assert finish(browser, address).response.url.path == "/a/b/ui/nodes"
        proxy.target = one.address
        assert "corp:ada" in browser.open("statements").text


def test_two_tabs_can_sign_in_at_once(browser: Browser, issuer: Issuer) -> None:
    first, second = (browser.http.get(find_link(browser.open(page))) for page in ("jobs", "nodes"))
    answers = [issuer.fill_in(browser.http, each, "ada") for each in (second, first)]
    for answer, page in zip(answers, ("nodes", "jobs"), strict=True):
        landed = finish(browser, answer.headers["location"])
        assert (landed.response.status_code, landed.response.url.path[8:]) == (200, page)


def test_sign_ins_that_a_browser_has_not_finished_are_few(browser: Browser) -> None:
    for _ in range(12):
        browser.http.get("sign-in/oidc?issuer=corp")
    assert len(browser.http.cookies.jar) == 5


def test_odd_cookies_of_other_programs_do_no_harm(browser: Browser) -> None:
    attempt = SignInAttempt.begin("corp", "nodes")
    odd = "; ".join(f"headrace_attempt_({number}={attempt.text}" for number in range(9))
    response = browser.http.get("sign-in/oidc?issuer=corp", headers={"Cookie": odd})
    assert response.status_code == 303
    headers = {"Cookie": f"headrace_attempt_(={attempt.text}"} | FROM_OTHER_SITE
    response = browser.http.get("sign-in/callback?state=(&code=x", headers=headers)
    assert response.status_code == 401


def test_the_sign_in_lasts_longer_than_the_id_token(
    browser: Browser, issuer: Issuer, node: InProcessNode
) -> None:
    finish(browser, come_back(browser, issuer))
    token = read_token(node, browser)
    lifetime = (token.expires_at - token.created_at).total_seconds()
    assert lifetime == pytest.approx(12 * 3600, abs=1)


def read_token(node: InProcessNode, browser: Browser) -> ApiToken:
    """Return the token of a browser."""
    number = browser.cookie.split("_")[1]
    with node.database.read() as tx:
        token = tokens.get(tx, f"tk_{number}")
    assert token is not None
    return token


def test_a_sign_in_with_the_token_of_an_issuer_ends_with_the_token(
    browser: Browser, issuer: Issuer, node: InProcessNode
) -> None:
    jwt = issuer.service_token()
    assert "corp:service" in browser.sign_in(jwt).text
    expiry = json.loads(extract_compact(jwt.encode()).payload)["exp"]
    assert read_token(node, browser).expires_at == datetime.fromtimestamp(expiry, UTC)
    wait_until(
        lambda: browser.open("statements").response.url.path == "/a/b/ui/sign-in",
        what="the sign-in has ended",
    )
    # Within the leeway, the API accepts the token.
    headers = {"Authorization": f"Bearer {jwt}"}
    assert node.http.get("/api/v1/me", headers=headers).status_code == 200
    page = browser.submit(browser.open("sign-in"), "sign-in", secret=jwt)
    assert (page.response.status_code, find_alert(page)) == (401, True)


def find_alert(page: Page) -> bool:
    return any(values.get("role") == "alert" for _tag, values in page.tags)


def test_the_user_is_the_one_of_the_tokens_and_loses_access_when_disabled(
    browser: Browser, issuer: Issuer, node: InProcessNode
) -> None:
    finish(browser, come_back(browser, issuer, name="root"))
    caller = node.node.authenticator.identify(BrowserToken(browser.cookie))
    assert (caller.account, caller.groups, caller.roles) == (
        "corp:root",
        {"group:corp:admins"},
        {Role.ADMIN},
    )
    headers, user = {"Authorization": f"Bearer {TOKEN}"}, f"/api/v1/users/{caller.owner}"
    node.http.post(f"{user}/disable", headers=headers).raise_for_status()
    try:
        assert browser.open("statements").response.url.path == "/a/b/ui/sign-in"
        page = finish(browser, come_back(browser, issuer, name="root"))
        assert page.response.status_code == 401
        assert "An administrator has disabled this user." in page.text
        assert browser.open("statements").response.url.path == "/a/b/ui/sign-in"
    finally:
        node.http.post(f"{user}/enable", headers=headers).raise_for_status()


def test_a_group_that_the_issuer_has_removed_ends_with_the_next_sign_in(
    browser: Browser, issuer: Issuer, node: InProcessNode
) -> None:
    def read_roles() -> frozenset[Role]:
        cookie = BrowserToken(browser.cookie)
        node.node.authenticator.forget_callers()
        return node.node.authenticator.identify(cookie).roles

    issuer.set_groups(eve=["admins"])
    try:
        finish(browser, come_back(browser, issuer, name="eve"))
        assert read_roles() == {Role.ADMIN}
    finally:
        issuer.set_groups()
    with Browser(browser.address) as other:
        finish(other, come_back(other, issuer, name="eve"))
    assert read_roles() == frozenset()


@pytest.mark.parametrize("secret", ["right", "wrong", "missing"])
def test_a_client_can_have_a_secret(
    issuer: Issuer,
    proxy: PrefixProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    secret: str,
) -> None:
    if secret != "missing":
        monkeypatch.setenv("OF_TEST_pages", CLIENT_SECRET if secret == "right" else "wrong one")
    own = {"web_client_id": "pages-with-a-secret", "web_client_secret": "${secret:pages}"}
    with (
        serve_pages(issuer, proxy, tmp_path / "home", **own) as node,
        Browser(proxy.url) as browser,
    ):
        assert node.address == proxy.target
        page = finish(browser, come_back(browser, issuer))
        code = {"right": None, "wrong": "sign_in_refused", "missing": "sign_in_unavailable"}[secret]
        if code is None:
            assert "corp:ada" in page.text
        else:
            assert code in page.text
            assert find_alert(page)


def test_a_code_is_of_use_once_and_for_the_browser_that_began(
    browser: Browser,
    issuer: Issuer,
    node: InProcessNode,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setattr("headrace.frontends.http.refusals._INTERVAL_SECONDS", 0.0)
    address = come_back(browser, issuer)
    kept = {
        each.name: str(each.value)
        for each in browser.http.cookies.jar
        if each.name.startswith("headrace_attempt_")
    }
    with Browser(browser.address) as thief:
        page = finish(thief, address)
        assert (page.response.status_code, find_alert(page)) == (401, True)
        assert "sign_in_expired" in page.text
    assert "corp:ada" in finish(browser, address).text
    assert "sign_in_expired" in finish(browser, address).text
    with Browser(browser.address) as thief:
        thief.http.cookies.update(kept)
        page = finish(thief, address)
        assert "sign_in_refused" in page.text
        assert "invalid_grant" in page.text
        assert thief.cookie_name not in thief.http.cookies
        # The forms of this page still work.
        assert page.hidden["page"] == "statements"
        landed = thief.submit(page, "sign-in", secret=TOKEN)
        assert landed.response.url.path == "/a/b/ui/statements"
    [code] = parse_qs(urlsplit(address).query)["code"]
    # The browser of the test logs what it requests, and pytest what uvicorn would log.
    assert not logging.getLogger("uvicorn.access").propagate
    others = ("http", "uvicorn.access")
    log = "".join(each.getMessage() for each in caplog.records if not each.name.startswith(others))
    assert "/ui/sign-in/callback" in log
    for secret in (code, *kept.values()):
        assert secret not in log
    node.node.context.audit.flush()
    with node.database.read() as tx:
        rows = [str(row) for row in tx.execute(select(audit_table))]
    assert any("/ui/sign-in/callback" in row for row in rows)
    assert not any(code in row for row in rows)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "0" * 64},
        {"state": None},
        {"state": ""},
        {"state": "é"},
        {"code": None},
        {"code": ""},
        {"code": "wrong"},
        {"iss": "https://evil.test"},
        {"iss": None},
        {"error": "access_denied"},
        {"error": "<script>alert(1)</script>", "error_description": "<b>x</b>"},
    ],
    ids=str,
)
def test_an_answer_with_other_parameters_gives_no_cookie(
    browser: Browser, issuer: Issuer, change: dict[str, str | None]
) -> None:
    address, _, query = come_back(browser, issuer).partition("?")
    sent = {name: values[0] for name, values in parse_qs(query).items()}
    changed = {name: text for name, text in (sent | change).items() if text is not None}
    page = finish(browser, f"{address}?{urlencode(changed)}")
    assert (page.response.status_code, find_alert(page)) == (401, True)
    assert "<script>" not in page.response.text
    assert "<b>" not in page.response.text
    assert page.response.headers["referrer-policy"] == "strict-origin"
    assert browser.cookie_name not in browser.http.cookies


def test_a_changed_cookie_gives_no_sign_in(browser: Browser, issuer: Issuer) -> None:
    address = come_back(browser, issuer, "nodes")
    [cookie] = [each for each in browser.http.cookies.jar if each.name.startswith("headrace")]
    other_page = SignInAttempt.begin("corp", "jobs").text.rpartition(".")[2]
    text = str(cookie.value)
    for changed in (f"{text.rpartition('.')[0]}.{other_page}", "", f"{text}; {cookie.name}=x"):
        cookies = {"Cookie": f"{cookie.name}={changed}"}
        with Browser(browser.address) as other:
            response = other.http.get(address, headers=cookies | FROM_OTHER_SITE)
            assert response.status_code == 401
            assert "sign_in_expired" in response.text
    # The issuer has not been asked: the code is still good.
    assert finish(browser, address).response.url.path == "/a/b/ui/nodes"


@pytest.mark.parametrize("seconds", [-601, 120], ids=["old", "of the future"])
def test_a_sign_in_that_has_taken_too_long_is_refused(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    real = time.time
    with monkeypatch.context() as patch:
        patch.setattr(
            "headrace.control.identity.code_flow.time",
            SimpleNamespace(time=lambda: real() + seconds),
        )
        attempt = SignInAttempt.begin("corp", "nodes")
    headers = {"Cookie": f"headrace_attempt_{attempt.state[:16]}={attempt.text}"}
    query = urlencode({"state": attempt.state, "code": "x"})
    page = browser.open(f"sign-in/callback?{query}", headers=headers | FROM_OTHER_SITE)
    assert page.response.status_code == 401
    assert "took longer than 10 min" in page.text
    assert page.hidden["page"] == "nodes"


def test_a_user_who_cancels_comes_back_to_the_sign_in(browser: Browser, issuer: Issuer) -> None:
    begun = browser.http.get(find_link(browser.open("nodes")))
    form = browser.open(begun.headers["location"])
    [abort] = [each for each in form.links if each.endswith("/abort")]
    answer = browser.http.get(abort, follow_redirects=False)
    while str(answer.headers["location"]).startswith(issuer.url):
        answer = browser.http.get(answer.headers["location"])
    page = finish(browser, answer.headers["location"])
    assert (page.response.status_code, page.hidden["page"]) == (401, "nodes")
    assert "access_denied" in page.text
    assert "corp:ada" in finish(browser, come_back(browser, issuer)).text


def test_an_issuer_that_is_down_is_named_on_the_page(
    proxy: PrefixProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.control.identity.oidc._AWAY_SECONDS", 0.0)
    uri = f"{proxy.url}/ui/sign-in/callback"
    with (
        running_issuer(tmp_path / "issuer", redirect_uris=[uri]) as own,
        serve_pages(own, proxy, tmp_path / "home"),
        Browser(proxy.url) as browser,
    ):
        own.stop()
        page = browser.open(find_link(browser.open("nodes")))
        assert (page.response.status_code, find_alert(page)) == (503, True)
        assert "sign_in_unavailable" in page.text
        own.start()
        address = come_back(browser, own, "nodes")
        own.stop()
        page = finish(browser, address)
        assert (page.response.status_code, find_alert(page)) == (503, True)
        assert "sign_in_unavailable" in page.text
        assert browser.cookie_name not in browser.http.cookies
        # The other ways still work.
        page = browser.submit(page, "sign-in", secret=TOKEN)
        assert page.response.url.path == "/a/b/ui/nodes"


@pytest.mark.parametrize("page", ["https://evil.test/", "//evil.test", "..", "%2e%2e/x", "a\nb"])
def test_the_sign_in_leads_to_no_other_site(browser: Browser, issuer: Issuer, page: str) -> None:
    link = f"sign-in/oidc?{urlencode({'issuer': 'corp', 'page': page})}"
    answer = issuer.fill_in(browser.http, browser.http.get(link), "ada")
    assert finish(browser, answer.headers["location"]).response.url.path == "/a/b/ui/statements"


def test_the_cookies_of_an_address_with_tls_are_secure(
    issuer: Issuer, proxy: PrefixProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefixProxy, "url", "https://pages.example.com/x")
    with serve_pages(issuer, proxy, tmp_path / "home") as node:
        page = Page(node.http.get("/ui/sign-in", headers={"Host": "pages.example.com"}))
        assert find_link(page).startswith("https://pages.example.com/x/ui/sign-in/oidc?")
        response = node.http.get("/ui/sign-in/oidc?issuer=corp")
    name, _, attributes = response.headers["set-cookie"].partition(";")
    assert name.startswith("headrace_attempt_")
    words = {word.strip().lower() for word in attributes.split(";")}
    assert words == {"httponly", "samesite=lax", "secure", "max-age=600"}


@pytest.mark.parametrize("link", ["sign-in/oidc", "sign-in/oidc?issuer=other"])
def test_an_issuer_without_a_client_for_browsers_is_no_page(browser: Browser, link: str) -> None:
    page = browser.open(link)
    assert page.response.status_code == 404
    assert not browser.http.cookies


@pytest.mark.browser
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_the_button_works_in_chromium(
    chromium: Chromium, node: InProcessNode, issuer: Issuer, proxy: PrefixProxy, scripts: bool
) -> None:
    assert node.address == proxy.target
    with chromium.new_context(java_script_enabled=scripts) as context:
        page = context.new_page()
        reports: list[str] = []
        page.on(
            "console",
            lambda message: (
                reports.append(message.text)
                if str(message.location["url"]).startswith(proxy.url)
                else None
            ),
        )
        page.goto(f"{proxy.url}/ui/statements?state=failed")
        page.get_by_role("link", name="Sign in with corp").focus()
        page.keyboard.press("Enter")
        page.wait_for_url(f"{issuer.url}/**")
        page.locator("input[name=login]").fill("ada")
        page.locator("input[name=password]").fill("any")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Continue").click()
        page.wait_for_url(f"{proxy.url}/ui/statements?state=failed")
        page.get_by_text("corp:ada").wait_for()
        cookies = [each for each in context.cookies() if each["name"].startswith("headrace")]
        name = f"headrace_sign_in_{proxy.server_address[1]}"
        assert [(each["name"], each["path"]) for each in cookies] == [(name, "/a/b/ui")]
        # The browser has finished this sign-in: the address is of no use.
        page.go_back()
        page.goto(f"{proxy.url}/ui/sign-in/callback?code=x&state=y")
        page.get_by_role("alert").get_by_text("sign_in_expired").wait_for()
        if scripts:
            page.evaluate(AXE.read_text())
            checked = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            assert [each["id"] for each in checked["violations"]] == []
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{proxy.url}/ui/statements")
    # The browser writes the answer 401 of that page to its console.
    assert all("401" in each for each in reports), reports
