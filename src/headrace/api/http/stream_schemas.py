"""Bodies of the routes of streaming queries. See schemas.py."""

from __future__ import annotations

from typing import Any

from headrace.api.http.schemas import ErrorBody, Instant, ResponseModel
from headrace.model.lifecycle import StreamState
from headrace.model.stream_query import EndReason, Wanted


class BatchBody(ResponseModel):
    """A batch of a streaming query."""

    batch: int
    """Number of the batch, from 0."""
    at: str
    """Start of the batch, in Spark's format."""
    input_rows: int
    """Rows that the batch read."""
    input_rate: float
    """Rows per second that arrived."""
    process_rate: float
    """Rows per second that were processed."""
    milliseconds: int
    """Duration of the batch."""
    watermark: str | None
    """Watermark of the batch, in Spark's format; null without one."""
    state_rows: int
    """Rows in the state of the query."""
    state_bytes: int
    """Memory of the state of the query."""
    lag: dict[str, Any]
    """Records that are not read yet, by source, for the sources that tell."""


class StreamBody(ResponseModel):
    """A streaming query: one attempt, with any number of runs."""

    id: str
    """Id of the query, which is that of this attempt."""
    scope: str
    """`adhoc`, or the name of the job."""
    name: str
    """Name within the scope."""
    owner: str
    """User who has started it."""
    state: StreamState | str
    """State of the query."""
    wanted: Wanted | str
    """What its users want; its driver works towards that."""
    session_id: str
    """Id of the session in which it runs."""
    statement_id: str | None
    """SAVE STREAM statement that has started it; null for a restart."""
    statement: str
    """Its statement, without the secrets of its options."""
    sink: str
    """Provider of the sink."""
    guarantee: str | None
    """How often the rows of a batch can appear in the sink; null for a materialized view. `not
    checked` marks a provider that Headrace does not know."""
    path: str | None
    """Where a sink of files writes."""
    checkpoint: str | None
    """Location of its write-ahead log; null if it has none."""
    attempt: int
    """Number of the attempt, from 1."""
    previous_id: str | None
    """The attempt before this one."""
    failures: int
    """Successive failures."""
    retry_at: Instant | None
    """Time of the next start, while the query backs off."""
    last_error: ErrorBody | None
    """The last failure of the series."""
    run_id: str | None
    """Spark's id of the last run."""
    last_batch: int | None
    """Number of the last committed batch."""
    created_at: Instant
    """When the attempt was requested."""
    started_at: Instant | None
    """When its first run began."""
    healthy_since: Instant | None
    """Start of the last run."""
    ended_at: Instant | None
    """When the attempt ended."""
    end_reason: EndReason | str | None
    """Why it is stopped; null if it has failed or has not ended."""
    progress: list[BatchBody]
    """The last batches, oldest first; in a list, only the last one."""


class StreamPage(ResponseModel):
    """A page of streaming queries."""

    items: list[StreamBody]
    """The queries, newest first."""
    next: str | None
    """The `before` of the next page; null on the last page."""
