"""Materialized views on real Spark: a reader polls while refreshes run, fail and are killed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.end_to_end.test_streams import Numbers, kill_driver
from tests.support.gates import Gate
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark
ROWS = 1000
PROFILES = {"default": {"warm": 1}, "other": {"conf": {"spark.sql.shuffle.partitions": "3"}}}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    process = NodeProcess(
        tmp_path_factory.mktemp("node") / "home",
        LEASE__DURATION="15s",
        LEASE__RENEW="1s",
        # A reader of a generation that is replaced must end within this time.
        MATERIALIZED_VIEWS__GRACE="5s",
        PROFILES=json.dumps(PROFILES),
    )
    yield process
    # The warm drivers belong to no user, and would outlive the node.
    stop = [sys.executable, "-m", "headrace.cli", "stop", "--drivers", "--home", str(process.home)]
    subprocess.run(stop, check=True, capture_output=True)
    process.http.close()
    process.close()


@pytest.fixture(scope="module")
def session(node: NodeProcess) -> str:
    session_id = node.session(name="reader")
    node.wait_running(session_id)
    return session_id


class Reader(threading.Thread):
    """Polls a view whose rows all have the number of their round."""

    def __init__(self, node: NodeProcess, session: str, view: str) -> None:
        super().__init__()
        self._node = node
        self._session = session
        self._text = f"SELECT min(round), max(round), count(*) FROM {view}"
        self._stopping = threading.Event()
        self.seen: list[tuple[int, ...]] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                [row] = self._node.rows(self._text, self._session)
                self.seen.append(tuple(int(value) for value in row))
        except Exception as error:  # noqa: BLE001 - the test fails with it
            self.error = error

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def refresh(node: NodeProcess, view: str, gate: Gate, *, kill: bool) -> str:
    """Refresh a view, and kill the driver once in the middle of the write. Return the state.

    Args:
        gate: A task of the view waits for it, so that the driver can be killed meanwhile.
    """
    with gate.closed() if kill else nullcontext():
        statement = node.submit(f"REFRESH MATERIALIZED VIEW {view}")

        def is_writing() -> bool:
            progress = node.statement(statement["id"])["progress"]
            return bool(progress and progress["tasks_active"])

        if kill:
            wait_until(is_writing, seconds=120, what="the refresh writes")
            kill_driver(node, statement["session_id"])
    ended = node.wait_ended(statement["id"])
    assert (ended["attempts"] > 1) == kill
    return str(ended["state"])


def find_warm_drivers(node: NodeProcess) -> set[str]:
    """Return the sessions whose drivers have warmed up, whether or not they have an owner yet."""
    logs = (node.home / "logs").glob("se_*.log")
    return {log.stem for log in logs if "warmed up in" in log.read_text(errors="replace")}


def test_a_refresh_takes_a_warm_driver_unless_its_profile_is_another_one(
    node: NodeProcess, session: str
) -> None:
    node.run("CREATE MATERIALIZED VIEW warm_view AS SELECT 1 AS a", session)
    wait_until(lambda: find_warm_drivers(node) - {session}, seconds=240, what="a warm driver")
    warm = find_warm_drivers(node) - {session}
    refreshes = [node.run("REFRESH MATERIALIZED VIEW warm_view") for _ in range(2)]
    other = node.session(profile="other")
    node.http.delete(f"/api/v1/sessions/{other}")
    cold = node.run("REFRESH MATERIALIZED VIEW warm_view", other)
    assert node.run("DROP MATERIALIZED VIEW warm_view")["state"] == "success"

    assert [each["state"] for each in (*refreshes, cold)] == ["success"] * 3
    [used] = {each["session_id"] for each in refreshes}
    assert used in warm
    starts = [event for event in node.events(used) if event["to"] == "starting"]
    assert len(starts) == 1
    assert starts[0]["at"] < refreshes[0]["created_at"]
    started = node.describe_session(cold["session_id"])
    assert cold["session_id"] not in {other, *find_warm_drivers(node)}
    assert started["profile"] == "other"
    assert started["started_at"] > cold["created_at"]


@pytest.mark.parametrize("refreshes", [2, pytest.param(10, marks=pytest.mark.matrix)])
def test_a_reader_sees_whole_generations_while_a_refresh_is_killed(
    node: NodeProcess, session: str, tmp_path: Path, refreshes: int
) -> None:
    source, view, gate = f"rounds_{refreshes}", f"v_{refreshes}", Gate(tmp_path)
    killed = refreshes // 2 + 1
    rows = f"SELECT {{}} AS round, id FROM range(0, {ROWS}, 1, 2)"
    node.run(f"CREATE TABLE {source} AS {rows.format(1)}", session)
    created = node.run(
        f"CREATE MATERIALIZED VIEW {view} AS"
        f" SELECT round, id FROM {source} UNION ALL SELECT 0, id FROM {gate.rows} WHERE id < 0",
        session,
    )
    assert (created["state"], created["atomic"]) == ("success", True), created
    reader = Reader(node, session, view)
    reader.start()
    try:
        for number in range(2, refreshes + 2):
            node.run(f"INSERT OVERWRITE {source} {rows.format(number)}", session)
            assert refresh(node, view, gate, kill=number == killed) == "success"
    finally:
        reader.stop()
    last = node.rows(f"SELECT min(round), max(round), count(*) FROM {view}", session)

    assert reader.error is None
    assert set(reader.seen) <= {(n, n, ROWS) for n in range(1, refreshes + 2)}
    assert sorted(reader.seen) == reader.seen
    assert [[int(value) for value in last[0]]] == [[refreshes + 1, refreshes + 1, ROWS]]
    tables = f"SHOW TABLES LIKE '__mv_{view}_*'"
    wait_until(
        lambda: len(node.rows(tables, session)) == 1,
        seconds=120,
        what="only the last generation is left",
        every=0.5,
    )
    assert node.run(f"DROP MATERIALIZED VIEW {view}")["state"] == "success"
    wait_until(
        lambda: node.rows(f"SHOW TABLES LIKE '*{view}*'", session) == [],
        seconds=120,
        what="the view and its rows are removed",
        every=0.5,
    )


def test_the_rows_of_every_refresh_are_checked_also_after_a_kill(
    node: NodeProcess, session: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)

    def describe() -> dict[str, str | None]:
        return dict(node.rows("DESCRIBE MATERIALIZED VIEW checked"))

    nothing = f"SELECT id, id FROM {gate.rows} WHERE id < 0"
    query = f"SELECT id, amount FROM sales UNION ALL {nothing}"
    create = (
        "CREATE MATERIALIZED VIEW checked (\n"
        "  CONSTRAINT positive EXPECT (amount > 0) ON VIOLATION DROP ROW,\n"
        f"  CONSTRAINT known EXPECT ({{}} < 100) ON VIOLATION FAIL UPDATE) AS {query}"
    )
    node.run("CREATE TABLE sales AS SELECT id, id - 1 AS amount FROM range(4)", session)
    refused = node.run(create.format("none"), session)["error"]
    assert (refused["code"], refused["line"], refused["column"]) == ("invalid_expectation", 3, 28)
    assert node.run(create.format("id"), session)["state"] == "success"
    created = describe()
    node.run("INSERT OVERWRITE sales SELECT id + 99, 1 FROM range(3)", session)
    failed = node.run("REFRESH MATERIALIZED VIEW checked")
    after_failure, kept = describe(), node.rows("SELECT id FROM checked ORDER BY id", session)
    node.run("INSERT OVERWRITE sales SELECT id, id - 6 FROM range(5, 10)", session)
    assert refresh(node, "checked", gate, kill=True) == "success"
    rows = node.rows("SELECT id FROM checked ORDER BY id", session)
    refreshed = describe()
    assert node.run("DROP MATERIALIZED VIEW checked")["state"] == "success"

    assert created["expectation positive"] == "drop: violated by 2 of 4 rows"
    assert (created["expectation known"], created["rows_dropped"]) == ("fail: passed", "2")
    assert failed["error"]["code"] == "expectation_failed"
    assert "`known` by 2 of 3 rows" in failed["error"]["message"]
    assert after_failure["expectation known"] == "fail: violated by 2 of 3 rows"
    assert after_failure["generation"] == created["generation"]
    assert kept == [["2"], ["3"]]
    assert refreshed["expectation positive"] == "drop: violated by 2 of 5 rows"
    assert rows == [["7"], ["8"], ["9"]]
    metrics = node.http.get("/metrics").text
    dropped = 'expectation="positive",job="spark_catalog.default.checked",outcome="violated"'
    assert next(line.split()[-1] for line in metrics.splitlines() if dropped in line) == "4.0"


def test_a_view_that_refreshes_itself_survives_its_driver(
    node: NodeProcess, session: str, tmp_path: Path
) -> None:
    streaming = node.session(kind="streaming")
    numbers = Numbers(tmp_path / "numbers")
    path = f"'path' = '{numbers.folder}'"
    for text in (
        f"CREATE OR REPLACE STREAM events (n INT) FROM json OPTIONS ({path})",
        "CREATE MATERIALIZED VIEW every_event WITH (auto_refresh = true) AS SELECT n FROM events",
        (
            "CREATE MATERIALIZED VIEW event_count WITH (auto_refresh = true) AS"
            " SELECT count(*) AS c, max(n) + 1 AS d FROM events"
        ),
    ):
        statement = node.run(text, streaming)
        assert statement["state"] == "success", statement

    def is_complete() -> bool:
        rows = node.rows("SELECT count(*), count(DISTINCT n) FROM every_event", session)
        counts = node.rows("SELECT * FROM event_count", session)
        expected = [str(numbers.count)] * 2
        return [[str(value) for value in row] for row in (*rows, *counts)] == [expected] * 2

    wait_until(is_complete, seconds=240, what="both views have all rows", every=0.5)
    kill_driver(node, streaming)
    numbers.add()
    wait_until(is_complete, seconds=240, what="both views have the new rows", every=0.5)
    described = dict(node.rows("DESCRIBE MATERIALIZED VIEW every_event"))
    shown = {row[0]: row for row in node.rows("SHOW MATERIALIZED VIEWS")}
    for view in ("every_event", "event_count"):
        assert node.run(f"DROP MATERIALIZED VIEW {view}")["state"] == "success"
    wait_until(
        lambda: node.rows("SHOW TABLES LIKE '*event*'", session) == [],
        seconds=120,
        what="the views and their rows are removed",
        every=0.5,
    )

    assert described["refresh"] == "automatic"
    assert described["query_state"] in {"starting", "running"}
    assert shown["spark_catalog.default.event_count"][1] == "active"
    assert node.stream("every_event")["state"] == "stopped"
