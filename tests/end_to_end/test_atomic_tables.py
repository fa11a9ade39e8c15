"""CTAS on a real Hive metastore, through nodes and drivers that die at every edge."""

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
from tests.faults.points import points
from tests.faults.recipes import TABLE_STEP
from tests.support.node import ENDED, NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

ROWS = "SELECT id, id % 3 AS k, CAST(id AS STRING) AS s FROM range(0, 1000, 1, 4)"
SUM = "count(*), sum(CAST(id AS BIGINT)), sum(CAST(k AS BIGINT)), count(DISTINCT s)"
WHOLE = [["1000", "499500", "999", "1000"]]
SLOW = ROWS + " WHERE reflect('java.lang.Thread', 'sleep', {}L + id * 0) IS NOT NULL"


def begin(node: NodeProcess, session: str, database: str) -> Path:
    """A database of the test's own; where its tables are."""
    assert node.run(f"CREATE DATABASE {database}", session)["state"] == "success"
    return node.home / "warehouse" / f"{database}.db"


def left(node: NodeProcess, session: str, database: str, place: Path) -> tuple[set[str], set[str]]:
    """The names in the catalog and on the disk."""
    named = {row[1] for row in node.rows(f"SHOW TABLES IN {database}", session)}
    return named, {one.name for one in place.iterdir()} if place.exists() else set()


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
def test_every_format_is_complete(node: NodeProcess, session: str, definition: str) -> None:
    database = f"atomic_{_word(definition)}"
    place = begin(node, session, database)
    made = node.run(f"CREATE TABLE {database}.t {definition} AS {ROWS}", session)
    assert (made["state"], made["atomic"]) == ("success", True), made
    assert node.rows(f"SELECT {SUM} FROM {database}.t", session) == WHOLE
    assert left(node, session, database, place) == ({"t"}, {"t"})
    again = node.run(f"CREATE TABLE {database}.t {definition} AS {ROWS}", session)
    assert again["error"]["code"] == "table_already_exists"
    assert again["error"]["condition"] == "TABLE_OR_VIEW_ALREADY_EXISTS"


@pytest.mark.parametrize("clause", ["USING parquet PARTITIONED BY (k)", "STORED AS ORC"])
def test_a_location_is_complete(
    node: NodeProcess, session: str, tmp_path: Path, clause: str
) -> None:
    database = f"located_{_word(clause)}"
    begin(node, session, database)
    place = tmp_path / "place"
    text = f"CREATE TABLE {database}.t {clause} LOCATION '{place}' AS {ROWS}"
    made = node.run(text, session)
    assert (made["state"], made["atomic"]) == ("success", True), made
    assert node.rows(f"SELECT {SUM} FROM {database}.t", session) == WHOLE
    assert node.rows(f"SELECT count(*) FROM {database}.t WHERE k = 1", session) == [["333"]]
    assert not [one for one in place.rglob("*") if "headrace" in one.name]
    other = node.run(text.replace(".t ", ".u "), session)
    assert other["error"]["code"] == "location_not_empty"
    assert str(place) in other["error"]["message"]


def test_one_of_many_writers_wins(node: NodeProcess, session: str, other_session: str) -> None:
    """Ten over two drivers, while somebody reads: no table, or all rows."""
    place = begin(node, session, "raced")
    reader = node.session()
    node.wait_running(reader)
    seen: list[Any] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            found = node.run(f"SELECT {SUM} FROM raced.t", reader)
            error = found["error"] or {}
            seen.append(found.get("rows") or error.get("condition") or found)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        text = f"CREATE TABLE raced.t USING parquet AS {ROWS}"
        sent = [node.submit(text, one)["id"] for one in [session, other_session] * 5]
        last = [node.statement(one, wait_timeout="60s") for one in sent]
    finally:
        ended.set()
        thread.join()
    states = sorted(one["state"] for one in last)
    assert states == ["failed"] * 9 + ["success"]
    codes = {one["error"]["code"] for one in last if one["error"]}
    assert codes == {"table_already_exists"}
    assert all(one in (WHOLE, "TABLE_OR_VIEW_NOT_FOUND") for one in seen), seen
    assert left(node, session, "raced", place) == ({"t"}, {"t"})
    node.http.delete(f"/api/v1/sessions/{reader}")


def test_a_cancel_leaves_nothing_and_agrees(node: NodeProcess, session: str) -> None:
    place = begin(node, session, "cancelled")
    text = "CREATE TABLE cancelled.t USING parquet AS "
    slow = node.submit(text + SLOW.format(60_000), session)["id"]
    wait_until(lambda: left_on_disk(place), what="it writes")
    node.http.post(f"/api/v1/statements/{slow}/cancel")
    assert node.statement(slow, wait_timeout="30s")["state"] == "cancelled"
    assert left(node, session, "cancelled", place) == (set(), set())
    assert node.run(text + ROWS, session)["atomic"] is True


def test_what_must_be_atomic(node: NodeProcess, session: str) -> None:
    begin(node, session, "required")
    lenient = {"spark.sql.legacy.allowNonEmptyLocationInCTAS": "true"}
    text = f"CREATE TABLE required.t USING parquet AS {ROWS}"
    conf = {**lenient, "headrace.ctas.atomicity": "require"}
    assert node.run(text, session, conf=conf)["error"]["code"] == "atomicity_required"
    assert node.run(text, session, conf=lenient)["atomic"] is False
    once_more = node.run(text.replace("TABLE", "TABLE IF NOT EXISTS", 1), session)
    assert (once_more["state"], once_more["atomic"]) == ("success", None)
    assert "Nothing was done" in once_more["note"]
    answer = node.http.post(
        "/api/v1/statements",
        json={"statement": text, "conf": {"headrace.ctas.atomicity": "maybe"}},
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_setting")


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text).lower()


def left_on_disk(place: Path) -> bool:
    return place.exists() and any(place.iterdir())


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return Plan(tmp_path_factory.mktemp("plan"), points())


@pytest.fixture(scope="module")
def doomed(
    plan: Plan, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[NodeProcess, str]]:
    """A node and a session whose drivers die as the plan says."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in plan.environment.items():
            patch.setenv(name, value)
        process = NodeProcess(
            tmp_path_factory.mktemp("doomed") / "home",
            LEASE__DURATION="4s",
            LEASE__RENEW="1s",
            STATEMENTS__MAX_ATTEMPTS="9",
        )
        session = process.session()
        process.wait_running(session)
        yield process, session
        process.close()


def test_drivers_die_at_every_edge_and_the_table_is_whole(
    doomed: tuple[NodeProcess, str], plan: Plan
) -> None:
    """The first in the middle of writing; each of the others first removes what was left."""
    node, session = doomed
    place = begin(node, session, "edges")
    text = f"CREATE TABLE edges.t USING parquet PARTITIONED BY (k) AS {SLOW.format(10)}"
    # A fault does not see the passage at which one before it has killed the process.
    plan.write(
        [
            Fault(TABLE_STEP, "after", "kill", hit=5),  # prepared
            Fault(TABLE_STEP, "after", "kill_jvm", hit=8),  # begun
            Fault(TABLE_STEP, "before", "kill", hit=14),  # committing
            Fault(TABLE_STEP, "after", "kill", hit=17),  # committing
        ]
    )
    sent = node.submit(text, session)["id"]
    wait_until(lambda: left_on_disk(place), what="it writes")
    driver = psutil.Process(node.http.get(f"/api/v1/sessions/{session}").json()["driver"]["pid"])
    next(one for one in driver.children(recursive=True) if "java" in one.name()).kill()
    wait_until(lambda: node.statement(sent)["state"] in ENDED, seconds=240, what="it has ended")
    made = node.statement(sent)
    did = [one["did"] for one in plan.passed() if one["did"]]
    plan.write([])
    assert did == ["kill", "kill_jvm", "kill", "kill"]
    assert (made["state"], made["attempts"], made["atomic"]) == ("success", 6, True), made
    assert node.rows(f"SELECT {SUM} FROM edges.t", session) == WHOLE
    assert left(node, session, "edges", place) == ({"t"}, {"t"})


def test_what_is_given_up_is_recovered(doomed: tuple[NodeProcess, str], plan: Plan) -> None:
    node, session = doomed
    node.wait_running(session)
    place = begin(node, session, "given_up")
    plan.write([Fault(TABLE_STEP, "before", "kill", hit=3)])
    text = f"CREATE TABLE given_up.t USING parquet AS {ROWS}"
    made = node.submit(text, session)
    wait_until(lambda: node.session_state(session) == "recovering", what="its driver is lost")
    plan.write([])
    node.http.delete(f"/api/v1/sessions/{session}")
    [told] = wait_until(lambda: recover(node, "--dry-run"), seconds=60, what="nobody drives it")
    assert (told["statement_id"], told["action"]) == (made["id"], "remove")
    assert left_on_disk(place)
    [told] = recover(node)
    assert (told["state"], told["action"]) == ("aborted", "removed")
    assert recover(node) == []
    assert not left_on_disk(place)


def recover(node: NodeProcess, *flags: str) -> list[dict[str, Any]]:
    """What `headrace recover` says."""
    program = [sys.executable, "-m", "headrace.cli", "recover", "--server", node.address]
    done = subprocess.run(
        [*program, "--format", "json", *flags],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
