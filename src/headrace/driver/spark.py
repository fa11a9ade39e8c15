"""The driver's Spark session and the JVM under it."""

from __future__ import annotations

import contextlib
import subprocess
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.errors import DriverLost, HeadraceError
from headrace.model.messages import Bootstrap, Hello


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
        except (PySparkException, Py4JError, RuntimeError, OSError) as error:
            raise SparkUnavailable(
                f"Spark did not start: {error} See: headrace session log {bootstrap.session_id}"
            ) from error

    @property
    def context(self) -> SparkContext:
        return self.session.sparkContext

    def describe(self, pid: int) -> Hello:
        """What the driver says of itself."""
        return Hello(
            pid=pid,
            spark_version=self.context.version,
            application_id=self.context.applicationId,
            ui_url=self.context.uiWebUrl,
        )

    def alive(self, *, doubt_seconds: float = 0.0) -> bool:
        """Whether the JVM still runs; one that seems to be dying gets `doubt_seconds` to be dead.

        A broken connection is seen before the process is gone.
        """
        process = _jvm_process()
        if process is None:
            return True
        try:
            process.wait(timeout=doubt_seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def streams(self) -> int:
        """How many streaming queries run. Raises DriverLost when the JVM does not answer."""
        try:
            return len(self.session.streams.active)
        except (Py4JError, OSError) as error:
            raise DriverLost("The JVM of the driver died.") from error

    def stop(self) -> None:
        """Ends the application in order."""
        with contextlib.suppress(Py4JError, OSError):
            self.session.stop()

    def kill(self) -> None:
        """Ends the JVM at once: nothing it does may land any more."""
        process = _jvm_process()
        if process is not None:
            process.kill()
            process.wait()


def _start(bootstrap: Bootstrap) -> SparkSession:
    conf = SparkConf().setAll(list(bootstrap.conf.items()))
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    if bootstrap.catalog is not None:
        session.catalog.setCurrentCatalog(bootstrap.catalog)
    if bootstrap.database is not None:
        session.catalog.setCurrentDatabase(bootstrap.database)
    return session


def _jvm_process() -> Any:
    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no public way to its JVM's process
    return getattr(gateway, "proc", None)
