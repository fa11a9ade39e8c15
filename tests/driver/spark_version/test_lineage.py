"""The tables that Spark's analysed plans read and write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.driver.spark_version.lineage import list_tables_of_frame, may_name_tables
from headrace.model.lineage import MAX_COLUMNS, TableUse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def describe(tables: list[TableUse]) -> list[str]:
    """Return the tables as texts such as `read spark_catalog.lin.t(a, b)`."""
    return sorted(f"{use.direction} {use.display_name}({', '.join(use.columns)})" for use in tables)


@pytest.fixture(scope="module")
def session(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """Yield a session with tables of files, a view, and tables of Delta and Iceberg."""
    folder = tmp_path_factory.mktemp("lin")
    session = spark.newSession()
    conf = {
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in conf.items():
        session.conf.set(key, value)
    for text in (
        f"CREATE DATABASE lin LOCATION '{folder}'",
        "CREATE TABLE lin.t (a INT, b STRING, c INT) USING parquet",
        "CREATE TABLE lin.u (a INT, b STRING) USING parquet",
        "CREATE TABLE lin.s (a INT) USING parquet",
        "CREATE VIEW lin.v AS SELECT a, b FROM lin.t",
        "CREATE TABLE lin.d (a INT, b STRING) USING delta",
        "CREATE TABLE ice.lin.Mixed (a INT, b STRING) USING iceberg",
    ):
        session.sql(text)
    yield session
    session.sql("DROP DATABASE lin CASCADE")


T, U = "spark_catalog.lin.t", "spark_catalog.lin.u"
STATEMENTS = {
    "SELECT 1": [],
    "SELECT count(*) FROM range(3)": [],
    "SELECT * FROM lin.t": [f"read {T}(a, b, c)"],
    "TABLE lin.t": [f"read {T}(a, b, c)"],
    "SELECT b FROM lin.t WHERE a > 1": [f"read {T}(a, b)"],
    "SELECT count(*) FROM lin.t": [f"read {T}()"],
    "SELECT x.a FROM lin.t x JOIN lin.u y ON x.a = y.a": [f"read {T}(a)", f"read {U}(a)"],
    "SELECT 1 WHERE EXISTS (SELECT b FROM lin.u)": [f"read {U}(b)"],
    "WITH w AS (SELECT b FROM lin.t) SELECT * FROM w, w AS x": [f"read {T}(b)"],
    "SELECT a FROM lin.t UNION ALL TABLE lin.s": [
        "read spark_catalog.lin.s(a)",
        f"read {T}(a)",
    ],
    "SELECT a FROM lin.v": [f"read {T}(a, b)", "read spark_catalog.lin.v(a)"],
    "INSERT INTO lin.u SELECT a, b FROM lin.t": [f"read {T}(a, b)", f"write {U}(a, b)"],
    "INSERT INTO ice.lin.Mixed SELECT a, b FROM lin.t": [
        f"read {T}(a, b)",
        "write ice.lin.Mixed(a, b)",
    ],
    "DELETE FROM ice.lin.Mixed WHERE a IN (SELECT a FROM lin.t)": [
        f"read {T}(a)",
        "write ice.lin.Mixed(a, b)",
    ],
    "MERGE INTO ice.lin.Mixed m USING lin.t ON m.a = t.a"
    " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (t.a, t.b)": [
        f"read {T}(a, b)",
        "write ice.lin.Mixed(a, b)",
    ],
    "SELECT b FROM lin.d": ["read spark_catalog.lin.d(b)"],
    "SELECT b FROM ice.lin.Mixed": ["read ice.lin.Mixed(b)"],
    "CREATE TABLE ice.lin.new AS SELECT a AS n FROM lin.t": [
        f"read {T}(a)",
        "write ice.lin.new(n)",
    ],
    "INSERT INTO lin.t TABLE lin.t": [f"read {T}(a, b, c)", f"write {T}(a, b, c)"],
    "CREATE TABLE lin.new USING parquet AS SELECT a AS n FROM lin.t": [
        f"read {T}(a)",
        "write spark_catalog.lin.new(n)",
    ],
    "CREATE OR REPLACE VIEW lin.w AS SELECT a AS n FROM lin.t": [
        f"read {T}(a)",
        "write spark_catalog.lin.w(n)",
    ],
    "CREATE OR REPLACE TEMPORARY VIEW lin_w AS SELECT a FROM lin.t": [],
    "TRUNCATE TABLE lin.u": [f"write {U}()"],
    "EXPLAIN SELECT * FROM lin.t": [],
    "DESCRIBE lin.t": [],
    "INSERT INTO lin.d SELECT a, b FROM lin.t": [
        f"read {T}(a, b)",
        "write spark_catalog.lin.d(a, b)",
    ],
    "DELETE FROM lin.d WHERE a = 1": ["write spark_catalog.lin.d(a, b)"],
    "UPDATE lin.d SET b = 'x' WHERE a = 1": ["write spark_catalog.lin.d(a, b)"],
    "MERGE INTO lin.d USING lin.t ON d.a = t.a WHEN MATCHED THEN DELETE": [
        f"read {T}(a)",
        "write spark_catalog.lin.d(a, b)",
    ],
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_reads_and_writes_these_tables(session: SparkSession, text: str) -> None:
    assert describe(list_tables_of_frame(session.sql(text))) == STATEMENTS[text]


def test_of_a_plan_with_many_columns_the_first_ones_are_listed(
    session: SparkSession,
) -> None:
    columns = ", ".join(f"c{number} INT" for number in range(5_000))
    session.sql(f"CREATE TABLE lin.wide ({columns}) USING parquet")
    [wide] = list_tables_of_frame(session.sql("SELECT * FROM lin.wide"))
    assert (len(wide.columns), wide.columns_omitted) == (MAX_COLUMNS, 4_500)


def test_files_are_named_by_their_paths(session: SparkSession, tmp_path: Path) -> None:
    session.sql("SELECT 1 AS a, 2 AS b").write.parquet(f"{tmp_path}/in")
    frame = session.sql(
        f"INSERT OVERWRITE DIRECTORY '{tmp_path}/out' USING parquet SELECT a FROM"
        f" parquet.`{tmp_path}/in`"
    )
    assert describe(list_tables_of_frame(frame)) == [
        f"read file:{tmp_path}/in(a)",
        f"write file:{tmp_path}/out(a)",
    ]


def test_a_table_behind_jdbc_has_no_password(session: SparkSession) -> None:
    url = "jdbc:derby:memory:lin;create=true;user=ada;password=pw-1"
    driver = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
    session.range(1).write.jdbc(url, "orders", properties={"driver": driver})
    session.sql(
        f"CREATE TEMPORARY VIEW lin_orders USING jdbc OPTIONS (url '{url}', dbtable 'orders',"
        f" driver '{driver}', user 'ada', password 'pw-2')"
    )
    [table] = list_tables_of_frame(session.sql("SELECT id FROM lin_orders"))
    assert (table.display_name, table.columns) == ("jdbc:derby orders", ["id"])
    session.sql(
        f"CREATE TEMPORARY VIEW lin_query USING jdbc OPTIONS (url '{url}',"
        f" query 'SELECT ''pw-3'' AS s FROM orders', driver '{driver}')"
    )
    [table] = list_tables_of_frame(session.sql("SELECT * FROM lin_query"))
    assert table.display_name == "jdbc:derby"


def test_a_plan_that_names_one_table_many_times_is_read_once(session: SparkSession) -> None:
    text = " UNION ALL ".join(["SELECT a FROM lin.t"] * 300)
    assert describe(list_tables_of_frame(session.sql(text))) == [f"read {T}(a)"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("SELECT 1", False), ("SHOW TABLES", False), ("SET x = 1", False), ("table t", True)],
)
def test_a_statement_that_names_no_table_is_not_looked_at(text: str, expected: bool) -> None:
    assert may_name_tables(text) is expected
