"""HiveServer2 over HTTP and over a socket: what each call of a client does."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import pytest
from sqlalchemy import event
from tests.support.hiveserver2 import (
    THRIFT,
    Connect,
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

from headrace.frontends.hiveserver2 import calls
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState

STATES = THRIFT.TOperationState
COLUMNS = [("n", "long"), ("s", "string")]


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
    server.claim(operation)
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
    server.claim(operation)
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


WITHOUT_ROWS = [
    "CREATE TABLE t (a INT)",
    '/* {"app": "dbt"} */\ncreate or replace view v as select 1',
    "-- a comment\nDROP TABLE t",
    "USE d",
    "ALTER TABLE t ADD COLUMNS (b INT)",
]


@pytest.mark.parametrize("text", WITHOUT_ROWS)
@pytest.mark.parametrize("is_async", [True, False])
def test_ddl_has_no_rows_in_handle_and_state(
    server: HiveNode, connect: Connect, text: str, is_async: bool
) -> None:
    client = connect()
    with ThreadPoolExecutor(1) as thread:
        submitted = thread.submit(client.execute, text, run_async=is_async)
        if is_async:
            operation = submitted.result().operationHandle
            assert not operation.hasResultSet
            server.run(operation, inline_result([], []))
        else:
            waiting = wait_until(lambda: server.find_waiting(text))
            server.run(waiting, inline_result([], []))
            operation = submitted.result().operationHandle
    assert not operation.hasResultSet
    status = client.status(operation)
    assert (status.operationState, status.hasResultSet) == (STATES.FINISHED_STATE, False)
    # A client that fetches gets lists without members, and none that is null.
    described = client.call("GetResultSetMetadata", operationHandle=operation)
    assert (described.status.statusCode, described.schema.columns) == (0, [])
    fetched = client.fetch(operation)
    assert fetched.status.statusCode == 0
    assert (fetched.hasMoreRows, fetched.results.rows, fetched.results.columns) == (False, [], [])


@pytest.mark.parametrize(
    "text",
    [
        '/* {"app": "dbt"} */ SELECT 1',
        "SHOW TABLES",
        "SET a = b",
        "EXPLAIN DROP TABLE t",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "LIST TABLES",
        "CALL c.system.rollback('t')",
    ],
)
def test_statements_that_may_have_rows_say_so_from_the_begin(
    server: HiveNode, connect: Connect, text: str
) -> None:
    del server
    assert connect().execute(text).operationHandle.hasResultSet


@pytest.mark.parametrize("written", [None, 0, 12])
def test_dml_has_the_number_of_its_rows(
    server: HiveNode, connect: Connect, written: int | None
) -> None:
    client = connect()
    operation = client.execute("INSERT INTO t VALUES (1)").operationHandle
    server.run(operation, inline_result([], []), rows_written=written)
    status = client.status(operation)
    assert (status.hasResultSet, status.numModifiedRows) == (
        False,
        -1 if written is None else written,
    )


def test_the_trace_of_an_error_is_in_the_messages_of_the_answer(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    operation = client.execute("SELECT 1/0").operationHandle
    driver = server.driver_of(operation)
    server.claim(operation)
    text = "Division by zero.\n== SQL ==\nSELECT 1/0\n       ^^^"
    trace = "org.apache.spark.SparkArithmeticException\n\tat a.b.C(C.scala:1)"
    failure = Failure(code="execution_error", message=text, condition="DIVIDE_BY_ZERO", trace=trace)
    driver.report_end(id_of(operation), StatementState.FAILED, failure=failure)
    status = client.fetch(operation).status
    assert status.errorMessage == f"[DIVIDE_BY_ZERO] {text}"
    assert status.infoMessages == trace.split("\n")
    assert client.status(operation).errorMessage == f"[DIVIDE_BY_ZERO] {text}"


def test_an_error_without_a_trace_has_no_list_of_messages(
    server: HiveNode, connect: Connect
) -> None:
    """Hive's JDBC takes the first member of the list, also of an empty one."""
    del server
    client = connect()
    assert client.execute("   ").status.infoMessages is None
    assert client.execute("SELECT 1; SELECT 2").status.errorMessage.startswith(
        "[PARSE_SYNTAX_ERROR] The text contains 2 statements"
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (StatementState.FAILED, STATES.ERROR_STATE),
        (StatementState.CANCELLED, STATES.CANCELED_STATE),
    ],
)
def test_an_end_without_success_never_reads_as_closed(
    server: HiveNode, connect: Connect, state: StatementState, expected: int
) -> None:
    """Kyuubi's JDBC takes CLOSED for a success."""
    client = connect()
    operation = client.execute("SELECT 1").operationHandle
    driver = server.driver_of(operation)
    server.claim(operation)
    client.call("CancelOperation", operationHandle=operation)
    driver.report_end(
        id_of(operation), state, failure=Failure(code="execution_error", message="It is over.")
    )
    status = client.status(operation)
    assert status.operationState == expected
    assert "It is over." in status.errorMessage or state is StatementState.CANCELLED
    assert client.fetch(operation).status.statusCode == THRIFT.TStatusCode.ERROR_STATUS


def test_a_statement_that_its_driver_has_lost_reads_as_failed(tmp_path: Path) -> None:
    with serve_hive(tmp_path / "home", users=["ada"]) as server:
        client = server.over_http()
        client.open()
        operation = client.execute("INSERT INTO t SELECT 1").operationHandle
        server.claim(operation)
        server.driver_of(operation).report_start(id_of(operation))
        caller = server.node.node.authenticator.local_caller
        session = server.node.node.statements.get(caller, id_of(operation)).session_id
        server.node.launcher.report_exit(session, "killed by the system")
        wait_until(lambda: client.status(operation).operationState == STATES.ERROR_STATE)
        status = client.status(operation)
        assert "driver_lost" in status.errorMessage
        assert client.fetch(operation).status.statusCode == THRIFT.TStatusCode.ERROR_STATUS


def test_a_statement_that_takes_too_long_reads_as_timed_out(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    operation = client.execute("SELECT 1", queryTimeout=1).operationHandle
    driver = server.driver_of(operation)
    server.claim(operation)
    driver.report_start(id_of(operation))
    wait_until(lambda: driver.poll(in_flight=[id_of(operation)]).cancel)
    driver.report_end(id_of(operation), StatementState.CANCELLED)
    status = client.status(operation)
    assert status.operationState == STATES.TIMEDOUT_STATE
    assert status.errorMessage


@pytest.mark.parametrize(
    ("version", "fields"),
    [(9, {}), (5, {"getProgressUpdate": True})],
    ids=["of Kyuubi's JDBC", "of PyHive"],
)
def test_a_question_for_the_state_waits_for_a_change(
    server: HiveNode,
    connect: Connect,
    version: int,
    fields: dict[str, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kyuubi's JDBC asks without a pause, dbt by PyHive pauses for five seconds."""
    monkeypatch.setattr(calls, "_HOLD_SECONDS", 50.0)
    client = connect(version=version)
    operation = client.execute("SELECT 1").operationHandle
    driver = server.driver_of(operation)
    server.claim(operation)
    driver.report_start(id_of(operation))
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(
            client.call, "GetOperationStatus", operationHandle=operation, **fields
        )
        assert not wait([asked], 1.5).done
        ended = time.monotonic()
        driver.succeed(id_of(operation))
        assert asked.result().operationState == STATES.FINISHED_STATE
        assert time.monotonic() - ended < 25


def test_a_client_that_draws_the_progress_gets_it_twice_a_second(
    server: HiveNode, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The answer to other clients would come later.
    monkeypatch.setattr(calls, "_HOLD_SECONDS", 50.0)
    client = connect()
    operation = client.execute("SELECT 1").operationHandle
    server.claim(operation)
    begin = time.monotonic()
    response = client.call("GetOperationStatus", operationHandle=operation, getProgressUpdate=True)
    assert response.operationState == STATES.RUNNING_STATE
    assert 0.4 < time.monotonic() - begin < 25
    assert calls._HOLD_WITH_PROGRESS <= 0.5


def test_every_good_answer_is_a_success_and_closes_can_be_repeated(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    operation = client.execute("SELECT 1").operationHandle
    server.run(operation)
    session = {"sessionHandle": client.session}
    of_operation = {"operationHandle": operation}
    good = [
        client.call("GetInfo", **session, infoType=17),
        client.call("SetClientInfo", **session, configuration={"a": "b"}),
        client.call("GetTypeInfo", **session),
        client.call("GetPrimaryKeys", **session, tableName="t"),
        client.call("GetOperationStatus", **of_operation),
        client.call("GetResultSetMetadata", **of_operation),
        client.fetch(operation),
        client.call("CancelOperation", **of_operation),
        *(client.call("CloseOperation", **of_operation) for _number in range(2)),
        *(client.call("CloseSession", **session) for _number in range(2)),
    ]
    assert {response.status.statusCode for response in good} == {0}


@pytest.mark.parametrize("guid", [b"", b"x" * 16, b"\\xff" * 40])
def test_the_close_of_an_unknown_handle_succeeds_and_its_use_fails(
    server: HiveNode, connect: Connect, guid: bytes
) -> None:
    del server
    client = connect()
    identifier = THRIFT.THandleIdentifier(guid=guid, secret=b"foreign")
    operation = THRIFT.TOperationHandle(identifier, 0, True)
    session = THRIFT.TSessionHandle(identifier)
    assert client.call("CloseOperation", operationHandle=operation).status.statusCode == 0
    assert client.call("CloseSession", sessionHandle=session).status.statusCode == 0
    for refused in (
        client.fetch(operation),
        client.call("GetOperationStatus", operationHandle=operation),
        client.call("GetInfo", sessionHandle=session, infoType=17),
        client.call("GetTableTypes", sessionHandle=session),
    ):
        assert refused.status.statusCode == THRIFT.TStatusCode.ERROR_STATUS
        assert refused.status.errorMessage.startswith("[unknown_handle]")


def test_a_call_that_comes_again_with_its_number_is_the_first_one(server: HiveNode) -> None:
    """Java sends a request again when the link ends without an answer."""
    client = server.over_http()
    client.open()
    first, again = (client.execute("INSERT INTO t VALUES (1)", number=77) for _number in range(2))
    assert id_of(first.operationHandle) == id_of(again.operationHandle)
    others = [
        client.execute("INSERT INTO t VALUES (2)", number=77),
        client.execute("INSERT INTO t VALUES (1)", number=78),
        # Python's clients give every call the number 0.
        client.execute("INSERT INTO t VALUES (1)", number=0),
        client.execute("INSERT INTO t VALUES (1)", number=0),
    ]
    client.open()
    others.append(client.execute("INSERT INTO t VALUES (1)", number=77))
    ids = {id_of(each.operationHandle) for each in (first, *others)}
    assert len(ids) == 6
    # Calls that arrive at once are one as well.
    with ThreadPoolExecutor(4) as threads:
        clients = [server.over_http() for _number in range(4)]
        for each in clients:
            each.session = client.session
        run = [
            threads.submit(each.execute, "INSERT INTO t VALUES (3)", number=90) for each in clients
        ]
        assert len({id_of(each.result().operationHandle) for each in run}) == 1
    client.close_operations()


def test_a_connection_without_http_repeats_no_call(server: HiveNode) -> None:
    client = server.over_socket()
    client.open()
    pair = [client.execute("INSERT INTO t VALUES (1)", number=5) for _number in range(2)]
    assert len({id_of(each.operationHandle) for each in pair}) == 2
    client.close_operations()
    client.close()


def test_a_retry_in_another_session_joins_the_statement_that_runs(
    server: HiveNode, connect: Connect
) -> None:
    """A retry of dbt repeats a model whose link was lost, while its statement runs."""
    text = "/* dbt */ INSERT INTO t SELECT * FROM s"
    lost = connect()
    operation = lost.execute(text).operationHandle
    server.claim(operation)
    wanted = {"headrace.join_running": "true"}
    retry, other = connect(**wanted), connect()
    joined = retry.execute(text).operationHandle
    assert id_of(joined) == id_of(operation)
    assert id_of(other.execute(text).operationHandle) != id_of(operation)
    assert id_of(retry.execute(f"{text} ").operationHandle) != id_of(operation)
    assert id_of(connect("bob", **wanted).execute(text).operationHandle) != id_of(operation)
    server.driver_of(operation).succeed(id_of(operation), inline_result([], []), rows_written=3)
    assert retry.status(joined).numModifiedRows == 3
    other.close_operations()
    # A statement that has ended is not joined.
    assert id_of(retry.execute(text).operationHandle) != id_of(operation)


def test_hive_shows_have_hives_columns_when_a_session_asks_for_them(
    server: HiveNode, connect: Connect
) -> None:
    rows = [["s", "a", False], ["s", "b", False]]
    columns = [("namespace", "string"), ("tableName", "string"), ("isTemporary", "boolean")]
    for configuration, names, expected in [
        ({"headrace.hive_show": "true"}, ["tab_name"], [("a",), ("b",)]),
        ({}, [name for name, _type in columns], [tuple(row) for row in rows]),
    ]:
        client = connect(**configuration)
        operation = client.execute("SHOW TABLES IN s").operationHandle
        assert client.status(operation).operationState == STATES.PENDING_STATE
        server.run(operation, inline_result(columns, rows))
        described = client.call("GetResultSetMetadata", operationHandle=operation).schema.columns
        assert [column.columnName for column in described] == names
        assert client.fetch_all(operation, 1) == expected


@pytest.mark.parametrize(
    ("configuration", "conf"),
    [
        ({"hive.fetch.size": "7", "kyuubi.client.version": "1", "use:catalog": ""}, {}),
        ({"set:hiveconf:hive.server2.proxy.user": "x", "set:hivevar:mapred.a": "x"}, {}),
        (
            {"set:hiveconf:spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "2"},
            {"spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "2"},
        ),
    ],
)
def test_a_session_takes_the_configuration_of_spark_and_ignores_that_of_others(
    server: HiveNode, connect: Connect, configuration: dict[str, str], conf: dict[str, str]
) -> None:
    client = connect(**configuration)
    operation = client.execute("SELECT 1").operationHandle
    server.claim(operation)
    connection = server.driver_of(operation).open_connection(id_of(operation))
    assert connection is not None
    assert connection.spec.conf == conf
    assert connection.spec.variables == {}
    assert connection.spec.database is None


def test_keys_that_no_program_knows_are_variables(server: HiveNode, connect: Connect) -> None:
    """A URL of JDBC has them behind `#`, and Airflow sends some as settings of Hive."""
    client = connect(
        **{
            "set:hivevar:x": "1",
            "set:hivevar:spark.sql.ansi.enabled": "false",
            "set:hiveconf:airflow.ctx.dag_id": "daily load",
            "set:hivevar:hive.any": "ignored",
            "set:hivevar:": "no name",
        }
    )
    operation = client.execute("SELECT ${x}").operationHandle
    server.claim(operation)
    connection = server.driver_of(operation).open_connection(id_of(operation))
    assert connection is not None
    assert connection.spec.variables == {"x": "1", "airflow.ctx.dag_id": "daily load"}
    assert connection.spec.conf == {"spark.sql.ansi.enabled": "false"}
    # A key without a prefix is that of a setting, which may be misspelt.
    response = server.over_http().open(**{"sprak.sql.ansi.enabled": "false"})
    assert response.status.errorMessage.startswith("[invalid_setting]")
    misspelt = server.over_http().open(**{"set:hivevar:headrace.no": "x"})
    assert misspelt.status.errorMessage.startswith("[invalid_setting]")
    # Spark passes settings of a session on to Hadoop.
    for key in ("fs.file.impl", "fs.defaultFS", "hadoop.security.authentication"):
        denied = server.over_http().open(**{f"set:hivevar:{key}": "x"})
        assert denied.status.errorMessage.startswith("[setting_denied]"), key
    secret = server.over_http().open(**{"set:hivevar:x": "${secret:warehouse}"})
    assert secret.status.errorMessage.startswith("[secret_misplaced]")


def test_a_configuration_of_one_statement_holds_for_it_alone(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    overlay = {"spark.sql.ansi.enabled": "false", "hive.a": "b"}
    operation = client.execute("SELECT 1", confOverlay=overlay).operationHandle
    claimed = server.claim(operation)
    assert claimed.conf == {"spark.sql.ansi.enabled": "false"}
    server.driver_of(operation).succeed(id_of(operation))
    following = client.execute("SELECT 2").operationHandle
    assert server.claim(following).conf == {}


def test_a_session_with_an_unknown_database_is_not_opened_and_not_left(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    known = client.execute("SELECT 1").operationHandle
    driver = server.driver_of(known)
    server.claim(known)
    failure = Failure(code="analysis_error", message="No schema.", condition="SCHEMA_NOT_FOUND")
    before = server.count_open_sessions()
    with ThreadPoolExecutor(1) as thread:
        # All by one connection of the transport, which stays usable.
        refused = server.over_http() if isinstance(client, HttpClient) else server.over_socket()
        for _number in range(100):
            opened = thread.submit(refused.open, **{"use:database": "nope"})
            waiting = wait_until(lambda: server.find_waiting("SELECT current_database()"))
            server.claim(waiting)
            connection = driver.open_connection(id_of(waiting))
            assert connection is not None
            assert connection.spec.database == "nope"
            driver.report_end(id_of(waiting), StatementState.FAILED, failure=failure)
            response = opened.result()
            assert response.status.statusCode == THRIFT.TStatusCode.ERROR_STATUS
            assert response.status.errorMessage == "[SCHEMA_NOT_FOUND] No schema."
            assert response.sessionHandle is None
    assert server.count_open_sessions() == before
    assert refused.open().status.statusCode == 0
    refused.close()


def test_a_session_beyond_the_limit_is_refused_in_words_after_which_dbt_tries_again(
    tmp_path: Path,
) -> None:
    with serve_hive(tmp_path / "home", limits={"connections_per_user": 1}) as node:
        assert node.over_http().open().status.statusCode == THRIFT.TStatusCode.SUCCESS_STATUS
        refused = node.over_http().open()
        assert refused.status.errorMessage.startswith("[too_many_connections]")
        assert "temporarily_unavailable" in refused.status.errorMessage


def test_a_database_with_a_dot_gets_a_hint_about_the_catalog(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    for text, has_hint in [("USE `c.d`", True), ("USE `d`", False), ("USE c.d", False)]:
        operation = client.execute(text).operationHandle
        driver = server.driver_of(operation)
        server.claim(operation)
        failure = Failure(code="analysis_error", message="No.", condition="SCHEMA_NOT_FOUND")
        driver.report_end(id_of(operation), StatementState.FAILED, failure=failure)
        message = client.status(operation).errorMessage
        assert message.startswith("[SCHEMA_NOT_FOUND] No.")
        assert ("use:catalog" in message) is has_hint


def test_the_server_describes_itself_without_a_driver(server: HiveNode, connect: Connect) -> None:
    launched = server.node.launcher.call_count
    client = connect("bob")
    answers = {
        kind: client.call("GetInfo", sessionHandle=client.session, infoType=kind)
        for kind in (*range(120), *range(10000, 10010))
    }
    assert {each.status.statusCode for each in answers.values()} == {0}
    assert answers[17].infoValue.stringValue == "Spark SQL"
    assert answers[18].infoValue.stringValue == version("pyspark")
    assert server.node.launcher.call_count == launched


@pytest.mark.parametrize("asked", range(11))
def test_a_client_of_each_version_gets_its_version(server: HiveNode, asked: int) -> None:
    client = server.over_http()
    assert client.open(asked).serverProtocolVersion == min(asked, 9)


@pytest.mark.parametrize("header", ["Basic DummyToken", "Basic", "Bearer", "Basic " + "x" * 9000])
def test_a_header_that_is_no_sign_in_gets_401(server: HiveNode, header: str) -> None:
    """ADBC's driver for Spark sends the first one if it has no login."""
    answer = server.node.http.post("/cliservice", content=b"", headers={"Authorization": header})
    assert answer.status_code == 401
    assert "unauthorized" in answer.text


def test_ten_mebibytes_of_sql_arrive_and_more_is_refused(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    row = "(1, 'it\\\\'s 100 %', \"b\"), "
    text = "INSERT INTO t VALUES " + row * (10_000_000 // len(row)) + "(2, '', '')"
    operation = client.execute(text).operationHandle
    assert server.claim(operation).text == text
    server.driver_of(operation).succeed(id_of(operation), inline_result([], []))
    status = client.execute(text + "-" * 1_000_000).status
    assert status.statusCode == THRIFT.TStatusCode.ERROR_STATUS
    assert status.errorMessage.startswith("[statement_too_large]")
    assert client.status(operation).operationState == STATES.FINISHED_STATE


def test_questions_that_are_repeated_do_not_read_a_large_text(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    text = "SELECT '" + "x" * 10_000_000 + "'"
    operation = client.execute(text).operationHandle
    server.claim(operation)
    server.driver_of(operation).succeed(id_of(operation))
    queries: list[str] = []

    def collect(_connection: object, _cursor: object, query: str, *_: object) -> None:
        if "FROM statements LEFT OUTER JOIN results" in query:
            queries.append(query)

    readers = server.node.database._readers
    event.listen(readers, "before_cursor_execute", collect)
    try:
        for _number in range(2):
            assert client.status(operation).operationState == STATES.FINISHED_STATE
            client.fetch_log(operation)
            client.call("GetQueryId", operationHandle=operation)
        client.call("CloseOperation", operationHandle=operation)
    finally:
        event.remove(readers, "before_cursor_execute", collect)
    assert len(queries) >= 7
    assert all("statements.text" in query for query in queries)
    assert not [query for query in queries if re.search(r" statements\.text\b", query)]


def test_a_client_that_goes_away_ends_no_statement(server: HiveNode) -> None:
    client = server.over_socket()
    client.open()
    operation = client.execute("INSERT INTO t SELECT 1").operationHandle
    driver = server.driver_of(operation)
    server.claim(operation)
    client.close()
    again = server.over_http()
    again.session = client.session
    assert again.status(operation).operationState in {STATES.PENDING_STATE, STATES.RUNNING_STATE}
    driver.succeed(id_of(operation), inline_result([], []), rows_written=1)
    assert again.status(operation).operationState == STATES.FINISHED_STATE
    assert again.execute("SELECT 1").status.statusCode == 0
    again.operations = [operation, *again.operations, *client.operations]
    again.execute("SELECT 2")
    again.close_operations()


@pytest.mark.parametrize("name", ["GetTableTypes", "GetTypeInfo", "GetPrimaryKeys"])
def test_a_listing_without_a_statement_ends(server: HiveNode, connect: Connect, name: str) -> None:
    del server
    client = connect()
    fields = {"tableName": "t"} if name == "GetPrimaryKeys" else {}
    for _number in range(2):
        response = client.call(name, sessionHandle=client.session, **fields)
        rows = client.fetch_all(response.operationHandle, 3)
        assert len(rows) == len(set(rows)) == {"GetTableTypes": 2, "GetTypeInfo": 16}.get(name, 0)


def test_a_missing_table_has_the_words_that_pyhive_looks_for(
    server: HiveNode, connect: Connect
) -> None:
    client = connect()
    failure = Failure(code="analysis_error", message="No.", condition="TABLE_OR_VIEW_NOT_FOUND")
    for text, has_words in [("DESCRIBE `d`.`t`", True), ("SELECT * FROM t", False)]:
        operation = client.execute(text).operationHandle
        server.fail(operation, failure)
        status = client.fetch(operation).status
        assert status.errorMessage == "[TABLE_OR_VIEW_NOT_FOUND] No."
        words = ["SemanticException Table not found `d`.`t`"] if has_words else None
        assert status.infoMessages == words
