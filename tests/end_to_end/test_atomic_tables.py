"""Atomic CTAS on a real Hive metastore, also when drivers die at every step of the transaction."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.faults.plan import Fault, Plan
from tests.faults.points import read_points
from tests.faults.recipes import TABLE_STEP
from tests.support.gates import Gate
from tests.support.node import ENDED, NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

ROWS = "SELECT id, id % 3 AS k, CAST(id AS STRING) AS s FROM range(0, 1000, 1, 4)"
SUM = "count(*), sum(CAST(id AS BIGINT)), sum(CAST(k AS BIGINT)), count(DISTINCT s)"
COMPLETE_SUM = [["1000", "499500", "999", "1000"]]
OFF = {"headrace.ctas.atomicity": "off"}
SLOW = ROWS + " WHERE reflect('java.lang.Thread', 'sleep', {}L + id * 0) IS NOT NULL"


def create_database(node: NodeProcess, session: str, database: str) -> Path:
    """Create a database; return the folder of its tables."""
    assert node.run(f"CREATE DATABASE {database}", session)["state"] == "success"
    return node.home / "warehouse" / f"{database}.db"


def list_tables(
    node: NodeProcess, session: str, database: str, folder: Path
) -> tuple[set[str], set[str]]:
    """Return the names of tables in the catalog, and the names in the folder of the database."""
    names = {row[1] for row in node.rows(f"SHOW TABLES IN {database}", session)}
    return names, {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.mark.parametrize(
    "definition",
    [
        "USING parquet",
        "USING orc PARTITIONED BY (k)",
        pytest.param("USING csv PARTITIONED BY (k)", marks=pytest.mark.matrix),
        "USING json CLUSTERED BY (id) INTO 2 BUCKETS",
        "STORED AS PARQUET",
        pytest.param("STORED AS TEXTFILE", marks=pytest.mark.matrix),
        "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE",
        pytest.param("STORED AS ORC", marks=pytest.mark.matrix),
        "USING hive OPTIONS (fileFormat 'avro')",
    ],
)
def test_a_ctas_in_every_format_creates_a_complete_table(
    node: NodeProcess, session: str, definition: str
) -> None:
    database = f"atomic_{_to_identifier(definition)}"
    folder = create_database(node, session, database)
    created = node.run(f"CREATE TABLE {database}.t {definition} AS {ROWS}", session)
    assert (created["state"], created["atomic"]) == ("success", True), created
    assert node.rows(f"SELECT {SUM} FROM {database}.t", session) == COMPLETE_SUM
    assert list_tables(node, session, database, folder) == ({"t"}, {"t"})
    repeated = node.run(f"CREATE TABLE {database}.t {definition} AS {ROWS}", session)
    assert repeated["error"]["code"] == "table_already_exists"
    assert repeated["error"]["condition"] == "TABLE_OR_VIEW_ALREADY_EXISTS"


@pytest.mark.parametrize("case_sensitive", ["false", "true"])
def test_a_name_with_capital_letters_has_lower_case_in_the_metastore(
    node: NodeProcess, session: str, case_sensitive: str
) -> None:
    database = f"capitals_{case_sensitive}"
    folder = create_database(node, session, database)
    conf = {"spark.sql.caseSensitive": case_sensitive}
    text = "CREATE TABLE {}.{} USING parquet AS SELECT 1 AS Id"
    assert node.run(text.format(database, "MiXed"), session, conf=conf)["atomic"] is True
    # Plain Spark gives the table the same name.
    plain = text.format(database, "PlAin")
    assert node.run(plain, session, conf=conf | OFF)["atomic"] is False
    names, directories = list_tables(node, session, database, folder)
    assert (names, "mixed" in directories) == ({"mixed", "plain"}, True)
    assert node.rows(f"SELECT * FROM {database}.MIXED", session) == [[1]]
    repeated = node.run(text.format(database, "mixeD"), session, conf=conf)
    assert repeated["error"]["code"] == "table_already_exists"


def test_tables_are_complete_in_a_database_whose_directory_has_any_name(
    node: NodeProcess, session: str, tmp_path: Path
) -> None:
    odd = "a b%20c#d&e+é%"
    folder = tmp_path / odd
    for text in (
        f"CREATE DATABASE odd_folder LOCATION '{folder}'",
        f"CREATE TABLE odd_folder.plain USING parquet AS {ROWS}",
        f"CREATE TABLE odd_folder.parts PARTITIONED BY (k) AS {ROWS}",
        f"CREATE TABLE odd_folder.hive STORED AS PARQUET PARTITIONED BY (s) AS {ROWS} WHERE id < 9",
        f"CREATE TABLE odd_folder.value PARTITIONED BY (v) AS SELECT *, '{odd}' AS v FROM ({ROWS})",
        f"CREATE OR REPLACE TABLE odd_folder.plain USING orc PARTITIONED BY (k) AS {ROWS}",
        f"INSERT OVERWRITE odd_folder.parts BY NAME {ROWS}",
    ):
        statement = node.run(text, session, conf={"hive.exec.dynamic.partition.mode": "nonstrict"})
        assert statement["state"] == "success", (text, statement["error"])
    for table in ("plain", "parts", "value"):
        assert node.rows(f"SELECT {SUM} FROM odd_folder.{table}", session) == COMPLETE_SUM, table
    assert node.rows("SELECT count(*) FROM odd_folder.parts WHERE k = 0", session) == [["334"]]
    assert node.rows("SELECT count(DISTINCT s) FROM odd_folder.hive", session) == [["9"]]
    assert node.rows("SELECT DISTINCT v FROM odd_folder.value", session) == [[odd]]
    tables = {"plain", "parts", "hive", "value"}
    assert list_tables(node, session, "odd_folder", folder) == (tables, tables)


@pytest.mark.parametrize("clause", ["USING parquet PARTITIONED BY (k)", "STORED AS ORC"])
def test_a_ctas_at_a_location_creates_a_complete_table_and_refuses_an_occupied_one(
    node: NodeProcess, session: str, tmp_path: Path, clause: str
) -> None:
    database = f"located_{_to_identifier(clause)}"
    create_database(node, session, database)
    location = tmp_path / "location"
    text = f"CREATE TABLE {database}.t {clause} LOCATION '{location}' AS {ROWS}"
    created = node.run(text, session)
    assert (created["state"], created["atomic"]) == ("success", True), created
    assert node.rows(f"SELECT {SUM} FROM {database}.t", session) == COMPLETE_SUM
    assert node.rows(f"SELECT count(*) FROM {database}.t WHERE k = 1", session) == [["333"]]
    assert not [path for path in location.rglob("*") if "headrace" in path.name]
    other = node.run(text.replace(".t ", ".u "), session)
    assert other["error"]["code"] == "location_not_empty"
    assert str(location) in other["error"]["message"]


def test_one_of_ten_concurrent_writers_creates_the_table(
    node: NodeProcess, session: str, other_session: str
) -> None:
    """Readers see either no table or all rows."""
    folder = create_database(node, session, "concurrent")
    reader = node.session()
    node.wait_running(reader)
    observations: list[Any] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            statement = node.run(f"SELECT {SUM} FROM concurrent.t", reader)
            error = statement["error"] or {}
            observations.append(statement.get("rows") or error.get("condition") or statement)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        text = f"CREATE TABLE concurrent.t USING parquet AS {ROWS}"
        ids = [node.submit(text, writer)["id"] for writer in [session, other_session] * 5]
        statements = [node.wait_ended(each) for each in ids]
    finally:
        ended.set()
        thread.join()
    states = sorted(statement["state"] for statement in statements)
    assert states == ["failed"] * 9 + ["success"]
    codes = {statement["error"]["code"] for statement in statements if statement["error"]}
    assert codes == {"table_already_exists"}
    expected = (COMPLETE_SUM, "TABLE_OR_VIEW_NOT_FOUND")
    assert all(observation in expected for observation in observations), observations
    assert list_tables(node, session, "concurrent", folder) == ({"t"}, {"t"})
    node.http.delete(f"/api/v1/sessions/{reader}")


def test_a_cancelled_ctas_leaves_no_table_and_no_files(node: NodeProcess, session: str) -> None:
    folder = create_database(node, session, "cancelled")
    text = "CREATE TABLE cancelled.t USING parquet AS "
    slow = node.submit(text + SLOW.format(60_000), session)["id"]
    wait_until(lambda: has_files(folder), what="the CTAS writes")
    node.http.post(f"/api/v1/statements/{slow}/cancel")
    assert node.wait_ended(slow)["state"] == "cancelled"
    assert list_tables(node, session, "cancelled", folder) == (set(), set())
    assert node.run(text + ROWS, session)["atomic"] is True


def test_the_setting_atomicity_require_fails_a_ctas_that_cannot_be_atomic(
    node: NodeProcess, session: str
) -> None:
    create_database(node, session, "required")
    lenient = {"spark.sql.legacy.allowNonEmptyLocationInCTAS": "true"}
    text = f"CREATE TABLE required.t USING parquet AS {ROWS}"
    conf = {**lenient, "headrace.ctas.atomicity": "require"}
    assert node.run(text, session, conf=conf)["error"]["code"] == "atomicity_required"
    assert node.run(text, session, conf=lenient)["atomic"] is False
    skipped = node.run(text.replace("TABLE", "TABLE IF NOT EXISTS", 1), session)
    assert (skipped["state"], skipped["atomic"]) == ("success", None)
    assert "Nothing was done" in skipped["note"]
    answer = node.http.post(
        "/api/v1/statements",
        json={"statement": text, "conf": {"headrace.ctas.atomicity": "maybe"}},
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_setting")


def _to_identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text).lower()


def has_files(folder: Path) -> bool:
    return folder.exists() and any(folder.iterdir())


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return Plan(tmp_path_factory.mktemp("plan"), read_points())


@pytest.fixture(scope="module")
def killed_drivers(
    plan: Plan, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[NodeProcess, str]]:
    """Yield a node and a session whose drivers the plan kills."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in plan.environment.items():
            patch.setenv(name, value)
        process = NodeProcess(
            tmp_path_factory.mktemp("killed_drivers") / "home",
            LEASE__DURATION="15s",
            LEASE__RENEW="1s",
            STATEMENTS__MAX_ATTEMPTS="9",
        )
        session = process.session()
        process.wait_running(session)
        yield process, session
        process.close()


_KILLS = [
    # A fault does not count the passage at which an earlier fault has killed the process.
    Fault(TABLE_STEP, "after", "kill", hit=5),  # prepared
    Fault(TABLE_STEP, "after", "kill_jvm", hit=8),  # begun
    Fault(TABLE_STEP, "before", "kill", hit=14),  # committing
    Fault(TABLE_STEP, "after", "kill", hit=17),  # committing
]
"""One kill at each step of a transaction, in the attempts after the first."""


def kill_jvm(node: NodeProcess, session: str) -> None:
    driver = psutil.Process(node.http.get(f"/api/v1/sessions/{session}").json()["driver"]["pid"])
    processes = driver.children(recursive=True)
    next(process for process in processes if "java" in process.name()).kill()


def gated_rows(gate: Gate) -> str:
    """Return ROWS, and a further task that waits for the gate and has no row."""
    nothing = f"SELECT id, id AS k, CAST(id AS STRING) AS s FROM {gate.rows} WHERE id < 0"
    return f"{ROWS} UNION ALL {nothing}"


def test_a_table_is_complete_after_drivers_died_at_every_step_of_its_transaction(
    killed_drivers: tuple[NodeProcess, str], plan: Plan, tmp_path: Path
) -> None:
    """The first driver dies while it writes. The next ones first remove or finish the table."""
    node, session = killed_drivers
    folder, gate = create_database(node, session, "steps"), Gate(tmp_path)
    text = f"CREATE TABLE steps.t USING parquet PARTITIONED BY (k) AS {gated_rows(gate)}"
    plan.write(_KILLS)
    with gate.closed():
        statement_id = node.submit(text, session)["id"]
        wait_until(lambda: has_files(folder), what="the CTAS writes")
        kill_jvm(node, session)
    wait_until(
        lambda: node.statement(statement_id)["state"] in ENDED,
        seconds=240,
        what="the CTAS has ended",
    )
    created = node.statement(statement_id)
    actions = plan.read_actions()
    plan.write([])
    assert actions == [fault.action for fault in _KILLS]
    outcome = (created["state"], created["attempts"], created["atomic"])
    assert outcome == ("success", 6, True), created
    assert node.rows(f"SELECT {SUM} FROM steps.t", session) == COMPLETE_SUM
    assert list_tables(node, session, "steps", folder) == ({"t"}, {"t"})


@pytest.mark.parametrize(
    ("action", "kills"),
    [
        ("INTO", _KILLS[:2]),
        pytest.param("INTO", _KILLS, marks=pytest.mark.matrix),
        pytest.param("OVERWRITE", _KILLS, marks=pytest.mark.matrix),
    ],
)
def test_rows_are_written_once_after_drivers_died_while_they_wrote(
    killed_drivers: tuple[NodeProcess, str],
    plan: Plan,
    tmp_path: Path,
    action: str,
    kills: list[Fault],
) -> None:
    """The first driver dies while it writes. The next ones remove the rows, or move them in."""
    node, session = killed_drivers
    database = f"written_{action.lower()}_{len(kills)}"
    folder = create_database(node, session, database)
    create = f"CREATE TABLE {database}.t USING parquet PARTITIONED BY (k) AS {ROWS}"
    assert node.run(create, session)["state"] == "success"
    gate = Gate(tmp_path)
    columns = f"SELECT id, s, k FROM ({gated_rows(gate)})"
    plan.write(kills)
    with gate.closed():
        statement_id = node.submit(f"INSERT {action} {database}.t {columns}", session)["id"]
        wait_until(
            lambda: any(path.is_dir() for path in (folder / "t").glob(".headrace_staged_*")),
            what="the INSERT stages rows",
        )
        kill_jvm(node, session)
    wait_until(
        lambda: node.statement(statement_id)["state"] in ENDED,
        seconds=240,
        what="the INSERT has ended",
    )
    written = node.statement(statement_id)
    actions = plan.read_actions()
    plan.write([])
    assert actions == [fault.action for fault in kills]
    outcome = (
        written["state"],
        written["attempts"],
        written["atomic"],
        written["result"]["rows_written"],
    )
    assert outcome == ("success", len(kills) + 2, True, 1000), written
    expected = [["2000", "999000", "1998"] if action == "INTO" else ["1000", "499500", "999"]]
    total = f"SELECT count(*), sum(id), sum(CAST(k AS BIGINT)) FROM {database}.t"
    assert node.rows(total, session) == expected
    assert not list((folder / "t").glob(".headrace_*"))


def test_the_command_recover_removes_an_orphaned_transaction(
    killed_drivers: tuple[NodeProcess, str], plan: Plan
) -> None:
    node, session = killed_drivers
    node.wait_running(session)
    folder = create_database(node, session, "orphaned")
    plan.write([Fault(TABLE_STEP, "before", "kill", hit=3)])
    text = f"CREATE TABLE orphaned.t USING parquet AS {ROWS}"
    statement_id = node.submit(text, session)["id"]
    wait_until(lambda: node.session_state(session) == "recovering", what="the driver is lost")
    plan.write([])
    node.http.delete(f"/api/v1/sessions/{session}")
    [transaction] = wait_until(
        lambda: run_recover(node, "--dry-run"), seconds=120, what="the transaction is orphaned"
    )
    assert (transaction["statement_id"], transaction["action"]) == (statement_id, "remove")
    assert has_files(folder)
    [transaction] = run_recover(node)
    assert (transaction["state"], transaction["action"]) == ("aborted", "removed")
    assert run_recover(node) == []
    assert not has_files(folder)


def run_recover(node: NodeProcess, *flags: str) -> list[dict[str, Any]]:
    """Run `headrace recover` and return the transactions that it prints."""
    program = [sys.executable, "-m", "headrace.cli", "recover"]
    run = subprocess.run(
        [*program, "--format", "json", *flags],
        env=node.client_environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    transactions: list[dict[str, Any]] = json.loads(run.stdout)
    return transactions
