"""Rows by the part: on any node, of any size, and after the result has gone."""

from __future__ import annotations

import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.hiveserver2 import (
    THRIFT,
    Connect,
    HiveClient,
    HiveNode,
    id_of,
    rows_of,
    serve_hive,
    write_call,
)
from tests.support.made_results import inline_result, stored_result
from tests.support.waiting import wait_until

from headrace.frontends.hiveserver2.fetches import _MAX_WHOLE_BYTES
from headrace.store.statements import results

FIRST = THRIFT.TFetchOrientation.FETCH_FIRST
NUMBERS = [("n", "long")]
MIB = 1024 * 1024


def store(server: HiveNode, operation: Any, columns: Any, batches: Any) -> None:
    """Let the driver store a result, of a part per batch."""
    location = server.claim(operation).result_location
    assert location is not None
    result = stored_result(Path(location), columns, batches, chunk_limit=1)
    server.driver_of(operation).succeed(id_of(operation), result)


def test_a_fetch_waits_for_the_end_of_the_statement(server: HiveNode, connect: Connect) -> None:
    client = connect()
    operation = client.execute("SELECT n FROM t").operationHandle
    server.claim(operation)
    with ThreadPoolExecutor(1) as thread:
        fetched = thread.submit(client.fetch, operation)
        time.sleep(0.3)
        assert not fetched.done()
        server.driver_of(operation).succeed(id_of(operation), inline_result(NUMBERS, [[1]]))
        assert rows_of(fetched.result()) == [(1,)]


def test_no_answer_before_the_end_is_empty(server: HiveNode, connect: Connect) -> None:
    """PyHive ends at an empty answer, and Kyuubi's JDBC repeats a row after one."""
    client = connect()
    operation = client.execute("SELECT n FROM t").operationHandle
    store(server, operation, NUMBERS, [[], [[1], [2]], [], [], [[3]], []])
    found = []
    while (response := client.fetch(operation, 2)).hasMoreRows:
        found.append([n for (n,) in rows_of(response)])
    assert found == [[1, 2], [3]]
    assert rows_of(response) == []


def test_an_answer_is_cut_by_bytes_whatever_the_client_asks_for(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    operation = client.execute("SELECT s FROM t").operationHandle
    store(server, operation, [("s", "string")], [[["x" * MIB]] * 10, [["y" * MIB]] * 10])
    sizes = []
    while rows := rows_of(client.fetch(operation, 1000)):
        sizes.append(len(rows))
    assert sum(sizes) == 20
    assert max(sizes) <= 8
    # A row that is larger than an answer comes alone.
    operation = client.execute("SELECT big").operationHandle
    server.run(operation, inline_result([("s", "string")], [["x" * 9 * MIB], ["z"]]))
    assert [len(rows_of(client.fetch(operation))) for _number in range(3)] == [1, 1, 0]


def test_a_client_of_the_first_version_gets_all_rows_in_one_answer(
    server: HiveNode, connect: Connect
) -> None:
    """ADBC's driver for Spark asks for the first rows while there are more."""
    client = connect(version=0)
    operation = client.execute("SELECT n FROM t").operationHandle
    batches = [[[number] for number in range(start, start + 35_000)] for start in (0, 35_000)]
    store(server, operation, NUMBERS, batches)
    for _number in range(2):
        response = client.fetch(operation, 65_536, orientation=FIRST)
        assert not response.hasMoreRows
        values = [row.colVals[0].i64Val.value for row in response.results.rows]
        assert values == list(range(70_000))


def test_a_result_that_is_too_large_for_the_first_version_is_refused(
    server: HiveNode, connect: Connect
) -> None:
    client = connect(version=0)
    operation = client.execute("SELECT s FROM t").operationHandle
    store(server, operation, [("s", "string")], [[["x" * MIB]] * 11] * 3)
    status = client.fetch(operation, 65_536, orientation=FIRST).status
    assert status.statusCode == THRIFT.TStatusCode.ERROR_STATUS
    assert status.errorMessage.startswith("[answer_too_large]")
    assert str(_MAX_WHOLE_BYTES) in status.errorMessage


@pytest.mark.parametrize("orientation", [1, 2, 3, 5])
def test_an_orientation_without_a_meaning_is_refused(
    server: HiveNode, connect: Connect, orientation: int
) -> None:
    client = connect()
    operation = client.execute("SELECT 1").operationHandle
    server.run(operation)
    assert "FETCH_NEXT" in client.fetch(operation, orientation=orientation).status.errorMessage


@pytest.mark.parametrize("rows", [0, -1, 1 << 62])
def test_a_number_of_rows_without_a_meaning_gets_rows(
    server: HiveNode, connect: Connect, rows: int
) -> None:
    client = connect()
    operation = client.execute("SELECT 1").operationHandle
    server.run(operation)
    assert rows_of(client.fetch(operation, rows)) == [(1,)]


def test_a_fetch_after_the_result_has_expired_names_the_setting(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    operation = client.execute("SELECT 1").operationHandle
    server.run(operation)
    with server.node.database.write("test") as tx:
        results.mark_gone(tx, id_of(operation))
    for _number in range(2):
        status = client.fetch(operation).status
        assert status.statusCode == THRIFT.TStatusCode.ERROR_STATUS
        assert status.errorMessage.startswith("[result_gone]")
        assert "results.retention" in status.errorMessage


def test_clients_that_vanish_in_a_fetch_leave_nothing_open(server: HiveNode) -> None:
    client = server.over_socket()
    client.open()
    operation = client.execute("SELECT s FROM t").operationHandle
    store(server, operation, [("s", "string")], [[["x" * MIB]] * 8])
    for _number in range(20):
        gone = server.over_socket()
        message = write_call(
            "FetchResults", 1, operationHandle=operation, orientation=FIRST, maxRows=1000
        )
        gone.socket.sendall(struct.pack("!I", len(message)) + message)
        # The answer does not fit into the buffers of the system.
        gone.receive(10)
        gone.close()
    # Only the first client is left.
    wait_until(lambda: len(server.binary._connections) == 1)
    assert len(rows_of(client.fetch(operation, orientation=FIRST))) > 0
    client.close_operations()
    client.close()


def test_kyuubis_driver_gets_arrow_when_it_asks_for_it(server: HiveNode, connect: Connect) -> None:
    client = connect(**{"set:hiveconf:kyuubi.operation.result.format": "arrow"})
    operation = client.execute("SELECT * FROM t").operationHandle
    columns = [
        ("n", "long"),
        ("f", "float"),
        ("d", "decimal(10,2)"),
        ("t", "timestamp_ntz"),
        ("a", {"type": "array", "elementType": "integer", "containsNull": True}),
    ]
    moment = pa.scalar(0, pa.timestamp("us")).as_py()
    rows: list[list[Any]] = [[1, 0.5, None, moment, [1, None]], [None, None, None, None, None]]
    server.run(operation, inline_result(columns, rows))
    described = client.call("GetResultSetMetadata", operationHandle=operation)
    assert "__kyuubi_operation_result_format__=arrow" in described.status.infoMessages
    response = client.fetch(operation)
    [[message]] = [column.binaryVal.values for column in response.results.columns]
    schema = pa.schema(
        [
            ("_0", pa.int64()),
            ("_1", pa.float32()),
            ("_2", pa.decimal128(10, 2)),
            ("_3", pa.string()),
            ("_4", pa.string()),
        ]
    )
    read = pa.ipc.read_record_batch(pa.py_buffer(message), schema).to_pylist()
    assert [list(row.values()) for row in read] == [
        [1, 0.5, None, "1970-01-01 00:00:00", "[1,null]"],
        [None] * 5,
    ]
    end = client.fetch(operation)
    assert (end.hasMoreRows, end.results.columns) == (False, [])
    # Calls for metadata and the log keep their form.
    assert client.fetch_log(operation)
    types = client.call("GetTableTypes", sessionHandle=client.session).operationHandle
    assert client.fetch_all(types) == [("TABLE",), ("VIEW",)]


@pytest.mark.postgres
def test_two_nodes_take_turns_at_the_calls_of_a_client(postgres_url: str, tmp_path: Path) -> None:
    """Proxies drop the cookies of servers, so that each call may reach another node."""
    changes = {"store": {"url": postgres_url}, "results": {"location": str(tmp_path / "results")}}
    with ExitStack() as both:
        one = both.enter_context(serve_hive(tmp_path / "one", **changes))
        two = both.enter_context(serve_hive(tmp_path / "two", users=(), **changes))
        two.tokens = one.tokens
        clients: list[HiveClient] = [one.over_http(), two.over_http()]
        first, second = clients
        # It is one client, which numbers its calls.
        second.numbers = first.numbers
        first.open(**{"headrace.hive_show": "true"})
        second.session = first.session
        operation = second.execute("SELECT n FROM t").operationHandle
        server = one if one.node.launcher.started else two
        assert first.execute("SELECT 2", number=50).operationHandle is not None
        again = [client.execute("INSERT INTO t VALUES (1)", number=60) for client in clients]
        assert len({id_of(each.operationHandle) for each in again}) == 1
        wait_until(lambda: one.node.launcher.started or two.node.launcher.started)
        server = one if one.node.launcher.started else two
        store(server, operation, NUMBERS, [[[n] for n in range(10)], [[n] for n in range(10, 25)]])
        found: list[int] = []
        for number in range(6):
            found += [n for (n,) in rows_of(clients[number % 2].fetch(operation, 7))]
        assert found == list(range(25))
        # The other node starts again at the first row.
        assert rows_of(first.fetch(operation, 3, orientation=FIRST)) == [(0,), (1,), (2,)]
        assert rows_of(second.fetch(operation, 3)) == [(3,), (4,), (5,)]
        assert first.fetch_log(operation)
        assert second.fetch_log(operation)
        assert first.fetch_log(operation) == second.fetch_log(operation) == []
        shown = first.execute("SHOW SCHEMAS").operationHandle
        server.run(shown, inline_result([("namespace", "string")], [["d"]]))
        described = second.call("GetResultSetMetadata", operationHandle=shown).schema.columns
        assert [column.columnName for column in described] == ["database_name"]
        for client in clients:
            assert client.call("CloseOperation", operationHandle=operation).status.statusCode == 0
        for client in clients:
            session = client.session
            assert client.call("CloseSession", sessionHandle=session).status.statusCode == 0
        assert "connection_not_found" in second.execute("SELECT 1").status.errorMessage
