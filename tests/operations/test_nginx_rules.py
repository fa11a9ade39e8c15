"""The rules of `deploy/nginx/headrace.conf`, with servers that break in exact places.

test_balancer.py runs the same file in front of real nodes.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from tests.support.nginx import CONFIGURATION, running_nginx
from tests.support.ports import free_port

from headrace.config.settings import HttpSettings
from headrace.control.statements.async_statements import _CANCEL_SECONDS
from headrace.frontends.http.body_limit import BODY_LIMIT
from headrace.frontends.rest.schemas import LONGEST_WAIT
from headrace.model.messages import LINK_PREFIX
from headrace.text.durations import parse_duration

pytestmark = pytest.mark.nginx

BREAKS = 0
"""Status of a server that reads a request and closes the connection without a response."""


class Upstream(ThreadingHTTPServer):
    """A server that answers every request with one status, and counts the requests."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.body = b"{}"
        self.first_piece_arrived: threading.Event | None = None
        """Set by a test that reads a response in two pieces, when it has the first."""
        self.requests: Counter[str] = Counter()
        self.hosts: list[str] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Upstream
    protocol_version = "HTTP/1.1"

    def _respond(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests[self.command] += 1
        self.server.hosts.append(self.headers["Host"])
        if self.server.status == BREAKS:
            self.close_connection = True
            return
        self.send_response(self.server.status)
        if self.server.first_piece_arrived is not None:
            self._send_pieces(self.server.first_piece_arrived)
            return
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def _send_pieces(self, first_piece_arrived: threading.Event) -> None:
        """Send the second piece only after the client has the first. The end has no mark."""
        self.close_connection = True
        self.end_headers()
        self.wfile.write(b"first")
        if first_piece_arrived.wait(60):
            self.wfile.write(b"second")

    do_GET = do_POST = do_DELETE = _respond  # noqa: N815 - names of http.server

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@contextmanager
def balanced(folder: Path, *statuses: int) -> Iterator[tuple[httpx.Client, list[Upstream]]]:
    """Run nginx in front of three servers with these statuses. Yield a client and the servers."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Upstream(status)) for status in statuses]
        for server in servers:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
        addresses = [server.address for server in servers]
        url = stack.enter_context(running_nginx(folder, addresses, free_port()))
        yield stack.enter_context(httpx.Client(base_url=url, timeout=60)), servers


def _counts(servers: list[Upstream]) -> list[int]:
    return [server.requests.total() for server in servers]


def test_a_post_whose_node_breaks_is_not_sent_to_another_node(tmp_path: Path) -> None:
    with balanced(tmp_path / "nginx", BREAKS, BREAKS, BREAKS) as (client, servers):
        response = client.post("/api/v1/statements", json={"statement": "SELECT 1"})

        assert response.status_code == 502
        assert sum(_counts(servers)) == 1


def test_a_call_of_a_java_client_of_hiveserver2_goes_to_the_next_node(tmp_path: Path) -> None:
    with balanced(tmp_path / "nginx", BREAKS, BREAKS, 200) as (client, servers):
        java = {"User-Agent": "Java/THttpClient/HC"}
        statuses = [client.post("/cliservice", headers=java).status_code for _ in range(4)]

        assert statuses == [200] * 4
        assert _counts(servers)[2] == 4


@pytest.mark.parametrize("agent", ["Python/ImpylaHttpClient", "Python/THttpClient"])
def test_a_call_of_another_client_of_hiveserver2_is_sent_once(tmp_path: Path, agent: str) -> None:
    """Its calls have no numbers: a node would not know one that is sent again."""
    with balanced(tmp_path / "nginx", BREAKS, BREAKS, BREAKS) as (client, servers):
        response = client.post("/cliservice/", headers={"User-Agent": agent})

        assert response.status_code == 502
        assert sum(_counts(servers)) == 1


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_request_that_can_be_repeated_goes_to_the_next_node(tmp_path: Path, method: str) -> None:
    with balanced(tmp_path / "nginx", BREAKS, BREAKS, 200) as (client, servers):
        statuses = [client.request(method, "/api/v1/sessions/x").status_code for _ in range(6)]

        assert statuses == [200] * 6
        assert _counts(servers)[2] == 6


def test_an_error_of_a_node_reaches_the_client_unchanged(tmp_path: Path) -> None:
    """A store that does not answer concerns all nodes, and the error says so."""
    with balanced(tmp_path / "nginx", 503, 503, 503) as (client, servers):
        statuses = [client.get("/api/v1/statements").status_code for _ in range(6)]

        assert statuses == [503] * 6
        assert _counts(servers) == [2, 2, 2]


def test_ready_asks_the_next_node_if_a_node_is_not_ready(tmp_path: Path) -> None:
    with balanced(tmp_path / "nginx", 503, 503, 200) as (client, servers):
        assert [client.get("/ready").status_code for _ in range(2)] == [200, 200]
        assert servers[0].requests.total() > 0
        # Two probes do not take a node out: requests still reach it.
        servers[0].status = 200
        before = servers[0].requests.total()
        for _ in range(3):
            client.get("/api/v1/statements")
        assert servers[0].requests.total() > before


def test_a_node_sees_the_host_that_the_client_has_named(tmp_path: Path) -> None:
    with balanced(tmp_path / "nginx", 200, 200, 200) as (client, servers):
        client.get("/health", headers={"Host": "sql.example.com:8443"})

        assert [host for server in servers for host in server.hosts] == ["sql.example.com:8443"]


@pytest.mark.parametrize("path", [f"{LINK_PREFIX}/se_1/1/poll", "/metrics"])
def test_the_driver_link_and_the_metrics_are_not_published(tmp_path: Path, path: str) -> None:
    with balanced(tmp_path / "nginx", 200, 200, 200) as (client, servers):
        assert client.get(path).status_code == 404
        assert sum(_counts(servers)) == 0


def test_a_large_result_passes_without_a_temporary_file(tmp_path: Path) -> None:
    body = b"x" * 32 * 1024**2
    with balanced(tmp_path / "nginx", 200, 200, 200) as (client, servers):
        for server in servers:
            server.body = body
        result = client.get("/api/v1/statements/st_1/result")

    assert result.content == body
    # nginx logs a warning when it writes a part of a response to a file.
    assert (tmp_path / "nginx" / "error.log").read_text() == ""


def test_a_piece_of_a_response_passes_before_the_next_one_exists(tmp_path: Path) -> None:
    arrived = threading.Event()
    with balanced(tmp_path / "nginx", 200, 200, 200) as (client, servers):
        for server in servers:
            server.first_piece_arrived = arrived
        with client.stream("GET", "/api/v1/events") as stream:
            pieces = stream.iter_raw()
            first = next(pieces)
            arrived.set()

            assert (first, b"".join(pieces)) == (b"first", b"second")


def test_the_times_and_sizes_fit_those_of_a_node() -> None:
    longest_response = LONGEST_WAIT + timedelta(seconds=_CANCEL_SECONDS)

    assert parse_duration(_directive("proxy_read_timeout")) > longest_response
    assert parse_duration(_directive("keepalive_timeout")) < HttpSettings().keep_alive
    assert int(_directive("client_max_body_size").removesuffix("m")) * 1024**2 > BODY_LIMIT


def _directive(name: str) -> str:
    """Return the value of a directive that the file contains once."""
    values = re.findall(rf"^ *{name} (\S+);$", CONFIGURATION.read_text(), re.MULTILINE)
    assert len(values) == 1, name
    return str(values[0])
