"""The protocol with which Spark commits files, so that writes to one directory do not collide.

Spark's own protocol stages every write in `_temporary/0` of the target, and each commit or abort
deletes `_temporary`. Two applications that write to one table therefore delete each other's rows.
The class in SharedTableCommitProtocol.java gives each write a staging directory of its own.
"""

from __future__ import annotations

import logging
import threading

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.spark_version.shipped_classes import load_shipped_classes
from headrace.model.messages import Bootstrap
from headrace.model.transaction import writer_name

_LOG = logging.getLogger("headrace.driver")
_CLASS = "headrace.SharedTableCommitProtocol"
_KEY = "spark.sql.sources.commitProtocolClass"
_SPARKS_CLASS = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
_WRITER_KEY = "spark.headrace.writer"
_HIVE_STAGING_KEY = "spark.hadoop.hive.exec.stagingdir"
_COMMITTERS = {
    "spark.sql.sources.outputCommitterClass": None,
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "parquet.summary.metadata.level": None,
}
"""Settings with which a user selects a committer that the protocol does not replace."""


def with_writer(bootstrap: Bootstrap) -> dict[str, str]:
    """Return the Spark configuration of a driver, with the names of its staging directories."""
    writer = writer_name(bootstrap.session_id, bootstrap.epoch)
    staging = {_HIVE_STAGING_KEY: f".hive-staging_{writer}"}
    return staging | bootstrap.conf | {_WRITER_KEY: writer}


def staging_prefixes(writer: str) -> list[str]:
    """Return the beginnings of the names of a driver's staging directories in a table."""
    return [
        f"{prefix}{writer}_" for prefix in (".headrace_write_", ".spark-staging-", ".hive-staging_")
    ]


def without_selection(conf: dict[str, str]) -> dict[str, str]:
    """Return the settings without the selection of the protocol, which no statement has made."""
    return {key: value for key, value in conf.items() if (key, value) != (_KEY, _CLASS)}


def isolates_appends(session: SparkSession) -> bool:
    """Return whether concurrent appends of this session to one table do not disturb each other."""
    conf = session.conf
    return conf.get(_KEY) == _CLASS and all(
        conf.get(key, None) in {None, default} for key, default in _COMMITTERS.items()
    )


class CommitProtocol:
    """The commit protocol of one Spark application. Thread-safe."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._available: bool | None = None

    def activate(self, session: SparkSession | None = None) -> None:
        """Select the protocol in a session, unless its configuration names another one.

        Call this before each statement that may write: a RESET removes the selection. If the class
        cannot be loaded, Spark's own protocol stays selected.

        Args:
            session: A session of the application; None: the first one.
        """
        session = session or self._session
        with self._lock:
            if self._available is None:
                self._available = self._load()
        if self._available and session.conf.get(_KEY) == _SPARKS_CLASS:
            session.conf.set(_KEY, _CLASS)

    def _load(self) -> bool:
        if not load_shipped_classes(self._session):
            return False
        try:
            # Spark accepts the name of a class only when the class can be loaded.
            self._session.newSession().conf.set(_KEY, _CLASS)
        except PySparkException:
            _LOG.exception("the commit protocol is not available; each write needs a lock")
            return False
        return True
