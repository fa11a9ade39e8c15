"""Write locks: the tables of files that a statement writes to, and the wait for their lock.

Spark's parsed plan says which tables the statement writes to.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.ctas.transaction import Cancelled
from headrace.driver.failures import find_condition
from headrace.driver.link import NodeLink
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.commit_protocol import isolates_appends
from headrace.driver.spark_version.errors import METASTORE_CONDITION, summarize_error
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.written_rows import TargetFinder, WrittenTarget
from headrace.errors import WriteTargetsUnknown
from headrace.model.messages import BeginWrite
from headrace.model.transaction import TableWrite

_LOG = logging.getLogger("headrace.driver")
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class PlannedWrites:
    """The tables that a statement writes to, and the identity of their catalog."""

    identity: str
    writes: list[TableWrite]


def wait_for_lock(
    link: NodeLink,
    statement_id: str,
    planned: PlannedWrites,
    cancelling: threading.Event,
    *,
    on_blocked: Callable[[], object] = lambda: None,
) -> None:
    """Request the write lock of a statement, and return when the node grants it.

    Args:
        on_blocked: Called from time to time while another statement holds the lock. The driver of
            that statement may be lost in its commit, which this driver can then complete.

    Raises Cancelled if the statement is cancelled first, and the errors of NodeLink.
    """
    message = BeginWrite(
        statement_id=statement_id, identity=planned.identity, writes=planned.writes
    )
    pause, logged = _FIRST_PAUSE, ""
    while True:
        lock = link.begin_write(message)
        if lock.granted:
            return
        if lock.waits_for is None or cancelling.is_set():
            raise Cancelled
        if lock.waits_for != logged:
            logged = lock.waits_for
            _LOG.info(
                "statement %s waits for %s, which writes to the same table", statement_id, logged
            )
        if pause == _LONGEST_PAUSE:
            on_blocked()
        cancelling.wait(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


_PAUSES = (0.2, 0.5, 1.0, 2.0)


def may_be_transient(error: Exception) -> bool:
    """Return whether a repetition of a call to the catalog may succeed.

    Spark's own errors, such as that of a missing table, have a condition and are final.
    """
    if not isinstance(error, PySparkException | Py4JJavaError):
        return False
    return find_condition(error) in {None, METASTORE_CONDITION}


def find_writes_patiently(
    find_writes: Callable[[], PlannedWrites | None], cancelling: threading.Event
) -> PlannedWrites | None:
    """Call a function, and repeat the call with growing pauses while its error may be transient.

    Raises:
        Cancelled: If the statement is cancelled during a pause.
        WriteTargetsUnknown: If the last call fails as well.
    """
    for pause in (*_PAUSES, None):
        try:
            return find_writes()
        except (PySparkException, Py4JJavaError) as error:
            if not may_be_transient(error):
                raise
            if pause is None:
                raise WriteTargetsUnknown(
                    "The statement was not run, because the catalog did not say which tables it"
                    f" writes to: {summarize_error(error)}",
                    hint="Check the metastore, then run the statement again.",
                ) from error
            _LOG.warning("the search for written tables is repeated: %s", summarize_error(error))
        if cancelling.wait(pause):
            raise Cancelled
    raise AssertionError("the last call returns or raises")


class WriteDetector:
    """Finds the tables of Spark's session catalog that statements of one session write to.

    Other catalogs control concurrent writes themselves.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._targets = TargetFinder(session)
        self._v1_catalog = V1Catalog(session)
        self._files = HadoopFiles(session)

    def find_writes(self, plan: Any) -> list[TableWrite]:
        """Return the writes of a parsed statement, one for each location.

        There is none for a target that Spark will reject. Raises PySparkException and
        Py4JJavaError if the catalog fails in a way that may be transient.
        """
        writes: dict[str, TableWrite] = {}
        try:
            for target in self._targets.find_targets(plan):
                write = self._resolve(target)
                if write is not None and not (
                    write.location in writes and writes[write.location].overwrite
                ):
                    writes[write.location] = write
        except (PySparkException, Py4JError) as error:
            if may_be_transient(error):
                raise
            # Spark reports the error when it runs the statement.
            _LOG.info("the tables that the statement writes to are not known: %s", error)
        return list(writes.values())

    def find_replaced(self, path: TablePath) -> TableWrite | None:
        """Return the write of a statement that replaces a table of the session catalog.

        Return None if there is no such table of files. Raises PySparkException and Py4JError.
        """
        entry = self._v1_catalog.find(path)
        if entry is None or entry.files_location is None:
            return None
        location = self._normalize(entry.files_location)
        return TableWrite(location=location, table=path.lock_key, overwrite=True)

    def find_location(self, table: str) -> str | None:
        """Return the location of a table, or None if there is no such table of files.

        Args:
            table: Quoted name with its database. Raises PySparkException and Py4JError.
        """
        found = self._v1_catalog.resolve(self._targets.parse_name(table))
        return None if found is None else found[1].files_location

    def _resolve(self, target: WrittenTarget) -> TableWrite | None:
        overwrite = target.is_exclusive or not isolates_appends(self._session)
        if target.location is not None:
            return self._directory_write(target.location, overwrite)
        found = self._v1_catalog.resolve(target.names) if target.names else None
        if found is not None:
            path, entry = found
            if entry.files_location is None:
                return None
            # Hive's loadPartition deletes the files of a partition that was created meanwhile.
            return TableWrite(
                location=self._normalize(entry.files_location),
                table=path.lock_key,
                overwrite=overwrite or entry.has_hive_partitions,
            )
        if len(target.names) == 2 and "/" in target.names[1]:
            # A format and a path: INSERT INTO parquet.`/path`
            return self._directory_write(target.names[1], overwrite)
        return None

    def _directory_write(self, location: str, overwrite: bool) -> TableWrite:
        return TableWrite(location=self._normalize(location), table=None, overwrite=overwrite)

    def _normalize(self, location: str) -> str:
        return self._files.identify(location)
