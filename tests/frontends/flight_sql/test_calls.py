"""Statements of Flight SQL: run, polled, cancelled, prepared; their rows and errors."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from tests.support.flight_sql import (
    COLUMNS,
    FlightClient,
    FlightNode,
    Info,
    PlayedSpark,
    Poll,
    Refused,
    fail,
    read_schema,
    serve_flight,
    signed,
    store,
    succeed,
)
from tests.support.waiting import wait_until

from headrace.control.policy import Caller
from headrace.frontends.flight_sql import calls
from headrace.frontends.flight_sql.messages import (
    FlightCommand,
    read_command,
    read_fields,
    write_command,
    write_field,
)
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment
from headrace.store.clock import clock
from headrace.store.tables import results

ROWS = [{"n": 1, "s": "a"}, {"n": None, "s": "é"}]


@pytest.fixture(autouse=True)
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a poll wait for a moment only."""
    monkeypatch.setattr(calls, "_POLL_SECONDS", 0.2)


class Gate:
    """An answer that waits until the test opens it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.opened = threading.Event()

    def __call__(self, assignment: Assignment) -> dict[str, Any]:
        self.begun.set()
        self.opened.wait(60)
        return succeed(COLUMNS, [[1, "a"]])(assignment)


def poll_to_end(client: FlightClient, command: bytes) -> Poll:
    """Poll a statement until it has ended. Each answer has an info."""
    while (polled := client.poll(command)).command is not None:
        command = polled.command
    return polled


def caller_of(node: FlightNode) -> Caller:
    return node.node.node.authenticator.local_caller


def state_of(node: FlightNode, statement: str) -> StatementState:
    return node.node.node.statements.get(caller_of(node), statement).state


def is_cancel_requested(node: FlightNode, statement: str) -> bool:
    found = node.node.node.statements.get(caller_of(node), statement)
    return found.cancel_requested_at is not None


def test_a_query_runs_once_and_its_rows_are_read_as_often_as_asked(flight: FlightNode) -> None:
    client = flight.connect()
    info = client.query("SELECT n, s FROM once")
    assert (info.rows, len(info.endpoints), info.locations) == (2, 1, [])
    assert info.schema is not None
    for _number in range(2):
        table = client.read(info.ticket)
        assert table.to_pylist() == ROWS
        assert table.schema.equals(info.schema, check_metadata=True)
    assert flight.spark.texts.count("SELECT n, s FROM once") == 1


def test_columns_state_exactly_whether_they_can_be_null_and_their_type(flight: FlightNode) -> None:
    def answer(assignment: Assignment) -> dict[str, Any]:
        made = succeed([("d", "decimal(10,2)"), ("s", "string")], [[Decimal("1.50"), "a"]])
        ended = made(assignment)
        ended["result"].spark_schema["fields"][0]["nullable"] = False
        return ended

    flight.spark.answers["SELECT d, s"] = answer
    client = flight.connect()
    info = client.query("SELECT d, s")
    assert info.schema is not None
    assert [field.nullable for field in info.schema] == [False, True]
    metadata = info.schema.field("d").metadata
    assert metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"] == b"DECIMAL"
    assert metadata[b"ARROW:FLIGHT:SQL:PRECISION"] == b"10"
    assert metadata[b"ARROW:FLIGHT:SQL:SCALE"] == b"2"
    assert info.schema.field("s").metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"] == b"STRING"
    assert client.read(info.ticket).to_pylist() == [{"d": Decimal("1.50"), "s": "a"}]


@pytest.mark.parametrize("text", ["CREATE TABLE x (n INT)", "INSERT INTO x VALUES (1)"])
def test_ddl_and_dml_run_once_whether_their_rows_are_fetched_or_not(
    flight: FlightNode, text: str
) -> None:
    client = flight.connect()
    info = client.query(text)
    assert flight.spark.texts.count(text) == 1
    client.read(info.ticket)
    assert flight.spark.texts.count(text) == 1


def test_an_update_answers_the_number_of_rows(flight: FlightNode) -> None:
    flight.spark.answers |= {
        "DELETE FROM delta": succeed([("num_affected_rows", "long")], [[7]]),
        "INSERT INTO files VALUES (1)": succeed([], [], rows_written=3),
        "INSERT INTO other VALUES (1)": succeed([], []),
        "DROP TABLE t": succeed([], []),
    }
    client = flight.connect()
    counts = [client.update(text) for text in list(flight.spark.answers)[-4:]]
    assert counts == [7, 3, -1, 0]


def test_preparing_runs_nothing_and_says_what_kind_of_statement_it_is(flight: FlightNode) -> None:
    client = flight.connect()
    created = client.prepare("CREATE TABLE y (n INT)")
    assert created.flag(4)
    assert created.data(2) is None
    assert not [text for text in flight.spark.texts if "TABLE y" in text]
    queried = client.prepare("SELECT n, s FROM prepared -- all\n;")
    assert not queried.flag(4)
    schema = read_schema(queried.data(2) or b"")
    assert schema.names == ["n", "s"]
    # Spark analyses it, and runs nothing of it.
    assert flight.spark.texts[-1] == "(SELECT n, s FROM prepared) LIMIT 0"
    assert not client.prepare("SHOW CATALOGS").flag(4)
    assert client.prepare("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a").flag(4)
    assert client.act("ClosePreparedStatement", b"anything") == []


def test_preparing_a_query_that_spark_refuses_shows_its_position(flight: FlightNode) -> None:
    flight.spark.answers["(SELECT n FROM nowhere) LIMIT 0"] = fail(line=1, column=9)
    with pytest.raises(Refused, match=r"analysis_error.*line 1, column 8\)") as refused:
        flight.connect().prepare("SELECT n FROM nowhere")
    assert refused.value.status is grpc.StatusCode.INVALID_ARGUMENT


def test_the_columns_of_a_query_are_known_before_it_runs(flight: FlightNode) -> None:
    client = flight.connect()
    command = write_command("CommandStatementQuery", write_field(1, "SELECT n FROM later"))
    fields = FlightCommand("", read_fields(client.describe("GetSchema", command)))
    assert read_schema(fields.data(1) or b"").names == ["n", "s"]
    assert "SELECT n FROM later" not in flight.spark.texts


def test_parameters_of_all_types_are_bound(flight: FlightNode) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    values: dict[str, tuple[Any, Any, Any, Any]] = {
        "a": (True, pa.bool_(), True, "BOOLEAN"),
        "b": (5, pa.int8(), 5, "TINYINT"),
        "c": (2**63 - 1, pa.int64(), 2**63 - 1, "BIGINT"),
        "d": (2**64 - 1, pa.uint64(), str(2**64 - 1), "DECIMAL(20,0)"),
        "e": (float("nan"), pa.float64(), "NaN", "DOUBLE"),
        "f": (1.5, pa.float32(), 1.5, "FLOAT"),
        "g": (Decimal("1.50"), pa.decimal128(38, 18), "1.500000000000000000", "DECIMAL(38,18)"),
        "h": ("é", pa.string(), "é", "STRING"),
        "i": ("é", pa.large_string(), "é", "STRING"),
        "j": (b"\0\xff", pa.binary(), {"base64": "AP8="}, "BINARY"),
        "k": (date(2026, 1, 2), pa.date32(), "2026-01-02", "DATE"),
        "l": (moment, pa.timestamp("us", "UTC"), "2026-01-02 03:04:05.000006+00:00", "TIMESTAMP"),
        "m": (
            moment.replace(tzinfo=None),
            pa.timestamp("ns"),
            "2026-01-02 03:04:05.000006",
            "TIMESTAMP_NTZ",
        ),
        "n": (
            timedelta(days=-1, microseconds=-1),
            pa.duration("us"),
            "-1 00:00:00.000001",
            "INTERVAL DAY TO SECOND",
        ),
        "o": (None, pa.null(), None, None),
        "p": (None, pa.int32(), None, "INT"),
        "q": ([1, None], pa.list_(pa.int32()), [1, None], "ARRAY<INT>"),
        "r": ("x", pa.dictionary(pa.int8(), pa.string()), "x", "STRING"),
        "s": (moment.time(), pa.time64("ns"), "03:04:05.000006", "TIME(6)"),
    }
    row = pa.table({name: pa.array([each[0]], each[1]) for name, each in values.items()})
    text = f"SELECT {', '.join('?' * len(values))}"
    client = flight.connect()
    prepared = client.prepare(text)
    assert len(read_schema(prepared.data(3) or b"")) == len(values)
    bound = client.put(
        "CommandPreparedStatementQuery", write_field(1, prepared.data(1) or b""), row
    )
    client.info("CommandPreparedStatementQuery", write_field(1, bound.data(1) or b""))
    found = flight.spark.last(text).parameters
    assert [(each.value, each.type) for each in found] == [each[2:] for each in values.values()]
    assert {each.name for each in found} == {None}


def test_a_type_that_spark_does_not_have_is_refused(flight: FlightNode) -> None:
    client = flight.connect()
    handle = write_field(1, client.prepare("SELECT ?").data(1) or b"")
    row = pa.table({"x": pa.array([{"a": 1}])})
    with pytest.raises(Refused, match=r"invalid_request.*'x' has the type struct"):
        client.put("CommandPreparedStatementQuery", handle, row)


def test_parameters_can_have_names(flight: FlightNode) -> None:
    text = "SELECT v:path, x::int, ':no', :low FROM t WHERE n BETWEEN :low AND :high"
    client = flight.connect()
    prepared = client.prepare(text)
    assert read_schema(prepared.data(3) or b"").names == ["low", "high"]
    row = pa.table({"high": [2], "low": [1]})
    bound = client.put(
        "CommandPreparedStatementQuery", write_field(1, prepared.data(1) or b""), row
    )
    client.info("CommandPreparedStatementQuery", write_field(1, bound.data(1) or b""))
    named = {each.name: each.value for each in flight.spark.last(text).parameters}
    assert named == {"low": 1, "high": 2}


def test_each_row_that_is_bound_to_an_update_runs_once(flight: FlightNode) -> None:
    text = "INSERT INTO bound VALUES (?, ?)"
    flight.spark.answers[text] = succeed([], [], rows_written=1)
    client = flight.connect()
    handle = write_field(1, client.prepare(text).data(1) or b"")
    rows = pa.table({"0": [1, 2, 3], "1": ["a", "b", None]})
    answer = client.put("CommandPreparedStatementUpdate", handle, rows)
    assert signed(answer.fields[1][-1]) == 3
    sent = [each.parameters for each in flight.spark.assignments if each.text == text]
    assert [[value.value for value in each] for each in sent] == [[1, "a"], [2, "b"], [3, None]]
    too_many = pa.table({"0": range(1001), "1": range(1001)})
    with pytest.raises(Refused, match="1001 rows of parameters"):
        client.put("CommandPreparedStatementUpdate", handle, too_many)


def test_a_wrong_number_of_parameters_is_refused(flight: FlightNode) -> None:
    client = flight.connect()
    handle = write_field(1, client.prepare("SELECT ?, ?").data(1) or b"")
    bound = client.put("CommandPreparedStatementQuery", handle, pa.table({"x": [1]}))
    with pytest.raises(Refused, match="has 2 parameters, and 1 values"):
        client.info("CommandPreparedStatementQuery", write_field(1, bound.data(1) or b""))
    bound = client.put(
        "CommandPreparedStatementQuery", handle, pa.table({"x": [1, 2], "y": [1, 2]})
    )
    with pytest.raises(Refused, match="2 rows of parameters are bound to a query"):
        client.info("CommandPreparedStatementQuery", write_field(1, bound.data(1) or b""))


def test_rows_that_are_no_arrow_are_refused(flight: FlightNode) -> None:
    client = flight.connect()
    handle = write_field(1, client.prepare("SELECT ?").data(1) or b"")
    table = pa.table({"x": ["aaaa", "b"]})
    with pytest.raises(Refused, match="invalid_flight_message"):
        client.info("CommandPreparedStatementQuery", write_field(1, b"\xff\xff"))
    begin = client.put("CommandPreparedStatementQuery", handle, table.slice(0, 1))
    assert begin.data(1)
    for broken in (b"\x0a", b"\xff" * 20):
        with pytest.raises(Refused, match="invalid_flight_message"):
            client.describe("GetFlightInfo", broken)


def test_a_poll_answers_each_time_and_any_client_of_the_owner_continues_it(
    flight: FlightNode,
) -> None:
    gate = flight.spark.answers["SELECT slow"] = Gate()
    client = flight.connect()
    first = client.poll(write_command("CommandStatementQuery", write_field(1, "SELECT slow")))
    assert first.command is not None
    assert first.info.endpoints == []
    gate.opened.set()
    second = poll_to_end(flight.connect(), first.command)
    assert second.info.rows == 1
    assert client.read(second.info.ticket).num_rows == 1
    # The command of a poll also finds the rows by the call without polls.
    again = Info(client.describe("GetFlightInfo", first.command))
    assert again.ticket == second.info.ticket


def test_a_poll_shows_the_failure(flight: FlightNode) -> None:
    flight.spark.answers["SELECT wrong"] = fail()
    command = write_command("CommandStatementQuery", write_field(1, "SELECT wrong"))
    with pytest.raises(Refused, match="analysis_error"):
        poll_to_end(flight.connect(), command)


@pytest.mark.parametrize("action", ["CancelFlightInfo", "CancelQuery"])
def test_a_statement_that_is_polled_can_be_cancelled(flight: FlightNode, action: str) -> None:
    gate = flight.spark.answers[f"SELECT to_cancel('{action}')"] = Gate()
    client = flight.connect()
    text = f"SELECT to_cancel('{action}')"
    polled = client.poll(write_command("CommandStatementQuery", write_field(1, text)))
    assert gate.begun.wait(60)
    body = write_field(1, polled.info.content)
    if action == "CancelQuery":
        body = write_command("ActionCancelQueryRequest", body)
    [answer] = client.act(action, body)
    fields = (
        read_command(answer) if action == "CancelQuery" else FlightCommand("", read_fields(answer))
    )
    assert fields.numbers(1) == [1]
    statement = gate_statement(flight, text)
    assert is_cancel_requested(flight, statement)
    gate.opened.set()


def gate_statement(flight: FlightNode, text: str) -> str:
    return flight.spark.last(text).statement_id


def test_a_statement_that_has_ended_cannot_be_cancelled(flight: FlightNode) -> None:
    client = flight.connect()
    info = client.query("SELECT ended")
    [answer] = client.act("CancelFlightInfo", write_field(1, info.content))
    assert FlightCommand("", read_fields(answer)).numbers(1) == [3]
    listing = client.info("CommandGetTableTypes")
    [answer] = client.act("CancelFlightInfo", write_field(1, listing.content))
    assert FlightCommand("", read_fields(answer)).numbers(1) == [3]


def test_a_client_that_cancels_its_call_cancels_the_statement(flight: FlightNode) -> None:
    gate = flight.spark.answers["SELECT given_up"] = Gate()
    client = flight.connect()
    command = write_command("CommandStatementQuery", write_field(1, "SELECT given_up"))
    call = client.begin("GetFlightInfo", command)
    assert gate.begun.wait(60)
    call.cancel()
    statement = gate_statement(flight, "SELECT given_up")
    wait_until(lambda: is_cancel_requested(flight, statement))
    gate.opened.set()


def test_a_poll_that_is_cancelled_cancels_nothing(flight: FlightNode) -> None:
    gate = flight.spark.answers["SELECT polled"] = Gate()
    client = flight.connect()
    first = client.poll(write_command("CommandStatementQuery", write_field(1, "SELECT polled")))
    assert first.command is not None
    call = client.begin("PollFlightInfo", first.command)
    call.cancel()
    gate.opened.set()
    assert poll_to_end(client, first.command).info.rows == 1


def test_a_ticket_of_another_owner_is_refused(flight: FlightNode) -> None:
    info = flight.connect().query("SELECT mine")
    other = flight.connect("bob")
    for call in (
        lambda: other.read(info.ticket),
        lambda: other.poll(info.ticket or b""),
        lambda: other.act("CancelFlightInfo", write_field(1, info.content)),
    ):
        with pytest.raises(Refused, match="statement_not_found") as refused:
            call()
        assert refused.value.status is grpc.StatusCode.NOT_FOUND
    for ticket in (b"", b"\xff", write_command("TicketStatementQuery", write_field(1, "'; --"))):
        with pytest.raises(Refused):
            other.read(ticket)


def test_a_long_error_is_cut_and_names_code_position_and_statement(flight: FlightNode) -> None:
    flight.spark.answers["SELECT é"] = fail(message="é%" * 50_000, line=3, column=4)
    with pytest.raises(Refused) as refused:
        flight.connect().query("SELECT é")
    text = refused.value.text
    statement = gate_statement(flight, "SELECT é")
    assert text.startswith("[analysis_error] é%")
    assert text.endswith(f"… (line 3, column 4) (statement {statement})")
    assert sum(1 if 32 <= each < 127 and each != 37 else 3 for each in text.encode()) < 1000
    assert refused.value.trailers["headrace-code"] == "analysis_error"
    assert refused.value.trailers["headrace-statement"] == statement


def test_a_short_error_is_whole(flight: FlightNode) -> None:
    condition = "TABLE_OR_VIEW_NOT_FOUND"
    flight.spark.answers["SELECT short"] = fail(condition=condition, message="No table t.")
    with pytest.raises(Refused) as refused:
        flight.connect().query("SELECT short")
    statement = gate_statement(flight, "SELECT short")
    expected = f"[analysis_error] [{condition}] No table t. (statement {statement})"
    assert refused.value.text == expected


def test_an_error_of_the_server_shows_no_stack_trace(
    flight: FlightNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: Any, **_fields: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(flight.node.node.statements, "submit", broken)
    client = flight.connect()
    for call in (lambda: client.query("SELECT 1"), lambda: client.update("DROP TABLE t")):
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.text == "[internal_error] An internal error occurred in Headrace."
        assert refused.value.status is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("CommandStatementSubstraitPlan", b""),
        ("CommandStatementQuery", write_field(1, "SELECT 1") + write_field(2, b"transaction")),
    ],
)
def test_what_is_not_supported_says_so(flight: FlightNode, name: str, fields: bytes) -> None:
    with pytest.raises(Refused, match="not_supported") as refused:
        flight.connect().info(name, fields)
    assert refused.value.status is grpc.StatusCode.UNIMPLEMENTED


def test_unknown_actions_and_bulk_loads_are_not_supported(flight: FlightNode) -> None:
    client = flight.connect()
    for call in (
        lambda: client.act("BeginTransaction"),
        lambda: client.put("CommandStatementIngest", b"", pa.table({"x": [1]})),
    ):
        with pytest.raises(Refused, match="not_supported"):
            call()


def test_rows_of_stored_parts_arrive_in_messages_that_clients_take(
    flight: FlightNode,
) -> None:
    text = "x" * 1_000_000
    batches = [[[number, text] for number in range(40)], [[40, "end"]]]
    flight.spark.answers["SELECT large"] = store(batches)
    client = flight.connect()
    info = client.query("SELECT large")
    assert (info.rows, len(info.endpoints)) == (41, 1)
    messages = client.get(info.ticket)
    assert max(map(len, messages)) < 16 * 1024 * 1024
    assert len(messages) > 5
    assert client.read(info.ticket)["n"].to_pylist() == [*range(41)]


def test_a_client_of_arrow_reads_a_result_of_many_parts(flight: FlightNode) -> None:
    batches = [[[number, "x"]] for number in range(500)]
    flight.spark.answers["SELECT parts"] = store(batches)
    client = fl.FlightClient(f"grpc://127.0.0.1:{flight.port}")
    pair = client.authenticate_basic_token("token", flight.tokens["ada"])
    options = fl.FlightCallOptions(headers=[pair])
    command = write_command("CommandStatementQuery", write_field(1, "SELECT parts"))
    info = client.get_flight_info(fl.FlightDescriptor.for_command(command), options)
    assert [endpoint.locations for endpoint in info.endpoints] == [[]]
    table = client.do_get(info.endpoints[0].ticket, options).read_all()
    assert table["n"].to_pylist() == [*range(500)]
    assert table.schema.equals(info.schema)
    assert {action.type for action in client.list_actions(options)} >= {"CancelFlightInfo"}
    with pytest.raises(pa.ArrowNotImplementedError, match="not_supported"):
        list(client.do_action(fl.Action("Other", b""), options))


def test_rows_that_are_gone_name_the_setting(flight: FlightNode) -> None:
    flight.spark.answers["SELECT gone"] = store([[[1, "x"]]])
    client = flight.connect()
    info = client.query("SELECT gone")
    statement = gate_statement(flight, "SELECT gone")
    assert flight.spark.last("SELECT gone").result_location is not None
    with flight.node.database.write("test") as tx:
        tx.execute(
            results.update()
            .where(results.c.statement_id == statement)
            .values(gone_at=clock(), location=None)
        )
    with pytest.raises(Refused, match=r"result_gone.*results\.retention"):
        client.read(info.ticket)


def test_headers_of_64_kilobytes_are_taken(flight: FlightNode) -> None:
    client = flight.connect(**{"x-long": "x" * 60_000})
    assert client.query("SELECT headers").rows == 2


@pytest.mark.postgres
def test_another_node_binds_runs_polls_and_reads(postgres_url: str, tmp_path: Path) -> None:
    changes = {"store": {"url": postgres_url}, "results": {"location": str(tmp_path / "results")}}
    spark = PlayedSpark()
    with ExitStack() as stack:
        one = stack.enter_context(serve_flight(tmp_path / "one", spark, names=("ada",), **changes))
        two = stack.enter_context(serve_flight(tmp_path / "two", spark, **changes))
        client = one.connect()
        client.update("USE other")
        handle = client.prepare("SELECT ?").data(1) or b""
        client.move_to(two)
        bound = client.put(
            "CommandPreparedStatementQuery", write_field(1, handle), pa.table({"x": [5]})
        )
        client.move_to(one)
        info = client.info("CommandPreparedStatementQuery", write_field(1, bound.data(1) or b""))
        client.move_to(two)
        assert client.read(info.ticket).to_pylist() == ROWS
        assert [each.value for each in spark.last("SELECT ?").parameters] == [5]
        gate = spark.answers["SELECT slow"] = Gate()
        polled = client.poll(write_command("CommandStatementQuery", write_field(1, "SELECT slow")))
        client.move_to(one)
        gate.opened.set()
        assert polled.command is not None
        assert poll_to_end(client, polled.command).info.rows == 1
        connections = {each.connection.id for each in spark.assignments if each.connection}
        assert len(connections) == 1


def test_a_statement_outlives_the_node_that_waits_for_it(tmp_path: Path) -> None:
    spark = PlayedSpark()
    gate = spark.answers["SELECT lasting"] = Gate()
    with serve_flight(tmp_path / "home", spark, names=("ada",)) as node:
        client = node.connect()
        command = write_command("CommandStatementQuery", write_field(1, "SELECT lasting"))
        call = client.begin("GetFlightInfo", command)
        assert gate.begun.wait(60)
        statement = gate_statement(node, "SELECT lasting")
        database = node.node.database
        node.node.node.withdraw()
        node.node.node.long_polls.release()
        with pytest.raises(grpc.RpcError) as refused:
            call.result(60)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert statement in refused.value.details()
        del database
        assert not is_cancel_requested(node, statement)
        gate.opened.set()


def test_a_client_without_a_session_is_a_client(flight: FlightNode) -> None:
    token = flight.tokens["ada"]
    client = FlightClient(flight.port, {"authorization": f"Bearer {token}"}, takes_tokens=False)
    info = client.query("SELECT plain")
    assert client.read(info.ticket).num_rows == 2
