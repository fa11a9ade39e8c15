"""CTAS on Delta, Iceberg and PostgreSQL through a node, in one session that has them all."""

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
WHOLE = [["1000", "499500", "999", "1000"]]


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
def test_a_table_is_created_and_replaced_or_cancelled(
    node: NodeProcess, lake_session: str, lake: Lake
) -> None:

    name = f"{lake.catalog}.shore_{lake.name.replace('-', '_')}"
    assert node.run(f"CREATE NAMESPACE {name}", lake_session)["state"] == "success"
    text = f"TABLE {name}.t {lake.clause} AS "
    slow = node.submit(f"CREATE {text}{SLOW}", lake_session)["id"]

    def is_writing() -> bool:
        progress = node.statement(slow)["progress"]
        return bool(progress and progress["tasks_active"])

    wait_until(is_writing, what="it writes")
    node.http.post(f"/api/v1/statements/{slow}/cancel")
    assert node.statement(slow, wait_timeout="30s")["state"] == "cancelled"
    assert node.rows(f"SHOW TABLES IN {name}", lake_session) == []
    made = node.run(f"CREATE {text}{ROWS}", lake_session)
    assert (made["state"], made["atomic"]) == ("success", True), made
    assert node.rows(f"SELECT {SUM} FROM {name}.t", lake_session) == WHOLE
    again = node.run(f"CREATE {text}{ROWS}", lake_session)
    assert again["error"]["code"] == "table_already_exists"
    made = node.run(f"CREATE OR REPLACE {text}{ROWS}", lake_session)
    assert (made["state"], made["atomic"]) == ("success", lake.replaces_atomically), made
    assert node.rows(f"SELECT {SUM} FROM {name}.t", lake_session) == WHOLE


def test_parameters_reach_the_query_past_the_parsers_of_others(
    node: NodeProcess, lake_session: str
) -> None:
    """Iceberg's hands on a text without them."""
    text = "CREATE TABLE IDENTIFIER('named' || '_by') USING parquet AS SELECT :a AS a, :a + 1 AS b"
    made = node.run(text, lake_session, parameters=[{"name": "a", "value": 3}])
    assert (made["state"], made["atomic"]) == ("success", True), made
    [row] = node.rows("SELECT * FROM named_by", lake_session)
    assert [str(value) for value in row] == ["3", "4"]
