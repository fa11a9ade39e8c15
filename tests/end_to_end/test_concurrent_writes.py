"""Two sessions, with a Spark application each, write to one table at the same time."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.support.files import find_matching
from tests.support.gates import Gate
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.finding("B21")]

_SLOW = (
    "SELECT id, 0L FROM range(0, 2, 1, 2)"
    " WHERE reflect('java.lang.Thread', 'sleep', IF(id = 0, 0L, {seconds}000L)) IS NOT NULL"
)


def start_insert(
    node: NodeProcess, session: str, name: str, rows: str, *, atomicity: str = "auto"
) -> str:
    """Start an INSERT of two rows, and wait until one of its two tasks has written its row."""
    conf = {
        "hive.exec.dynamic.partition.mode": "nonstrict",
        "headrace.writes.atomicity": atomicity,
    }
    text = f"INSERT INTO {name} {rows}"
    statement_id = str(node.submit(text, session, conf=conf)["id"])
    table = node.home / "warehouse" / name
    wait_until(lambda: find_matching(table, "part-*"), seconds=60, what="a row is written")
    return statement_id


def gated_rows(gate: Gate) -> str:
    """Return two rows, the second of which waits for the gate."""
    # Spark would let one task read both, if both had one partition.
    return f"SELECT id, 0L FROM range(0, 1, 1, 2) UNION ALL SELECT id + 1, 0L FROM {gate.rows}"


def read_ids(node: NodeProcess, session: str, name: str) -> list[str]:
    assert node.run(f"REFRESH TABLE {name}", session)["state"] == "success"
    return [row[0] for row in node.rows(f"SELECT id FROM {name} ORDER BY id", session)]


def test_inserts_of_two_sessions_into_one_table_lose_no_rows(
    node: NodeProcess, session: str, other_session: str, tmp_path: Path
) -> None:
    # After ADD JAR, the statements of a session use a class loader of their own.
    jar = tmp_path / "empty.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("nothing", "")
    assert node.run(f"ADD JAR '{jar}'", session)["state"] == "success"
    create = "CREATE TABLE shared_rows (id BIGINT, k BIGINT)"
    assert node.run(create, session)["state"] == "success"
    gate = Gate(tmp_path)
    with gate.closed():
        insert = start_insert(node, session, "shared_rows", gated_rows(gate))
        # A commit and an abort, while the first INSERT is half done.
        append = "INSERT INTO shared_rows VALUES (2, 0)"
        assert node.run(append, other_session)["state"] == "success"
        failing = "INSERT INTO shared_rows SELECT raise_error('half-way'), 0 FROM range(3)"
        assert node.run(failing, other_session)["state"] == "failed"

    assert node.wait_ended(insert)["state"] == "success"
    assert read_ids(node, session, "shared_rows") == ["0", "1", "2"]


@pytest.mark.parametrize("atomicity", ["auto", "off"])
def test_only_plain_inserts_into_the_partitions_of_a_hive_table_wait_for_each_other(
    node: NodeProcess, session: str, other_session: str, tmp_path: Path, atomicity: str
) -> None:
    gate = Gate(tmp_path)
    name = f"shared_text_{atomicity}"
    create = f"CREATE TABLE {name} (id BIGINT) PARTITIONED BY (k BIGINT) STORED AS TEXTFILE"
    assert node.run(create, session)["state"] == "success"
    conf = {"headrace.writes.atomicity": atomicity}
    append = f"INSERT INTO {name} PARTITION (k = 0) VALUES (2)"
    with gate.closed():
        # An INSERT that does not wait ends before the gate opens.
        rows = gated_rows(gate) if atomicity == "auto" else _SLOW.format(seconds=3)
        first = start_insert(node, session, name, rows, atomicity=atomicity)
        second = node.run(append, other_session, conf=conf)
    assert second["state"] == "success"
    ended = node.wait_ended(first)
    assert ended["state"] == "success"
    assert (ended["ended_at"] < second["ended_at"]) is (atomicity == "off")
    assert read_ids(node, session, name) == ["0", "1", "2"]


def test_a_replacement_of_a_table_keeps_the_rows_of_an_insert_that_runs_beside_it(
    node: NodeProcess, session: str, other_session: str
) -> None:
    create = "CREATE TABLE compacted (id BIGINT, k BIGINT) USING parquet"
    assert node.run(create, session)["state"] == "success"
    # The driver loads the classes of a replacement now, not during the INSERT.
    warm_up = "CREATE OR REPLACE TABLE warm USING parquet AS SELECT * FROM compacted"
    assert node.run(warm_up, other_session)["state"] == "success"
    insert = start_insert(node, session, "compacted", _SLOW.format(seconds=10))
    text = "CREATE OR REPLACE TABLE compacted USING parquet AS SELECT DISTINCT * FROM compacted"
    replaced = node.run(text, other_session)
    assert replaced["state"] == "success"
    assert node.statement(insert)["state"] == "success"
    assert read_ids(node, other_session, "compacted") == ["0", "1"]
