"""What `LIST TABLES` and the like find in catalogs of Spark, of Hive and of Iceberg."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql.functions import struct, to_json
from tests.support.jvm_calls import counted_calls
from tests.support.lakes import lake_jars

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.driver.spark_version.catalog_objects import list_objects
from headrace.driver.spark_version.session_state import restore_namespace
from headrace.grammar.metadata import ListedObjects, ListObjects, matches, split_namespace
from headrace.grammar.parse import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


@pytest.fixture
def database(session: SparkSession) -> Iterator[str]:
    """Create a database of Spark's own catalog."""
    name = f"objects_{uuid.uuid4().hex[:8]}"
    session.sql(f"CREATE DATABASE {name}")
    yield name
    session.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


@pytest.fixture
def iceberg(session: SparkSession) -> str:
    """Return the name of a new catalog of Iceberg in memory, which has views."""
    assert lake_jars("iceberg"), "The jars of Iceberg are missing. Run scripts/setup-jars catalogs."
    name = f"lake_{uuid.uuid4().hex[:8]}"
    key = f"spark.sql.catalog.{name}"
    session.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{key}.catalog-impl", "org.apache.iceberg.inmemory.InMemoryCatalog")
    return name


@pytest.fixture
def files(session: SparkSession, tmp_path: Path) -> str:
    """Return the name of a new catalog of Iceberg in files, without views."""
    assert lake_jars("iceberg"), "The jars of Iceberg are missing. Run scripts/setup-jars catalogs."
    name = f"files_{uuid.uuid4().hex[:8]}"
    key = f"spark.sql.catalog.{name}"
    session.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{key}.type", "hadoop")
    session.conf.set(f"{key}.warehouse", str(tmp_path / "files"))
    session.conf.set(f"{key}.cache-enabled", "false")
    return name


def run(session: SparkSession, text: str) -> Rows:
    """Return the rows of a statement."""
    command = parse(text).command
    assert isinstance(command, ListObjects)
    whole = to_json(struct("*"), {"ignoreNullFields": "false"})
    # PySpark's own `collect` leaves a socket open.
    rows = list_objects(session, command).select(whole)._jdf.collectAsList()
    return [json.loads(row.getString(0)) for row in rows]


def names_of(rows: Rows) -> list[str]:
    return sorted(row["name"] for row in rows)


def columns_of(row: dict[str, Any]) -> list[str]:
    return [field["name"] for field in json.loads(row["columns"])["fields"]]


def without_columns(session: SparkSession, table: Any) -> Any:
    """Return a table of the catalog as one of a data source that is missing, without columns."""
    bridge = Py4JBridge(session)
    values = [getattr(table, f"copy$default${number}")() for number in range(1, 22)]
    values[3] = bridge.type("org.apache.spark.sql.types.StructType")()
    values[4] = bridge.some("no.such.Source")
    return table.copy(*values)


def create_view(session: SparkSession, catalog: str, schema: str, name: str, column: str) -> None:
    """Create a view in a catalog of Iceberg, whose SQL for views this application does not have."""
    bridge = Py4JBridge(session)
    package = "org.apache.spark.sql.connector.catalog"
    namespace = bridge.array([schema])
    columns = session.range(0).selectExpr(f"1 AS {column}").schema.json()
    view = bridge.type(f"{package}.ViewInfo")(
        bridge.type(f"{package}.Identifier").of(namespace, name),
        *(f"SELECT 1 AS {column}", catalog, namespace),
        bridge.type("org.apache.spark.sql.types.DataType").fromJson(columns),
        *(bridge.array([column]), bridge.array([]), bridge.array([]), bridge.hash_map({})),
    )
    bridge.catalog(catalog).createView(view)


def test_each_table_and_view_is_listed_once_with_its_type(
    session: SparkSession, database: str
) -> None:
    session.sql(f"CREATE TABLE {database}.t (a INT) USING parquet COMMENT 'of t'")
    session.sql(f"CREATE VIEW {database}.v AS SELECT 1 AS b")
    session.sql("CREATE TEMPORARY VIEW mine AS SELECT 2 AS c")
    rows = run(session, f"LIST TABLES SCHEMA LIKE '{database}'")
    assert [tuple(row.values()) for row in rows] == [
        ("spark_catalog", database, "t", "TABLE", "of t"),
        ("spark_catalog", database, "v", "VIEW", None),
        ("spark_catalog", "", "mine", "VIEW", None),
    ]
    assert run(session, "LIST TABLES IN CATALOG SPARK_CATALOG TABLE LIKE 'MINE'") == rows[2:]


def test_what_spark_cannot_read_is_listed_without_columns(
    session: SparkSession, database: str
) -> None:
    session.sql(f"CREATE TABLE {database}.good (a INT) USING parquet")
    session.sql(f"CREATE TABLE {database}.broken (a INT) USING parquet")
    session.sql(f"CREATE TABLE {database}.gone (a INT) USING parquet")
    session.sql(f"CREATE TEMPORARY VIEW dangling AS SELECT * FROM {database}.gone")
    session.sql(f"DROP TABLE {database}.gone")
    external = Py4JBridge(session).state.catalog().externalCatalog()
    broken = without_columns(session, external.getTable(database, "broken"))
    external.dropTable(database, "broken", False, True)
    external.createTable(broken, False)
    names = ["broken", "dangling", "good"]
    assert names_of(run(session, f"LIST TABLES SCHEMA LIKE '{database}'")) == names
    rows = run(session, f"LIST COLUMNS SCHEMA LIKE '{database}'")
    assert names_of(rows) == names
    readable = {row["name"]: columns_of(row) for row in rows if row["columns"]}
    assert readable == {"good": ["a"]}


def test_columns_are_chosen_by_a_pattern_and_keep_their_positions(
    session: SparkSession, database: str
) -> None:
    session.sql(f"CREATE TABLE {database}.t (a INT, b_id INT COMMENT 'key', C_ID INT) USING csv")
    session.sql(f"CREATE TABLE {database}.other (a INT, bxid INT) USING csv")
    [row] = run(session, rf"LIST COLUMNS SCHEMA LIKE '{database}' COLUMN LIKE r'%\_id'")
    assert (row["name"], columns_of(row)) == ("t", ["b_id", "C_ID"])
    fields = json.loads(row["columns"])["fields"]
    assert [field["metadata"].pop("headrace.position") for field in fields] == [2, 3]
    assert [field["metadata"] for field in fields] == [{"comment": "key"}, {}]
    [whole] = run(session, f"LIST COLUMNS SCHEMA LIKE '{database}' TABLE LIKE 'other'")
    assert (columns_of(whole), "headrace" in whole["columns"]) == (["a", "bxid"], False)


def test_a_schema_with_several_parts_has_a_name_with_dots(
    session: SparkSession, iceberg: str
) -> None:
    for namespace in ("a", "a.b", "a.b.`c.d`", "`x.y`", "`e-f`"):
        session.sql(f"CREATE NAMESPACE {iceberg}.{namespace}")
    session.sql(f"CREATE TABLE {iceberg}.a.b.t (x INT, y INT)")
    session.sql(f"CREATE TABLE {iceberg}.a.b.`c.d`.deep (x INT)")
    session.sql(f"CREATE TABLE {iceberg}.`x.y`.other (x INT)")
    schemas = [row["schema"] for row in run(session, f"LIST SCHEMAS IN CATALOG {iceberg}")]
    assert sorted(schemas) == sorted(["a", "a.b", "a.b.`c.d`", "`x.y`", "e-f"])
    for schema, tables in {
        "a.b": ["t"],
        "a.b.`c.d`": ["deep"],
        "`x.y`": ["other"],
        "a.%": ["deep", "t"],
        "%": ["deep", "other", "t"],
    }.items():
        found = run(session, f"LIST TABLES IN CATALOG {iceberg} SCHEMA LIKE '{schema}'")
        assert names_of(found) == tables, schema
        assert {row["type"] for row in found} == {"TABLE"}
    # Such a name leads to the same schema when a client connects, or chooses it.
    for schema in schemas:
        restore_namespace(session, iceberg, split_namespace(schema))
        current = session.catalog.currentDatabase()
        assert split_namespace(current) == split_namespace(schema)


def test_a_name_of_one_schema_asks_for_no_other_ones(session: SparkSession, iceberg: str) -> None:
    for number in range(3):
        session.sql(f"CREATE NAMESPACE {iceberg}.a{number}")
        session.sql(f"CREATE NAMESPACE {iceberg}.a{number}.b")
    [row] = run(session, f"LIST SCHEMAS IN CATALOG {iceberg} SCHEMA LIKE 'a1.b'")
    assert row["schema"] == "a1.b"


def test_views_of_another_catalog_are_views(session: SparkSession, iceberg: str) -> None:
    session.sql(f"CREATE NAMESPACE {iceberg}.s")
    session.sql(f"CREATE TABLE {iceberg}.s.t (x INT)")
    create_view(session, iceberg, "s", "v", "n")
    found = run(session, f"LIST TABLES IN CATALOG {iceberg}")
    assert {row["name"]: row["type"] for row in found} == {"t": "TABLE", "v": "VIEW"}
    columns = run(session, f"LIST COLUMNS IN CATALOG {iceberg}")
    assert {row["name"]: columns_of(row) for row in columns} == {"t": ["x"], "v": ["n"]}


def test_a_broken_table_of_another_catalog_does_not_hide_the_others(
    session: SparkSession, files: str, tmp_path: Path
) -> None:
    for name in ("good", "broken"):
        session.sql(f"CREATE TABLE {files}.a.b.{name} (x INT)")
    for file in (tmp_path / "files/a/b/broken/metadata").glob("*.json"):
        file.write_text("{}")
        (file.parent / f".{file.name}.crc").unlink()
    listed = run(session, f"LIST TABLES IN CATALOG {files}")
    assert names_of(listed) == ["broken", "good"]
    for text in ("", " COLUMN LIKE 'x'"):
        rows = run(session, f"LIST COLUMNS IN CATALOG {files}{text}")
        assert {row["name"]: row["columns"] is not None for row in rows} == {
            "broken": False,
            "good": True,
        }


def test_functions_are_those_of_the_catalog(
    session: SparkSession, database: str, iceberg: str
) -> None:
    session.sql(f"CREATE FUNCTION {database}.own AS 'no.such.Function'")
    session.sql(f"CREATE NAMESPACE {iceberg}.s")
    found = run(session, f"LIST FUNCTIONS SCHEMA LIKE '{database}'")
    own = [row for row in found if row["schema"]]
    assert [tuple(row.values()) for row in own] == [
        ("spark_catalog", database, "own", "no.such.Function")
    ]
    assert {"abs", "explode"} <= {row["name"] for row in found if not row["schema"]}
    assert len(names_of(found)) == len(set(names_of(found)))
    [absolute] = run(session, "LIST FUNCTIONS FUNCTION LIKE 'ABS'")
    assert absolute["class"].endswith("Abs")
    others = run(session, f"LIST FUNCTIONS IN CATALOG {iceberg}")
    assert {row["catalog"] for row in others} <= {iceberg}
    assert "abs" not in names_of(others)


def test_an_unknown_catalog_is_an_error(session: SparkSession) -> None:
    for objects in ListedObjects:
        with pytest.raises(Py4JJavaError, match="CATALOG_NOT_FOUND"):
            run(session, f"LIST {objects} IN CATALOG nope")


@pytest.mark.parametrize("pattern", ["É_", r"a\_b%", "x%y", "[a", "%", r"\%"])
def test_java_and_python_read_a_pattern_alike(session: SparkSession, pattern: str) -> None:
    names = ["éa", "a_b", "a_bc", "axb", "xzy", "xy", "[a", "%", "\\"]
    for name in names:
        session.sql(f"CREATE TEMPORARY VIEW `{name}` AS SELECT 1 AS n")
    text = ListObjects(ListedObjects.TABLES, "spark_catalog", "", pattern).to_sql()
    found = run(session, text)
    assert names_of(found) == sorted(name for name in names if matches(pattern, name))


def test_the_number_of_calls_does_not_grow_with_the_tables(
    session: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(text: str) -> int:
        command = parse(text).command
        assert isinstance(command, ListObjects)
        with counted_calls(monkeypatch) as commands:
            list_objects(session, command)
        return len(commands)

    texts = [f"LIST {objects} SCHEMA LIKE '{database}'" for objects in ListedObjects]
    few = [count(text) for text in texts for _number in range(2)][1::2]
    for number in range(20):
        session.sql(f"CREATE TABLE {database}.t{number} (a INT) USING parquet")
    assert [count(text) for text in texts] == few


HIVE = """
import json, sys
from pyspark.sql import SparkSession
from headrace.driver.spark_version.catalog_objects import list_objects
from headrace.grammar.parse import parse

folder = sys.argv[1]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    .config("spark.hadoop.javax.jdo.option.ConnectionURL",
            f"jdbc:derby:;databaseName={folder}/metastore;create=true")
    .config("spark.hadoop.datanucleus.schema.autoCreateAll", "true")
    .config("spark.hadoop.hive.metastore.schema.verification", "false")
    .enableHiveSupport()
    .getOrCreate()
)
spark.sql("CREATE TABLE good (a INT) USING parquet")
for number in range(6):
    spark.sql(f"CREATE TABLE t{number} (a INT) USING parquet")
# Hive's own statements are for tests of Spark.
spark._jvm.java.lang.System.setProperty("spark.testing", "true")
client = spark._jsparkSession.sharedState().externalCatalog().unwrapped().client()
client.runSqlHive("CREATE TABLE untyped (a uniontype<int,string>)")
client.runSqlHive("CREATE VIEW untyped_view AS SELECT * FROM untyped")
client.runSqlHive("ALTER TABLE t3 SET TBLPROPERTIES ('spark.sql.sources.schema'='{')")
seen = {}
for objects in ("TABLES", "COLUMNS"):
    frame = list_objects(spark, parse(f"LIST {objects}").command)
    seen[objects] = [row.asDict() for row in frame.collect()]
print(json.dumps(seen))
"""
"""Lists tables of an embedded metastore. Spark cannot read three of them."""


def test_what_a_metastore_holds_is_listed_though_spark_cannot_read_some(tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", HIVE, tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-4000:]
    seen = json.loads(completed.stdout.splitlines()[-1])
    types = {row["name"]: row["type"] for row in seen["TABLES"]}
    tables = ["good", *(f"t{number}" for number in range(6)), "untyped"]
    assert types == {**dict.fromkeys(tables, "TABLE"), "untyped_view": "VIEW"}
    unreadable = {row["name"] for row in seen["COLUMNS"] if row["columns"] is None}
    assert unreadable == {"untyped", "untyped_view", "t3"}
    assert len(seen["COLUMNS"]) == len(types)
