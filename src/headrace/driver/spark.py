"""The driver's Spark session and the JVM under it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.jvm_process import find_jvm_process
from headrace.driver.state import SessionStateTracker
from headrace.errors import DriverLost, HeadraceError
from headrace.model.messages import Bootstrap, Hello
from headrace.spark_log import end_of, last_exception

_CATALOG = "spark.sql.catalogImplementation"


class SparkUnavailable(HeadraceError):
    """Spark could not be started."""

    code = "spark_unavailable"


class Spark:
    """One application: started here, ended by `stop` in order or by `kill` at once."""

    def __init__(self, bootstrap: Bootstrap) -> None:
        """Starts the JVM and the session. Raises SparkUnavailable with Spark's own words."""
        self._conf = bootstrap.conf
        try:
            self.session = _start(bootstrap)
            _refuse_missing_jars(self.session, bootstrap)
            self.state = SessionStateTracker(self.session)
        except (PySparkException, Py4JError, RuntimeError, OSError) as error:
            raise _unavailable(_words_of(error), bootstrap) from error
        self._jvm = find_jvm_process()

    @property
    def context(self) -> SparkContext:
        return self.session.sparkContext

    def describe(self, pid: int, *, lost: list[str], told: list[str]) -> Hello:
        """What the driver says of itself, and of what it has found; see Hello."""
        return Hello(
            pid=pid,
            spark_version=self.context.version,
            application_id=self.context.applicationId,
            ui_url=self.context.uiWebUrl,
            keeps_tables=self.session.conf.get(_CATALOG) == "hive",
            lost=lost,
            told=told,
        )

    def alive(self, *, doubt_seconds: float = 0.0) -> bool:
        """Whether the JVM still runs; one that seems to be dying gets `doubt_seconds` to be dead.

        A broken connection is seen before the process is gone.
        """
        return self._jvm.alive(doubt_seconds)

    def streams(self) -> int:
        """How many streaming queries run. Raises DriverLost when the JVM does not answer."""
        try:
            return len(self.session.streams.active)
        except (Py4JError, OSError) as error:
            raise DriverLost("The JVM of the driver died.") from error

    def stop_stream(self, name: str) -> None:
        """Stops the streaming query of that name, if there is one. Raises Py4JError, OSError."""
        for query in self.session.streams.active:
            if query.name == name:
                query.stop()

    def stop(self) -> None:
        """Ends the application in order."""
        with contextlib.suppress(Py4JError, OSError):
            self.session.stop()

    def kill(self) -> None:
        """Ends the JVM at once: nothing it does may land any more."""
        self._jvm.kill()


def _start(bootstrap: Bootstrap) -> SparkSession:
    conf = SparkConf().setAll(list(bootstrap.conf.items()))
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    if bootstrap.catalog is not None:
        session.catalog.setCurrentCatalog(bootstrap.catalog)
    if bootstrap.database is not None:
        session.catalog.setCurrentDatabase(bootstrap.database)
    return session


def _refuse_missing_jars(session: SparkSession, bootstrap: Bootstrap) -> None:
    """Spark only logs that it could not add a jar. Raises SparkUnavailable."""
    asked = [jar for jar in bootstrap.conf.get("spark.jars", "").split(",") if jar]
    if not asked:
        return
    jars = session.sparkContext._jsc.sc().listJars()  # noqa: SLF001 - PySpark has no way to it
    added = {jars.apply(at).rpartition("/")[2] for at in range(jars.size())}
    missing = [jar for jar in asked if jar.rpartition("/")[2] not in added]
    if missing:
        session.stop()
        raise _unavailable(f"it could not add the jar {', '.join(missing)}.", bootstrap)


def _unavailable(words: str, bootstrap: Bootstrap) -> SparkUnavailable:
    return SparkUnavailable(
        f"Spark did not start: {words} See: headrace session log {bootstrap.session_id}"
    )


def _words_of(error: Exception) -> str:
    """What Java said, without its stack, where it said anything."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString())
    # A JVM that never came up says why in the log, where standard error is one, and nowhere else.
    log = end_of(Path("/dev/fd/2").resolve()) if isinstance(error, RuntimeError) else ""
    return last_exception(log) or str(error).strip()
