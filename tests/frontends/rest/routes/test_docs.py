"""`/docs`: the page of the API loads all that it needs from the node."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode

pytestmark = pytest.mark.finding("U11")

_POLICY = "default-src 'self'; "


class Page(HTMLParser):
    """The addresses that a page names, and what it contains inline."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.inline: list[str] = []
        self._is_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attrs if name in {"src", "href"} and value]
        self.inline += [name for name, _ in attrs if name == "style" or name.startswith("on")]
        self.inline += ["style"] if tag == "style" else []
        self._is_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._is_script = False

    def handle_data(self, data: str) -> None:
        if self._is_script and data.strip():
            self.inline.append(data)


def read(node: InProcessNode, path: str) -> httpx.Response:
    """Read a file of the page as a browser on the host does: without the token."""
    response = node.http.get(path)
    assert response.status_code == 200, response.text
    return response


def test_the_page_and_all_its_files_come_from_the_node_without_a_token(
    start_node: StartNode,
) -> None:
    node = start_node(token="secret")
    page = read(node, "/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    parsed = Page(page.text)
    assert parsed.inline == []
    assert len(parsed.addresses) == 4
    kinds = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
    for address in parsed.addresses:
        assert re.fullmatch(r"docs/[a-z.-]+", address), f"{address} is on another host"
        file = read(node, urljoin("/docs", address))
        kind = address.rpartition(".")[2]
        assert file.headers["content-type"] == kinds.get(kind, "image/png")
        assert len(file.content) > 100
        assert file.headers["content-security-policy"].startswith(_POLICY)
    policy = page.headers["content-security-policy"]
    assert policy.startswith(_POLICY)
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy


def test_the_script_of_the_page_reads_the_document_of_the_node_alone(node: InProcessNode) -> None:
    script = read(node, "/docs/start.js").text
    [address] = re.findall(r'url: "(.+)"', script)
    document = read(node, urljoin("/docs", address)).json()
    assert document["openapi"].startswith("3.")
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert "validatorUrl: null" in script
    assert "//" not in re.sub(r"^ *//.*$", "", script, flags=re.MULTILINE)


def test_the_styles_load_no_other_file(node: InProcessNode) -> None:
    styles = read(node, "/docs/swagger-ui.css").text
    addresses = re.findall(r"url\(\s*[\"']?([^)\"']{1,20})", styles)
    assert addresses
    assert all(address.startswith("data:") for address in addresses)
    assert "@import" not in styles


@pytest.mark.parametrize("name", ["redoc.standalone.js", "..%2Fcore.py", "x" * 500, "core.py"])
def test_the_page_has_no_other_files(node: InProcessNode, name: str) -> None:
    response = node.http.get(f"/docs/{name}")
    assert (response.status_code, response.json()["status"]) == (404, 404)
    assert len(response.text) < 500


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_pages_of_other_sites_cannot_load_the_page(
    node: InProcessNode, headers: dict[str, str], status: int
) -> None:
    for path in ("/docs", "/docs/start.js"):
        assert node.http.get(path, headers=headers).status_code == status


def test_a_node_starts_without_the_package_of_the_page() -> None:
    # The package imports FastAPI's own page, which names another host.

    code = (
        "import sys, headrace.frontends.app; "
        "sys.exit('fastapi_offline' in sys.modules or 'fastapi_offline.core' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
