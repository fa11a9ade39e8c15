"""The driver's client of the link, against small real HTTP servers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.executions import make_execution

from headrace.driver.__main__ import take_bootstrap
from headrace.driver.link import LinkRefused, NodeLink, NoNodeAnswers
from headrace.driver.process import build_bootstrap
from headrace.errors import LeaseLost
from headrace.files.private_files import write_private
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Bootstrap, Ended, Hello
from headrace.model.result import Disposition, ResultReport

STATEMENT = "st_" + "1" * 32


class Server(ThreadingHTTPServer):
    """A node that gives each request the next of its answers, and repeats the last one."""

    daemon_threads = True

    def __init__(self, *answers: tuple[int, object]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.requests: list[tuple[str, str, object]] = []
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def stop(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append((self.path, self.headers["authorization"], json.loads(body)))
        answers = self.server.answers
        status, answer = answers.pop(0) if len(answers) > 1 else answers[0]
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


APPLIED = (200, {"applied": True})
STORE_DOWN = (503, {"code": "store_unavailable"})
HELLO = Hello(pid=1, spark_version="4.1", application_id="app", ui_url=None, keeps_tables=True)
UNREACHABLE = "http://127.0.0.1:9"

StartServer = Callable[..., Server]
Connect = Callable[..., NodeLink]


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    servers: list[Server] = []

    def start(*answers: tuple[int, object]) -> Server:
        servers.append(Server(*answers))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of the bootstrap file."""
    return tmp_path / "bootstrap.json"


@pytest.fixture
def connect(file: Path) -> Iterator[Connect]:
    links: list[NodeLink] = []

    def connect(*nodes: str, **fields: float) -> NodeLink:
        bootstrap = make_bootstrap(list(nodes)).model_copy(update=fields)
        write_private(file, bootstrap.model_dump_json())
        bootstrap, token = build_bootstrap(take_bootstrap(file))
        links.append(NodeLink(file, bootstrap, token))
        return links[-1]

    yield connect
    for link in links:
        link.close()


TRANSACTION = "tx_" + "1" * 32


def make_bootstrap(nodes: list[str]) -> Bootstrap:
    return Bootstrap(
        session_id="se_1",
        epoch=4,
        token="secret",
        nodes=nodes,
        conf={},
        results="/results",
        inline_limit=1,
        chunk_limit=1,
        # The timeout of a call, by which no call of a busy machine fails.
        lease_seconds=60,
        renew_seconds=1,
        orphan_seconds=60,
    )


def record_timeouts(link: NodeLink, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list to which each request adds its timeout."""
    timeouts: list[float] = []
    request = link._pool.request

    def record(*arguments: Any, timeout: float, **options: Any) -> Any:
        timeouts.append(timeout)
        return request(*arguments, timeout=timeout, **options)

    monkeypatch.setattr(link._pool, "request", record)
    return timeouts


@pytest.mark.parametrize("call", ["hello", "renew"])
def test_a_frozen_node_does_not_cost_the_lease_if_another_node_answers(
    call: str, start_server: StartServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(APPLIED)
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # connects, but never answers
        address = f"http://127.0.0.1:{frozen.getsockname()[1]}"
        link = connect(address, server.address, lease_seconds=4, renew_seconds=1)
        timeouts = record_timeouts(link, monkeypatch)
        answer = link.renew() if call == "renew" else link.hello(HELLO)
    assert answer.applied
    # The clock of the test would also count the time in which the machine has no processor for it.
    assert timeouts[0] < 3, "the lease had expired before another node was asked"
    assert {path for path, _, _ in server.requests} == {f"/driver/v1/sessions/se_1/4/{call}"}


def test_every_address_that_a_node_has_named_has_its_turn(
    start_server: StartServer, connect: Connect
) -> None:
    """The bootstrap file has old addresses only. Another node was started later."""
    later = start_server(APPLIED)
    first = start_server(APPLIED)
    link = connect(first.address, UNREACHABLE)
    first.answers = [(200, {"applied": True, "nodes": [first.address, later.address]})]
    link.renew()
    first.answers = [STORE_DOWN]
    link.renew()
    assert [path for path, _, _ in later.requests] == ["/driver/v1/sessions/se_1/4/renew"]


@pytest.mark.parametrize(("lease_seconds", "is_kept"), [(60, True), (0, False)])
def test_a_node_that_was_live_until_recently_is_called_when_the_others_fail(
    start_server: StartServer, connect: Connect, file: Path, lease_seconds: float, is_kept: bool
) -> None:
    """A frozen node is not live, and can return just before the other node ends."""
    frozen = start_server(APPLIED)
    other = start_server(APPLIED)
    patience = 60.0 if is_kept else 1.0
    link = connect(
        other.address, frozen.address, lease_seconds=lease_seconds, orphan_seconds=patience
    )
    file.write_text("{}")
    other.answers = [(200, {"applied": True, "nodes": [other.address]})]
    link.renew()
    other.answers = [STORE_DOWN]
    if is_kept:
        assert link.renew().applied
    else:
        with pytest.raises(NoNodeAnswers):
            link.renew()
    assert len(frozen.requests) == is_kept


def test_a_call_carries_token_session_and_epoch(
    start_server: StartServer, connect: Connect
) -> None:
    server = start_server(APPLIED)
    ended = Ended(statement_id=STATEMENT, state=StatementState.CANCELLED)
    assert connect(server.address).report_end(ended).applied
    path, authorization, body = server.requests[0]
    assert path == "/driver/v1/sessions/se_1/4/ended"
    assert authorization == "Bearer secret"
    assert Ended.model_validate(body) == ended


def test_calls_wait_for_the_end_of_a_store_outage(
    start_server: StartServer, connect: Connect
) -> None:
    server = start_server(STORE_DOWN, STORE_DOWN, STORE_DOWN, APPLIED)
    # The outage lasts longer than orphan_seconds, but a node that answers 503 is alive.
    link = connect(server.address, orphan_seconds=0.2)
    ages = iter([0.1, 1.0, 2.0, 3.0])
    assert link.report_start(STATEMENT, ages.__next__).applied
    # A node counts back from the attempt that reaches it, so that each has an age of its own.
    assert [body["ran_seconds"] for _, _, body in server.requests] == [0.1, 1.0, 2.0, 3.0]


@pytest.mark.finding("B4")
def test_a_driver_ends_itself_if_no_renewal_is_accepted_for_orphan_seconds(
    start_server: StartServer, connect: Connect
) -> None:
    # Another host, which reaches the store, may take over the session after this time.
    server = start_server(APPLIED, *([STORE_DOWN] * 100))
    link = connect(server.address, orphan_seconds=1.0)
    assert link.renew().applied
    with pytest.raises(NoNodeAnswers):
        link.renew()
    # The node has more answers: the driver has given up before.
    assert 2 <= len(server.requests) < 100


def test_a_call_moves_to_the_next_node_if_one_cannot_be_reached(
    start_server: StartServer, connect: Connect
) -> None:
    server = start_server(APPLIED)
    assert connect(UNREACHABLE, server.address).renew().applied


def test_a_renewal_brings_the_addresses_of_other_nodes(
    start_server: StartServer, connect: Connect
) -> None:
    second = start_server(APPLIED)
    first = start_server((200, {"applied": True, "nodes": [second.address]}))
    link = connect(first.address)
    link.renew()
    link.renew()
    assert (len(first.requests), len(second.requests)) == (1, 1)


def test_a_node_on_a_new_port_is_found_through_the_bootstrap_file(
    start_server: StartServer, connect: Connect, file: Path
) -> None:
    link = connect(UNREACHABLE)
    server = start_server(APPLIED)
    bootstrap = Bootstrap.model_validate_json(file.read_text())
    moved = bootstrap.model_copy(update={"nodes": [server.address]})
    write_private(file, moved.model_dump_json())
    assert link.renew().applied


@pytest.mark.parametrize("status", [401, 409])
def test_a_lost_lease_raises_without_a_retry(
    start_server: StartServer, connect: Connect, status: int
) -> None:
    server = start_server((status, {"code": "lease_lost"}))
    with pytest.raises(LeaseLost):
        connect(server.address).renew()
    assert len(server.requests) == 1


def test_a_call_that_the_node_refuses_is_not_retried(
    start_server: StartServer, connect: Connect
) -> None:
    server = start_server((400, {"code": "invalid_request"}))
    with pytest.raises(LinkRefused, match="invalid_request"):
        connect(server.address).renew()
    assert len(server.requests) == 1


@pytest.mark.finding("S8")
def test_a_report_that_the_node_refuses_fails_only_its_statement(
    start_server: StartServer, connect: Connect
) -> None:
    server = start_server((413, {"code": "report_too_large"}), APPLIED)
    result = ResultReport(
        disposition=Disposition.INLINE,
        spark_schema={"type": "struct", "fields": []},
        row_count=0,
        byte_count=0,
        truncated=False,
        chunks=1,
        data=b"",
    )
    refused = Ended(
        statement_id=STATEMENT,
        state=StatementState.SUCCESS,
        result=result,
        committed=TRANSACTION,
        wrote=True,
        note="a note",
        ran_seconds=2.0,
    )
    assert connect(server.address).report_end(refused).applied
    replaced = Ended.model_validate(server.requests[1][2])
    assert replaced.failure is not None
    assert replaced.failure.code == "link_refused"
    assert "ended as success" in replaced.failure.message
    assert "report_too_large" in replaced.failure.message
    assert replaced == Ended(
        statement_id=STATEMENT,
        state=StatementState.FAILED,
        failure=replaced.failure,
        committed=TRANSACTION,
        wrote=True,
        ran_seconds=2.0,
    )


@pytest.mark.finding("S8")
def test_the_refused_report_of_a_cancel_still_reports_the_cancel(
    start_server: StartServer, connect: Connect
) -> None:
    server = start_server((400, {"code": "invalid_request"}), APPLIED)
    connect(server.address).report_end(
        Ended(statement_id=STATEMENT, state=StatementState.CANCELLED)
    )
    assert Ended.model_validate(server.requests[1][2]).state is StatementState.CANCELLED


def test_a_driver_without_any_node_gives_up(connect: Connect) -> None:
    link = connect(UNREACHABLE, orphan_seconds=0.3)
    with pytest.raises(NoNodeAnswers):
        link.renew()


def test_a_goodbye_that_no_node_receives_raises_no_error(connect: Connect) -> None:
    connect(UNREACHABLE, orphan_seconds=0.3).goodbye()


def test_a_progress_report_that_fails_is_not_retried_and_raises_no_error(
    start_server: StartServer, connect: Connect
) -> None:
    server = start_server(STORE_DOWN)
    connect(server.address).report_progress({})
    assert len(server.requests) == 1


def test_a_node_of_an_older_version_refuses_a_report_of_stages_once(
    start_server: StartServer, connect: Connect
) -> None:
    server = start_server((404, {"code": "not_found"}))
    with pytest.raises(LinkRefused):
        connect(server.address).report_executions({STATEMENT: make_execution()})
    assert len(server.requests) == 1


def test_the_values_of_secrets_in_a_plan_are_references(
    start_server: StartServer, connect: Connect
) -> None:
    server = start_server(APPLIED)
    link = connect(server.address)
    link.known_secrets.add({"pg": "first-secret"})
    operator = {"depth": 0, "name": "Scan", "metrics": {"first-secret": "first-secret"}}
    execution = make_execution("a = first-secret", operators=[operator])
    link.report_executions({STATEMENT: execution})
    body = str(server.requests[-1][-1])
    assert "a = ${secret:pg}" in body
    assert "first-secret" not in body


def test_reports_have_references_instead_of_the_secrets_that_the_driver_has(
    start_server: StartServer, connect: Connect
) -> None:
    server = start_server((200, {"values": {"kafka": "second-secret"}}))
    link = connect(server.address)
    link.known_secrets.add({"pg": "first-secret"})
    assert link.find_secrets(["kafka"]).values == {"kafka": "second-secret"}
    server.answers = [APPLIED]
    link.hello(HELLO.model_copy(update={"lost": ["first-secret, second-secret"]}))

    body = server.requests[-1][-1]
    assert "${secret:pg}, ${secret:kafka}" in str(body)
    assert "first-secret" not in str(body)


def test_the_secrets_of_the_bootstrap_are_known_and_leave_its_file(tmp_path: Path) -> None:
    file = tmp_path / "bootstrap.json"
    fields = {"conf": {"spark.x": "first-secret"}, "secrets": {"pg": "first-secret"}}
    write_private(file, make_bootstrap([UNREACHABLE]).model_copy(update=fields).model_dump_json())
    bootstrap, token = build_bootstrap(take_bootstrap(file))

    assert bootstrap.conf == {"spark.x": "first-secret"}
    assert NodeLink(file, bootstrap, token).known_secrets.mask("first-secret") == "${secret:pg}"
    assert "first-secret" not in file.read_text()
    assert "first-secret" not in repr(bootstrap.model_copy(update={"conf": {}}))
