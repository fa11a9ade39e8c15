"""What makes a session outlives its driver: each kind of state, and each way of changing it.

A session is changed, its snapshot goes through JSON, and a second session, which knows nothing of
the first, is rebuilt from it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.driver.state import SessionStateTracker
from headrace.model.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Pair:
    """A session that is changed, and the one that takes its place."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.first = spark.newSession()
        self.state = SessionStateTracker(self.first)

    def run(self, *texts: str) -> None:
        for text in texts:
            self.first.sql(text)

    def snapshot(self) -> Snapshot:
        """What the driver would report; there must be something."""
        taken = self.state.changed()
        assert taken is not None
        return Snapshot.model_validate_json(taken.model_dump_json())

    def rebuilt(self) -> SparkSession:
        """The second session; nothing is lost."""
        second, lost = self.restored()
        assert lost == []
        return second

    def restored(self) -> tuple[SparkSession, list[str]]:
        """The second session, and what is lost."""
        snapshot = self.snapshot()
        for view in snapshot.global_views:
            self.run(f"DROP VIEW global_temp.{view.name}")
        second = self._spark.newSession()
        state = SessionStateTracker(second)
        lost = state.restore(snapshot)
        # A later snapshot of the rebuilt session is as whole as the first one.
        if not lost:
            assert state.take() == snapshot
        return second, lost


@pytest.fixture
def pair(spark: SparkSession) -> Pair:
    return Pair(spark)


def asked(session: SparkSession, text: str) -> list[Any]:
    """Rows of numbers and strings, without PySpark's socket."""
    rows = session.sql(text)._jdf.collectAsList()
    return [tuple(row.get(at) for at in range(row.length())) for row in rows]


def test_nothing_is_told_where_nothing_has_changed(spark: SparkSession) -> None:
    session = spark.newSession()
    state = SessionStateTracker(session)
    session.sql("SHOW TABLES")
    assert state.changed() is None
    session.sql("SET a.b = 1")
    assert state.changed() is not None
    assert state.changed() is None


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("SET my.own = new", "new"),
        ("EXECUTE IMMEDIATE 'SET my.own = new'", "new"),
        ("BEGIN EXECUTE IMMEDIATE 'SET my.own = new'; END", "new"),
        # These fail: the first has changed something before it did.
        ("BEGIN EXECUTE IMMEDIATE 'SET my.own = new'; SELECT assert_true(false); END", "new"),
        ("SET VARIABLE never_declared = 1", "old"),
    ],
)
def test_settings(pair: Pair, change: str, value: str) -> None:
    from pyspark.errors import PySparkException

    pair.run("SET my.own = old", "SET spark.sql.shuffle.partitions = 5")
    try:
        pair.run(change)
    except PySparkException:
        assert "never" in change or "assert_true" in change
    second = pair.rebuilt()
    assert second.conf.get("my.own") == value
    assert second.conf.get("spark.sql.shuffle.partitions") == "5"


def test_a_time_zone(pair: Pair) -> None:
    pair.run("SET TIME ZONE 'America/Lima'")
    assert asked(pair.rebuilt(), "SELECT current_timezone()") == [("America/Lima",)]


def test_a_setting_that_was_taken_back(pair: Pair) -> None:
    pair.run("SET a.b = 1", "SET spark.sql.shuffle.partitions = 9")
    assert pair.snapshot().conf.keys() == {"a.b", "spark.sql.shuffle.partitions"}
    pair.run("RESET spark.sql.shuffle.partitions")
    assert pair.rebuilt().conf.get("spark.sql.shuffle.partitions") == "4"


@pytest.mark.parametrize(
    "use", ["USE there", "USE spark_catalog.there", "EXECUTE IMMEDIATE 'USE there'"]
)
def test_the_current_database(pair: Pair, use: str) -> None:
    pair.run("CREATE DATABASE IF NOT EXISTS there", use)
    assert asked(pair.rebuilt(), "SELECT current_catalog(), current_database()") == [
        ("spark_catalog", "there")
    ]


def test_a_current_catalog_and_a_namespace_of_several_parts(pair: Pair, tmp_path: Path) -> None:
    name = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    pair.run(
        f"SET spark.sql.catalog.other = {name}",
        f"SET `spark.sql.catalog.other.url` = `jdbc:derby:memory:{tmp_path.name};create=true`",
        "SET spark.sql.catalog.other.driver = org.apache.derby.jdbc.EmbeddedDriver",
        "USE other.`SYS`",
    )
    assert asked(pair.rebuilt(), "SELECT current_catalog(), current_schema()") == [("other", "SYS")]


def test_a_database_that_is_gone_is_told_as_lost(pair: Pair) -> None:
    pair.run("CREATE DATABASE gone", "USE gone")
    snapshot = pair.snapshot()
    pair.run("USE default", "DROP DATABASE gone")
    other = pair.first.newSession()
    (lost,) = SessionStateTracker(other).restore(snapshot)
    assert lost.startswith("current database spark_catalog.gone: ")
    assert asked(other, "SELECT current_database()") == [("default",)]


VALUES = [
    "CAST(NULL AS INT)",
    "uuid()",
    "rand()",
    "current_timestamp()",
    "TIMESTAMP_NTZ '2024-02-29 01:02:03.000004'",
    "DATE '0001-01-01'",
    "1.50BD",
    "CAST('NaN' AS DOUBLE)",
    "X'00FF'",
    "'it''s\\\\ \\u0001 😀'",
    "INTERVAL '1-2' YEAR TO MONTH",
    "INTERVAL '1 02:03:04.5' DAY TO SECOND",
    "map('a', array(named_struct('x', 1, 'y', CAST(NULL AS STRING))))",
    "parse_json('{\"a\": [1, null]}')",
]


@pytest.mark.parametrize("value", VALUES)
def test_variables_by_value(pair: Pair, value: str) -> None:
    kind = pair.first.sql(f"SELECT {value} AS v").schema[0].dataType.simpleString()
    pair.run(f"DECLARE VARIABLE v {kind} DEFAULT {value}")
    text = "SELECT to_json(named_struct('v', v)), typeof(v)"
    if "INTERVAL" in value or "X'" in value:
        text = "SELECT CAST(v AS STRING), typeof(v)"
    assert asked(pair.rebuilt(), text) == asked(pair.first, text)


@pytest.mark.parametrize(
    "change",
    [
        "SET VARIABLE v = uuid()",
        "SET VAR (v, other) = (SELECT uuid(), 1)",
        "BEGIN SET v = uuid(); END",
        "EXECUTE IMMEDIATE 'SELECT uuid()' INTO v",
        "EXECUTE IMMEDIATE 'SET VARIABLE v = uuid()'",
    ],
)
def test_each_way_of_setting_a_variable(pair: Pair, change: str) -> None:
    pair.run("DECLARE VARIABLE v STRING", "DECLARE VARIABLE other INT")
    before = pair.snapshot()
    pair.run(change)
    [(value,)] = asked(pair.first, "SELECT v")
    assert value
    assert pair.snapshot() != before
    pair.run("SET a.b = 1")
    assert asked(pair.rebuilt(), "SELECT v") == [(value,)]


def test_the_default_of_a_variable_is_still_its_own(pair: Pair) -> None:
    pair.run("DECLARE VARIABLE v INT DEFAULT 5", "SET VARIABLE v = 6")
    second = pair.rebuilt()
    assert asked(second, "SELECT v") == [(6,)]
    second.sql("SET VARIABLE v = DEFAULT")
    assert asked(second, "SELECT v") == [(5,)]


def test_a_dropped_variable_is_not_brought_back(pair: Pair) -> None:
    from pyspark.errors import AnalysisException

    pair.run("DECLARE VARIABLE a INT", "DECLARE VARIABLE b INT", "DROP TEMPORARY VARIABLE a")
    second = pair.rebuilt()
    asked(second, "SELECT b")
    with pytest.raises(AnalysisException, match="UNRESOLVED"):
        second.sql("SELECT a")


def test_functions_of_sql(pair: Pair) -> None:
    pair.run(
        "CREATE TEMPORARY FUNCTION plus(x INT, y INT DEFAULT 3) RETURNS INT COMMENT 'it''s' "
        "RETURN x + y",
        "CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN plus(x, x)",
        "CREATE TEMPORARY FUNCTION upto(n INT) RETURNS TABLE (i INT) "
        "RETURN SELECT explode(sequence(1, n))",
        "EXECUTE IMMEDIATE 'CREATE TEMPORARY FUNCTION one() RETURNS INT RETURN 1'",
    )
    second = pair.rebuilt()
    assert asked(second, "SELECT plus(1), twice(4), one()") == [(4, 8, 1)]
    assert asked(second, "SELECT * FROM upto(2)") == [(1,), (2,)]


def test_a_function_keeps_the_settings_that_it_was_made_with(pair: Pair) -> None:
    pair.run(
        "SET spark.sql.ansi.enabled = false",
        "CREATE TEMPORARY FUNCTION lax(x STRING) RETURNS INT RETURN CAST(x AS INT)",
        "SET spark.sql.ansi.enabled = true",
    )
    assert asked(pair.rebuilt(), "SELECT lax('no')") == [(None,)]


def test_views_of_sql(pair: Pair) -> None:
    pair.run(
        "CREATE TEMPORARY VIEW v (a COMMENT 'first', b) AS SELECT 1, 'x'",
        "CREATE OR REPLACE TEMP VIEW on_v AS SELECT a + 1 AS c FROM v",
        "CREATE GLOBAL TEMPORARY VIEW g AS SELECT 2 AS x",
        "CACHE TABLE cached AS SELECT 5 AS q",
        "BEGIN EXECUTE IMMEDIATE 'CREATE TEMP VIEW deep AS SELECT 9 AS z'; END",
        "CREATE TEMP VIEW dropped AS SELECT 1",
        "DROP VIEW dropped",
    )
    second = pair.rebuilt()
    assert asked(second, "SELECT * FROM v, on_v, global_temp.g, cached, deep") == [
        (1, "x", 2, 2, 5, 9)
    ]
    assert next(row[:3] for row in asked(second, "DESCRIBE v")) == ("a", "int", "first")
    assert asked(second, "SHOW VIEWS LIKE 'dropped'") == []


def test_a_view_keeps_the_database_and_the_settings_that_it_was_made_with(pair: Pair) -> None:
    pair.run(
        "CREATE DATABASE IF NOT EXISTS elsewhere",
        "USE elsewhere",
        "CREATE OR REPLACE TEMP VIEW here AS SELECT current_database() AS d",
        "SET spark.sql.ansi.enabled = false",
        "CREATE TEMP VIEW lax AS SELECT CAST('no' AS INT) AS i",
        "SET spark.sql.ansi.enabled = true",
        "USE default",
    )
    second = pair.rebuilt()
    assert asked(second, "SELECT i FROM lax") == [(None,)]
    assert asked(second, "SELECT current_database()") == [("default",)]


def test_a_view_with_a_variable_and_a_function(pair: Pair) -> None:
    pair.run(
        "DECLARE VARIABLE n INT DEFAULT 4",
        "CREATE TEMPORARY FUNCTION plus(x INT) RETURNS INT RETURN x + 1",
        "CREATE TEMP VIEW v AS SELECT plus(n) AS r",
    )
    assert asked(pair.rebuilt(), "SELECT r FROM v") == [(5,)]


def test_a_view_over_files(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "it's.csv").write_text("a;b\n1;x\n")
    place = str(tmp_path / "it's.csv").replace("'", "\\'")
    pair.run(
        "CREATE TEMPORARY VIEW csv USING csv "
        f"OPTIONS (path '{place}', header 'true', sep ';', inferSchema 'true')",
        f"CREATE GLOBAL TEMPORARY VIEW gcsv (x STRING) USING csv OPTIONS (path '{place}')",
    )
    second = pair.rebuilt()
    assert asked(second, "SELECT a + 1, b FROM csv") == [(2, "x")]
    assert asked(second, "SELECT count(*) FROM global_temp.gcsv") == [(2,)]


def test_a_view_over_a_database(pair: Pair, tmp_path: Path) -> None:
    pair.run(
        "CREATE TEMPORARY VIEW ones USING jdbc OPTIONS ("
        f"url 'jdbc:derby:memory:{tmp_path.name};create=true', "
        "driver 'org.apache.derby.jdbc.EmbeddedDriver', "
        "query 'SELECT 1 AS ONE FROM SYSIBM.SYSDUMMY1')",
    )
    assert asked(pair.rebuilt(), "SELECT * FROM ones") == [(1,)]


def test_a_view_without_a_text_is_told_as_lost(pair: Pair) -> None:
    pair.first.range(3).createOrReplaceTempView("of_python")
    _second, lost = pair.restored()
    assert lost == ["view of_python: Spark keeps no text of it"]


def test_jars_files_and_archives(spark: SparkSession, tmp_path: Path) -> None:
    import zipfile

    for name in ("a b.jar", "c.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("x.txt", "x")
    (tmp_path / "plain.txt").write_text("x")
    # All sessions of a driver share them; of the rest this one has nothing.
    session = spark.newSession()
    state = SessionStateTracker(session)
    session.sql(f"ADD JAR '{tmp_path}/a b.jar'")
    session.sql(f"ADD FILE '{tmp_path}/plain.txt'")
    session.sql(f"ADD ARCHIVE '{tmp_path}/c.zip'")
    taken = state.take()
    assert [one.rpartition("/")[2] for one in taken.jars + taken.files + taken.archives] == [
        "a%20b.jar",
        "plain.txt",
        "c.zip",
    ]
    assert all(one.startswith("file:") for one in taken.jars + taken.files + taken.archives)
    # Added again, they stay as they are.
    assert state.restore(taken) == []
    missing = taken.model_copy(update={"jars": ["file:/no/such.jar"], "files": ["file:/no.txt"]})
    assert len(state.restore(missing)) == 2


def test_what_another_version_of_spark_has_written_is_told_as_lost(pair: Pair) -> None:
    pair.run("DECLARE VARIABLE v INT DEFAULT 1", "CREATE TEMP VIEW w AS SELECT 1 AS x")
    raw = json.loads(pair.snapshot().model_dump_json())
    for part in raw["variables"] + raw["views"]:
        part["body"] = part["body"][:-8]
    state = SessionStateTracker(pair.first.newSession())
    lost = state.restore(Snapshot.model_validate(raw))
    assert [one.partition(":")[0] for one in lost] == ["variable v", "view w"]


def test_a_branch_has_the_same_state_and_settings_of_its_own(pair: Pair, tmp_path: Path) -> None:
    catalog = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    pair.run(
        "SET my.own = 1",
        "DECLARE VARIABLE v INT DEFAULT 4",
        "CREATE TEMP VIEW w AS SELECT 2 AS x",
        "CREATE TEMPORARY FUNCTION plus(x INT) RETURNS INT RETURN x + 1",
        f"SET spark.sql.catalog.other = {catalog}",
        f"SET `spark.sql.catalog.other.url` = `jdbc:derby:memory:{tmp_path.name};create=true`",
        "SET spark.sql.catalog.other.driver = org.apache.derby.jdbc.EmbeddedDriver",
        "USE other.`SYS`",
    )
    branch = pair.state.branch()
    branch.conf.set("my.own", "2")
    text = "SELECT current_catalog(), current_schema(), plus(x), v, '${my.own}' FROM w"
    assert asked(branch, text) == [("other", "SYS", 3, 4, "2")]
    assert asked(pair.first, text) == [("other", "SYS", 3, 4, "1")]
