"""Session state outlives its driver: each kind of state, and each way to change it.

Each test changes one session, sends its snapshot through JSON, and restores it in a second session
that shares no state with the first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.driver.query_sessions import clone_session
from headrace.driver.state import SessionStateTracker
from headrace.grammar.secret_references import KnownSecrets
from headrace.model import text as model_text
from headrace.model.session import EntryForm, Snapshot, SnapshotEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SessionPair:
    """A session whose state is changed, and a second session that restores that state."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.first = spark.newSession()
        self.tracker = SessionStateTracker(self.first)

    def run(self, *texts: str) -> None:
        for text in texts:
            self.first.sql(text)

    def snapshot(self) -> Snapshot:
        """Return what the driver would report; the state must have changed."""
        snapshot = self.tracker.capture_changes()
        assert snapshot is not None
        return Snapshot.model_validate_json(snapshot.model_dump_json())

    def restore(self) -> SparkSession:
        """Return the second session, in which all state must be restored."""
        second, lost = self.restore_partly()
        assert lost == []
        return second

    def restore_partly(self) -> tuple[SparkSession, list[str]]:
        """Return the second session, and a description of each part that was lost."""
        snapshot = self.snapshot()
        for view in snapshot.global_views:
            self.run(f"DROP VIEW global_temp.{view.name}")
        second = self._spark.newSession()
        tracker = SessionStateTracker(second)
        lost = tracker.restore(snapshot)
        # A later snapshot of the second session is as complete as that of the first.
        if not lost:
            assert tracker.capture() == snapshot
        return second, lost


@pytest.fixture
def pair(spark: SparkSession) -> SessionPair:
    return SessionPair(spark)


def fetch(session: SparkSession, text: str) -> list[Any]:
    """Return rows of numbers and strings without PySpark's socket, which would take longer."""
    rows = session.sql(text)._jdf.collectAsList()
    return [tuple(row.get(index) for index in range(row.length())) for row in rows]


def test_a_snapshot_is_reported_once_for_each_change(spark: SparkSession) -> None:
    session = spark.newSession()
    tracker = SessionStateTracker(session)
    session.sql("SHOW TABLES")
    assert tracker.capture_changes() is None
    session.sql("SET a.b = 1")
    assert tracker.capture_changes() is not None
    assert tracker.capture_changes() is None


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("SET my.own = new", "new"),
        ("EXECUTE IMMEDIATE 'SET my.own = new'", "new"),
        ("BEGIN EXECUTE IMMEDIATE 'SET my.own = new'; END", "new"),
        # Both fail, the first one after it has changed the setting.
        ("BEGIN EXECUTE IMMEDIATE 'SET my.own = new'; SELECT assert_true(false); END", "new"),
        ("SET VARIABLE never_declared = 1", "old"),
    ],
)
def test_settings_are_restored(pair: SessionPair, change: str, value: str) -> None:
    from pyspark.errors import PySparkException

    pair.run("SET my.own = old", "SET spark.sql.shuffle.partitions = 5")
    try:
        pair.run(change)
    except PySparkException:
        assert "never" in change or "assert_true" in change
    second = pair.restore()
    assert second.conf.get("my.own") == value
    assert second.conf.get("spark.sql.shuffle.partitions") == "5"


def test_the_time_zone_is_restored(pair: SessionPair) -> None:
    pair.run("SET TIME ZONE 'America/Lima'")
    assert fetch(pair.restore(), "SELECT current_timezone()") == [("America/Lima",)]


def test_a_setting_that_was_reset_has_its_default(pair: SessionPair) -> None:
    pair.run("SET a.b = 1", "SET spark.sql.shuffle.partitions = 9")
    assert pair.snapshot().conf.keys() == {"a.b", "spark.sql.shuffle.partitions"}
    pair.run("RESET spark.sql.shuffle.partitions")
    assert pair.restore().conf.get("spark.sql.shuffle.partitions") == "4"


@pytest.mark.parametrize(
    "use", ["USE sales", "USE spark_catalog.sales", "EXECUTE IMMEDIATE 'USE sales'"]
)
def test_the_current_database_is_restored(pair: SessionPair, use: str) -> None:
    pair.run("CREATE DATABASE IF NOT EXISTS sales", use)
    assert fetch(pair.restore(), "SELECT current_catalog(), current_database()") == [
        ("spark_catalog", "sales")
    ]


def test_the_current_catalog_and_its_namespace_are_restored(
    pair: SessionPair, tmp_path: Path
) -> None:
    catalog = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    pair.run(
        f"SET spark.sql.catalog.other = {catalog}",
        f"SET `spark.sql.catalog.other.url` = `jdbc:derby:memory:{tmp_path.name};create=true`",
        "SET spark.sql.catalog.other.driver = org.apache.derby.jdbc.EmbeddedDriver",
        "USE other.`SYS`",
    )
    assert fetch(pair.restore(), "SELECT current_catalog(), current_schema()") == [("other", "SYS")]


def test_a_dropped_current_database_is_reported_as_lost(pair: SessionPair) -> None:
    pair.run("CREATE DATABASE dropped", "USE dropped")
    snapshot = pair.snapshot()
    pair.run("USE default", "DROP DATABASE dropped")
    other = pair.first.newSession()
    (lost,) = SessionStateTracker(other).restore(snapshot)
    assert lost.startswith("current database spark_catalog.dropped: ")
    assert fetch(other, "SELECT current_database()") == [("default",)]


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
def test_variables_of_every_type_keep_their_values(pair: SessionPair, value: str) -> None:
    data_type = pair.first.sql(f"SELECT {value} AS v").schema[0].dataType.simpleString()
    pair.run(f"DECLARE VARIABLE v {data_type} DEFAULT {value}")
    text = "SELECT to_json(named_struct('v', v)), typeof(v)"
    if "INTERVAL" in value or "X'" in value:
        text = "SELECT CAST(v AS STRING), typeof(v)"
    assert fetch(pair.restore(), text) == fetch(pair.first, text)


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
def test_each_way_to_set_a_variable_is_noticed(pair: SessionPair, change: str) -> None:
    pair.run("DECLARE VARIABLE v STRING", "DECLARE VARIABLE other INT")
    before = pair.snapshot()
    pair.run(change)
    [(value,)] = fetch(pair.first, "SELECT v")
    assert value
    assert pair.snapshot() != before
    pair.run("SET a.b = 1")
    assert fetch(pair.restore(), "SELECT v") == [(value,)]


def test_a_variable_keeps_its_default(pair: SessionPair) -> None:
    pair.run("DECLARE VARIABLE v INT DEFAULT 5", "SET VARIABLE v = 6")
    second = pair.restore()
    assert fetch(second, "SELECT v") == [(6,)]
    second.sql("SET VARIABLE v = DEFAULT")
    assert fetch(second, "SELECT v") == [(5,)]


def test_a_dropped_variable_is_not_restored(pair: SessionPair) -> None:
    from pyspark.errors import AnalysisException

    pair.run("DECLARE VARIABLE a INT", "DECLARE VARIABLE b INT", "DROP TEMPORARY VARIABLE a")
    second = pair.restore()
    fetch(second, "SELECT b")
    with pytest.raises(AnalysisException, match="UNRESOLVED"):
        second.sql("SELECT a")


def test_sql_functions_are_restored(pair: SessionPair) -> None:
    pair.run(
        "CREATE TEMPORARY FUNCTION plus(x INT, y INT DEFAULT 3) RETURNS INT COMMENT 'it''s' "
        "RETURN x + y",
        "CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN plus(x, x)",
        "CREATE TEMPORARY FUNCTION upto(n INT) RETURNS TABLE (i INT) "
        "RETURN SELECT explode(sequence(1, n))",
        "EXECUTE IMMEDIATE 'CREATE TEMPORARY FUNCTION one() RETURNS INT RETURN 1'",
    )
    second = pair.restore()
    assert fetch(second, "SELECT plus(1), twice(4), one()") == [(4, 8, 1)]
    assert fetch(second, "SELECT * FROM upto(2)") == [(1,), (2,)]


def test_a_function_keeps_the_settings_of_its_creation(pair: SessionPair) -> None:
    pair.run(
        "SET spark.sql.ansi.enabled = false",
        "CREATE TEMPORARY FUNCTION lax(x STRING) RETURNS INT RETURN CAST(x AS INT)",
        "SET spark.sql.ansi.enabled = true",
    )
    assert fetch(pair.restore(), "SELECT lax('no')") == [(None,)]


def test_sql_views_are_restored(pair: SessionPair) -> None:
    pair.run(
        "CREATE TEMPORARY VIEW v (a COMMENT 'first', b) AS SELECT 1, 'x'",
        "CREATE OR REPLACE TEMP VIEW on_v AS SELECT a + 1 AS c FROM v",
        "CREATE GLOBAL TEMPORARY VIEW g AS SELECT 2 AS x",
        "CACHE TABLE cached AS SELECT 5 AS q",
        "BEGIN EXECUTE IMMEDIATE 'CREATE TEMP VIEW deep AS SELECT 9 AS z'; END",
        "CREATE TEMP VIEW dropped AS SELECT 1",
        "DROP VIEW dropped",
    )
    second = pair.restore()
    assert fetch(second, "SELECT * FROM v, on_v, global_temp.g, cached, deep") == [
        (1, "x", 2, 2, 5, 9)
    ]
    assert next(row[:3] for row in fetch(second, "DESCRIBE v")) == ("a", "int", "first")
    assert fetch(second, "SHOW VIEWS LIKE 'dropped'") == []


def test_a_view_keeps_the_database_and_the_settings_of_its_creation(pair: SessionPair) -> None:
    pair.run(
        "CREATE DATABASE IF NOT EXISTS other_database",
        "USE other_database",
        "CREATE OR REPLACE VIEW seven AS SELECT 7 AS n",
        "CREATE TEMP VIEW reads_seven AS SELECT n FROM seven",
        "SET spark.sql.ansi.enabled = false",
        "CREATE TEMP VIEW lax AS SELECT CAST('no' AS INT) AS i",
        "SET spark.sql.ansi.enabled = true",
        "USE default",
    )
    second = pair.restore()
    assert fetch(second, "SELECT n FROM reads_seven") == [(7,)]
    assert fetch(second, "SELECT i FROM lax") == [(None,)]
    assert fetch(second, "SELECT current_database()") == [("default",)]


def test_a_view_that_uses_a_variable_and_a_function_is_restored(pair: SessionPair) -> None:
    pair.run(
        "DECLARE VARIABLE n INT DEFAULT 4",
        "CREATE TEMPORARY FUNCTION plus(x INT) RETURNS INT RETURN x + 1",
        "CREATE TEMP VIEW v AS SELECT plus(n) AS r",
    )
    assert fetch(pair.restore(), "SELECT r FROM v") == [(5,)]


def test_a_view_over_files_is_restored(pair: SessionPair, tmp_path: Path) -> None:
    (tmp_path / "it's.csv").write_text("a;b\n1;x\n")
    path = str(tmp_path / "it's.csv").replace("'", "\\'")
    pair.run(
        "CREATE TEMPORARY VIEW csv USING csv "
        f"OPTIONS (path '{path}', header 'true', sep ';', inferSchema 'true')",
        f"CREATE GLOBAL TEMPORARY VIEW gcsv (x STRING) USING csv OPTIONS (path '{path}')",
    )
    second = pair.restore()
    assert fetch(second, "SELECT a + 1, b FROM csv") == [(2, "x")]
    assert fetch(second, "SELECT count(*) FROM global_temp.gcsv") == [(2,)]


def test_a_view_over_jdbc_is_restored(pair: SessionPair, tmp_path: Path) -> None:
    pair.run(
        "CREATE TEMPORARY VIEW ones USING jdbc OPTIONS ("
        f"url 'jdbc:derby:memory:{tmp_path.name};create=true', "
        "driver 'org.apache.derby.jdbc.EmbeddedDriver', "
        "query 'SELECT 1 AS ONE FROM SYSIBM.SYSDUMMY1')",
    )
    assert fetch(pair.restore(), "SELECT * FROM ones") == [(1,)]


def test_a_reason_that_is_cut_inside_a_secret_has_no_part_of_it(
    pair: SessionPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = KnownSecrets({"pg": "hunter2-and-more"})
    monkeypatch.setattr(model_text, "_hide_secrets", known.mask_text)
    view = pair.first.newSession()
    tracker = SessionStateTracker(view)
    for length in range(950, 980, 2):
        body = f"CREATE TEMPORARY VIEW v AS TABLE `{'x' * length}hunter2-and-more`"
        entry = SnapshotEntry(name="v", form=EntryForm.SQL, body=body)
        snapshot = Snapshot(catalog="spark_catalog", namespace=["default"], views=[entry])
        (lost,) = tracker.restore(snapshot)
        assert lost.endswith("… [cut]")
        assert "hun" not in known.mask(lost), lost[-60:]


def test_a_view_without_an_sql_text_is_reported_as_lost(pair: SessionPair) -> None:
    pair.first.range(3).createOrReplaceTempView("from_python")
    _second, lost = pair.restore_partly()
    assert lost == ["view from_python: Spark keeps no SQL text for it"]


def test_jars_files_and_archives_are_restored_or_reported_as_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    import zipfile

    for name in ("a b.jar", "c.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("x.txt", "x")
    (tmp_path / "plain.txt").write_text("x")
    # All sessions of a driver share these resources, so one session is enough here.
    session = spark.newSession()
    tracker = SessionStateTracker(session)
    session.sql(f"ADD JAR '{tmp_path}/a b.jar'")
    session.sql(f"ADD FILE '{tmp_path}/plain.txt'")
    session.sql(f"ADD ARCHIVE '{tmp_path}/c.zip'")
    snapshot = tracker.capture()
    uris = snapshot.jars + snapshot.files + snapshot.archives
    assert [uri.rpartition("/")[2] for uri in uris] == ["a%20b.jar", "plain.txt", "c.zip"]
    assert all(uri.startswith("file:") for uri in uris)
    # To add a resource again has no effect.
    assert tracker.restore(snapshot) == []
    missing = snapshot.model_copy(update={"jars": ["file:/no/such.jar"], "files": ["file:/no.txt"]})
    assert len(tracker.restore(missing)) == 2


def test_an_entry_that_spark_cannot_deserialize_is_reported_as_lost(pair: SessionPair) -> None:
    pair.run("DECLARE VARIABLE v INT DEFAULT 1", "CREATE TEMP VIEW w AS SELECT 1 AS x")
    raw = json.loads(pair.snapshot().model_dump_json())
    for entry in raw["variables"] + raw["views"]:
        entry["body"] = entry["body"][:-8]
    tracker = SessionStateTracker(pair.first.newSession())
    lost = tracker.restore(Snapshot.model_validate(raw))
    assert [description.partition(":")[0] for description in lost] == ["variable v", "view w"]


def test_a_cloned_session_has_the_same_state_and_its_own_settings(
    pair: SessionPair, tmp_path: Path
) -> None:
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
    clone = clone_session(pair.first)
    clone.conf.set("my.own", "2")
    text = "SELECT current_catalog(), current_schema(), plus(x), v, '${my.own}' FROM w"
    assert fetch(clone, text) == [("other", "SYS", 3, 4, "2")]
    assert fetch(pair.first, text) == [("other", "SYS", 3, 4, "1")]
