"""Browsers sign in and out; forms and links of other sites have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from urllib.parse import urlencode

import pytest
from sqlalchemy import update
from tests.support.browsers import Browser
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.waiting import wait_until

from headrace.frontends.http.auth import COOKIE
from headrace.store.clock import clock
from headrace.store.tables import tokens as token_table

TOKEN = "secret-of-the-node"


@pytest.fixture
def secured(start_node: StartNode) -> InProcessNode:
    return start_node(token=TOKEN)


@pytest.fixture
def browser(secured: InProcessNode) -> Iterator[Browser]:
    with Browser(secured) as browser:
        yield browser


def tokens_of(node: InProcessNode) -> list[dict[str, object]]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    response = node.http.get("/api/v1/tokens", params={"all_owners": "true"}, headers=headers)
    return list(response.json()["items"])


@pytest.mark.parametrize("link", ["statements", "statements?state=failed&owner=all", "nodes"])
def test_a_link_leads_to_its_page_after_the_sign_in(browser: Browser, link: str) -> None:
    page = browser.open(link)
    assert page.response.url.path == "/ui/sign-in"
    page = browser.submit(page, "sign-in", secret=f" {TOKEN}\n")
    assert page.response.status_code == 200
    assert page.response.url.raw_path.decode() == f"/ui/{link}"


@pytest.mark.parametrize(
    "page",
    [
        *("https://evil.test/", "//evil.test", "/\\evil.test", "javascript:alert(1)", "../../x"),
        *("a" * 3000, "statements\nX: y", "..", "./x", "", "%2e%2e/%2E%2e/x", "x/.%2e/y"),
    ],
)
def test_the_sign_in_leads_to_no_other_site(browser: Browser, page: str) -> None:
    form = browser.open(f"sign-in?{urlencode({'page': page})}")
    assert form.hidden["page"] == "statements"
    landed = browser.submit(form, "sign-in", secret=TOKEN, page=page)
    assert landed.response.url.path == "/ui/statements"


@pytest.mark.parametrize("origin", ["http", "https"])
def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_paths(
    browser: Browser, secured: InProcessNode, origin: str
) -> None:
    address = secured.address.replace("http:", f"{origin}:")
    response = browser.http.post("sign-in", data={"secret": TOKEN}, headers={"Origin": address})
    name, _, attributes = response.headers["set-cookie"].partition(";")
    assert name.startswith(f"{browser.cookie_name}=hr_")
    assert TOKEN not in response.headers["set-cookie"]
    words = {word.strip().lower() for word in attributes.split(";")}
    assert words == {"httponly", "samesite=lax", *(["secure"] if origin == "https" else [])}


def test_the_api_does_not_read_the_cookie(browser: Browser, secured: InProcessNode) -> None:
    browser.sign_in(TOKEN)
    cookie = {"Cookie": f"{browser.cookie_name}={browser.cookie}"}
    assert secured.http.get("/ui/statements", headers=cookie).status_code == 200
    assert secured.http.get("/api/v1/statements", headers=cookie).status_code == 401
    assert secured.http.get("/uix", headers=cookie).status_code == 401


@pytest.mark.parametrize("secret", ["wrong", "", "hr_0_0"])
def test_a_wrong_token_gives_no_cookie(browser: Browser, secret: str) -> None:
    page = browser.submit(browser.open("sign-in"), "sign-in", secret=secret)
    assert page.response.status_code == 401
    assert "The token is not valid." in page.text
    assert not browser.http.cookies


def test_two_clusters_at_two_ports_of_a_host_have_sign_ins_of_their_own(
    browser: Browser, tmp_path: Path
) -> None:
    browser.sign_in(TOKEN)
    settings = make_settings(tmp_path / "second", token=TOKEN)
    with serve_node(settings) as second, Browser(second) as other:
        # Browsers share cookies between the ports of a host.
        other.http._cookies = browser.http._cookies
        assert other.open("statements").response.url.path == "/ui/sign-in"
        page = other.sign_in(TOKEN)
        assert other.open("statements").response.url.path == "/ui/statements"
        assert browser.open("statements").response.url.path == "/ui/statements"
        other.submit(page, "sign-out")
        assert browser.open("statements").response.url.path == "/ui/statements"


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("tools.test", COOKIE),
        ("tools.test:443", f"{COOKIE}_443"),
        ("tools.test:8040", f"{COOKIE}_8040"),
    ],
)
def test_the_name_of_the_cookie_has_the_port_that_the_browser_uses(
    start_node: StartNode, host: str, name: str
) -> None:
    node = start_node(token=TOKEN, http={"allowed_hosts": ["tools.test", "tools.test:8040"]})
    headers = {"Origin": f"http://{host}", "Host": host, "Sec-Fetch-Site": "same-origin"}
    answer = node.http.post("/ui/sign-in", data={"secret": TOKEN}, headers=headers)
    assert answer.headers["set-cookie"].startswith(f"{name}=hr_")


def test_a_browser_without_cookies_gets_the_form_with_the_reason(secured: InProcessNode) -> None:
    with Browser(secured) as browser:
        browser.http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        page = browser.sign_in(TOKEN, "statements?state=failed")
    assert page.response.status_code == 401
    assert "The browser has not kept the cookie. Allow cookies for this site" in page.text
    assert len(page.response.history) == 1
    # The form is there, and leads to the page that the user wanted.
    assert page.hidden["page"] == "statements?state=failed"


def test_the_sign_out_revokes_the_token_of_this_browser_alone(
    browser: Browser, secured: InProcessNode
) -> None:
    with Browser(secured) as other:
        other.sign_in(TOKEN)
        page = browser.sign_in(TOKEN)
        cookie = {browser.cookie_name: browser.cookie}
        assert browser.submit(page, "sign-out").response.url.path == "/ui/sign-in"
        assert not browser.http.cookies
        with Browser(secured) as thief:
            thief.http.cookies.update(cookie)
            assert thief.open("statements").response.url.path == "/ui/sign-in"
        assert other.open("statements").response.url.path == "/ui/statements"


def test_a_revoked_token_ends_the_browsers_that_have_signed_in_with_it(
    browser: Browser, secured: InProcessNode
) -> None:
    ada = create_tokens(secured.database, ["ada"])["ada"]
    assert "corp:ada" in browser.sign_in(ada).text
    entered = next(each for each in tokens_of(secured) if each["name"] == "test")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    secured.http.delete(f"/api/v1/tokens/{entered['id']}", headers=headers).raise_for_status()
    wait_until(lambda: browser.open("statements").response.url.path == "/ui/sign-in")


def test_a_sign_in_with_a_token_lasts_no_longer_than_the_token(
    browser: Browser, secured: InProcessNode
) -> None:
    ada = create_tokens(secured.database, ["ada"])["ada"]
    with secured.database.write("test") as tx:
        tx.execute(update(token_table).values(expires_at=clock(600)))
    browser.sign_in(ada)
    expiries = {each["expires_at"] for each in tokens_of(secured)}
    assert len(tokens_of(secured)) == 2
    assert len(expiries) == 1


def test_a_token_of_a_browser_is_for_pages_only(browser: Browser, secured: InProcessNode) -> None:
    """Browsers send cookies to all ports of a host, also to programs of other users."""
    browser.sign_in(TOKEN)
    stolen = browser.cookie
    for path in ("/api/v1/statements", "/ui/statements", "/livy/version"):
        headers = {"Authorization": f"Bearer {stolen}"}
        response = secured.http.get(path, headers=headers)
        assert response.status_code in {401, 303}
    with Browser(secured) as thief:
        page = thief.submit(thief.open("sign-in"), "sign-in", secret=stolen)
        assert page.response.status_code == 401
        ada = create_tokens(secured.database, ["ada"])["ada"]
        thief.http.cookies.set(thief.cookie_name, ada)
        assert thief.open("statements").response.url.path == "/ui/sign-in"


def test_a_second_cookie_of_the_name_is_an_error(browser: Browser, secured: InProcessNode) -> None:
    """A program at another port of the host has set one."""
    browser.sign_in(TOKEN)
    good = browser.cookie
    name = browser.cookie_name
    for cookie in (f"{name}={good}; {name}=x", f"{name}=x; {name}={good}"):
        headers = {"Cookie": cookie}
        response = secured.http.get("/ui/statements", headers=headers)
        assert (response.status_code, response.headers["location"][:9]) == (303, "./sign-in")
        response = secured.http.get("/ui/sign-in?done=1", headers=headers)
        assert "Delete the cookies of this host." in response.text


def test_a_new_sign_in_ends_the_former_one_of_the_browser(
    browser: Browser, secured: InProcessNode
) -> None:
    browser.sign_in(TOKEN)
    former = browser.cookie
    browser.submit(browser.open("sign-in"), "sign-in", secret=TOKEN)
    assert browser.cookie != former
    assert sum(each["state"] == "live" for each in tokens_of(secured)) == 1


def test_an_allowed_origin_may_call_the_api_and_send_no_form(start_node: StartNode) -> None:
    node = start_node(token=TOKEN, http={"allowed_origins": ["https://app.example.com"]})
    origin = {"Origin": "https://app.example.com"}
    headers = {**origin, "Authorization": f"Bearer {TOKEN}"}
    assert node.http.get("/api/v1/statements", headers=headers).status_code == 200
    response = node.http.post("/ui/sign-in", data={"secret": TOKEN}, headers=origin)
    assert response.status_code == 403
    assert "set-cookie" not in response.headers


def test_a_browser_that_refuses_cookies_gets_a_message(browser: Browser) -> None:
    form = browser.open("sign-in?page=nodes")
    response = browser.http.post(
        "sign-in", data={**form.hidden, "secret": TOKEN}, headers={"Origin": browser.address}
    )
    browser.http.cookies.clear()
    page = browser.open(response.headers["location"])
    assert page.response.status_code == 401
    assert "Allow cookies for this site" in page.text
    assert page.hidden["page"] == "nodes"


def test_a_form_of_another_sign_in_changes_nothing(
    browser: Browser, secured: InProcessNode
) -> None:
    page = browser.sign_in(TOKEN)
    for fields in ({}, {"form_token": ""}, {"form_token": "0" * 64}):
        page.hidden = dict(fields)
        assert browser.submit(page, "sign-out").response.status_code == 403
    assert browser.open("statements").response.url.path == "/ui/statements"


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"{}", "application/json"),
        (b"\xff", "application/x-www-form-urlencoded"),
        (b"", ""),
        (b"a=1&" * 200, "application/x-www-form-urlencoded"),
        (b"secret=" + b"%41" * 30_000, "application/x-www-form-urlencoded"),
    ],
)
def test_a_body_that_is_no_form_is_refused(
    browser: Browser, content: bytes, media_type: str
) -> None:
    headers = {"Content-Type": media_type} if media_type else {}
    response = browser.http.post("sign-in", content=content, headers=headers)
    assert response.status_code in {400, 413}
    assert "text/html" in response.headers["content-type"]


@pytest.mark.parametrize(
    ("method", "mode", "dest", "status"),
    [
        ("GET", "navigate", "document", 200),
        ("GET", "navigate", "iframe", 403),
        ("GET", "no-cors", "image", 403),
        ("POST", "navigate", "document", 403),
    ],
)
def test_other_sites_may_link_to_a_page_and_do_no_more(
    browser: Browser, method: str, mode: str, dest: str, status: int
) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    assert browser.http.request(method, "sign-in", headers=headers).status_code == status


def test_no_site_may_link_to_the_api(secured: InProcessNode) -> None:
    headers = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    assert secured.http.get("/api/v1/statements", headers=headers).status_code == 403


def test_a_node_without_sign_in_shows_its_pages_at_once(node: InProcessNode) -> None:
    with Browser(node) as browser:
        assert browser.open("sign-in").response.url.path == "/ui/statements"
        page = browser.open("")
        assert page.response.url.path == "/ui/statements"
        assert "Sign out" not in page.text


def test_the_lifetime_is_at_least_a_minute(start_node: StartNode) -> None:
    with pytest.raises(ValueError, match="sign_in_lifetime"):
        start_node(web={"sign_in_lifetime": timedelta(seconds=59)})
