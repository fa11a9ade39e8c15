"""The Spark application of a driver: its session, its JVM, and the state of the session."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import threading
from functools import cached_property
from importlib.metadata import entry_points

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.conf_overrides import SettingRules
from headrace.driver.jvm_start import (
    ChildJvm,
    JvmProcess,
    JvmStart,
    MetastoreStart,
    ParentJvm,
    remove_connection,
)
from headrace.driver.query_sessions import QuerySessions, clone_session
from headrace.driver.spark_version.application import (
    connect_to_jvm,
    has_stopped,
    list_jars,
    make_first_plan,
    replace_checks,
)
from headrace.driver.spark_version.bridge import answer_without_delay
from headrace.driver.spark_version.commit_protocol import CommitProtocol, with_writer
from headrace.driver.spark_version.errors import find_root_text
from headrace.driver.spark_version.hadoop_files import install_local_files
from headrace.driver.spark_version.metrics import ExecutionReader, ProgressReader
from headrace.driver.spark_version.python_daemon import with_daemon
from headrace.driver.spark_version.streams import count_active_queries
from headrace.driver.state import SessionStateTracker
from headrace.errors import DriverLost, HeadraceError
from headrace.files.spark_files import find_last_exception
from headrace.model.messages import LINK_VERSION, Bootstrap, Hello

DATA_SOURCE_GROUP = "headrace.data_sources"
"""Group of entry points in the drivers' environment. Each one is a `DataSource` of PySpark."""
_LOG = logging.getLogger("headrace.driver")


def register_data_sources(session: SparkSession) -> None:
    """Register the installed data sources, so that the session and its clones know their names.

    A class that cannot be loaded or registered is logged. A statement that uses it fails.
    """
    for entry in entry_points(group=DATA_SOURCE_GROUP):
        try:
            session.dataSource.register(entry.load())
        except Exception:  # noqa: BLE001 - the code of a package can raise anything
            _LOG.exception("the data source %s (%s) is not registered", entry.name, entry.value)


_CATALOG = "spark.sql.catalogImplementation"
_EXIT_SECONDS = 1.0
"""A connection breaks before the process of the JVM has exited."""


class SparkUnavailable(HeadraceError):
    """Spark could not be started."""

    code = "spark_unavailable"


class Spark:
    """One Spark application, which `stop` ends in an orderly way and `kill` immediately."""

    _shares_application = False
    """Whether other sessions of the application have states of their own."""
    _state: SessionStateTracker | None = None
    _state_lock = threading.Lock()

    def __init__(self, bootstrap: Bootstrap, jvm: JvmStart | None = None) -> None:
        """Start the session.

        Args:
            jvm: The JVM that starts; None: the JVM has started this process.

        Raises:
            SparkUnavailable: Spark refuses to start, with its own message.
            DriverLost: The JVM was killed. Another driver may start.
        """
        self._conf = bootstrap.conf
        try:
            if jvm is not None:
                _connect(jvm)
            replace_checks()
            self.session = _start_session(bootstrap)
            _check_jars(self.session, bootstrap)
            self._commit_protocol = CommitProtocol(self.session)
            self._setting_rules = SettingRules(self.session, bootstrap.conf_rules)
            register_data_sources(self.session)
        except (PySparkException, Py4JError, RuntimeError, OSError) as error:
            if jvm is not None and not _comes_from_jvm(error):
                _check_not_killed(jvm, error)
            raise _spark_unavailable(_describe_start_error(error, jvm), bootstrap) from error
        self.query_sessions = QuerySessions(self.session)
        self._process: JvmProcess = ParentJvm() if jvm is None else ChildJvm(jvm.process)

    @property
    def context(self) -> SparkContext:
        return self.session.sparkContext

    def track_state(self) -> SessionStateTracker:
        """Return the tracker of the session's state. The first call records the state.

        Call this method before the first statement that may change the session. The record takes a
        tenth of a second or more, which a session without such statements saves.
        """
        with self._state_lock:
            if self._state is None:
                # Spark then refuses a wrong value in a snapshot.
                self._setting_rules.activate()
                self._state = SessionStateTracker(
                    self.session, shares_application=self._shares_application
                )
            return self._state

    @property
    def has_unreported_state(self) -> bool:
        """Whether the session has state that no report has: it would be lost with the session."""
        return self._state is not None and self._state.has_unreported

    def prepare_changes(self) -> None:
        """Prepare for a statement that may SET something or write tables, and for its clones."""
        self._setting_rules.activate()
        self._commit_protocol.activate(self.session)
        install_local_files(self.session)

    def prepare_thread(self) -> None:
        """Prepare the connection of this thread to the JVM. Repeated calls cost nothing."""
        try:
            answer_without_delay(self.session)
        except (Py4JError, OSError) as error:
            # A connection of another thread was closed meanwhile, or the JVM has died.
            _LOG.info("large answers of the JVM may be late: %s", error)

    def with_own_session(self) -> Spark:
        """Return the same application with a session like this one, and with its own state."""
        own = copy.copy(self)
        own.session = self.clone_session()
        own.query_sessions = QuerySessions(own.session)
        own._shares_application = True  # noqa: SLF001 - of this class
        own._state = None  # noqa: SLF001
        own._state_lock = threading.Lock()  # noqa: SLF001
        return own

    def clone_session(self) -> SparkSession:
        """Return a session like that of the statements, see `query_sessions.clone_session`."""
        return clone_session(self.session)

    @cached_property
    def progress(self) -> ProgressReader:
        """Reader of the progress of statements."""
        return ProgressReader(self.context)

    @cached_property
    def executions(self) -> ExecutionReader:
        """Reader of the plans and stages of statements."""
        return ExecutionReader(self.session)

    def build_hello(self, pid: int, *, lost: list[str], notified: list[str]) -> Hello:
        """Return the message with which this driver introduces itself to a node.

        Args:
            lost: Descriptions of the session state that could not be restored.
            notified: Statements whose pending hook calls have been made.
        """
        return Hello(
            link_version=LINK_VERSION,
            pid=pid,
            spark_version=self.context.version,
            application_id=self.context.applicationId,
            ui_url=self.context.uiWebUrl,
            keeps_tables=self.session.conf.get(_CATALOG) == "hive",
            lost=lost,
            hook_calls_made=notified,
        )

    def is_alive(self, *, exit_seconds: float = 0.0) -> bool:
        """Return whether the JVM is still running, after waiting up to `exit_seconds` for its end.

        Wait after a broken connection: the connection breaks before the process has exited.
        """
        return self._process.is_alive(exit_seconds)

    def has_stopped(self) -> bool:
        """Return whether the application has stopped, for example because its JVM is exiting."""
        try:
            return has_stopped(self.context)
        except (AttributeError, Py4JError, OSError):
            # PySpark forgets the context that it has stopped.
            return True

    def count_streams(self) -> int:
        """Return the number of running streaming queries.

        Raises DriverLost if the JVM does not answer, or if the application has stopped.
        """
        if self.has_stopped():
            raise DriverLost("The Spark application of the driver was stopped.")
        try:
            return count_active_queries(self.session)
        except (Py4JError, OSError) as error:
            raise DriverLost("The JVM of the driver died.") from error

    def stop_stream(self, name: str) -> None:
        """Stop the streaming query with this name, if it exists. Raises Py4JError and OSError."""
        for query in self.session.streams.active:
            if query.name == name:
                query.stop()

    def stop(self) -> None:
        """Stop the application in an orderly way."""
        with contextlib.suppress(Py4JError, OSError):
            self.session.stop()

    def kill(self) -> None:
        """Kill the JVM and wait for its end: the JVM writes nothing after this call."""
        self._process.kill()


def _connect(jvm: JvmStart) -> None:
    """Connect PySpark to the JVM. Raises RuntimeError if the JVM has ended."""
    jvm.wait()
    try:
        connect_to_jvm(jvm.process)
    finally:
        remove_connection()


def _comes_from_jvm(error: Exception) -> bool:
    """Return whether the JVM has answered with the error."""
    return isinstance(error, PySparkException | Py4JJavaError)


def _check_not_killed(jvm: JvmStart, error: Exception) -> None:
    """Raise DriverLost if the JVM was killed: Spark itself would start."""
    kill = jvm.find_kill(exit_seconds=_EXIT_SECONDS)
    if kill is not None:
        raise DriverLost(f"The JVM of the driver was {kill}.") from error


def _start_session(bootstrap: Bootstrap) -> SparkSession:
    settings = with_daemon(with_writer(bootstrap), os.environ)
    conf = SparkConf().setAll(list(settings.items()))
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    make_first_plan(session)
    if bootstrap.catalog is not None or bootstrap.database is not None:
        MetastoreStart(bootstrap).start()
    if bootstrap.catalog is not None:
        session.catalog.setCurrentCatalog(bootstrap.catalog)
    if bootstrap.database is not None:
        session.catalog.setCurrentDatabase(bootstrap.database)
    return session


def _check_jars(session: SparkSession, bootstrap: Bootstrap) -> None:
    """Raise SparkUnavailable if Spark could not add a jar. Spark itself only logs the failure."""
    requested = [jar for jar in bootstrap.conf.get("spark.jars", "").split(",") if jar]
    if not requested:
        return
    added = list_jars(session)
    missing = [jar for jar in requested if jar.rpartition("/")[2] not in added]
    if missing:
        session.stop()
        raise _spark_unavailable(f"it could not add the jar {', '.join(missing)}.", bootstrap)


def _spark_unavailable(reason: str, bootstrap: Bootstrap) -> SparkUnavailable:
    return SparkUnavailable(
        f"Spark did not start: {reason} See: headrace session log {bootstrap.session_id}"
    )


def _describe_start_error(error: Exception, jvm: JvmStart | None) -> str:
    """Return Spark's own message without a stack trace, if there is one."""
    if isinstance(error, Py4JJavaError):
        return find_root_text(error)
    # A JVM that did not start writes the reason to standard error only, which is the driver's log.
    log = jvm.read_log() if jvm is not None and isinstance(error, RuntimeError) else ""
    return find_last_exception(log) or str(error).strip()
