"""A front end that uses only the services of `control` and the list of servers of a process."""

from __future__ import annotations

import ast
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.frontends.line_protocol import server
from tests.frontends.line_protocol.server import LineServer
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.made_results import inline_result

from headrace.control.identity.credentials import BearerToken
from headrace.control.node import Node
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState

_TOKEN = "line-token"


class _Client:
    """One connection."""

    def __init__(self, port: int, token: str = _TOKEN) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._answers = self._socket.makefile("rb")
        self.send("TOKEN", token)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def send(self, *words: object) -> Any:
        self._socket.sendall(" ".join(map(str, words)).encode() + b"\n")
        return json.loads(self._answers.readline())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InProcessNode, int]]:
    """Serve a node with HTTP and the protocol of lines; return it with the port."""
    servers: list[LineServer] = []

    def make_servers(node: Node) -> list[LineServer]:
        servers.append(LineServer(node))
        return servers

    settings = make_settings(tmp_path_factory.mktemp("lines"), token=_TOKEN)
    with serve_node(settings, more_servers=make_servers) as node:
        yield node, servers[0].port


@pytest.fixture
def client(served: tuple[InProcessNode, int]) -> Iterator[_Client]:
    client = _Client(served[1])
    yield client
    client.close()


def test_a_client_submits_waits_and_reads_all_pages(
    served: tuple[InProcessNode, int], client: _Client
) -> None:
    node, _ = served
    submitted = client.send("SUBMIT", "SELECT x FROM range(5)")
    assert submitted["state"] == "waiting"
    driver = node.launcher.connect_driver(submitted["session"])
    driver.hello()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.send, "WAIT", submitted["id"], 50)
        rows = [[number] for number in range(5)]
        driver.succeed(driver.claim().statement_id, inline_result([("x", "integer")], rows))
        assert waiting.result(40)["state"] == "success"
    read, offset = [], 0
    while offset is not None:
        page = client.send("PAGE", submitted["id"], offset, 2)
        assert page["columns"] == [["x", "integer"]]
        read += page["rows"]
        offset = page["next"]
    assert read == [[number] for number in range(5)]


def test_a_wait_ends_when_its_time_is_over(client: _Client) -> None:
    submitted = client.send("SUBMIT", "SELECT 1")
    assert client.send("WAIT", submitted["id"], 0.1)["state"] == "waiting"


def test_a_client_cancels_a_statement_and_continues_in_a_new_session(
    served: tuple[InProcessNode, int], client: _Client
) -> None:
    first = client.send("SUBMIT", "SELECT 1")
    assert client.send("CANCEL", first["id"])["state"] == "cancelled"
    assert client.send("SUBMIT", "SELECT 2")["session"] == first["session"]
    served[0].node.sessions.close(
        served[0].node.authenticator.identify(BearerToken(_TOKEN)), first["session"]
    )
    assert client.send("SUBMIT", "SELECT 3")["session"] != first["session"]


def test_a_failure_is_described_with_its_condition_and_its_position(
    served: tuple[InProcessNode, int], client: _Client
) -> None:
    submitted = client.send("SUBMIT", "SELECT * FROM missing")
    driver = served[0].launcher.connect_driver(submitted["session"])
    driver.hello()
    failure = Failure(
        code="analysis_error",
        message="The table does not exist.",
        condition="TABLE_OR_VIEW_NOT_FOUND",
        line=1,
        column=15,
    )
    driver.report_end(driver.claim().statement_id, StatementState.FAILED, failure=failure)
    ended = client.send("WAIT", submitted["id"], 50)
    assert ended["state"] == "failed"
    text = "[TABLE_OR_VIEW_NOT_FOUND] The table does not exist. (line 1, column 15)"
    assert ended["error"] == text
    refused = client.send("PAGE", submitted["id"], 0, 1)
    assert refused["code"] == "no_result"


def test_a_client_lists_tables_and_reads_the_log(
    served: tuple[InProcessNode, int], client: _Client
) -> None:
    session = client.send("SUBMIT", "SELECT 1")["session"]
    driver = served[0].launcher.connect_driver(session)
    driver.hello()
    driver.succeed(driver.claim().statement_id)
    columns = [("namespace", "string"), ("tableName", "string"), ("isTemporary", "boolean")]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.send, "TABLES", "shop", 50)
        work = driver.claim()
        assert work.text == "SHOW TABLES IN `shop`"
        rows = [["shop", "orders", False], ["", "recent", True]]
        driver.succeed(work.statement_id, inline_result(columns, rows))
        assert waiting.result(40)["tables"] == [["orders", "table"], ["recent", "view"]]
    assert client.send("LOG", session, 100) == {"log": ""}


def test_a_client_without_the_token_is_refused(served: tuple[InProcessNode, int]) -> None:
    client = _Client(served[1], token="wrong")
    assert client.send("SUBMIT", "SELECT 1")["code"] == "unauthorized"
    client.close()


def test_an_invalid_line_is_refused(client: _Client) -> None:
    for line in ("EXPLODE", "WAIT", "PAGE st_1 a b", "WAIT st_1 0"):
        assert client.send(line)["code"] in {"invalid_request", "statement_not_found"}


def test_the_end_of_the_process_releases_a_waiting_client(tmp_path: Path) -> None:
    servers: list[LineServer] = []

    def make_servers(node: Node) -> list[LineServer]:
        servers.append(LineServer(node))
        return servers

    with ThreadPoolExecutor(1) as pool:
        settings = make_settings(tmp_path / "home", token=_TOKEN)
        with serve_node(settings, more_servers=make_servers):
            client = _Client(servers[0].port)
            submitted = client.send("SUBMIT", "SELECT 1")
            waiting = pool.submit(client.send, "WAIT", submitted["id"], 60)
        assert waiting.result(40)["state"] == "waiting"
        client.close()


def test_the_front_end_imports_no_other_front_end_and_no_store() -> None:
    tree = ast.parse(Path(server.__file__).read_text())
    imported = {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }
    foreign = {
        name for name in imported if name.startswith(("headrace.frontends", "headrace.store"))
    }
    assert foreign == {"headrace.frontends.servers"}
