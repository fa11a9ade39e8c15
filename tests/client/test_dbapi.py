"""The interface of PEP 249, against a node whose drivers are scripted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from tests.support.auto_reply import AutoReplyLauncher
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.made_results import inline_result, stored_result
from tests.support.waiting import wait_until

import headrace
from headrace.client.arrow_rows import ArrowRows
from headrace.client.transport import HttpRequest, HttpResponse, Transport
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment
from headrace.model.result import ResultReport
from headrace.store.sessions import connections

COLUMNS = [("n", "long"), ("s", "string")]
ROWS = [[1, "a"], [None, "é"], [3, None]]
Reply = dict[str, Any]


class Scripts:
    """What the drivers of a node answer, by the text of a statement, and what they have run."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.computed: dict[str, Callable[[Assignment], Reply]] = {}
        self.held = threading.Event()
        """Statements with the text HOLD wait for it."""
        self.held.set()
        self.assignments: list[Assignment] = []

    def reply(self, assignment: Assignment) -> Reply:
        self.assignments.append(assignment)
        if assignment.text.startswith("HOLD"):
            self.held.wait(60)
        if assignment.text in self.computed:
            return self.computed[assignment.text](assignment)
        default = success(inline_result(COLUMNS, ROWS))
        return self.replies.get(assignment.text, default)


def success(result: ResultReport, **fields: Any) -> Reply:
    return {"state": StatementState.SUCCESS, "result": result, **fields}


def writes(rows: int | None) -> Reply:
    """Return the reply to a statement without rows of its own."""
    return success(inline_result([], []), rows_written=rows)


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def node(scripts: Scripts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessNode]:
    settings = make_settings(tmp_path_factory.mktemp("dbapi") / "home", token="of-the-node")
    with serve_node(settings, AutoReplyLauncher(scripts.reply)) as node:
        node.http.headers["Authorization"] = "Bearer of-the-node"
        yield node


@pytest.fixture
def connection(node: InProcessNode) -> Iterator[headrace.Connection]:
    with headrace.connect(node.address, token="of-the-node") as connection:
        yield connection


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the paths of all requests of clients."""
    paths: list[str] = []
    send = Transport.send

    def send_and_note(self: Transport, request: HttpRequest) -> HttpResponse:
        paths.append(request.path)
        return send(self, request)

    monkeypatch.setattr(Transport, "send", send_and_note)
    return paths


def test_rows_are_fetched_with_their_types(connection: headrace.Connection) -> None:
    with connection.cursor() as cursor:
        assert cursor.execute("SELECT n, s FROM t") is cursor
        assert cursor.description == [
            ("n", "bigint", None, None, None, None, None),
            ("s", "string", None, None, None, None, None),
        ]
        assert cursor.rowcount == 3
        assert cursor.fetchone() == (1, "a")
        assert cursor.fetchmany(1) == [(None, "é")]
        assert cursor.fetchall() == [(3, None)]
        assert (cursor.fetchone(), cursor.fetchmany(5), cursor.fetchall()) == (None, [], [])
        assert list(cursor.execute("SELECT n, s FROM t")) == [(1, "a"), (None, "é"), (3, None)]


def test_the_module_and_its_types_are_those_of_pep_249() -> None:
    assert (headrace.apilevel, headrace.threadsafety, headrace.paramstyle) == ("2.0", 2, "qmark")
    assert headrace.NUMBER == "decimal(10,2)"
    assert headrace.NUMBER == "bigint"
    assert headrace.STRING != "bigint"
    assert headrace.DATETIME == "timestamp_ntz"
    assert issubclass(headrace.ProgrammingError, headrace.DatabaseError)
    assert issubclass(headrace.InterfaceError, headrace.Error)
    assert headrace.Binary(b"x") == b"x"
    with pytest.raises(AttributeError):
        _ = headrace.nothing


def test_all_statements_of_a_connection_run_in_one_connection_of_the_node(
    node: InProcessNode, scripts: Scripts
) -> None:
    with headrace.connect(
        node.address, token="of-the-node", database="sales", conf={"spark.a": "1"}
    ) as connection:
        scripts.assignments.clear()
        connection.execute("SELECT 1")
        connection.execute("SELECT 2")
        [first, second] = [each.connection for each in scripts.assignments]
        assert first is not None
        assert second is not None
        assert first.id == second.id == connection.id
        with node.database.read() as tx:
            stored = connections.get(tx, first.id)
        assert stored is not None
        assert (stored.spec.database, stored.spec.conf) == ("sales", {"spark.a": "1"})
        connection.check()
        opened = connection.id
    assert node.http.get(f"/api/v1/connections/{opened}").status_code == 404
    with pytest.raises(headrace.InterfaceError, match="closed"):
        connection.cursor()


def test_a_connection_that_the_node_has_closed_says_so(
    node: InProcessNode, connection: headrace.Connection
) -> None:
    node.http.delete(f"/api/v1/connections/{connection.id}")
    for call in (connection.check, lambda: connection.execute("SELECT 1")):
        with pytest.raises(headrace.OperationalError) as caught:
            call()
        assert caught.value.code == "connection_not_found"


def test_a_text_without_parameters_is_sent_as_it_is(
    connection: headrace.Connection, scripts: Scripts
) -> None:
    text = "SELECT '100%', '%s', ':x', '?' -- %(a)s ?"
    connection.execute(text)
    assert (scripts.assignments[-1].text, scripts.assignments[-1].parameters) == (text, [])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, (None, None)),
        (True, (True, None)),
        ("it's 5%", ("it's 5%", None)),
        (2**63 - 1, (2**63 - 1, None)),
        (0.1, (0.1, None)),
        (float("nan"), ("NaN", "DOUBLE")),
        (float("-inf"), ("-Infinity", "DOUBLE")),
        (Decimal("1.50"), ("1.50", "DECIMAL(3,2)")),
        (Decimal("-1E+3"), ("-1000", "DECIMAL(4,0)")),
        (Decimal("0.001"), ("0.001", "DECIMAL(3,3)")),
        (date(2026, 11, 28), ("2026-11-28", "DATE")),
        (datetime(2026, 11, 28, 1, 2, 3, 4), ("2026-11-28 01:02:03.000004", "TIMESTAMP_NTZ")),  # noqa: DTZ001
        (datetime(2026, 11, 28, tzinfo=UTC), ("2026-11-28 00:00:00+00:00", "TIMESTAMP")),
        (timedelta(days=-1, microseconds=-1), ("-1 00:00:00.000001", "INTERVAL DAY TO SECOND")),
        (b"\x00\xff", ({"base64": "AP8="}, "BINARY")),
        ([1, None], ([1, None], "ARRAY<BIGINT>")),
        ([], ([], None)),
        ([None, []], ([None, []], None)),
        ([date(2026, 1, 1)], (["2026-01-01"], "ARRAY<DATE>")),
        ([1, 2.5, float("nan")], ([1, 2.5, "NaN"], "ARRAY<DOUBLE>")),
        ([Decimal("1.5"), Decimal("10.25")], (["1.5", "10.25"], "ARRAY<DECIMAL(4,2)>")),
        ([[1], (), None, [None]], ([[1], [], None, [None]], "ARRAY<ARRAY<BIGINT>>")),
    ],
    ids=str,
)
def test_values_are_sent_with_their_types(
    connection: headrace.Connection, scripts: Scripts, value: Any, expected: Any
) -> None:
    connection.execute("SELECT ?", [value])
    [parameter] = scripts.assignments[-1].parameters
    assert (parameter.name, (parameter.value, parameter.type)) == (None, expected)
    connection.execute("SELECT :v", {"v": value})
    [parameter] = scripts.assignments[-1].parameters
    assert (parameter.name, (parameter.value, parameter.type)) == ("v", expected)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ([2**63], headrace.DataError, "more than 64 bits"),
        ([Decimal("1e38")], headrace.DataError, "more than 38 digits"),
        ([Decimal("NaN")], headrace.DataError, "no number"),
        pytest.param([object()], headrace.NotSupportedError, "cannot be a object", id="an object"),
        ([[1, date(2026, 1, 1)]], headrace.NotSupportedError, "several types: BIGINT, DATE"),
        ([[1, [2]]], headrace.NotSupportedError, "several types: ARRAY, BIGINT"),
        ([[[[]], [5]]], headrace.NotSupportedError, "several types: ARRAY, BIGINT"),
        ([[b"x"]], headrace.NotSupportedError, "cannot hold bytes"),
        ([{"a": 1}], headrace.NotSupportedError, "cannot be a dict"),
        ([[Decimal("1e37"), Decimal("0.1")]], headrace.DataError, "decimals of a list need"),
        ("abc", headrace.ProgrammingError, "a sequence"),
        ({1}, headrace.ProgrammingError, "not set"),
    ],
    ids=str,
)
def test_values_that_spark_cannot_hold_are_refused_before_they_are_sent(
    connection: headrace.Connection, scripts: Scripts, parameters: Any, error: Any, message: str
) -> None:
    count = len(scripts.assignments)
    with pytest.raises(error, match=message):
        connection.execute("SELECT ?", parameters)
    assert len(scripts.assignments) == count


def test_an_error_has_a_class_code_position_and_the_id_of_the_statement(
    connection: headrace.Connection, scripts: Scripts, node: InProcessNode
) -> None:
    failure = Failure(
        code="table_not_found",
        message="No table t.",
        condition="TABLE_OR_VIEW_NOT_FOUND",
        sqlstate="42P01",
        line=1,
        column=15,
    )
    scripts.replies["SELECT * FROM t"] = {"state": StatementState.FAILED, "failure": failure}
    cursor = connection.cursor()
    with pytest.raises(headrace.ProgrammingError, match=r"No table t\. \(line 1, col") as caught:
        cursor.execute("SELECT * FROM t")
    error = caught.value
    assert (error.code, error.sqlstate, error.condition) == (
        *("table_not_found", "42P01", "TABLE_OR_VIEW_NOT_FOUND"),
    )
    assert (error.line, error.column) == (1, 15)
    assert error.statement_id == cursor.statement_id
    with pytest.raises(headrace.ProgrammingError) as caught:
        cursor.fetchall()
    assert caught.value.code == "table_not_found"


@pytest.mark.parametrize(
    ("sqlstate", "code", "error"),
    [
        ("22012", "statement_failed", headrace.DataError),
        ("23505", "statement_failed", headrace.IntegrityError),
        ("0A000", "statement_failed", headrace.NotSupportedError),
        ("XX000", "statement_failed", headrace.InternalError),
        (None, "driver_lost", headrace.OperationalError),
    ],
)
def test_the_class_of_an_error_follows_its_sqlstate(
    connection: headrace.Connection, scripts: Scripts, sqlstate: str | None, code: str, error: Any
) -> None:
    failure = Failure(code=code, message="It failed.", sqlstate=sqlstate)
    scripts.replies["FAIL"] = {"state": StatementState.FAILED, "failure": failure}
    with pytest.raises(headrace.DatabaseError) as caught:
        connection.execute("FAIL")
    assert type(caught.value) is error


def test_a_refused_submit_is_an_error_of_the_program(connection: headrace.Connection) -> None:
    with pytest.raises(headrace.ProgrammingError) as caught:
        connection.execute("SELECT 1; SELECT 2")
    assert (caught.value.code, caught.value.statement_id) == ("multiple_statements", None)


def test_statements_that_write_have_a_count_and_no_rows(
    connection: headrace.Connection, scripts: Scripts
) -> None:
    scripts.replies |= {
        "INSERT INTO t VALUES (?)": writes(2),
        "CREATE TABLE t (n INT)": writes(None),
    }
    cursor = connection.execute("INSERT INTO t VALUES (?)", [1])
    assert (cursor.rowcount, cursor.description) == (2, None)
    with pytest.raises(headrace.ProgrammingError, match="returns no rows"):
        cursor.fetchone()
    assert cursor.executemany("INSERT INTO t VALUES (?)", [[1], [2], [3]]).rowcount == 6
    assert cursor.execute("CREATE TABLE t (n INT)").rowcount == -1
    connection.commit()
    with pytest.raises(headrace.NotSupportedError, match="transaction of its own"):
        connection.rollback()


BATCHES = [[[n, str(n)] for n in range(k * 1000, (k + 1) * 1000)] for k in range(5)]


def store_rows(scripts: Scripts, text: str) -> None:
    """Let a statement have 5000 rows in five chunks."""

    def reply(assignment: Assignment) -> Reply:
        assert assignment.result_location is not None
        folder = Path(assignment.result_location)
        return success(stored_result(folder, COLUMNS, BATCHES, chunk_limit=1))

    scripts.computed[text] = reply


def test_rows_of_many_chunks_are_read_when_they_are_needed(
    connection: headrace.Connection, scripts: Scripts, watched: list[str]
) -> None:
    store_rows(scripts, "SELECT large")
    cursor = connection.execute("SELECT large")
    assert cursor.rowcount == 5000
    assert cursor.fetchmany(1500)[-1] == (1499, "1499")
    assert sum("/result" in path for path in watched) == 2
    assert [row[0] for row in cursor.fetchall()] == list(range(1500, 5000))
    assert sum("/result" in path for path in watched) == 5


def test_arrow_returns_the_rows_that_were_not_fetched(
    connection: headrace.Connection, scripts: Scripts
) -> None:
    store_rows(scripts, "SELECT large")
    cursor = connection.execute("SELECT large")
    cursor.fetchmany(10)
    batches = cursor.fetch_record_batch()
    assert batches.schema.names == ["n", "s"]
    assert batches.read_next_batch().column(0).to_pylist() == list(range(10, 1000))
    assert batches.read_all().num_rows == 4000
    table = connection.execute("SELECT large").fetch_arrow_table()
    assert table.column("n").to_pylist() == list(range(5000))
    assert pa.table(connection.execute("SELECT large")).num_rows == 5000
    frame = connection.execute("SELECT n, s FROM t").fetch_df()
    assert frame["s"].tolist()[:2] == ["a", "é"]


def test_values_keep_their_types(connection: headrace.Connection, scripts: Scripts) -> None:
    columns = [
        *(("a", "decimal(38,18)"), ("a", "date"), ("t", "timestamp"), ("u", "timestamp_ntz")),
        *(("b", "binary"), ("i", "interval day to second"), ("f", "double"), ("o", "boolean")),
        ("m", {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}),
        ("l", {"type": "array", "elementType": "date", "containsNull": True}),
    ]
    local = datetime(2026, 3, 29, 2, 30)  # noqa: DTZ001
    row = [
        *(Decimal("1.5"), date(1, 1, 1), datetime(2026, 7, 1, 10, tzinfo=UTC), local),
        *(b"\x00", timedelta(days=1, microseconds=1), float("inf"), None),
        *([("k", 1)], [date(9999, 12, 31)]),
    ]
    result = inline_result(columns, [row, [None] * len(row)])
    zoned = result.model_copy(update={"time_zone": "Europe/Paris"})
    scripts.replies["SELECT types"] = success(zoned)
    cursor = connection.execute("SELECT types")
    assert cursor.description is not None
    assert cursor.description[0] == ("a", "decimal(38,18)", None, None, 38, 18, None)
    [first, nulls] = cursor.fetchall()
    assert first[0] == Decimal("1.5")
    assert first[1:4] == (date(1, 1, 1), datetime(2026, 7, 1, 10, tzinfo=UTC), local)
    assert first[2].tzinfo == ZoneInfo("Europe/Paris")
    assert first[4:8] == (b"\x00", timedelta(days=1, microseconds=1), float("inf"), None)
    assert first[8:] == ({"k": 1}, [date(9999, 12, 31)])
    assert set(nulls) == {None}
    table = connection.execute("SELECT types").fetch_arrow_table()
    assert table.schema.field("t").type == pa.timestamp("us", "Europe/Paris")


def test_a_cut_result_gives_a_warning(connection: headrace.Connection, scripts: Scripts) -> None:
    scripts.replies["SELECT cut"] = success(inline_result(COLUMNS, ROWS, truncated=True))
    with pytest.warns(headrace.ResultTruncated, match="after 3 rows"):
        cursor = connection.execute("SELECT cut")
    assert cursor.truncated


def test_a_result_without_all_of_its_rows_is_an_error() -> None:
    batch = pa.record_batch({"n": [1, 2, 3]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    content = sink.getvalue().to_pybytes()
    rows = ArrowRows(
        lambda _chunk: content, chunks=2, row_count=7, time_zone=None, statement_id="st_1"
    )
    assert len(rows.take(6)) == 6
    with pytest.raises(headrace.OperationalError, match="has 7 rows, and 6 were read"):
        rows.take(1)


def test_a_fetch_that_no_node_answers_raises(scripts: Scripts, tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "home")
    with serve_node(settings, AutoReplyLauncher(scripts.reply)) as leaving:
        connection = headrace.connect(leaving.address, retry_seconds=0.2)
        store_rows(scripts, "SELECT large")
        cursor = connection.execute("SELECT large")
        assert cursor.fetchone() == (0, "0")
    with pytest.raises(headrace.OperationalError) as caught:
        cursor.fetchall()
    assert caught.value.code == "node_unreachable"
    assert caught.value.statement_id == cursor.statement_id
    connection.close()


@pytest.fixture
def held(scripts: Scripts) -> Iterator[threading.Event]:
    """Hold the statements with the text HOLD until the event is set, or the test has ended."""
    scripts.held.clear()
    yield scripts.held
    scripts.held.set()


def test_a_statement_runs_while_the_program_does_other_work(
    connection: headrace.Connection, held: threading.Event
) -> None:
    cursor = connection.cursor().execute_async("HOLD 1")
    assert cursor.statement_id is not None
    assert cursor.is_query_pending()
    assert cursor.description is None
    wait_until(lambda: cursor.get_query_state() == "running", what="it runs")
    held.set()
    assert cursor.fetchone() == (1, "a")
    assert (cursor.get_query_state(), cursor.is_query_pending()) == ("success", False)


def test_any_program_continues_with_a_statement_by_its_id(
    node: InProcessNode, connection: headrace.Connection, held: threading.Event
) -> None:
    cursor = connection.cursor().execute_async("HOLD 2")
    assert cursor.statement_id is not None
    with headrace.connect(node.address, token="of-the-node") as other:
        with other.cursor().attach(cursor.statement_id) as attached:
            assert attached.is_query_pending()
        assert node.statement(cursor.statement_id)["cancel_requested_at"] is None
        attached = other.cursor().attach(cursor.statement_id)
        held.set()
        assert len(attached.fetchall()) == 3
        with pytest.raises(headrace.ProgrammingError) as caught:
            other.cursor().attach("st_0")
    assert caught.value.code == "statement_not_found"
    assert cursor.query == "HOLD 2"


def test_another_thread_cancels_a_statement(
    node: InProcessNode, connection: headrace.Connection, held: threading.Event
) -> None:
    cursor = connection.cursor()
    caught: list[BaseException] = []

    def run() -> None:
        try:
            cursor.execute("HOLD 3")
        except headrace.Error as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: cursor.statement_id is not None, what="the id is known")
    cursor.cancel()
    wait_until(lambda: node.statement(str(cursor.statement_id))["cancel_requested_at"] is not None)
    held.set()
    thread.join(60)
    # The scripted driver ends it with a success, whatever it was asked.
    assert [type(error) for error in caught] in ([], [headrace.OperationalError])


def test_ctrl_c_cancels_the_statement(
    node: InProcessNode, connection: headrace.Connection, held: threading.Event
) -> None:
    cursor = connection.cursor()

    def interrupt() -> None:
        wait_until(lambda: cursor.statement_id is not None, what="the id is known")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    # A shell starts what runs in the background without Python's handler.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            cursor.execute("HOLD 6")
        thread.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert node.statement(str(cursor.statement_id))["cancel_requested_at"] is not None


@pytest.mark.parametrize("ends", [True, False], ids=["ended", "running"])
def test_closing_a_cursor_cancels_only_what_runs(
    node: InProcessNode, connection: headrace.Connection, held: threading.Event, ends: bool
) -> None:
    cursor = connection.cursor().execute_async("HOLD 4")
    statement = str(cursor.statement_id)
    if ends:
        held.set()
        wait_until(lambda: node.statement(statement)["ended_at"] is not None)
    cursor.close()
    assert (node.statement(statement)["cancel_requested_at"] is None) is ends
    with pytest.raises(headrace.InterfaceError, match="cursor is closed"):
        cursor.execute("SELECT 1")


def test_lists_of_the_catalog_are_statements(
    connection: headrace.Connection, scripts: Scripts
) -> None:
    text = "LIST COLUMNS IN CATALOG `a``b` SCHEMA LIKE 's\\\\_1' TABLE LIKE 'it''s'"
    fields = [
        {"name": "n", "type": "long", "nullable": False, "metadata": {"comment": "a number"}},
        {
            "name": "m",
            "type": {
                "type": "struct",
                "fields": [{"name": "x y", "type": "integer", "nullable": True, "metadata": {}}],
            },
            "nullable": True,
            "metadata": {},
        },
    ]
    names = ("catalog", "schema", "name", "columns")
    described = json.dumps({"type": "struct", "fields": fields})
    listed = inline_result([(name, "string") for name in names], [["a", "s_1", "t", described]])
    scripts.replies[text] = success(listed)
    cursor = connection.cursor().columns("a`b", "s\\_1", "it's")
    assert cursor.fetchall() == [
        ("a", "s_1", "t", "n", 1, "bigint", False, "a number"),
        ("a", "s_1", "t", "m", 2, "struct<`x y`:int>", True, None),
    ]
    assert cursor.description is not None
    assert [column[0] for column in cursor.description][3:6] == ["name", "position", "type"]
    fields[1]["metadata"] = {"headrace.position": 2}
    some = json.dumps({"type": "struct", "fields": fields[1:]})
    rows = [["a", "s_1", "t", some], ["a", "s_1", "unreadable", None]]
    listed = inline_result([(name, "string") for name in names], rows)
    scripts.replies[f"{text} COLUMN LIKE 'M%'"] = success(listed)
    named = connection.cursor().columns("a`b", "s\\_1", "it's", "M%")
    assert [row[2:5] for row in named] == [("t", "m", 2)]
    connection.cursor().tables(schema="s%")
    connection.cursor().schemas()
    connection.cursor().catalogs()
    texts = [each.text for each in scripts.assignments[-3:]]
    assert texts == ["LIST TABLES SCHEMA LIKE 's%'", "LIST SCHEMAS", "SHOW CATALOGS"]


def test_asyncio_runs_and_cancels_statements(
    node: InProcessNode, held: threading.Event, scripts: Scripts
) -> None:
    async def use() -> str:
        async with headrace.aconnect(node.address, token="of-the-node") as connection:
            cursor = await connection.execute("SELECT n, s FROM t")
            assert [row async for row in cursor] == [(1, "a"), (None, "é"), (3, None)]
            table = await (await connection.execute("SELECT n, s FROM t")).fetch_arrow_table()
            assert table.num_rows == 3
            waiting = connection.cursor()
            task = asyncio.create_task(waiting.execute("HOLD 5"))
            while waiting.sync.statement_id is None:
                await asyncio.sleep(0.01)
            task.cancel()
            statement = str(waiting.sync.statement_id)
            while node.statement(statement)["cancel_requested_at"] is None:
                await asyncio.sleep(0.01)
            held.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            return statement

    assert asyncio.run(use()).startswith("st_")


def test_a_task_that_is_cancelled_cancels_no_statement_of_another_program(
    node: InProcessNode, connection: headrace.Connection, held: threading.Event
) -> None:
    statement = str(connection.cursor().execute_async("HOLD 7").statement_id)

    async def attach() -> None:
        async with headrace.aconnect(node.address, token="of-the-node") as other:
            cursor = await other.cursor().attach(statement)
            assert await cursor.get_query_state() in {"waiting", "launched", "running"}
            fetching = asyncio.create_task(cursor.fetchall())
            await asyncio.sleep(0.1)
            fetching.cancel()
            held.set()
            with pytest.raises(asyncio.CancelledError):
                await fetching
            later = await (await other.cursor().execute_async("HOLD 8")).fetchall()
            assert len(later) == 3

    asyncio.run(attach())
    assert node.statement(statement)["cancel_requested_at"] is None


@pytest.mark.parametrize("by_sql", [True, False], ids=["CANCEL STATEMENT", "attach"])
def test_another_connection_cancels_a_statement_by_its_id(
    node: InProcessNode, connection: headrace.Connection, held: threading.Event, by_sql: bool
) -> None:
    cursor = connection.cursor().execute_async(f"HOLD 10 {by_sql}")
    wait_until(lambda: cursor.get_query_state() == "running", what="it runs")
    with headrace.connect(node.address, token="of-the-node") as other:
        if by_sql:
            other.execute(f"CANCEL STATEMENT '{cursor.statement_id}'")
        else:
            other.cursor().attach(str(cursor.statement_id)).cancel()
    assert node.statement(str(cursor.statement_id))["cancel_requested_at"] is not None


def test_a_statement_is_cancelled_in_its_own_connection_by_sql(
    node: InProcessNode, connection: headrace.Connection, held: threading.Event
) -> None:
    cursor = connection.cursor().execute_async("HOLD 9")
    connection.execute(f"CANCEL STATEMENT '{cursor.statement_id}'")
    assert node.statement(str(cursor.statement_id))["cancel_requested_at"] is not None


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_data_frame_without_its_package_names_it(
    connection: headrace.Connection, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    cursor = connection.execute("SELECT n, s FROM t")
    with pytest.raises(headrace.InterfaceError, match=f"pip install {package}"):
        (cursor.fetch_df if package == "pandas" else cursor.fetch_polars)()
    assert len(cursor.fetchall()) == 3


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"url": "sql.example.com"}, headrace.ProgrammingError, "not the address of a node"),
        ({"url": "http://h:1", "user": "ada"}, headrace.InterfaceError, "needs a password"),
        (
            {"url": "http://h:1", "user": "ada", "password": "p", "token": "t"},
            headrace.InterfaceError,
            "no token",
        ),
    ],
    ids=["no URL", "no password", "both"],
)
def test_bad_arguments_are_refused_at_once(
    arguments: dict[str, Any], error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        headrace.connect(**arguments)


def test_a_wrong_token_and_a_node_that_is_missing_are_operational_errors(
    node: InProcessNode,
) -> None:
    with pytest.raises(headrace.OperationalError) as caught:
        headrace.connect(node.address, token="wrong").execute("SELECT 1")
    assert caught.value.code == "unauthorized"
    with pytest.raises(headrace.OperationalError) as caught:
        headrace.connect("http://127.0.0.1:1", retry_seconds=0).execute("SELECT 1")
    assert caught.value.code == "node_unreachable"


def test_the_user_token_sends_a_token_as_its_password(node: InProcessNode) -> None:
    with headrace.connect(node.address, user="token", password="of-the-node") as connection:
        assert len(connection.execute("SELECT 1").fetchall()) == 3


def test_the_server_and_its_token_come_from_the_environment(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SERVER", node.address)
    monkeypatch.setenv("HEADRACE_TOKEN", "of-the-node")
    with headrace.connect() as connection:
        assert connection.address == node.address


def test_connect_imports_no_slow_module() -> None:
    code = (
        "import sys, headrace; headrace.connect('http://h:1');"
        " print({name.partition('.')[0] for name in sys.modules})"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    imported = eval(completed.stdout)
    slow = {"pyarrow", "pandas", "pydantic", "httpx", "asyncio", "click", "rich", "pyspark"}
    assert not slow & imported


def test_the_import_takes_little_time() -> None:
    """Measured as time of the processor: a machine that is busy makes the clock run on."""
    code = (
        "import time; began = time.process_time(); import headrace;"
        " headrace.connect('http://h:1'); print(time.process_time() - began)"
    )
    measured = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    assert min(measured) <= 0.15
