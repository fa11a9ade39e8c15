"""The main job: SQL statements over HTTP, their states, errors and results, with a real driver."""

from __future__ import annotations

import io
import itertools
import threading

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


def test_a_submit_with_a_wait_timeout_returns_the_rows(node: NodeProcess, session: str) -> None:
    statement = node.run("SELECT 1 AS x, 'a' AS y", session)
    assert statement["state"] == "success"
    assert statement["rows"] == [[1, "a"]]
    assert statement["next_chunk"] is None
    assert statement["result"]["schema"] == [
        {"name": "x", "type": "int"},
        {"name": "y", "type": "string"},
    ]


def test_every_state_change_has_a_time_and_an_event(node: NodeProcess, session: str) -> None:
    statement = node.run("SELECT 1", session)
    times = [statement[key] for key in ("created_at", "launched_at", "started_at", "ended_at")]
    assert None not in times
    assert times == sorted(times)
    events = node.http.get("/api/v1/events", params={"entity_id": statement["id"]}).json()["items"]
    states = [event["to"] for event in events]
    assert [state for state in states if state != "running"] == ["waiting", "launched", "success"]


def test_the_pages_of_a_million_rows_are_complete_and_in_order(
    node: NodeProcess, session: str
) -> None:
    statement = node.run("SELECT id, id % 7 AS m FROM range(0, 1000000, 1, 7)", session)
    result = statement["result"]
    assert result["row_count"] == 1_000_000
    assert result["disposition"] == "stored"
    assert not result["truncated"]
    expected, chunk, pages = 0, 0, 0
    while chunk is not None:
        page = node.result(statement["id"], chunk=chunk)
        for value, remainder in page["rows"]:
            assert (int(value), int(remainder)) == (expected, expected % 7)
            expected += 1
        chunk, pages = page["next_chunk"], pages + 1
    assert expected == 1_000_000
    assert pages == result["chunks"] > 1


def test_a_result_can_be_read_as_arrow_csv_and_parquet(node: NodeProcess, session: str) -> None:
    statement = node.run("SELECT id, cast(id AS string) AS s FROM range(3)", session)
    path = f"/api/v1/statements/{statement['id']}/result"
    arrow = node.http.get(path, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert pa.ipc.open_stream(arrow.content).read_all().to_pydict() == {
        "id": [0, 1, 2],
        "s": ["0", "1", "2"],
    }
    csv = node.http.get(path, params={"format": "csv"})
    assert csv.text.splitlines() == ["id,s", "0,0", "1,1", "2,2"]
    parquet = node.http.get(path, params={"format": "parquet"})
    assert pyarrow.parquet.read_table(io.BytesIO(parquet.content)).num_rows == 3
    # The same request gives the same result again.
    assert node.http.get(path, params={"format": "csv"}).text == csv.text


def test_a_table_of_one_session_is_visible_in_another_at_once(
    node: NodeProcess, session: str, other_session: str
) -> None:
    node.rows("CREATE TABLE shared_table AS SELECT 41 + 1 AS answer", session)
    try:
        assert node.rows("SELECT answer FROM shared_table", other_session) == [[42]]
    finally:
        node.rows("DROP TABLE shared_table", other_session)


@pytest.mark.finding("B3")
@pytest.mark.parametrize("clause", ["USING parquet", "USING parquet PARTITIONED BY (p)"])
def test_a_session_reads_what_another_session_has_changed(
    node: NodeProcess, session: str, other_session: str, clause: str
) -> None:
    count = "SELECT count(*) FROM changing"
    create = f"CREATE TABLE changing {clause} AS SELECT id, id % 2 AS p"
    node.rows(f"{create} FROM range(2)", session)
    try:
        assert node.rows(count, other_session) == [["2"]]
        node.rows("INSERT INTO changing SELECT id, id % 2 AS p FROM range(3)", session)
        assert node.rows(count, other_session) == [["5"]]
        node.rows("DROP TABLE changing", session)
        node.rows(f"{create} FROM range(7)", session)
        assert node.rows("SELECT count(id) FROM changing", other_session) == [["7"]]
        node.rows(f"{create.replace('CREATE', 'CREATE OR REPLACE')} FROM range(9)", session)
        assert node.rows("SELECT sum(id) FROM changing", other_session) == [["36"]]
    finally:
        node.rows("DROP TABLE IF EXISTS changing", session)


@pytest.mark.finding("B15")
def test_a_write_reports_its_rows_and_the_progress_of_all_its_tasks(
    node: NodeProcess, session: str
) -> None:
    query = "SELECT id, id % 2 AS p FROM range(0, {}, 1, 2)"
    writes = {
        "CREATE TABLE counted USING parquet AS " + query.format(1000): 1000,
        "INSERT INTO counted " + query.format(500): 500,
        "INSERT OVERWRITE counted VALUES (1, 2), (3, 4)": 2,
        "CREATE TABLE counted_hive STORED AS textfile AS " + query.format(30): 30,
        "INSERT INTO counted_hive " + query.format(0): 0,
        "CREATE OR REPLACE TABLE counted PARTITIONED BY (p) AS " + query.format(40): 40,
    }
    try:
        for text, rows in writes.items():
            statement = node.run(text, session)
            assert statement["state"] == "success", statement["error"]
            assert (text, statement["result"]["row_count"]) == (text, rows)
            progress = statement["progress"]
            assert progress["tasks_done"] == progress["tasks_total"] > 0
            assert (text, progress["rows_written"]) == (text, rows)
            assert node.result(statement["id"])["rows"] == []
    finally:
        node.rows("DROP TABLE IF EXISTS counted", session)
        node.rows("DROP TABLE IF EXISTS counted_hive", session)


@pytest.mark.finding("B15")
def test_the_progress_of_a_query_counts_all_rows_that_it_has_read(
    node: NodeProcess, session: str
) -> None:
    statement = node.run("SELECT max(id) FROM range(1000000)", session)
    assert statement["progress"]["rows_read"] == 1_000_000
    assert statement["progress"]["tasks_active"] == 0
    assert statement["result"]["row_count"] == 1


def test_a_session_can_write_a_partitioned_table_of_another_session(
    node: NodeProcess, session: str, other_session: str
) -> None:
    node.rows("CREATE TABLE parts (a INT, p STRING) USING parquet PARTITIONED BY (p)", session)
    try:
        node.rows("INSERT INTO parts VALUES (1, 'x'), (2, 'y')", other_session)
        assert node.rows("SELECT a FROM parts WHERE p = 'y'", session) == [[2]]
    finally:
        node.rows("DROP TABLE parts", session)


@pytest.mark.parametrize(
    ("text", "line", "column", "code", "condition"),
    [
        ("SELEC 1", 1, 1, "syntax_error", "PARSE_SYNTAX_ERROR"),
        ("SELECT 1\n  FROM )", 2, 8, "syntax_error", "PARSE_SYNTAX_ERROR"),
        ("SELECT 'é😀', nope", 1, 14, "analysis_error", "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"),
        ("SELECT *\nFROM\n no_such", 3, 2, "analysis_error", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT 1/0", 1, 8, "execution_error", "DIVIDE_BY_ZERO"),
        ("BEGIN\n 'é😀';\nEND", 2, 2, "syntax_error", "PARSE_SYNTAX_ERROR"),
        ("BEGIN\n LEAVE x;\nEND", 2, 2, "execution_error", "INVALID_LABEL_USAGE.DOES_NOT_EXIST"),
    ],
)
def test_an_error_has_line_and_column_in_the_users_text(
    node: NodeProcess, session: str, text: str, line: int, column: int, code: str, condition: str
) -> None:
    statement = node.run(text, session)
    assert statement["state"] == "failed"
    error = statement["error"]
    assert (error["line"], error["column"]) == (line, column)
    assert error["code"] == code
    assert error["condition"] == condition
    assert error["sqlstate"]
    assert "== SQL" not in error["message"]
    assert error["trace"] is None
    assert node.statement(statement["id"], trace=True)["error"]["trace"]


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE IMMEDIATE 'SELEC 1'",
        "SELECT * FROM bad_view",
        "SELECT ${spark.sql.ansi.enabled}, nope",
    ],
)
def test_an_error_outside_of_the_users_text_has_no_position(
    node: NodeProcess, session: str, text: str
) -> None:
    node.rows("CREATE TEMPORARY VIEW base_view AS SELECT 1 AS a", session)
    node.rows("CREATE TEMPORARY VIEW bad_view AS SELECT a / 0 AS a FROM base_view", session)
    try:
        error = node.run(text, session)["error"]
    finally:
        node.rows("DROP VIEW bad_view", session)
        node.rows("DROP VIEW base_view", session)
    assert error["message"]
    assert (error["line"], error["column"]) == (None, None)


@pytest.mark.finding("S8")
def test_a_message_of_twenty_megabytes_is_cut_and_the_driver_continues(
    node: NodeProcess, session: str
) -> None:
    epoch = node.http.get(f"/api/v1/sessions/{session}").json()["epoch"]
    error = node.run("SELECT raise_error(repeat('m', 20000000))", session)["error"]
    assert error["condition"] == "USER_RAISED_EXCEPTION"
    assert len(error["message"]) == 65536
    assert error["message"].endswith("m… [cut]")
    assert node.rows("SELECT 1", session) == [[1]]
    assert node.http.get(f"/api/v1/sessions/{session}").json()["epoch"] == epoch


@pytest.mark.finding("S8")
def test_a_variable_of_thirteen_megabytes_works_and_is_not_saved(
    node: NodeProcess, session: str
) -> None:
    epoch = node.http.get(f"/api/v1/sessions/{session}").json()["epoch"]
    node.rows("DECLARE VARIABLE big STRING DEFAULT repeat('x', 13000000)", session)
    try:
        assert node.rows("SELECT length(big)", session) == [[13_000_000]]
        assert node.http.get(f"/api/v1/sessions/{session}").json()["epoch"] == epoch
    finally:
        node.rows("DROP TEMPORARY VARIABLE big", session)


def test_raise_error_fails_the_statement_with_the_users_message(
    node: NodeProcess, session: str
) -> None:
    error = node.run("SELECT raise_error('my message')", session)["error"]
    assert error["message"] == "my message"
    assert error["condition"] == "USER_RAISED_EXCEPTION"


@pytest.mark.parametrize(
    ("text", "parameters", "row"),
    [
        ("SELECT :n + 1, :s", [{"name": "n", "value": 41}, {"name": "s", "value": "x"}], [42, "x"]),
        ("SELECT ?, ?", [{"value": None}, {"value": True}], [None, True]),
        ("SELECT :d", [{"name": "d", "value": "1.50", "type": "DECIMAL(10,2)"}], ["1.50"]),
        ("SELECT :d", [{"name": "d", "value": "2024-02-29", "type": "DATE"}], ["2024-02-29"]),
        ("SELECT :l", [{"name": "l", "value": [1, 2], "type": "ARRAY<BIGINT>"}], [["1", "2"]]),
        ("SELECT :s", [{"name": "s", "value": "'; DROP TABLE x; --"}], ["'; DROP TABLE x; --"]),
    ],
)
def test_parameters_are_bound_by_spark(
    node: NodeProcess, session: str, text: str, parameters: list[object], row: list[object]
) -> None:
    assert node.rows(text, session, parameters=parameters) == [row]


def test_a_timestamp_in_a_repeated_hour_is_exact_and_refused_in_a_view(
    node: NodeProcess, session: str
) -> None:
    parameters = [
        {"name": f"t{hour}", "value": f"2013-11-03T0{hour}:30:00Z", "type": "TIMESTAMP"}
        for hour in (5, 6, 7)
    ]
    text = "SELECT unix_timestamp(:t6) - unix_timestamp(:t5), unix_timestamp(:t7)"
    conf = {"spark.sql.session.timeZone": "America/New_York"}
    rows = node.rows(text, session, parameters=parameters, conf=conf)
    assert rows == [["3600", "1383463800"]]
    view = "CREATE TEMPORARY VIEW clock AS SELECT :t6 AS t"
    error = node.run(view, session, parameters=parameters, conf=conf)["error"]
    assert error["code"] == "timestamp_ambiguous"


@pytest.mark.finding("B17")
def test_a_decimal_parameter_has_the_requested_type(node: NodeProcess, session: str) -> None:
    amount = [{"name": "x", "value": "5", "type": "DECIMAL(10,2)"}]
    text = "SELECT :x AS x, typeof(:x) AS t"
    assert node.rows(text, session, parameters=amount) == [["5.00", "decimal(10,2)"]]
    # Spark binds no value here, so that it substitutes the text of a literal.
    view = "CREATE OR REPLACE TEMPORARY VIEW typed AS SELECT :x AS x"
    node.rows(view, session, parameters=amount)
    assert node.rows("SELECT x FROM typed", session) == [["5.00"]]
    node.rows("DROP VIEW typed", session)
    script = "BEGIN DECLARE y DECIMAL(10,2) DEFAULT :x; SELECT y; END"
    assert node.rows(script, session, parameters=amount) == [["5.00"]]


def test_a_parameter_that_does_not_match_its_type_fails_the_statement(
    node: NodeProcess, session: str
) -> None:
    parameters = [{"name": "i", "value": "x", "type": "INT"}]
    error = node.run("SELECT :i", session, parameters=parameters)["error"]
    assert error["condition"] == "CAST_INVALID_INPUT"


def test_the_conf_of_a_statement_does_not_change_its_session(
    node: NodeProcess, session: str
) -> None:
    zone = "spark.sql.session.timeZone"
    read = "SELECT current_timezone()"
    before = node.rows(read, session)
    assert node.rows(read, session, conf={zone: "Asia/Tokyo"}) == [["Asia/Tokyo"]]
    assert node.rows(read, session) == before


def test_the_result_of_a_script_is_that_of_its_last_statement(
    node: NodeProcess, session: str
) -> None:
    script = "BEGIN DECLARE n INT DEFAULT 1; SET n = n + 1; SELECT n AS n; END"
    assert node.rows(script, session) == [[2]]


def test_a_cancel_stops_the_spark_job(node: NodeProcess, session: str) -> None:
    statement = node.submit("SELECT count(*) FROM range(1000000000000) WHERE id % 3 = 7", session)
    wait_until(
        lambda: node.statement(statement["id"])["state"] == "running", what="the statement runs"
    )
    epoch = node.describe_session(session)["epoch"]
    answer = node.http.post(f"/api/v1/statements/{statement['id']}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelling")
    assert node.wait_ended(statement["id"])["state"] == "cancelled"
    # The same driver can run the next statement: it did not have to be killed.
    assert node.rows("SELECT 1", session) == [[1]]
    assert node.describe_session(session)["epoch"] == epoch
    again = node.http.post(f"/api/v1/statements/{statement['id']}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "already_ended")
    assert "cancelled" in again.json()["detail"]


def test_a_waiting_statement_is_cancelled_at_once(node: NodeProcess, session: str) -> None:
    first = node.submit("SELECT count(*) FROM range(1000000000000) WHERE id % 3 = 7", session)
    second = node.submit("DROP TABLE IF EXISTS absent", session)
    answer = node.http.post(f"/api/v1/statements/{second['id']}/cancel").json()
    assert answer["state"] == "cancelled"
    node.http.post(f"/api/v1/statements/{first['id']}/cancel")
    assert node.wait_ended(first["id"])["state"] == "cancelled"


def test_a_session_runs_its_statements_in_order(node: NodeProcess, session: str) -> None:
    node.rows("CREATE TABLE in_order (n INT)", session)
    try:
        inserts = [node.submit(f"INSERT INTO in_order VALUES ({n})", session) for n in range(4)]
        rows = node.rows("SELECT n FROM in_order ORDER BY n", session)
        assert rows == [[0], [1], [2], [3]]
        ended = [node.statement(insert["id"]) for insert in inserts]
        ordinals = [statement["ordinal"] for statement in ended]
        assert ordinals == sorted(ordinals)
        for earlier, later in itertools.pairwise(ended):
            assert earlier["ended_at"] <= later["launched_at"]
    finally:
        node.rows("DROP TABLE in_order", session)


def test_a_result_reports_whether_the_row_limit_truncated_it(
    node: NodeProcess, session: str
) -> None:
    truncated = node.run("SELECT id FROM range(100000)", session, row_limit=10)
    assert (truncated["result"]["row_count"], truncated["result"]["truncated"]) == (10, True)
    complete = node.run("SELECT id FROM range(10)", session, row_limit=10)
    assert (complete["result"]["row_count"], complete["result"]["truncated"]) == (10, False)


def test_on_wait_timeout_cancel_cancels_the_statement(node: NodeProcess, session: str) -> None:
    statement = node.submit(
        "SELECT count(*) FROM range(1000000000000) WHERE id % 3 = 7",
        session,
        wait_timeout="1s",
        on_wait_timeout="cancel",
    )
    # The answer waits for the driver, for a limited time.
    assert statement["state"] in {"cancelled", "cancelling"}
    assert node.wait_ended(statement["id"])["state"] == "cancelled"


def test_parallel_clients_get_the_rows_of_their_own_statements(
    node: NodeProcess, session: str
) -> None:
    answers: dict[int, list[list[object]]] = {}

    def run_query(n: int) -> None:
        answers[n] = node.rows(f"SELECT {n}", session)

    threads = [threading.Thread(target=run_query, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: [[n]] for n in range(12)}


def test_the_log_of_a_driver_can_be_read_over_http(node: NodeProcess, session: str) -> None:
    log = node.http.get(f"/api/v1/sessions/{session}/log")
    assert log.headers["content-type"].startswith("text/plain")
    assert "Spark" in log.text
