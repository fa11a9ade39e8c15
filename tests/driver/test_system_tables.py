"""System tables of statements: names in a text, and a catalog for the time of one statement."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException

from headrace.driver.spark_version.collect import collect_arrow
from headrace.driver.spark_version.lineage import list_tables_of_frame
from headrace.driver.system_tables import find_names, open_system_tables
from headrace.errors import SystemTableUnavailable
from headrace.model.messages import FoundRows
from headrace.model.system_tables import SystemTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.link import NodeLink

AT = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def encode(**columns: pa.Array) -> str:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


class Link:
    """Answers the call for the rows of system tables."""

    def read_system_tables(self, tables: list[SystemTable]) -> FoundRows:
        return find_rows(tables)


LINK = cast("NodeLink", Link())


def find_rows(tables: list[SystemTable]) -> FoundRows:
    rows = {
        SystemTable.RUNS: encode(
            id=pa.array(["rn_1", "rn_2"]),
            attempt=pa.array([1, None], pa.int64()),
            at=pa.array([AT, None], pa.timestamp("us", "UTC")),
            columns=pa.array([["a", "b"], []], pa.list_(pa.string())),
        ),
        SystemTable.EVENTS: encode(entity_id=pa.array(["rn_1"]), actor=pa.array(["ada"])),
    }
    return FoundRows(tables={table: rows[table] for table in tables})


def run(spark: SparkSession, text: str) -> list[list[Any]]:
    """Run a statement, and return the values of its rows."""
    with open_system_tables(spark, text, LINK):
        batches = collect_arrow(spark.sql(text))
    return [list(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def own(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have a database of the user's own that is called `headrace`."""
    spark.sql(f"CREATE DATABASE headrace LOCATION '{tmp_path_factory.mktemp('own')}'")
    spark.sql("CREATE TABLE headrace.orders USING parquet AS SELECT 'rn_1' AS run")
    spark.sql("CREATE TABLE headrace.runs USING parquet AS SELECT 'mine' AS id")
    yield
    spark.sql("DROP DATABASE headrace CASCADE")


NAMES = {
    "SELECT * FROM headrace.runs": ({"headrace"}, {"runs"}, []),
    "SELECT * FROM HeadRace /* x */ . `RUNS`": ({"HeadRace"}, {"runs"}, []),
    "SELECT * FROM `headrace`.events, headrace.runs": ({"headrace"}, {"runs", "events"}, []),
    "SELECT * FROM spark_catalog.headrace.runs": (set(), set(), []),
    "SELECT 'headrace.runs' -- headrace.runs": (set(), set(), []),
    "SELECT * FROM headrace.foo": (set(), set(), ["foo"]),
    "SELECT * FROM headrace_runs": (set(), set(), []),
}


@pytest.mark.parametrize(("text", "expected"), NAMES.items(), ids=NAMES)
def test_a_text_names_system_tables(
    text: str, expected: tuple[set[str], set[str], list[str]]
) -> None:
    names = find_names(text)
    assert (names.catalogs, names.tables, names.others) == expected


QUERIES = {
    "SELECT id FROM headrace.runs ORDER BY id": [["rn_1"], ["rn_2"]],
    "SELECT view FROM (SELECT id AS view FROM headrace.runs) WHERE view = 'rn_2'": [["rn_2"]],
    "SELECT runs.id, headrace.runs.attempt FROM headrace.runs WHERE attempt = 1": [["rn_1", 1]],
    "SELECT r.id, e.actor FROM headrace.runs r JOIN headrace.events e ON r.id = e.entity_id": [
        ["rn_1", "ada"]
    ],
    "SELECT 1 AS n WHERE 'rn_2' IN (SELECT id FROM headrace.runs)": [[1]],
    "WITH w AS (SELECT * FROM Headrace.`RUNS`) SELECT count(*) FROM w": [[2]],
    "SELECT columns[1] FROM headrace.runs WHERE at = TIMESTAMP'2026-03-29T01:30:00Z'": [["b"]],
    "DESCRIBE headrace.events": [["entity_id", "string", None], ["actor", "string", None]],
    "BEGIN SELECT count(*) FROM headrace.runs; END": [[2]],
}


@pytest.mark.parametrize("text", QUERIES)
def test_sql_reads_system_tables(spark: SparkSession, text: str) -> None:
    assert run(spark, text) == QUERIES[text]


def test_a_table_is_created_from_a_system_table(spark: SparkSession) -> None:
    text = "CREATE TABLE kept USING parquet AS SELECT id FROM headrace.runs"
    with open_system_tables(spark, text, LINK):
        tables = list_tables_of_frame(spark.sql(text))
    assert spark.table("kept").count() == 2
    assert [table.display_name for table in tables] == ["spark_catalog.default.kept"]
    spark.sql("DROP TABLE kept")


def test_a_session_has_the_rows_for_one_statement(spark: SparkSession) -> None:
    run(spark, "SELECT * FROM headrace.runs")
    with pytest.raises(AnalysisException):
        spark.sql("SELECT * FROM headrace.runs")


@pytest.mark.usefixtures("own")
def test_tables_of_a_database_of_the_same_name_stay_readable(spark: SparkSession) -> None:
    assert run(spark, "SELECT run FROM headrace.orders") == [["rn_1"]]
    text = "SELECT count(*) AS n FROM headrace.runs JOIN spark_catalog.headrace.orders ON id = run"
    assert run(spark, text) == [[1]]
    assert run(spark, "SELECT id FROM spark_catalog.headrace.runs") == [["mine"]]


def test_an_unknown_system_table_is_an_error_that_names_the_others(spark: SparkSession) -> None:
    for text in ("SELECT * FROM headrace.foo", "SELECT 1 FROM headrace.runs, headrace.foo"):
        with pytest.raises(SystemTableUnavailable) as refused:
            run(spark, text)
        assert "statements, runs, streams, events, lineage" in refused.value.message


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO headrace.runs VALUES ('x', 1, NULL, NULL)",
        "DELETE FROM headrace.runs",
        "UPDATE headrace.runs SET id = 'x'",
        "DROP TABLE headrace.runs",
        "ALTER TABLE headrace.runs ADD COLUMN x INT",
        "TRUNCATE TABLE headrace.runs",
        "CREATE TABLE headrace.runs (id INT)",
        "CREATE OR REPLACE TABLE headrace.runs AS SELECT 1 AS id",
    ],
)
def test_a_system_table_cannot_be_written(spark: SparkSession, text: str) -> None:
    with pytest.raises(PySparkException):
        run(spark, text)
    assert run(spark, "SELECT count(*) FROM headrace.runs") == [[2]]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE OR REPLACE TEMPORARY VIEW x AS SELECT * FROM headrace.runs",
        "ALTER VIEW x AS SELECT * FROM headrace.runs",
        "CREATE FUNCTION f() RETURNS INT RETURN (SELECT count(*) FROM headrace.runs)",
        "CACHE TABLE x AS SELECT * FROM headrace.runs",
    ],
)
def test_what_reads_a_system_table_again_later_is_refused(spark: SparkSession, text: str) -> None:
    with pytest.raises(SystemTableUnavailable, match="exist for one statement"):
        run(spark, text)


def test_a_catalog_of_the_user_with_this_name_stays(spark: SparkSession) -> None:
    session = spark.newSession()
    key = "spark.sql.catalog.headrace"
    session.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{key}.type", "hadoop")
    session.conf.set(f"{key}.warehouse", "/nonexistent")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        run(session, "SELECT * FROM headrace.runs")
