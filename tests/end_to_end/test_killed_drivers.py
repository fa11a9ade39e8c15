"""Whatever a killed driver was writing: nothing of its names stays.

Each case waits until the name exists, then kills the driver and its JVM with SIGKILL. It closes
the session, so that no later attempt of the statement removes the name.
docs/explanation/lost-drivers.md lists all names, and who removes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from tests.support.files import find_matching
from tests.support.node import NodeProcess
from tests.support.processes import kill_with_descendants
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

ROWS = (
    "SELECT id, CAST(id AS STRING) AS s, CAST(id % 3 AS INT) AS k FROM range(0, 100, 1, 4) WHERE"
    " reflect('java.lang.Thread', 'sleep', IF(id = 0, 0L, 60000L)) IS NOT NULL"
)
"""Rows without an end. The first one is written immediately."""
PLAIN = {"headrace.writes.atomicity": "off"}


@dataclass(frozen=True)
class Case:
    """A statement and the names that it leaves when its driver is killed."""

    statement: str
    pattern: str
    table: str | None = None
    """Definition of the table that must exist before."""
    conf: dict[str, str] = field(default_factory=dict)


CASES = {
    "a new table": Case(f"CREATE TABLE {{db}}.t USING parquet AS {ROWS}", "headrace_staged_*"),
    "a new table at a location": Case(
        f"CREATE TABLE {{db}}.t USING orc LOCATION '{{folder}}' AS {ROWS}", "_headrace_staged_*"
    ),
    "rows": Case(f"INSERT INTO {{db}}.t {ROWS}", ".headrace_staged_*", "USING parquet"),
    "rows without a transaction": Case(
        f"INSERT INTO {{db}}.t {ROWS}", ".headrace_write_*", "USING parquet", PLAIN
    ),
    "partitions without a transaction": Case(
        f"INSERT OVERWRITE {{db}}.t {ROWS}",
        ".spark-staging-*",
        "USING parquet PARTITIONED BY (k)",
        PLAIN | {"spark.sql.sources.partitionOverwriteMode": "dynamic"},
    ),
    "rows of Hive without a transaction": Case(
        f"INSERT INTO {{db}}.t {ROWS}", ".hive-staging_*", "STORED AS TEXTFILE", PLAIN
    ),
}


class Sessions:
    """A running session, whose driver the next case kills, and the sessions of killed drivers."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.killed: list[str] = []
        self.replace()

    def replace(self) -> None:
        self.live = self.node.session()
        self.node.wait_running(self.live)

    def kill_driver(self) -> None:
        """Kill the driver of the session and its JVM, and close the session."""
        driver = psutil.Process(self.node.describe_session(self.live)["driver"]["pid"])
        kill_with_descendants(driver)
        self.killed.append(self.live)
        self.node.http.delete(f"/api/v1/sessions/{self.live}")


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Yield the sessions of a node that keeps a warm driver for the next one."""
    home = tmp_path_factory.mktemp("killed") / "home"
    node = NodeProcess(home, LEASE__DURATION="15s", LEASE__RENEW="1s")
    yield Sessions(node)
    node.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CASES)
def test_nothing_stays_of_what_a_killed_driver_was_writing(
    sessions: Sessions, tmp_path: Path, name: str
) -> None:
    node, case, db = sessions.node, CASES[name], f"d{list(CASES).index(name)}"
    folders = [node.home / "warehouse" / f"{db}.db", tmp_path]

    def find_files() -> list[Path]:
        return [file for folder in folders for file in find_matching(folder, case.pattern)]

    setup = [f"CREATE DATABASE {db}"]
    if case.table is not None:
        setup.append(f"CREATE TABLE {db}.t (id BIGINT, s STRING, k INT) {case.table}")
    for text in setup:
        assert node.run(text, sessions.live)["state"] == "success"
    statement = case.statement.format(db=db, folder=tmp_path / "table")
    node.submit(statement, sessions.live, conf=case.conf)
    wait_until(find_files, seconds=120, what="the statement writes")
    sessions.kill_driver()

    sessions.replace()
    node.http.post("/api/v1/recovery")
    wait_until(lambda: not find_files(), seconds=120, what=f"{case.pattern} is gone")
    tables = {row[1] for row in node.rows(f"SHOW TABLES IN {db}", sessions.live)}
    assert tables == ({"t"} if case.table is not None else set())
    # The driver reports what it has removed.
    wait_until(
        lambda: node.http.get("/api/v1/recovery").json()["transactions"] == [],
        what="the transaction has ended",
    )
    if case.table is not None:
        assert node.rows(f"SELECT count(*) FROM {db}.t", sessions.live) == [["0"]]


@pytest.mark.timeout(300)
def test_nothing_stays_in_the_home_of_a_node_that_was_killed_with_its_driver(
    sessions: Sessions,
) -> None:
    node = sessions.node
    driver = psutil.Process(node.describe_session(sessions.live)["driver"]["pid"])
    processes = [driver, *driver.children(recursive=True)]
    node.kill()
    for process in processes:
        # Python's workers end with their JVM.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    node.start()
    node.http.delete(f"/api/v1/sessions/{sessions.live}")
    killed = [*sessions.killed, sessions.live]

    def find_names() -> list[str]:
        files = [
            path.name
            for name in ("tmp", "drivers", "submitted")
            for path in _list(node.home / name)
        ]
        return [file for file in files if any(f"headrace-{each}-" in file for each in killed)]

    wait_until(lambda: not find_names(), seconds=120, what="the files of the drivers are gone")
    node.close()


def _list(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
