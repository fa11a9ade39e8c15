"""`make chaos`, fourth part: two sessions insert into one table of files at the same time.

python -m tests.faults.concurrent_inserts          100 INSERTs for each session and kind of table
python -m tests.faults.concurrent_inserts 10       10 INSERTs instead
python -m tests.faults.concurrent_inserts 10 kill  only the round in which drivers are killed

In the second round, ten drivers of each kind of table are killed at random. Every INSERT that ends
as `success` must have all its rows in the table, and every other INSERT none. No INSERT is lost
with its driver.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from tests.support import short_lived_java
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

_INSERTS = 100
_SESSIONS = 2
_ROWS = 2000
_PARTITIONS = 4
_FAILING_EVERY = 10
"""One of so many INSERTs fails, so that jobs are aborted beside others."""
_KILLS = 10
_SECONDS_BETWEEN_KILLS = (3.0, 8.0)
_TABLES = {
    "parquet": "USING parquet",
    "parquet, partitioned": "USING parquet PARTITIONED BY (k)",
    "Hive text": "STORED AS TEXTFILE",
    "Hive text, partitioned": "PARTITIONED BY (k BIGINT) STORED AS TEXTFILE",
}
_CONF = {"hive.exec.dynamic.partition.mode": "nonstrict"}
_STAGING = (
    ".headrace_staged_",
    ".headrace_write_",
    ".spark-staging",
    ".hive-staging",
    "_temporary",
)


@dataclass(frozen=True)
class Insert:
    """One INSERT, whose rows carry its number."""

    number: int
    state: str
    code: str | None

    fails: bool
    """Whether its query fails half-way."""

    def has_ended_well(self, rows: int) -> bool:
        """Return whether it has the outcome of its query, with so many rows in the table."""
        expected = ("failed", 0) if self.fails else ("success", _ROWS)
        return (self.state, rows) == expected and self.code != "driver_lost"


def main(arguments: list[str]) -> int:
    """Return 1 if a table holds other rows than its statements report, or staging directories."""
    short_lived_java.apply()
    count = int(arguments[0]) if arguments else _INSERTS
    folder = Path(tempfile.mkdtemp(prefix="headrace-inserts-", dir="/tmp"))
    violations: list[str] = []
    rounds = [True] if arguments[1:] == ["kill"] else [False, True]
    # A statement may meet several kills.
    node = NodeProcess(folder / "home", STATEMENTS__MAX_ATTEMPTS="9")
    try:
        sessions = [node.session() for _ in range(_SESSIONS)]
        for session in sessions:
            node.wait_running(session)
        for kills in rounds:
            for name, clause in _TABLES.items():
                violations += _run_load(node, sessions, name, clause, count, kills=kills)
        violations += _find_orphaned_staging(node, sessions)
    finally:
        node.close()
    print(f"{len(violations)} violations")
    for violation in violations:
        print(violation)
    if violations:
        print(f"The logs and the store are kept in {folder}.")
    else:
        shutil.rmtree(folder)
    return int(bool(violations))


def _run_load(
    node: NodeProcess, sessions: list[str], name: str, clause: str, count: int, *, kills: bool
) -> list[str]:
    """Insert from all sessions into a new table; return the violations."""
    begin = time.monotonic()
    table = f"t{int(kills)}_{list(_TABLES).index(name)}"
    columns = "id BIGINT, n BIGINT"
    if "PARTITIONED BY (k BIGINT)" not in clause:
        columns += ", k BIGINT"
    _must_succeed(node, f"CREATE TABLE {table} ({columns}) {clause}", sessions[0])
    killed: list[int] = []
    killer = _killing(node, sessions, killed) if kills else contextlib.nullcontext()
    with killer, ThreadPoolExecutor(_SESSIONS) as executor:
        numbers = [range(index, count * _SESSIONS, _SESSIONS) for index in range(_SESSIONS)]
        runs = [
            executor.submit(_insert, node, session, table, own_numbers)
            for session, own_numbers in zip(sessions, numbers, strict=True)
        ]
        inserts = [insert for run in runs for insert in run.result()]
    for session in sessions:
        # A killed driver is replaced only when a statement waits.
        _must_succeed(node, f"REFRESH TABLE {table}", session)
    counts = _count_rows(node, sessions[0], table)
    title = f"{name}, {'drivers killed' if kills else 'nothing killed'}"
    violations = [
        f"{title}: INSERT {insert.number} is {insert.state} ({insert.code}) with"
        f" {counts[insert.number]} rows"
        for insert in inserts
        if not insert.has_ended_well(counts[insert.number])
    ]
    states = Counter(insert.code or insert.state for insert in inserts)
    print(
        f"{title}: {len(inserts)} INSERTs, {dict(states)}, {len(killed)} drivers killed,"
        f" {sum(counts.values())} rows, {len(violations)} violations,"
        f" {time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return violations


def _insert(node: NodeProcess, session: str, table: str, numbers: range) -> list[Insert]:
    """Run INSERTs one after another and return how they ended."""
    inserts = []
    for number in numbers:
        failing = number % _FAILING_EVERY == _FAILING_EVERY - 1
        row = f"IF(id < {_ROWS} - 1, id, raise_error('half-way'))" if failing else "id"
        text = (
            f"INSERT INTO {table} SELECT {row}, {number}L, id % {_PARTITIONS}"
            f" FROM range(0, {_ROWS}, 1, 2)"
        )
        statement = node.run(text, session, conf=_CONF)
        failure = statement["error"] or {}
        inserts.append(Insert(number, statement["state"], failure.get("code"), failing))
    return inserts


def _count_rows(node: NodeProcess, session: str, table: str) -> Counter[int]:
    """Return the number of rows of each INSERT."""
    rows = node.rows(f"SELECT n, count(DISTINCT id), count(*) FROM {table} GROUP BY n", session)
    duplicates = [row for row in rows if row[1] != row[2]]
    assert not duplicates, f"duplicate rows in {table}: {duplicates}"
    return Counter({int(row[0]): int(row[2]) for row in rows})


def _find_orphaned_staging(node: NodeProcess, sessions: list[str]) -> list[str]:
    """Return the staging directories that remain when all drivers have ended and another ran."""
    for session in sessions:
        node.http.delete(f"/api/v1/sessions/{session}")

    def find() -> list[str]:
        files = (node.home / "warehouse").glob("*/*")
        return [str(file) for file in files if file.name.startswith(_STAGING)]

    def are_cleared() -> bool:
        session = node.session()
        node.wait_running(session)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not find(), seconds=5, what="no staging directory remains")
        node.http.delete(f"/api/v1/sessions/{session}")
        return not find()

    begin = time.monotonic()
    while not are_cleared() and time.monotonic() - begin < 120:
        pass
    print(f"{len(find())} staging directories remain", flush=True)
    return [f"{path} remains" for path in find()]


@contextmanager
def _killing(node: NodeProcess, sessions: list[str], killed: list[int]) -> Iterator[None]:
    """Kill the JVM or the process of a driver from time to time."""
    stopping = threading.Event()
    chance = random.Random(14)

    def kill_some() -> None:
        while len(killed) < _KILLS and not stopping.wait(chance.uniform(*_SECONDS_BETWEEN_KILLS)):
            with contextlib.suppress(psutil.Error, httpx.HTTPError, KeyError, TypeError):
                session = node.describe_session(chance.choice(sessions))
                if session["state"] != "running":
                    # A session whose JVM dies while it starts fails.
                    continue
                pid = session["driver"]["pid"]
                driver = psutil.Process(pid)
                java = [item for item in driver.children(True) if "java" in item.name()]
                chance.choice([driver, *java]).kill()
                killed.append(pid)

    thread = threading.Thread(target=kill_some)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _must_succeed(node: NodeProcess, text: str, session: str) -> None:
    """Run a statement, and repeat it if its driver is lost."""
    statement = node.run(text, session)
    while statement["error"] and statement["error"]["code"] == "driver_lost":
        statement = node.run(text, session)
    assert statement["state"] == "success", statement


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
