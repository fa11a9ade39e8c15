"""Statements without a session: one driver for each user, a Spark session for each statement."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support.gates import Gate
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def pool(node: NodeProcess) -> str:
    """Return the id of the pool session, whose driver runs."""
    session: str = node.run("SELECT 1")["session_id"]
    return session


@pytest.mark.parametrize(
    ("change", "query"),
    [
        ("SET my.own.key = 7", "SELECT '${my.own.key}' = '7'"),
        ("SET spark.sql.shuffle.partitions = 7", "SET spark.sql.shuffle.partitions"),
        ("DECLARE VARIABLE pooled INT DEFAULT 7", "SELECT pooled"),
        ("CREATE TEMPORARY VIEW pooled AS SELECT 7 AS x", "SELECT * FROM pooled"),
        ("CREATE TEMPORARY FUNCTION pooled() RETURNS INT RETURN 7", "SELECT pooled()"),
    ],
    ids=["own setting", "Spark's setting", "variable", "view", "function"],
)
def test_nothing_of_a_statement_outlives_it(
    node: NodeProcess, pool: str, change: str, query: str
) -> None:
    changed = node.run(change)
    assert (changed["state"], changed["session_id"]) == ("success", pool)
    after = node.run(query)
    assert after["session_id"] == pool
    assert "7" not in str(node.result(after["id"])["rows"] if after["result"] else "")
    assert after["state"] == "success" or "pooled" in after["error"]["message"]


def test_a_replaced_function_is_seen_by_all_later_statements(node: NodeProcess) -> None:
    for number in (1, 2):
        define = f"CREATE OR REPLACE FUNCTION pooled_number() RETURNS INT RETURN {number}"
        assert node.run(define)["state"] == "success"
        assert node.rows("SELECT pooled_number()") == [[number]]
        assert node.rows("SELECT pooled_number() AS again") == [[number]]
    assert node.run("DROP FUNCTION pooled_number")["state"] == "success"
    assert node.run("SELECT pooled_number()")["state"] == "failed"


def test_the_current_database_is_the_default_one_for_each_statement(node: NodeProcess) -> None:
    assert node.run("CREATE DATABASE pooled_database")["state"] == "success"
    assert node.run("USE pooled_database")["state"] == "success"
    assert node.rows("SELECT current_database()") == [["default"]]


def test_tables_are_the_same_for_all_statements(node: NodeProcess, pool: str) -> None:
    created = node.run("CREATE TABLE pooled_table AS SELECT 0 AS x")
    assert (created["state"], created["session_id"], created["atomic"]) == ("success", pool, True)
    inserted = [node.submit(f"INSERT INTO pooled_table VALUES ({n})") for n in range(1, 4)]
    for statement in inserted:
        ended = node.wait_ended(statement["id"])
        assert (ended["state"], ended["session_id"]) == ("success", pool)
    assert node.rows("SELECT x FROM pooled_table ORDER BY x") == [[0], [1], [2], [3]]


def test_global_temporary_views_are_shared(node: NodeProcess) -> None:
    made = "CREATE OR REPLACE GLOBAL TEMPORARY VIEW pooled_global AS SELECT 7 AS x"
    assert node.run(made)["state"] == "success"
    assert node.rows("SELECT x FROM global_temp.pooled_global") == [[7]]


def test_cached_tables_and_added_files_are_shared(node: NodeProcess, tmp_path: Path) -> None:
    assert node.run("CREATE TABLE pooled_cached AS SELECT 7 AS x")["state"] == "success"
    assert node.run("CACHE TABLE pooled_cached")["state"] == "success"
    [[plan]] = node.rows("EXPLAIN SELECT * FROM pooled_cached")
    assert "InMemoryRelation" in plan
    file = tmp_path / "pooled.txt"
    file.write_text("x")
    assert node.run(f"ADD FILE '{file}'")["state"] == "success"
    assert "pooled.txt" in str(node.rows("LIST FILES"))


def run_at_once(node: NodeProcess, *texts: str) -> list[str]:
    """Start statements, and wait until all of them run. Return their ids."""
    statements = [str(node.submit(text)["id"]) for text in texts]
    wait_until(
        lambda: {node.statement(each)["state"] for each in statements} == {"running"},
        what="all statements run",
    )
    return statements


def test_statements_that_change_something_run_at_once(
    node: NodeProcess, pool: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    texts = [f"CREATE TABLE pooled_{n} AS SELECT {n} AS n FROM {gate.rows}" for n in range(2)]
    with gate.closed():
        statements = run_at_once(node, *texts)
    for statement_id in statements:
        assert node.wait_ended(statement_id)["state"] == "success"


def test_the_next_driver_continues_the_statements_of_a_lost_one(
    node: NodeProcess, pool: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    driver = node.describe_session(pool)["driver"]["pid"]
    with gate.closed():
        statements = run_at_once(node, *(f"SELECT {n} AS n FROM {gate.rows}" for n in range(2)))
        os.kill(driver, signal.SIGKILL)
    for statement_id in statements:
        ended = node.wait_ended(statement_id)
        assert (ended["state"], ended["attempts"]) == ("success", 2)
