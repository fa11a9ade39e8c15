"""HiveServer2 over HTTP and over a socket: what each call of a client does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.hiveserver2 import (
    THRIFT,
    HiveClient,
    HiveNode,
    HttpClient,
    SocketClient,
    UnknownMethod,
    id_of,
    rows_of,
    serve_hive,
)
from tests.support.made_results import inline_result, stored_result
from tests.support.waiting import wait_until

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState

STATES = THRIFT.TOperationState
COLUMNS = [("n", "long"), ("s", "string")]
Connect = Callable[..., HiveClient]


@pytest.fixture(params=["http", "socket"])
def connect(server: HiveNode, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Yield a function that connects as a user, by each transport, and opens a session."""
    opened: list[HiveClient] = []

    def connect_as(who: str = "ada") -> HiveClient:
        client = server.over_http(who) if request.param == "http" else server.over_socket(who)
        opened.append(client)
        assert client.open().status.statusCode == 0
        return client

    yield connect_as
    for client in opened:
        client.close()


def test_a_statement_is_submitted_awaited_and_read(server: HiveNode, connect: Connect) -> None:
    client = connect()
    operation = client.execute("SELECT n, s FROM t").operationHandle
    assert operation.hasResultSet
    assert client.status(operation).operationState == STATES.PENDING_STATE
    driver = server.driver_of(operation)
    assert driver.claim().connection is not None
    driver.report_start(id_of(operation))
    assert client.status(operation).operationState == STATES.RUNNING_STATE
    driver.succeed(id_of(operation), inline_result(COLUMNS, [[1, "a"], [None, "é"], [3, None]]))
    status = client.status(operation)
    assert (status.operationState, status.hasResultSet) == (STATES.FINISHED_STATE, True)
    schema = client.call("GetResultSetMetadata", operationHandle=operation).schema
    described = [(each.columnName, each.position) for each in schema.columns]
    assert described == [("n", 1), ("s", 2)]
    assert client.fetch_all(operation) == [(1, "a"), (None, "é"), (3, None)]
    assert client.call("GetQueryId", operationHandle=operation).queryId == id_of(operation)
    for _number in range(2):
        closed = client.call("CloseOperation", operationHandle=operation)
        assert closed.status.statusCode == 0


def test_an_error_has_the_text_of_spark_its_state_and_its_position(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    operation = client.execute("SELECT nope FROM t").operationHandle
    driver = server.driver_of(operation)
    driver.claim()
    failure = Failure(
        code="analysis_error",
        message="The table `t` cannot be found.",
        condition="TABLE_OR_VIEW_NOT_FOUND",
        sqlstate="42P01",
        line=1,
        column=18,
    )
    driver.report_end(id_of(operation), StatementState.FAILED, failure=failure)
    status = client.status(operation)
    text = "[TABLE_OR_VIEW_NOT_FOUND] The table `t` cannot be found. (line 1, column 18)"
    assert status.status.statusCode == THRIFT.TStatusCode.SUCCESS_STATUS
    assert status.operationState == STATES.ERROR_STATE
    assert (status.errorMessage, status.sqlState) == (text, "42P01")
    fetched = client.fetch(operation)
    assert fetched.status.statusCode == THRIFT.TStatusCode.ERROR_STATUS
    assert fetched.status.errorMessage == text


def test_a_cancel_ends_a_statement_and_says_so(server: HiveNode, connect: Connect) -> None:
    client = connect()
    operation = client.execute("SELECT 1").operationHandle
    server.driver_of(operation)
    for _number in range(2):
        assert client.call("CancelOperation", operationHandle=operation).status.statusCode == 0
    wait_until(lambda: client.status(operation).operationState == STATES.CANCELED_STATE)


def test_a_repeated_fetch_gets_the_same_rows_and_the_next_one_the_next(
    server: HiveNode, connect: Connect, tmp_path: Path
) -> None:
    client = connect()
    operation = client.execute("SELECT n, s FROM t").operationHandle
    driver = server.driver_of(operation)
    location = driver.claim().result_location
    assert location is not None
    batches = [[[number, str(number)] for number in range(start, start + 10)] for start in (0, 10)]
    driver.succeed(id_of(operation), stored_result(Path(location), COLUMNS, batches, chunk_limit=1))
    assert [row[0] for row in rows_of(client.fetch(operation, 4, number=100))] == [0, 1, 2, 3]
    assert [row[0] for row in rows_of(client.fetch(operation, 4, number=101))] == [4, 5, 6, 7]
    # The answer was lost, and the client sends the call again: perhaps to another node.
    other = server.over_http()
    for again in (client, other):
        assert [row[0] for row in rows_of(again.fetch(operation, 4, number=101))] == [4, 5, 6, 7]
    assert [row[0] for row in other.fetch_all(operation, 3)] == list(range(8, 20))
    # A client may read a result again while it is kept.
    first = THRIFT.TFetchOrientation.FETCH_FIRST
    assert [row[0] for row in rows_of(client.fetch(operation, 2, orientation=first))] == [0, 1]
    assert [row[0] for row in client.fetch_all(operation)] == list(range(2, 20))


def test_clients_that_do_not_number_their_calls_get_each_row_once(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    operation = client.execute("SELECT n, s FROM t").operationHandle
    driver = server.driver_of(operation)
    driver.claim()
    driver.succeed(id_of(operation), inline_result(COLUMNS, [[n, ""] for n in range(5)]))
    found = [[row[0] for row in rows_of(client.fetch(operation, 2, number=0))] for _ in range(4)]
    assert found == [[0, 1], [2, 3], [4], []]


def test_handles_of_others_name_nothing(server: HiveNode, connect: Connect) -> None:
    ada, bob = connect("ada"), connect("bob")
    operation = ada.execute("SELECT 1").operationHandle
    for name in ("GetOperationStatus", "CancelOperation", "GetResultSetMetadata"):
        response = bob.call(name, operationHandle=operation)
        assert response.status.statusCode == THRIFT.TStatusCode.ERROR_STATUS
        assert "statement_not_found" in response.status.errorMessage
    assert "statement_not_found" in bob.fetch(operation).status.errorMessage
    bob.session = ada.session
    assert "connection_not_found" in bob.execute("SELECT 1").status.errorMessage
    assert ada.status(operation).operationState == STATES.PENDING_STATE


def test_an_unknown_call_leaves_the_connection_usable(server: HiveNode, connect: Connect) -> None:
    del server
    client = connect()
    with pytest.raises(UnknownMethod):
        client.call("RenewDelegationToken", sessionHandle=client.session)
    name = client.call("GetInfo", sessionHandle=client.session, infoType=17).infoValue.stringValue
    assert name == "Spark SQL"


def test_a_wrong_token_is_refused(server: HiveNode) -> None:
    refused = SocketClient(server.binary.port, "wrong")
    assert not refused.is_signed_in
    assert "unauthorized" in refused.refusal
    refused.close()
    http = HttpClient(server.node.http, "wrong")
    answer = http.http.post("/cliservice", content=b"", headers=http.headers)
    assert answer.status_code == 401


@pytest.mark.postgres
def test_another_node_continues_when_the_first_one_has_gone(
    postgres_url: str, tmp_path: Path
) -> None:
    changes = {"store": {"url": postgres_url}, "results": {"location": str(tmp_path / "results")}}
    with ExitStack() as first:
        one = first.enter_context(serve_hive(tmp_path / "one", **changes))
        client = one.over_socket()
        client.open()
        operation = client.execute("SELECT n, s FROM t").operationHandle
        driver = one.driver_of(operation)
        location = driver.claim().result_location
        assert location is not None
        rows = [[number, "x"] for number in range(30)]
        driver.succeed(
            id_of(operation), stored_result(Path(location), COLUMNS, [rows], chunk_limit=1)
        )
        assert [row[0] for row in rows_of(client.fetch(operation, 10, number=50))] == [*range(10)]
        client.close()
        tokens, session = one.tokens, client.session
    with serve_hive(tmp_path / "two", users=(), **changes) as two:
        two.tokens = tokens
        again = two.over_http()
        again.session = session
        # The answer to the call 50 may have been lost with its node.
        for _number in range(2):
            found = rows_of(again.fetch(operation, 10, number=50))
            assert [row[0] for row in found] == [*range(10)]
        assert [row[0] for row in again.fetch_all(operation, 7)] == [*range(10, 30)]
        assert again.status(operation).operationState == STATES.FINISHED_STATE
        assert again.execute("SELECT 2").status.statusCode == 0


@pytest.mark.postgres
def test_nodes_that_take_turns_send_each_row_once(postgres_url: str, tmp_path: Path) -> None:
    changes = {"store": {"url": postgres_url}, "results": {"location": str(tmp_path / "results")}}
    with ExitStack() as nodes:
        one = nodes.enter_context(serve_hive(tmp_path / "one", **changes))
        client = one.over_http()
        client.open()
        operation = client.execute("SELECT n, s FROM t").operationHandle
        driver = one.driver_of(operation)
        location = driver.claim().result_location
        assert location is not None
        rows = [[number, "x"] for number in range(30)]
        driver.succeed(
            id_of(operation), stored_result(Path(location), COLUMNS, [rows], chunk_limit=1)
        )
        two = nodes.enter_context(serve_hive(tmp_path / "two", users=(), **changes))
        two.tokens = one.tokens
        clients = [client, two.over_http()]
        clients[1].session = client.session

        def fetch(client: HiveClient, number: int, **options: object) -> list[int]:
            found = rows_of(client.fetch(operation, 4, number=number, **options))
            return [row[0] for row in found]

        # Clients that number their calls, and those that do not.
        for numbers in (range(50, 60), [0] * 10):
            first = THRIFT.TFetchOrientation.FETCH_FIRST
            seen = fetch(clients[0], numbers[0], orientation=first)
            for turn, number in enumerate(numbers[1:], start=1):
                seen += fetch(clients[turn % 2], number)
            assert seen == [*range(30)]
        # The answer of one node is lost, and the other one is sent the call again.
        fetch(clients[0], 70, orientation=first)
        assert fetch(clients[1], 71) == [4, 5, 6, 7]
        assert fetch(clients[0], 71) == [4, 5, 6, 7]
        assert fetch(clients[1], 72) == [8, 9, 10, 11]
