"""A real issuer of OpenID Connect: oidc-provider on Node.js, with people who sign in by a form."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from joserfc.jwk import RSAKey
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.ports import free_port
from tests.support.waiting import wait_until

from headrace.client.login import DeviceCode, Login, sign_in

INSTALLED = Path(__file__).parents[2] / ".tools" / "oidc-provider"
CLIENT_SECRET = "secret:of/the pages"
"""Secret of the client `pages-with-a-secret`."""
SCOPES = ["openid", "profile", "groups", "offline_access"]
_SCRIPT = Path(__file__).with_name("oidc_provider.mjs")


class Issuer:
    """An issuer whose tokens are valid for some seconds. It can be stopped and started again."""

    def __init__(
        self, folder: Path, *, seconds: int = 600, redirect_uris: Sequence[str] = ()
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "redirects.json").write_text(json.dumps(redirect_uris))
        self.rotate_keys()
        self.set_groups()

    def set_groups(self, **changed: list[str]) -> None:
        """Set the groups of each name in the tokens from now on, with changes of the usual ones."""
        usual = {"ada": ["etl", "people"], "root": ["admins"], "service": ["people"]}
        (self._folder / "groups.json").write_text(json.dumps(usual | changed))

    def rotate_keys(self) -> None:
        """Replace the keys, from the next start on."""
        key = RSAKey.generate_key(2048, private=True, auto_kid=True)
        keys = {"keys": [{**key.as_dict(private=True), "use": "sig", "alg": "RS256"}]}
        (self._folder / "keys.json").write_text(json.dumps(keys))

    def start(self) -> None:
        command = ["node", _SCRIPT, self._folder, str(self.port), str(self._seconds)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=INSTALLED, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

        def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / "log").read_text()
            try:
                return httpx.get(f"{self.url}/jwks", trust_env=False, timeout=30).is_success
            except httpx.TransportError:
                return False

        wait_until(answers, what="the issuer listens")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def service_token(self, resource: str | None = None) -> str:
        """Return an access token of the client `service`.

        Args:
            resource: Resource that the token is for; default: Headrace.
        """
        form = {"grant_type": "client_credentials"}
        if resource is not None:
            form["resource"] = resource
        answer = httpx.post(
            f"{self.url}/token",
            data=form,
            auth=("service", "secret-of-the-service"),
            trust_env=False,
            timeout=30,
        )
        return str(answer.raise_for_status().json()["access_token"])

    def sign_in(self, name: str) -> Login:
        """Sign in by the device flow, with a user who opens the page."""

        def show(code: DeviceCode) -> None:
            assert code.complete_url is not None
            assert code.user_code in code.complete_url
            self.approve(code.complete_url, name)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.client.login._INTERVAL", 0.1)
            return sign_in(self.url, "headrace", SCOPES, {}, show)

    def approve(self, address: str, name: str) -> None:
        """Do what a user does in a browser: open an address, sign in with a name, and agree."""
        with httpx.Client(follow_redirects=True, trust_env=False, timeout=30) as browser:
            page = browser.get(address)
            while "<form" in page.text:
                url, fields = _read_form(page)
                if "login" in fields:
                    fields |= {"login": name, "password": "any"}
                page = browser.post(url, data=fields)
            assert "Sign-in Success" in page.text, page.text

    def fill_in(self, browser: httpx.Client, page: httpx.Response, name: str) -> httpx.Response:
        """Sign in on pages of the issuer. Return the redirect that leads away from it."""
        while page.has_redirect_location or "<form" in page.text:
            if page.next_request is not None:
                if not str(page.next_request.url).startswith(self.url):
                    return page
                page = browser.send(page.next_request)
                continue
            url, fields = _read_form(page)
            if "login" in fields:
                fields |= {"login": name, "password": "any"}
            page = browser.post(url, data=fields)
        raise AssertionError(page.text)

    def refuse(self, address: str) -> None:
        """Do what a user does who does not expect the code: press "abort"."""
        with httpx.Client(follow_redirects=True, trust_env=False, timeout=30) as browser:
            url, fields = _read_form(browser.get(address))
            url, fields = _read_form(browser.post(url, data=fields))
            browser.post(url, data={**fields, "abort": "yes"}).raise_for_status()


def _read_form(page: httpx.Response) -> tuple[str, dict[str, str]]:
    """Return where the form of a page is sent, and its fields."""
    form = re.search(r"<form[^>]*>.*?</form>", page.text, re.DOTALL)
    assert form is not None, page.text
    action = re.search(r'<form[^>]*action="([^"]*)"', form[0])
    fields = {}
    for element in re.findall(r"<input[^>]*>", form[0]):
        name, value = (re.search(f'{key}="([^"]*)"', element) for key in ("name", "value"))
        if name is not None:
            fields[name[1]] = "" if value is None else html.unescape(value[1])
    return urljoin(str(page.url), html.unescape(action[1]) if action else ""), fields


@contextmanager
def running_issuer(
    folder: Path, *, seconds: int = 600, redirect_uris: Sequence[str] = ()
) -> Iterator[Issuer]:
    """Run an issuer for the block. Fail the test if scripts/setup-oidc has not installed it.

    Args:
        redirect_uris: Addresses to which the clients `pages` and `pages-with-a-secret` may send
            browsers back.
    """
    if not (INSTALLED / "node_modules").is_dir():
        pytest.fail("oidc-provider is not installed: scripts/setup-oidc")
    issuer = Issuer(folder, seconds=seconds, redirect_uris=redirect_uris)
    issuer.start()
    try:
        yield issuer
    finally:
        issuer.stop()


def serve_for(
    issuer: Issuer, home: Path, *, store: str | None = None, **settings: object
) -> AbstractContextManager[InProcessNode]:
    """Serve a node that accepts the tokens of an issuer, with further settings of `auth.oidc`.

    Args:
        store: URL of the store; None: in the home.
    """
    own = {"issuer": issuer.url, "audience": ["headrace"], "client_id": "headrace", **settings}
    auth = {
        "methods": ["token", "oidc"],
        "oidc": {"corp": own},
        "roles": {"admin": ["corp:admins"], "user": ["corp:people"]},
    }
    return serve_node(make_settings(home, token="of-the-node", auth=auth, store={"url": store}))
