"""The driver's end of the link, against small real HTTP servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.driver.bootstrap import read_bootstrap
from headrace.driver.link import Link, LinkRefused, NoNodeAnswers
from headrace.errors import LeaseLost
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Bootstrap, Ended
from headrace.private_files import write_private


class Server(ThreadingHTTPServer):
    """Gives each request the next of its answers, the last one for ever."""

    daemon_threads = True

    def __init__(self, *answers: tuple[int, object]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.seen: list[tuple[str, str, object]] = []
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def end(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.seen.append((self.path, self.headers["authorization"], json.loads(body)))
        answers = self.server.answers
        status, answer = answers.pop(0) if len(answers) > 1 else answers[0]
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Says nothing."""


LANDED = (200, {"applied": True})
DOWN = (503, {"code": "store_unavailable"})
GONE = "http://127.0.0.1:9"


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    made: list[Server] = []
    yield made
    for server in made:
        server.end()


@pytest.fixture
def links(tmp_path: Path) -> Iterator[list[Link]]:
    made: list[Link] = []
    yield made
    for link in made:
        link.close()


def bootstrap(nodes: list[str], orphan_seconds: float) -> Bootstrap:
    return Bootstrap(
        session_id="se_1",
        epoch=4,
        token="secret",
        nodes=nodes,
        conf={},
        results="/results",
        inline_limit=1,
        chunk_limit=1,
        lease_seconds=1,
        renew_seconds=1,
        orphan_seconds=orphan_seconds,
    )


def make(links: list[Link], file: Path, nodes: list[str], orphan_seconds: float = 20) -> Link:
    write_private(file, bootstrap(nodes, orphan_seconds).model_dump_json())
    known, token = read_bootstrap(file)
    links.append(Link(file, known, token))
    return links[-1]


def test_the_token_is_taken_out_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "b.json"
    write_private(file, bootstrap([GONE], 1).model_dump_json())
    known, token = read_bootstrap(file)
    assert token == "secret"
    assert known.token is None
    assert "secret" not in file.read_text()
    with pytest.raises(SystemExit):
        read_bootstrap(file)


def test_a_call_carries_token_session_and_epoch(
    servers: list[Server], links: list[Link], tmp_path: Path
) -> None:
    servers.append(Server(LANDED))
    link = make(links, tmp_path / "b.json", [servers[0].address])
    ended = Ended(statement_id="st_1", state=StatementState.CANCELLED)
    assert link.ended(ended).applied
    path, authorization, body = servers[0].seen[0]
    assert path == "/driver/v1/sessions/se_1/4/ended"
    assert authorization == "Bearer secret"
    assert Ended.model_validate(body) == ended


def test_a_store_outage_is_waited_out(
    servers: list[Server], links: list[Link], tmp_path: Path
) -> None:
    servers.append(Server(DOWN, DOWN, DOWN, LANDED))
    # Far shorter than the outage: a node that answers 503 still answers.
    link = make(links, tmp_path / "b.json", [servers[0].address], orphan_seconds=0.2)
    assert link.started("st_1").applied
    assert len(servers[0].seen) == 4


def test_another_node_is_asked_when_one_is_gone(
    servers: list[Server], links: list[Link], tmp_path: Path
) -> None:
    servers.append(Server(LANDED))
    link = make(links, tmp_path / "b.json", [GONE, servers[0].address])
    assert link.renew().applied


def test_a_node_that_came_back_elsewhere_is_found_by_the_file(
    servers: list[Server], links: list[Link], tmp_path: Path
) -> None:
    file = tmp_path / "b.json"
    link = make(links, file, [GONE])
    servers.append(Server(LANDED))
    moved = Bootstrap.model_validate_json(file.read_text())
    write_private(file, moved.model_copy(update={"nodes": [servers[0].address]}).model_dump_json())
    assert link.renew().applied


@pytest.mark.parametrize("status", [401, 409])
def test_a_lost_lease_ends_the_driver(
    servers: list[Server], links: list[Link], tmp_path: Path, status: int
) -> None:
    servers.append(Server((status, {"code": "lease_lost"})))
    link = make(links, tmp_path / "b.json", [servers[0].address])
    with pytest.raises(LeaseLost):
        link.renew()
    assert len(servers[0].seen) == 1


def test_a_call_that_no_node_understands_is_not_repeated(
    servers: list[Server], links: list[Link], tmp_path: Path
) -> None:
    servers.append(Server((400, {"code": "invalid_request"})))
    link = make(links, tmp_path / "b.json", [servers[0].address])
    with pytest.raises(LinkRefused, match="invalid_request"):
        link.renew()


def test_a_driver_without_any_node_gives_up(links: list[Link], tmp_path: Path) -> None:
    link = make(links, tmp_path / "b.json", [GONE], orphan_seconds=0.3)
    with pytest.raises(NoNodeAnswers):
        link.renew()
    # Nobody is told, and nobody has to be.
    link.goodbye()
