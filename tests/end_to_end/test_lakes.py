"""Atomic statements on Delta, Iceberg and PostgreSQL through a node, in one session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.lakes import LAKES, Lake, lake_conf, lake_extensions, lake_jars
from tests.support.node import NodeProcess
from tests.support.postgres import Postgres
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]

ROWS = "SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM range(0, 1000, 1, 4)"
SLOW = ROWS + " WHERE reflect('java.lang.Thread', 'sleep', 20L + id * 0) IS NOT NULL"
SUM = "count(*), sum(CAST(id AS BIGINT)), sum(CAST(k AS BIGINT)), count(DISTINCT s)"
COMPLETE_SUM = [["1000", "499500", "999", "1000"]]


def in_lakes(*names: str, among: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Run a test on some kinds of tables, by default on all; `make test` runs the ones named.

    The contract suites of tests/driver/ctas run on every kind. Here, a driver's own session does,
    once for each way to commit.
    """
    lakes = [
        pytest.param(lake, marks=[] if lake.name in names else [pytest.mark.matrix])
        for lake in LAKES
        if not among or lake.name in among
    ]
    return pytest.mark.parametrize("lake", lakes, ids=str)


@pytest.fixture(scope="module")
def lake_session(
    node: NodeProcess, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    jars = lake_jars()
    conf = lake_conf(tmp_path_factory.mktemp("lakes"), postgres, postgres.new_database())
    conf["spark.sql.extensions"] = lake_extensions(jars)
    session = node.session(conf=conf, jars=[str(jar) for jar in jars])
    node.wait_running(session)
    yield session
    node.http.delete(f"/api/v1/sessions/{session}")


@in_lakes("delta", "iceberg-base", "jdbc")
def test_a_table_is_created_atomically_replaced_and_absent_after_a_cancel(
    node: NodeProcess, lake_session: str, lake: Lake
) -> None:
    name = f"{lake.catalog}.lake_{lake.name.replace('-', '_')}"
    assert node.run(f"CREATE NAMESPACE {name}", lake_session)["state"] == "success"
    text = f"TABLE {name}.t {lake.clause} AS "
    slow = node.submit(f"CREATE {text}{SLOW}", lake_session)["id"]

    def is_writing() -> bool:
        progress = node.statement(slow)["progress"]
        return bool(progress and progress["tasks_active"])

    wait_until(is_writing, what="the CTAS writes")
    node.http.post(f"/api/v1/statements/{slow}/cancel")
    assert node.wait_ended(slow)["state"] == "cancelled"
    assert node.rows(f"SHOW TABLES IN {name}", lake_session) == []
    created = node.run(f"CREATE {text}{ROWS}", lake_session)
    assert (created["state"], created["atomic"]) == ("success", True), created
    assert node.rows(f"SELECT {SUM} FROM {name}.t", lake_session) == COMPLETE_SUM
    repeated = node.run(f"CREATE {text}{ROWS}", lake_session)
    assert repeated["error"]["code"] == "table_already_exists"
    replaced = node.run(f"CREATE OR REPLACE {text}{ROWS}", lake_session)
    outcome = (replaced["state"], replaced["atomic"])
    assert outcome == ("success", lake.replaces_atomically), replaced
    assert node.rows(f"SELECT {SUM} FROM {name}.t", lake_session) == COMPLETE_SUM


@in_lakes("iceberg-base", "jdbc")
def test_rows_are_added_and_replaced_atomically(
    node: NodeProcess, lake_session: str, lake: Lake
) -> None:
    name = f"{lake.catalog}.rows_{lake.name.replace('-', '_')}"
    assert node.run(f"CREATE NAMESPACE {name}", lake_session)["state"] == "success"
    created = node.run(f"CREATE TABLE {name}.t {lake.clause} AS {ROWS}", lake_session)
    assert created["state"] == "success"
    for verb, count in (("INTO", 2000), ("OVERWRITE", 1000)):
        written = node.run(f"INSERT {verb} {name}.t {ROWS}", lake_session)
        outcome = (written["state"], written["atomic"], written["result"]["rows_written"])
        assert outcome == ("success", True, 1000), written
        assert node.rows(f"SELECT count(*) FROM {name}.t", lake_session) == [[str(count)]]


@in_lakes("delta", among=("delta", "iceberg-base"))
def test_rows_are_changed_atomically(node: NodeProcess, lake_session: str, lake: Lake) -> None:
    name = f"{lake.catalog}.changed_{lake.name.replace('-', '_')}"
    assert node.run(f"CREATE NAMESPACE {name}", lake_session)["state"] == "success"
    created = node.run(f"CREATE TABLE {name}.t {lake.clause} AS {ROWS}", lake_session)
    assert created["state"] == "success"
    changes = {
        f"UPDATE {name}.t SET s = concat(s, '!') WHERE id < 10": "2900",
        f"DELETE FROM {name}.t WHERE id >= 900": "2600",
        f"MERGE INTO {name}.t USING ({ROWS}) n ON {name}.t.id = n.id"
        " WHEN NOT MATCHED THEN INSERT *": "2900",
    }
    for text, length in changes.items():
        changed = node.run(text, lake_session)
        assert (changed["state"], changed["atomic"]) == ("success", True), changed
        total = node.rows(f"SELECT sum(length(s)) FROM {name}.t", lake_session)
        assert total == [[length]]


def test_a_ctas_with_parameters_works_with_the_parsers_of_extensions(
    node: NodeProcess, lake_session: str
) -> None:
    # Iceberg's parser passes the text on to Spark without the parameters.
    text = "CREATE TABLE IDENTIFIER('named' || '_by') USING parquet AS SELECT :a AS a, :a + 1 AS b"
    created = node.run(text, lake_session, parameters=[{"name": "a", "value": 3}])
    assert (created["state"], created["atomic"]) == ("success", True), created
    [row] = node.rows("SELECT * FROM named_by", lake_session)
    assert [str(value) for value in row] == ["3", "4"]
