"""CTAS on Delta, Iceberg and PostgreSQL through a node, in one session with all catalogs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.lakes import IMPLEMENTATIONS, Lake, lake_conf, lake_extensions, lake_jars
from tests.support.node import NodeProcess
from tests.support.postgres import Postgres
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]

ROWS = "SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM range(0, 1000, 1, 4)"
SLOW = ROWS + " WHERE reflect('java.lang.Thread', 'sleep', 20L + id * 0) IS NOT NULL"
SUM = "count(*), sum(CAST(id AS BIGINT)), sum(CAST(k AS BIGINT)), count(DISTINCT s)"
COMPLETE_SUM = [["1000", "499500", "999", "1000"]]


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


@pytest.mark.parametrize("lake", IMPLEMENTATIONS, ids=str)
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
    assert node.statement(slow, wait_timeout="30s")["state"] == "cancelled"
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


def test_a_ctas_with_parameters_works_with_the_parsers_of_extensions(
    node: NodeProcess, lake_session: str
) -> None:
    # Iceberg's parser passes the text on to Spark without the parameters.
    text = "CREATE TABLE IDENTIFIER('named' || '_by') USING parquet AS SELECT :a AS a, :a + 1 AS b"
    created = node.run(text, lake_session, parameters=[{"name": "a", "value": 3}])
    assert (created["state"], created["atomic"]) == ("success", True), created
    [row] = node.rows("SELECT * FROM named_by", lake_session)
    assert [str(value) for value in row] == ["3", "4"]
