"""The progress of a streaming query, as Spark reports it after each batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.stream_query import QueryProgress

_COMMITTED = "addBatch"
"""Phase that only the progress of a batch has. Spark also reports that there was nothing to do."""
_CONTINUOUS = "ContinuousExecution"


def find_last_report(query: StreamingQuery) -> str | None:
    """Return the time of Spark's last report, which tells reports apart; None before the first.

    Raises Py4JError.
    """
    last = query._jsq.lastProgress()  # noqa: SLF001 - PySpark would parse the whole report
    return None if last is None else str(last.timestamp())


def find_last_epoch(query: StreamingQuery) -> int | None:
    """Return the last committed epoch of a query with TRIGGER CONTINUOUS; None if there is none.

    Return None for any other query too. Spark reports no progress of a continuous query: only the
    log of its commits shows it. Raises Py4JError.
    """
    execution = query._jsq.streamingQuery()  # noqa: SLF001 - PySpark has no access to the execution
    if execution.getClass().getSimpleName() != _CONTINUOUS:
        return None
    latest = execution.commitLog().getLatestBatchId()
    return int(latest.get()) if latest.isDefined() else None


def read_new_batches(query: StreamingQuery, after: int | None) -> list[QueryProgress]:
    """Return the progress of the committed batches after a number, oldest first.

    Spark keeps the last hundred. Raises Py4JError.
    """
    execution = query._jsq  # noqa: SLF001 - PySpark parses every report for each access
    new: list[QueryProgress] = []
    # A report takes a millisecond of the cores that the query uses: read only the new ones.
    for report in reversed(list(execution.recentProgress())):
        if after is not None and report.batchId() <= after:
            break
        fields = json.loads(report.json())
        if _COMMITTED in fields.get("durationMs", {}):
            new.append(_to_progress(fields))
    return new[::-1]


def _to_progress(report: Mapping[str, Any]) -> QueryProgress:
    operators = report.get("stateOperators", [])
    return QueryProgress(
        batch=report["batchId"],
        at=report["timestamp"],
        input_rows=max(0, report.get("numInputRows", 0)),
        input_rate=_rate(report.get("inputRowsPerSecond")),
        process_rate=_rate(report.get("processedRowsPerSecond")),
        milliseconds=report.get("batchDuration", report["durationMs"].get("triggerExecution", 0)),
        watermark=report.get("eventTime", {}).get("watermark"),
        state_rows=sum(operator.get("numRowsTotal", 0) for operator in operators),
        state_bytes=sum(operator.get("memoryUsedBytes", 0) for operator in operators),
        lag=_lag(report.get("sources", [])),
    )


def _rate(value: object) -> float:
    """Return a rate; 0 if Spark could not compute it (NaN, Infinity or missing)."""
    if not isinstance(value, int | float) or not 0 <= value < 1e15:
        return 0.0
    return float(value)


def _lag(sources: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many records each source still has, for the sources that say so."""
    lags = {}
    for source in sources:
        value = source.get("metrics", {}).get("maxOffsetsBehindLatest")
        if value is not None:
            lags[str(source.get("description", ""))[:200]] = int(float(value))
    return lags
