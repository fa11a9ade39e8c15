"""The names under which a node may be addressed."""

from __future__ import annotations

import pytest

from headrace.errors import InvalidRequest, InvalidSetting
from headrace.frontends.http.allowed_hosts import (
    AllowedHosts,
    HostAndPort,
    parse_host,
    parse_origin,
)
from headrace.frontends.http.browser_rules import check_request

pytestmark = pytest.mark.finding("S7")

SERVER = ("127.0.0.1", 8040)


@pytest.fixture(scope="module")
def hosts() -> AllowedHosts:
    return AllowedHosts(
        address="http://node-1.internal:8040", host="127.0.0.1", names=["Sql.Example.com", "b:81"]
    )


@pytest.mark.parametrize(
    ("text", "server", "allowed"),
    [
        ("localhost:8040", SERVER, True),
        ("LOCALHOST:8040", SERVER, True),
        ("localhost", SERVER, False),
        ("localhost", ("127.0.0.1", 80), True),
        ("127.0.0.1:8040", SERVER, True),
        ("[::1]:8040", SERVER, True),
        ("[0:0:0:0:0:0:0:1]:8040", SERVER, True),
        ("node-1.internal:8040", SERVER, True),
        ("node-1.internal.:8040", SERVER, True),
        ("node-1.internal:8041", SERVER, False),
        ("sql.example.com", SERVER, True),
        ("sql.example.com:443", SERVER, True),
        ("sql.example.com:8040", SERVER, True),
        ("sql.example.com:8443", SERVER, False),
        ("b:81", SERVER, True),
        ("b", SERVER, False),
        ("b:8040", SERVER, False),
        ("10.0.0.5:8040", ("10.0.0.5", 8040), True),
        ("10.0.0.5:8040", ("::ffff:10.0.0.5", 8040), True),
        ("10.0.0.6:8040", ("10.0.0.5", 8040), False),
        ("0.0.0.0:8040", SERVER, False),
        ("notlocalhost:8040", SERVER, False),
        ("localhost:8040", None, False),
    ],
)
def test_a_node_serves_its_own_addresses_and_the_names_from_its_settings(
    hosts: AllowedHosts, text: str, server: tuple[str, int] | None, allowed: bool
) -> None:
    host = parse_host(text)
    assert host is not None
    assert hosts.contains(host, server) is allowed


@pytest.mark.parametrize(
    "text",
    ["", " ", "a b", "a/b", "a@b", "a,b", "a:b", "a:99999", "[::1", ":8040", "a?b", "http://a"],
)
def test_text_that_is_not_a_host_is_not_parsed(text: str) -> None:
    assert parse_host(text) is None
    assert parse_origin(f"http://{text}") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://a:1", HostAndPort("a", 1)),
        ("http://a", HostAndPort("a", None)),
        ("null", None),
        ("file://", None),
        ("chrome-extension://a", None),
        ("a", None),
    ],
)
def test_an_origin_is_a_scheme_and_a_host(text: str, expected: HostAndPort | None) -> None:
    assert parse_origin(text) == expected


@pytest.mark.parametrize("name", ["https://a", "a/b", "", "a b"])
def test_an_allowed_host_that_is_not_a_host_is_refused_at_start(name: str) -> None:
    with pytest.raises(InvalidSetting, match="allowed_hosts"):
        AllowedHosts(address="http://a:1", host="127.0.0.1", names=[name])


def test_a_request_with_two_host_headers_is_refused(hosts: AllowedHosts) -> None:
    headers = [(b"host", b"evil.example"), (b"host", b"localhost:8040")]
    with pytest.raises(InvalidRequest, match="several Host headers"):
        check_request(hosts, (), headers, SERVER)


def test_a_program_that_sends_no_header_of_a_browser_is_served(hosts: AllowedHosts) -> None:
    check_request(hosts, (), [], SERVER)
