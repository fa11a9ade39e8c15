"""The Spark sessions of connections: one state each, at whatever driver its statements run.

The link of these tests keeps the states of connections as the store of a node does.
"""

from __future__ import annotations

import gc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from py4j.protocol import Py4JError
from tests.support.journal import JournalLink
from tests.support.results import read_rows
from tests.support.waiting import wait_until

from headrace.config.conf_policy import is_launch_key
from headrace.driver import connections as connections_module
from headrace.driver.connections import ConnectionSession, ConnectionSessions
from headrace.driver.execute import Execution
from headrace.driver.secret_values import SecretValues
from headrace.driver.spark_version.commit_protocol import isolates_appends
from headrace.driver.spark_version.session_state import RestorableState
from headrace.errors import SecretDenied
from headrace.grammar.parse import parse
from headrace.model.connection import AssignedConnection, ConnectionSpec, ConnectionState
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Acknowledged, Assignment, Ended, FoundSecrets
from headrace.model.result import Disposition, ResultRequest
from headrace.model.session import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.spark import Spark

SECRET = "hunter2-and-more"
JDBC_CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"


class StoreLink(JournalLink):
    """Keeps the states of connections, and answers the calls of statements that run in them."""

    def __init__(self, results: Path) -> None:
        super().__init__()
        self.bootstrap = self.bootstrap.model_copy(update={"results": str(results)})
        self.states: dict[str, ConnectionState] = {}
        self.fetched: list[str] = []
        """Connections whose state a driver has asked for, in order."""
        self.connection_of: dict[str, str] = {}

    def connect(self, **spec: Any) -> str:
        """Open a connection, and return its id."""
        connection = new_id("cn")
        self.states[connection] = ConnectionState(id=connection, spec=ConnectionSpec(**spec))
        return connection

    def open_connection(self, statement_id: str) -> ConnectionState | None:
        connection = self.connection_of[statement_id]
        self.fetched.append(connection)
        return self.states.get(connection)

    def save(self, ended: Ended) -> None:
        """Store what a statement has reported."""
        state = self.states.get(self.connection_of[ended.statement_id])
        if ended.snapshot is not None and state is not None:
            snapshot = Snapshot.model_validate_json(ended.snapshot.model_dump_json())
            changed = {"snapshot": snapshot, "changed_by": ended.statement_id}
            self.states[state.id] = state.model_copy(update=changed)

    def find_secrets(self, names: list[str]) -> FoundSecrets:
        if names == ["pg"]:
            return FoundSecrets(values={"pg": SECRET})
        return FoundSecrets(failure=Failure.of(SecretDenied("No.")))

    def report_start(self, *_values: object, **_options: object) -> Acknowledged:
        return Acknowledged(applied=True)


class Driver:
    """A driver that runs statements of connections. All drivers share one Spark application."""

    def __init__(self, spark: Spark, link: StoreLink, **options: float) -> None:
        self.spark, self.link = spark, link
        self.sessions = ConnectionSessions(spark, link, **options)

    def run(self, connection: str, text: str, *, reports: bool = True) -> Ended:
        """Run a statement.

        Args:
            reports: Whether the report of its end reaches the store.
        """
        state = self.link.states.get(connection)
        statement_id = new_id("st")
        self.link.connection_of[statement_id] = connection
        parsed = parse(text)
        assigned = AssignedConnection(
            id=connection, changed_by=statement_id if state is None else state.changed_by
        )
        assignment = Assignment(
            statement_id=statement_id,
            text=text,
            parameters=[],
            conf={},
            result_request=ResultRequest(disposition=Disposition.INLINE),
            is_query=parsed.is_query,
            command=parsed.keyword,
            attempt=1,
            connection=assigned,
        )
        execution = Execution(
            self.spark, self.link.as_link(), assignment, cast("Any", None), None, self.sessions
        )
        ended = execution.run()
        execution.remove_job_tag()
        if reports:
            self.link.save(ended)
        return ended

    def read(self, connection: str, text: str) -> Any:
        """Return the rows of a query, which must succeed."""
        ended = self.run(connection, text)
        assert ended.result is not None, ended.failure
        names = [column["name"] for column in cast("Any", ended.result.spark_schema)["fields"]]
        return [
            dict(zip(names, row.values(), strict=True))
            for batch in read_rows(ended.result).batches()
            for row in batch.to_pylist()
        ]

    def run_all(self, connection: str, *texts: str) -> None:
        """Run statements that must succeed."""
        for text in texts:
            ended = self.run(connection, text)
            assert ended.state is StatementState.SUCCESS, ended.failure


@pytest.fixture
def link(tmp_path: Path) -> StoreLink:
    return StoreLink(tmp_path / "results")


@pytest.fixture
def driver(driver_spark: Spark, link: StoreLink) -> Driver:
    return Driver(driver_spark, link)


@pytest.fixture
def other_driver(driver_spark: Spark, link: StoreLink) -> Driver:
    """Return a driver without a session of any connection, as the next one of an owner is."""
    return Driver(driver_spark, link)


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """Create a database, whose name the test may drop."""
    name = f"prod_{new_id('st')[-12:]}"
    spark.sql(f"CREATE DATABASE {name}")
    yield name
    spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


def jdbc_catalog(tmp_path: Path) -> list[str]:
    """Return the statements that set up a catalog, whose name is `other`."""
    return [
        f"SET spark.sql.catalog.other = {JDBC_CATALOG}",
        f"SET `spark.sql.catalog.other.url` = `jdbc:derby:memory:{tmp_path.name};create=true`",
        "SET spark.sql.catalog.other.driver = org.apache.derby.jdbc.EmbeddedDriver",
    ]


STATE = "SELECT current_catalog() AS c, current_schema() AS s"


def test_each_connection_has_a_session_of_its_own_that_its_driver_opens_once(
    driver: Driver, database: str
) -> None:
    first, second = driver.link.connect(database=database), driver.link.connect()
    driver.run_all(
        first,
        "SET my.own = 1",
        "CREATE TEMPORARY VIEW v AS SELECT 7 AS n",
        "DECLARE VARIABLE x INT DEFAULT 3",
    )
    text = "SELECT n, x, current_database() AS d, '${my.own}' AS o FROM v"
    assert driver.read(first, text) == [{"n": 7, "x": 3, "d": database, "o": "1"}]
    assert driver.read(second, "SELECT current_database() AS d") == [{"d": "default"}]
    assert driver.run(second, "SELECT n FROM v").state is StatementState.FAILED
    assert driver.read(first, text) == [{"n": 7, "x": 3, "d": database, "o": "1"}]
    assert driver.link.fetched == [first, second]
    snapshot = driver.link.states[first].snapshot
    assert snapshot is not None
    assert (snapshot.namespace, snapshot.conf) == ([database], {"my.own": "1"})


def test_drivers_that_run_statements_of_a_connection_in_turn_have_its_last_state(
    driver: Driver, other_driver: Driver, tmp_path: Path
) -> None:
    connection = driver.link.connect()
    driver.run_all(
        connection,
        *jdbc_catalog(tmp_path),
        "DECLARE VARIABLE `my x` INT DEFAULT 3",
        "SET VARIABLE `my x` = 4",
        "CREATE TEMPORARY FUNCTION `plus one`(x INT) RETURNS INT RETURN x + 1",
        "CREATE TEMPORARY VIEW `my v` AS SELECT `plus one`(`my x`) AS n",
        "USE other.`SYS`",
    )
    text = "SELECT n, `plus one`(1) AS p, `my x` AS x FROM `my v`"
    assert other_driver.read(connection, text) == [{"n": 5, "p": 2, "x": 4}]
    assert other_driver.read(connection, STATE) == [{"c": "other", "s": "SYS"}]
    other_driver.run_all(connection, "SET VARIABLE `my x` = 9", "SET CATALOG spark_catalog")
    assert driver.read(connection, text) == [{"n": 10, "p": 2, "x": 9}]
    assert driver.read(connection, STATE) == [{"c": "spark_catalog", "s": "default"}]
    driver.run_all(connection, "DROP VIEW `my v`")
    assert other_driver.run(connection, text).state is StatementState.FAILED
    assert driver.link.fetched == [connection] * 4


def test_a_statement_whose_report_was_lost_leaves_nothing(driver: Driver) -> None:
    connection = driver.link.connect()
    driver.run_all(connection, "SET my.own = 1")
    assert driver.run(connection, "SET my.own = 2", reports=False).snapshot is not None
    assert driver.read(connection, "SELECT '${my.own}' AS o") == [{"o": "1"}]


def test_a_state_that_could_not_be_captured_is_reported_by_the_next_statement(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = driver.link.connect()
    driver.run_all(connection, "SET my.own = 1")
    with monkeypatch.context() as patch:
        patch.setattr(RestorableState, "capture", raise_py4j_error)
        assert driver.run(connection, "SET my.own = 2").snapshot is None
    driver.sessions.drop_unused()
    ended = driver.run(connection, "SET my.other = 1")
    assert ended.snapshot is not None
    assert ended.snapshot.conf == {"my.own": "2", "my.other": "1"}


def raise_py4j_error(*_values: object, **_options: object) -> None:
    raise Py4JError("no answer")


def test_a_statement_of_a_connection_that_is_gone_runs_nowhere(driver: Driver) -> None:
    connection = driver.link.connect()
    driver.run_all(connection, "SET my.own = 1")
    del driver.link.states[connection]
    ended = driver.run(connection, "CREATE TEMPORARY VIEW v AS SELECT 1")
    assert ended.failure is not None
    assert ended.failure.code == "connection_not_found"


def test_a_dropped_current_database_fails_every_statement_but_the_choice_of_another(
    driver: Driver, other_driver: Driver, database: str, spark: SparkSession
) -> None:
    connection = driver.link.connect()
    driver.run_all(connection, f"USE {database}", "SET my.own = 1")
    spark.sql(f"DROP DATABASE {database}")
    stored = driver.link.states[connection]

    for text in ("INSERT INTO t SELECT 1", "SELECT 1", "USE missing", "LIST SCHEMAS"):
        ended = other_driver.run(connection, text)
        assert ended.failure is not None, text
        assert ended.failure.condition == "SCHEMA_NOT_FOUND"
        if text != "USE missing":
            assert ended.failure.code == "current_database_unavailable"
            assert f"spark_catalog.{database}, cannot be used" in ended.failure.message
        assert driver.link.states[connection] == stored
    # The session of the statements that failed happened to be in this database.
    ended = other_driver.run(connection, "/* back */ USE default")
    assert ended.state is StatementState.SUCCESS
    assert ended.note is not None
    assert f"current database spark_catalog.{database}" in ended.note
    assert driver.read(connection, STATE) == [{"c": "spark_catalog", "s": "default"}]
    assert driver.read(connection, "SELECT '${my.own}' AS o") == [{"o": "1"}]


@pytest.mark.parametrize("choice", ["SET CATALOG spark_catalog", "USE spark_catalog.default"])
def test_a_catalog_that_is_gone_can_be_left_by_the_name_of_another(
    driver: Driver, other_driver: Driver, tmp_path: Path, choice: str
) -> None:
    connection = driver.link.connect()
    driver.run_all(connection, *jdbc_catalog(tmp_path), "USE other.`SYS`")
    state = driver.link.states[connection]
    assert state.snapshot is not None
    conf = {**state.snapshot.conf, "spark.sql.catalog.other": "no.such.Catalog"}
    broken = state.snapshot.model_copy(update={"conf": conf})
    driver.link.states[connection] = state.model_copy(update={"snapshot": broken})

    ended = other_driver.run(connection, "SELECT 1")
    assert ended.failure is not None
    assert ended.failure.code == "current_database_unavailable"
    # It would be the database of this name in the catalog that is current now.
    ended = other_driver.run(connection, "USE default")
    assert ended.failure is not None
    assert ended.failure.code == "current_database_unavailable"
    other_driver.run_all(connection, choice)
    assert other_driver.read(connection, STATE) == [{"c": "spark_catalog", "s": "default"}]


def test_the_database_at_the_start_matters_until_the_connection_has_a_state(
    driver: Driver, other_driver: Driver, database: str, spark: SparkSession
) -> None:
    used, fresh = (driver.link.connect(database=database) for _number in range(2))
    driver.run_all(used, "USE default")
    spark.sql(f"DROP DATABASE {database}")

    assert other_driver.read(used, STATE) == [{"c": "spark_catalog", "s": "default"}]
    ended = other_driver.run(fresh, "SELECT 1")
    assert ended.failure is not None
    assert ended.failure.code == "current_database_unavailable"
    other_driver.run_all(fresh, "USE default")
    assert driver.read(fresh, STATE) == [{"c": "spark_catalog", "s": "default"}]


def test_what_else_is_lost_is_in_the_note_of_the_next_statement_alone(
    driver: Driver, other_driver: Driver
) -> None:
    connection = driver.link.connect()
    driver.run_all(connection, "SET my.own = 1", "CREATE TEMPORARY VIEW v AS SELECT 1 AS n")
    state = driver.link.states[connection]
    assert state.snapshot is not None
    views = [each.model_copy(update={"body": each.body[:-8]}) for each in state.snapshot.views]
    broken = state.snapshot.model_copy(update={"views": views})
    driver.link.states[connection] = state.model_copy(update={"snapshot": broken})

    notes = [other_driver.run(connection, "SELECT 1").note for _number in range(2)]
    assert notes[0] is not None
    assert notes[0].startswith("The connection has lost: view v: ")
    assert notes[1] is None


def test_a_statement_keeps_its_own_note(driver: Driver) -> None:
    assignment = assignment_of(driver.link, driver.link.connect())
    execution = Execution(driver.spark, driver.link.as_link(), assignment, cast("Any", None))
    session = ConnectionSession("cn", driver.spark, None, ["view v: it is gone"])
    execution._connection = session
    assert execution._add_losses("Own.") == "Own. The connection has lost: view v: it is gone"
    assert execution._add_losses("Own.") == "Own."


def test_global_temporary_views_belong_to_the_driver(driver: Driver, other_driver: Driver) -> None:
    first, second = driver.link.connect(), driver.link.connect()
    driver.run_all(
        first, "CREATE OR REPLACE GLOBAL TEMPORARY VIEW shared AS SELECT 1 AS n", "SET a.b = 1"
    )
    driver.run_all(
        second, "CREATE OR REPLACE GLOBAL TEMPORARY VIEW shared AS SELECT 2 AS n", "SET a.b = 1"
    )
    try:
        for connection in (first, second):
            assert other_driver.read(connection, "SELECT n FROM global_temp.shared") == [{"n": 2}]
            snapshot = driver.link.states[connection].snapshot
            assert snapshot is not None
            assert (snapshot.global_views, snapshot.unsaved) == ([], [])
    finally:
        driver.run_all(first, "DROP VIEW global_temp.shared")


def test_a_jar_stays_in_the_state_of_a_connection_that_another_one_has_too(
    driver: Driver, other_driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "own.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("x.txt", "x")
    connection = driver.link.connect()
    driver.run_all(connection, f"ADD JAR '{jar}'")
    monkeypatch.setattr(RestorableState, "restore_resource", raise_py4j_error)
    ended = other_driver.run(connection, "SET my.own = 1")
    assert (ended.state, ended.note) == (StatementState.SUCCESS, None)
    assert ended.snapshot is not None
    assert [uri.rpartition("/")[2] for uri in ended.snapshot.jars] == ["own.jar"]


def test_the_configuration_of_a_connection_has_secrets_and_is_that_of_reset(
    driver: Driver, other_driver: Driver
) -> None:
    conf = {"spark.sql.shuffle.partitions": "7", "my.place": "${secret:pg}"}
    connection = driver.link.connect(conf=conf)
    driver.run_all(connection, "SET spark.sql.shuffle.partitions = 9", "SET my.own = 1", "RESET")
    assert driver.link.states[connection].changed_by is not None
    for each in (driver, other_driver):
        text = "SELECT '${spark.sql.shuffle.partitions}' AS n, '${my.place}' AS p"
        assert each.read(connection, text) == [{"n": "7", "p": SECRET}]
        assert each.run(connection, "SELECT ${my.own}").state is StatementState.FAILED
        each.run_all(connection, "RESET spark.sql.shuffle.partitions")
        assert each.read(connection, text) == [{"n": "7", "p": SECRET}]


def test_a_reset_in_a_connection_does_not_let_its_appends_collide_with_others(
    driver: Driver,
) -> None:
    connection = driver.link.connect()
    driver.run_all(connection, "RESET")
    session = driver.sessions.take(
        assignment_of(driver.link, connection), SecretValues(driver.link)
    )
    assert not isolates_appends(session.spark.session)
    # As before each statement that may write.
    session.spark.prepare_changes()
    assert isolates_appends(session.spark.session)


@pytest.mark.parametrize(
    ("conf", "code"),
    [
        ({"spark.sql.warehouse.dir": "/tmp"}, "invalid_setting"),
        ({"spark.sql.shuffle.partitions": "many"}, "invalid_setting"),
        ({"my.own": "${secret:forbidden}"}, "secret_denied"),
    ],
)
def test_a_configuration_that_cannot_be_set_fails_the_statements(
    driver: Driver, conf: dict[str, str], code: str
) -> None:
    ended = driver.run(driver.link.connect(conf=conf), "SELECT 1")
    assert ended.failure is not None
    assert ended.failure.code == code


def test_every_static_setting_of_spark_acts_only_when_a_driver_starts(
    spark: SparkSession,
) -> None:
    listed = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listStaticSQLConfigs()
    keys = [each._1() for each in listed if not each._1().startswith("spark.databricks.")]
    assert "spark.sql.extensions" in keys
    assert [key for key in keys if not is_launch_key(key)] == []
    internal = ("spark.sql.catalogImplementation", "spark.sql.globalTempDatabase")
    assert all(map(is_launch_key, internal))


def test_unused_sessions_are_dropped_if_the_store_has_their_state(
    driver_spark: Spark, link: StoreLink
) -> None:
    driver = Driver(driver_spark, link, idle_seconds=0.0)
    saved, unsaved = link.connect(), link.connect()
    driver.run_all(saved, "SET my.own = 1")
    driver.run_all(unsaved, "SET my.own = 1")
    kept = driver.sessions.take(assignment_of(link, unsaved), SecretValues(link))
    kept.spark.session.range(3).createOrReplaceTempView("from_python")
    driver.sessions.keep(kept)
    ended = driver.run(unsaved, "SET my.own = 2")
    assert ended.snapshot is not None
    assert ended.snapshot.unsaved
    driver.sessions.drop_unused()
    link.fetched.clear()
    assert driver.read(unsaved, "SELECT count(*) AS n FROM from_python") == [{"n": 3}]
    assert driver.read(saved, "SELECT '${my.own}' AS o") == [{"o": "1"}]
    assert link.fetched == [saved]
    patient = Driver(driver_spark, link)
    patient.run_all(saved, "SELECT 1")
    patient.sessions.drop_unused()
    patient.run_all(saved, "SELECT 1")
    assert link.fetched == [saved, saved]


def test_a_driver_keeps_a_limited_number_of_sessions(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "_MAX_KEPT", 1)
    first, second = driver.link.connect(), driver.link.connect()
    for connection in (first, second, second, first):
        driver.run_all(connection, "SELECT 1")
    assert driver.link.fetched == [first, second, first]


def test_a_dropped_session_leaves_the_jvm(driver: Driver, spark: SparkSession) -> None:
    """A thread of Spark that exchanges rows keeps the session of its start, for a minute."""
    connection = driver.link.connect()
    driver.run_all(
        connection,
        "CREATE TEMPORARY VIEW v AS SELECT id FROM range(9)",
        "SELECT id FROM v",
        "DECLARE VARIABLE x INT DEFAULT 3",
        "CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN x * 2",
    )
    jvm = spark._jvm
    session = driver.sessions.take(
        assignment_of(driver.link, connection), SecretValues(driver.link)
    )
    reference = jvm.java.lang.ref.WeakReference(session.spark.session._jsparkSession)
    driver.sessions.keep(session)
    del session
    # The next statement of the thread has another active session.
    driver.run_all(driver.link.connect(), "SELECT 1")

    def is_collected() -> bool:
        gc.collect()
        jvm.java.lang.System.gc()
        return bool(reference.refersTo(None))

    assert not is_collected()
    driver.sessions._idle_seconds = 0.0
    driver.sessions.drop_unused()
    wait_until(is_collected, seconds=120, what="the session is collected")


def assignment_of(link: StoreLink, connection: str) -> Assignment:
    """Return a statement of a connection, in its last state."""
    return Assignment(
        statement_id=new_id("st"),
        text="SELECT 1",
        parameters=[],
        conf={},
        result_request=ResultRequest(),
        is_query=True,
        attempt=1,
        connection=AssignedConnection(id=connection, changed_by=link.states[connection].changed_by),
    )


def test_sessions_that_cannot_be_saved_displace_no_session_that_was_just_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections_module, "_MAX_KEPT", 2)
    sessions = ConnectionSessions(cast("Any", None), cast("Any", None))
    for name, is_saved in (("first", False), ("second", False), ("third", True)):
        spark = cast("Spark", SimpleNamespace(has_unreported_state=not is_saved))
        sessions.keep(ConnectionSession(name, spark, changed_by=None))
    assert list(sessions._kept) == ["second", "third"]
    # The store has the state of the third one, which is dropped first from then on.
    unsaved = cast("Spark", SimpleNamespace(has_unreported_state=True))
    sessions.keep(ConnectionSession("fourth", unsaved, changed_by=None))
    assert list(sessions._kept) == ["second", "fourth"]
    monkeypatch.setattr(connections_module, "_UNSAVED_SECONDS", 0.0)
    sessions._idle_seconds = 0.0
    sessions.drop_unused()
    assert list(sessions._kept) == []
