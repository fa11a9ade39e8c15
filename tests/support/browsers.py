"""A browser without a screen or scripts: cookies, forms and links of the node's pages."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import httpx
from tests.support.in_process_node import InProcessNode

from headrace.frontends.http.auth import COOKIE


class Page(HTMLParser):
    """A page: its text, its links, and the hidden fields of its forms."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__()
        self.response = response
        self.words: list[str] = []
        self.links: list[str] = []
        self.actions: list[str] = []
        self.hidden: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(response.text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def find_unwanted_tags(self) -> list[str]:
        """Return tags that no page has: images, styles, and scripts but those of the node."""
        return [
            tag
            for tag, values in self.tags
            if tag in {"img", "style"}
            or (tag == "script" and "assets/" not in (values.get("src") or ""))
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        for name in ("href", "src"):
            if values.get(name) is not None:
                self.links.append(str(values[name]))
        if tag == "form" and values.get("action") is not None:
            self.actions.append(str(values["action"]))
        if tag == "input" and values.get("type") == "hidden":
            self.hidden[str(values["name"])] = str(values["value"])

    def handle_data(self, data: str) -> None:
        self.words.append(data)


class Browser:
    """Opens pages as a browser does. Cookies follow its rules for paths."""

    def __init__(self, node: InProcessNode | str) -> None:
        """Create a browser for the pages of a node, or of a proxy with this URL."""
        self.address = node if isinstance(node, str) else node.address
        self.http = httpx.Client(
            base_url=f"{self.address}/ui/",
            trust_env=False,
            timeout=60,
            headers={"Accept": "text/html", "Sec-Fetch-Site": "same-origin"},
        )

    @property
    def cookie_name(self) -> str:
        """Name of the cookie of the sign-in, which has the port that the browser uses."""
        return f"{COOKIE}_{urlsplit(self.address).port}"

    @property
    def cookie(self) -> str:
        """The token in that cookie."""
        return self.http.cookies[self.cookie_name]

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_error: object) -> None:
        self.http.close()

    def open(self, link: str, **options: Any) -> Page:
        """Open a link below `/ui/`, and follow redirects."""
        return Page(self.http.get(link, follow_redirects=True, **options))

    def submit(self, page: Page, link: str, /, **fields: str) -> Page:
        """Submit a form of a page to a link below `/ui/`, and follow the redirect."""
        response = self.http.post(
            link,
            content=urlencode({**page.hidden, **fields}),
            headers={
                "Origin": "{0.scheme}://{0.netloc}".format(urlsplit(self.address)),
                "Content-Type": "application/x-www-form-urlencoded",
            },
            follow_redirects=True,
        )
        return Page(response)

    def sign_in(self, token: str, link: str = "") -> Page:
        """Open a link, sign in with a token, and return the page to which that leads."""
        return self.submit(self.open(link), "sign-in", secret=token)


def resolve(page: Page, link: str) -> str:
    """Return a link of a page relative to `/ui/`, as a browser resolves it below a proxy's path."""
    proxied = "http://proxy.test/a/proxy/history/b"
    path = page.response.url.raw_path.decode()
    resolved = urljoin(f"{proxied}{path}", link)
    assert resolved.startswith(f"{proxied}/ui/"), link
    return resolved.removeprefix(f"{proxied}/ui/")
