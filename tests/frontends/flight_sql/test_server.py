"""Flight SQL as a client of pyarrow sees it."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow.flight as fl
import pytest
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.made_results import inline_result
from tests.support.waiting import wait_until

from headrace.frontends.flight_sql.messages import write_command, write_field
from headrace.frontends.flight_sql.server import FlightSqlServer
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState

TOKEN = "of-the-node"
COLUMNS = [("n", "long"), ("s", "string")]


class Flight:
    """A node with Flight SQL, its client, and the driver of the pool."""

    def __init__(self, node: InProcessNode, port: int) -> None:
        self.node = node
        self.client = fl.FlightClient(f"grpc://127.0.0.1:{port}")
        self.options = fl.FlightCallOptions(
            headers=[(b"authorization", f"Bearer {TOKEN}".encode())], timeout=30
        )
        self.driver: Any = None

    def info(self, name: str, fields: bytes) -> Any:
        descriptor = fl.FlightDescriptor.for_command(write_command(name, fields))
        return self.client.get_flight_info(descriptor, self.options)

    def all_statements(self) -> list[Any]:
        caller = self.node.node.authenticator.local_caller
        page = self.node.node.statements.page(
            caller, session=None, states=None, before=None, id_prefix=None, limit=100
        )
        return list(page.items)

    def play(self, end: Any) -> threading.Thread:
        """Let the driver end the next statement: `end(driver, id)`."""
        before = {each.id for each in self.all_statements()}

        def run() -> None:
            new: list[Any] = []

            def is_submitted() -> bool:
                new[:] = [each for each in self.all_statements() if each.id not in before]
                return bool(new)

            wait_until(is_submitted)
            if self.driver is None:
                self.driver = self.node.launcher.connect_driver(new[0].session_id)
                self.driver.hello()
            self.driver.claim()
            end(self.driver, new[0].id)

        thread = threading.Thread(target=run)
        thread.start()
        return thread


@pytest.fixture(scope="module")
def flight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flight]:
    settings = make_settings(
        tmp_path_factory.mktemp("flight") / "home",
        token=TOKEN,
        http={"auth": True},
        auth={"roles": {}},
    )
    started: list[FlightSqlServer] = []

    def more_servers(node: Any) -> list[FlightSqlServer]:
        started.append(FlightSqlServer(node, "127.0.0.1", 0))
        return started

    with serve_node(settings, more_servers=more_servers) as node:
        yield Flight(node, started[0].port)


def succeed(driver: Any, statement: str) -> None:
    driver.succeed(statement, inline_result(COLUMNS, [[1, "a"], [None, "é"]]))


def test_a_query_is_run_once_and_its_ticket_read(flight: Flight) -> None:
    before = len(flight.all_statements())
    playing = flight.play(succeed)
    info = flight.info("CommandStatementQuery", write_field(1, "SELECT n, s FROM t"))
    playing.join()
    assert (info.total_records, info.schema.names) == (2, ["n", "s"])
    assert info.endpoints[0].locations == []
    for _number in range(2):
        read = flight.client.do_get(info.endpoints[0].ticket, flight.options).read_all()
        assert read.to_pylist() == [{"n": 1, "s": "a"}, {"n": None, "s": "é"}]
        assert read.schema.equals(info.schema)
    assert len(flight.all_statements()) == before + 1


def test_a_long_error_is_cut_and_names_the_statement(flight: Flight) -> None:
    ids: list[str] = []

    def fail(driver: Any, statement: str) -> None:
        ids.append(statement)
        failure = Failure(code="analysis_error", message="x" * 100_000)
        driver.report_end(statement, StatementState.FAILED, failure=failure)

    playing = flight.play(fail)
    with pytest.raises(Exception, match="analysis_error") as caught:
        flight.info("CommandStatementQuery", write_field(1, "SELECT nope"))
    playing.join()
    assert ids[0] in str(caught.value)
    assert len(str(caught.value)) < 2000
    assert "Traceback" not in str(caught.value)


def test_a_command_that_is_prepared_does_not_run(flight: Flight) -> None:
    before = len(flight.all_statements())
    body = write_command(
        "ActionCreatePreparedStatementRequest", write_field(1, "CREATE TABLE x (n INT)")
    )
    action = fl.Action("CreatePreparedStatement", body)
    assert len(list(flight.client.do_action(action, flight.options))) == 1
    assert len(flight.all_statements()) == before


def test_a_sign_in_returns_the_token_and_a_wrong_one_is_refused(flight: Flight) -> None:
    header, value = flight.client.authenticate_basic_token("token", TOKEN)
    assert (header, value) == (b"authorization", f"Bearer {TOKEN}".encode())
    wrong = base64.b64encode(b"token:wrong").decode()
    for refused in (f"Basic {wrong}", "Bearer wrong", "Digest x"):
        options = fl.FlightCallOptions(headers=[(b"authorization", refused.encode())])
        with pytest.raises(fl.FlightUnauthenticatedError):
            list(flight.client.list_actions(options))


def test_basic_credentials_may_lack_their_padding(flight: Flight) -> None:
    for text in (f"token:{TOKEN}", "token:x"):
        encoded = base64.b64encode(text.encode()).decode().rstrip("=")
        options = fl.FlightCallOptions(headers=[(b"authorization", f"Basic {encoded}".encode())])
        if TOKEN in text:
            assert list(flight.client.list_actions(options))
            continue
        with pytest.raises(fl.FlightUnauthenticatedError, match="not valid"):
            list(flight.client.list_actions(options))


def test_types_of_tables_need_no_statement(flight: Flight) -> None:
    info = flight.info("CommandGetTableTypes", b"")
    read = flight.client.do_get(info.endpoints[0].ticket, flight.options).read_all()
    assert read.column(0).to_pylist() == ["TABLE", "VIEW"]
    assert not read.schema.field(0).nullable


def test_the_server_describes_itself_with_the_values_that_are_asked_for(flight: Flight) -> None:
    info = flight.info("CommandGetSqlInfo", write_field(1, bytes([0, 3])))
    read = flight.client.do_get(info.endpoints[0].ticket, flight.options).read_all()
    assert read.schema.equals(info.schema)
    assert read.to_pylist() == [
        {"info_name": 0, "value": "Headrace"},
        {"info_name": 3, "value": False},
    ]


def test_tables_have_no_primary_keys(flight: Flight) -> None:
    info = flight.info("CommandGetPrimaryKeys", write_field(3, "t"))
    assert flight.client.do_get(info.endpoints[0].ticket, flight.options).read_all().num_rows == 0
