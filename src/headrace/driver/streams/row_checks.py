"""Expectations on the rows of a streaming query: counted, and dropped, in the pass that writes.

Spark's CollectMetrics node counts the rows of each batch on their way to the sink, for every kind
of sink. Spark reports the counts with the progress of the batch, after its commit. A row that
violates an expectation with `fail` raises an error before it reaches the sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from headrace.driver.spark_version.observed_rows import keep_observations
from headrace.driver.writes.expectations import CheckedColumns, RowChecks
from headrace.errors import ExpectationFailed, InvalidExpectation
from headrace.model.expectation import Expectation, ExpectationCounts

_METRICS = "__headrace_expectations"
_KEPT = 100
"""Number of reports of batches that Spark keeps: `spark.sql.streaming.numRecentProgressUpdates`."""


class StreamRowChecks:
    """The expectations on the rows of one run of a query; there may be none."""

    def __init__(self, expectations: Sequence[Expectation]) -> None:
        self._expectations = expectations
        self._columns = CheckedColumns(expectations)
        self._exist = bool(expectations)
        self._last_planned = -1
        self._counts_writes = False
        self._counts: dict[int, ExpectationCounts] = {}
        """Counts of the last batches that `count_write` has written, by their numbers."""

    def add_to(
        self, rows: DataFrame, find_last_planned: Callable[[], int | None] = lambda: None
    ) -> DataFrame:
        """Return the rows that are not dropped. They are counted when they are written.

        Args:
            find_last_planned: Returns the last batch for which the checkpoint has offsets, or
                None if there is none.

        Raises:
            InvalidExpectation: The rows are not a stream, or a condition is not a boolean
                expression over the columns.
        """
        if not self._exist:
            return rows
        if not rows.isStreaming:
            raise InvalidExpectation(
                "The rows of the job are no stream, and only streams and jobs with `schedule` can"
                " have `expect`. Add `schedule`, for example `schedule: manual`."
            )
        planned = find_last_planned()
        self._last_planned = -1 if planned is None else planned
        checked = self._columns.add_to(rows, raises=True)
        observed = checked.observe(_METRICS, *self._columns.make_counts())
        return observed.where(self._columns.is_kept()).drop(*self._columns.names)

    def count_write(
        self, batch: int, rows: DataFrame, write: Callable[[DataFrame], DataFrame]
    ) -> None:
        """Write rows that are no stream as one batch, without those that are dropped.

        Args:
            write: Writes rows, and returns the frame of the statement that has written them.

        Raises:
            InvalidExpectation: A condition is not a boolean expression over the columns.
        """
        if not self._exist:
            write(rows)
            return
        if not self._counts_writes:
            keep_observations(rows.sparkSession)
            self._counts_writes = True
        checks = RowChecks(rows.sparkSession, self._expectations)
        frame = write(checks.count_and_drop(rows, raises=True))
        checks.check(frame, None, is_published=True)
        if checks.counts is not None:
            self._counts[batch] = checks.counts
        self._counts.pop(batch - _KEPT, None)

    def read_counts(self, report: Mapping[str, Any]) -> ExpectationCounts | None:
        """Return what Spark's report of a batch has counted; None: it is not known."""
        if self._counts_writes:
            return self._counts.get(report["batchId"])
        values = report.get("observedMetrics", {}).get(_METRICS)
        if values is None or self._was_skipped(report):
            return None
        counts = self._columns.read_counts(values)
        written = report.get("sink", {}).get("numOutputRows", -1)
        return counts if written in (-1, counts.rows_written) else None

    def explain(self, error: Exception) -> Exception:
        """Return ExpectationFailed for the error of a row with a violation; others unchanged."""
        name = self._columns.find_raised(error) if self._exist else None
        if name is None:
            return error
        return ExpectationFailed(
            f"Expectations were violated: `{name}` by at least 1 row. The query has stopped before"
            " that row was written."
        )

    def _was_skipped(self, report: Mapping[str, Any]) -> bool:
        """Return whether the sink may have had a batch already, so that its rows were not computed.

        Sinks that remember batches skip one that an earlier run has written, but not committed in
        the checkpoint. Spark then counts no rows of the sources, although their offsets move.
        """
        return (
            report["batchId"] <= self._last_planned
            and report.get("numInputRows", 0) == 0
            and any(each["startOffset"] != each["endOffset"] for each in report.get("sources", []))
        )
