"""Runs of batch queries: the rows of a job without a stream, which are written once.

The write is at least once: a driver that is lost between the write and the marker repeats it.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Sequence

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.failures import InvalidStream, describe_failure
from headrace.driver.spark_version.bridge import activate
from headrace.driver.spark_version.errors import is_lost_jvm
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.streams.classify import is_permanent
from headrace.driver.streams.sink_writer import choose_mode
from headrace.driver.streams.sinks import open_sink, prepare_rows
from headrace.driver.streams.supervised_query import RunFailed
from headrace.grammar.stream_clauses import OutputMode
from headrace.grammar.stream_statements import SaveStream
from headrace.model.lineage import TableUse
from headrace.model.stream_query import DesiredQuery, QueryProgress, QuerySpec


def check_batch(frame: DataFrame, spec: QuerySpec, command: SaveStream) -> DataFrame:
    """Return the rows of a batch frame that go to the sink, after all checks of the sink.

    Raises InvalidStream and AnalysisException.
    """
    sink = open_sink(spec, command)
    provider = sink.target.provider
    if not sink.takes_batches:
        raise InvalidStream(
            f"The sink {provider} takes streams only, and the rows of the job are no stream."
            " Write them to a table: TO TABLE t"
        )
    mode = choose_mode(command, provider)
    if mode is not OutputMode.APPEND:
        raise InvalidStream(
            f"OUTPUT MODE {mode} needs a stream, and the rows of the job are none. They are written"
            " once: leave out the output mode."
        )
    return prepare_rows(frame, sink)


_POOL = "headrace-streams"


def use_stream_pool(session: SparkSession) -> None:
    """Let the Spark jobs of this thread, and of the queries that it starts, use one FIFO pool.

    Under spark.scheduler.mode=FAIR, Spark shares the slots of its default pool by the number of
    running tasks, and breaks ties by the name of the stage. With more batches than slots, the
    stages whose names come last would wait for ever. A new pool serves the oldest batch first.
    """
    session.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)


FINISHED = "_finished"
"""Name of the file in the checkpoint directory that says that the rows are written."""
_LOG = logging.getLogger("headrace.driver.streams")
_WAIT_SECONDS = 0.5
_CANCEL_EVERY_SECONDS = 0.1
_BATCH = 0
"""Number of the only batch."""


class BatchRun:
    """One run of a batch query, in a thread of its own."""

    def __init__(
        self,
        rows: DataFrame,
        desired: DesiredQuery,
        command: SaveStream,
        lineage: Sequence[TableUse],
    ) -> None:
        self.run_id = str(uuid.uuid4())
        self.lineage = lineage
        self._rows = rows
        self._desired = desired
        self._command = command
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"headrace-batch-{desired.name}"[:100], daemon=True
        )
        self._thread.start()

    def wait(self) -> bool:
        """Wait for half a second for the end; return whether the rows are written.

        Raises RunFailed.
        """
        if not self._ended.wait(_WAIT_SECONDS):
            return False
        if self._error is not None:
            raise self._error
        return True

    def read_new_batches(self, after: int | None) -> list[QueryProgress]:  # noqa: ARG002
        """Return no progress: Spark reports none for a batch query."""
        return []

    def find_new_epoch(self) -> int | None:
        """Return the number of the only batch if its rows are written; or None."""
        return _BATCH if self._ended.is_set() and self._error is None else None

    def stop(self) -> None:
        """Cancel the jobs of the write, and wait for its end."""
        context = self._rows.sparkSession.sparkContext
        while not self._ended.is_set():
            try:
                context.cancelJobsWithTag(self.run_id)
            except (Py4JError, OSError) as error:
                _LOG.warning("query %s: %s", self._desired.name, error)
            # A job that starts after the cancel is cancelled by the next one.
            self._ended.wait(_CANCEL_EVERY_SECONDS)

    def _run(self) -> None:
        try:
            self._write_once()
        except (Py4JNetworkError, ConnectionError) as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - `wait` raises it in the supervisor's thread
            permanent = is_permanent(error) and not is_lost_jvm(error)
            self._error = RunFailed(describe_failure(error, ""), is_permanent=permanent)
        finally:
            self._ended.set()

    def _write_once(self) -> None:
        session, checkpoint = self._rows.sparkSession, self._desired.spec.checkpoint
        files = HadoopFiles(session)
        marker = None if checkpoint is None else f"{checkpoint.rstrip('/')}/{FINISHED}"
        if marker is not None and files.exists(marker):
            return
        activate(session)
        use_stream_pool(session)
        session.sparkContext.addJobTag(self.run_id)
        try:
            open_sink(self._desired.spec, self._command).append(self._rows)
        finally:
            session.sparkContext.removeJobTag(self.run_id)
        if marker is not None:
            files.replace(marker, "")


def start_batch(
    rows: DataFrame, desired: DesiredQuery, command: SaveStream, lineage: Sequence[TableUse]
) -> BatchRun:
    """Start to write rows that `check_batch` returned, unless an earlier run has written them."""
    return BatchRun(rows, desired, command, lineage)
