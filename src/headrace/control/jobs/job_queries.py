"""The streaming queries of a job: started, stopped, and judged by a deployment."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace.config.sections import JobSettings
from headrace.control.jobs.places import JobPlaces, identity_of
from headrace.model.deployment import ChangeRecord, Job, JobQuery, JobVersion, WrittenOutput
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.job import JobMetadata
from headrace.model.lifecycle import STREAM, StreamState
from headrace.model.stream_query import EndReason, NewStreamQuery, QuerySpec, StreamQuery, Wanted
from headrace.store.database import Tx
from headrace.store.sessions import sessions
from headrace.store.streams import stream_queries, stream_transitions


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedQueries:
    """The queries of a run that were inserted, with the last batch of each."""

    ids: list[str]
    base_batches: dict[str, int | None]


def build_query_spec(
    query: JobQuery, version: JobVersion, places: JobPlaces, *, name: str, run: str
) -> QuerySpec:
    """Return a query as it starts in a run: with its checkpoint and its metadata columns."""
    rows = query.spec.rows
    if rows is not None and rows.metadata is not None:
        metadata = JobMetadata(
            name=name,
            description=version.spec.description,
            query_id=version.query_id,
            version=version.version,
            created_at=version.query_created_at,
        )
        rows = rows.model_copy(update={"metadata": metadata})
    checkpoint = places.checkpoint_of(run, query)
    return query.spec.model_copy(update={"checkpoint": checkpoint, "rows": rows})


def start_queries(
    tx: Tx,
    version: JobVersion,
    job: Job,
    *,
    run: str,
    session_id: str,
    last_batches: Mapping[str, int],
    actor: str,
) -> StartedQueries:
    """Insert the queries of a run: the driver of the session starts them.

    Args:
        last_batches: Last committed batch by the directory of the query; missing: none.

    Raises:
        StreamNameExists, CheckpointInUse, TooManyStreams: Before anything is inserted.
    """
    sessions.lock(tx, session_id)
    places = JobPlaces(job.state_location, job.name)
    identities = JobPlaces(identity_of(job), job.name)
    new = [
        NewStreamQuery(
            id=new_id("sq"),
            owner=job.owner,
            scope=job.name,
            name=query.name,
            spec=build_query_spec(query, version, places, name=job.name, run=run),
            checkpoint_place=identities.checkpoint_of(run, query),
            session_id=session_id,
            statement_id=None,
            last_batch=last_batches.get(query.directory),
        )
        for query in version.spec.queries
    ]
    for each in new:
        stream_queries.check_new(tx, each)
    for each in new:
        stream_queries.insert_query(tx, each, actor=actor)
    return StartedQueries(
        ids=[each.id for each in new], base_batches={each.id: each.last_batch for each in new}
    )


def stop_queries(tx: Tx, query_ids: Collection[str], *, actor: str) -> bool:
    """Request the end of queries. Return whether one of them was live."""
    queries = stream_queries.list_by_id(tx, query_ids)
    live = [query for query in queries if query.state not in STREAM.terminal]
    sessions.lock_all(tx, {query.session_id for query in live})
    for query in live:
        locked = stream_queries.lock(tx, query.id)
        if locked is not None:
            stream_transitions.stop(tx, locked, actor=actor, reason=EndReason.JOB_CHANGED)
    return bool(live)


def stop_job(tx: Tx, owner: str, name: str, *, actor: str) -> list[str]:
    """Request the end of every live query of a job. Return the ids of these queries."""
    sessions.lock_all(tx, {query.session_id for query in _list_live(tx, owner, name)})
    # A driver may have reported the end of one just now, and a requested restart begun the next.
    live = _list_live(tx, owner, name)
    for query in live:
        locked = stream_queries.lock(tx, query.id)
        if locked is not None:
            stream_transitions.stop(tx, locked, actor=actor, reason=EndReason.JOB_CHANGED)
    return [query.id for query in live]


def _list_live(tx: Tx, owner: str, name: str) -> list[StreamQuery]:
    return [each for each in stream_queries.list_live_of_jobs(tx, [owner]) if each.scope == name]


def have_ended(tx: Tx, query_ids: Collection[str]) -> bool:
    """Return whether none of these queries is live."""
    queries = stream_queries.list_by_id(tx, query_ids)
    return all(query.state in STREAM.terminal for query in queries)


def lock_sessions_of(tx: Tx, query_ids: Collection[str]) -> list[StreamQuery]:
    """Lock the sessions of queries, so that no driver reports about them. Return the queries."""
    queries = stream_queries.list_by_id(tx, query_ids)
    sessions.lock_all(tx, {query.session_id for query in queries})
    return stream_queries.list_by_id(tx, query_ids)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a new version works."""

    is_proven: bool
    failure: Failure | None = None


def judge_queries(
    tx: Tx,
    record: ChangeRecord,
    settings: JobSettings,
    *,
    waited_seconds: float,
) -> Verdict:
    """Judge the queries of a new version by their first batch, their health and their failures."""
    queries = stream_queries.list_by_id(tx, record.new_query_ids)
    failed = next((query for query in queries if _has_failed(query, settings)), None)
    if failed is not None:
        return Verdict(False, _describe_failure(failed))
    stopped = next((query for query in queries if _was_stopped(query)), None)
    if stopped is not None:
        return Verdict(False, _describe_stop(stopped))
    unproven = [query for query in queries if not _is_proven(tx, query, record, settings)]
    if unproven and waited_seconds > settings.proof_timeout.total_seconds():
        return Verdict(False, _describe_timeout(unproven[0]))
    return Verdict(not unproven)


def list_written(
    queries: Collection[StreamQuery], base_batches: Mapping[str, int | None]
) -> list[WrittenOutput]:
    """Return what queries have committed since they were inserted."""
    written = []
    for query in queries:
        base = base_batches.get(query.id)
        if query.last_batch is not None and (base is None or query.last_batch > base):
            batches = query.last_batch - (-1 if base is None else base)
            target = query.spec.path or query.spec.sink
            written.append(WrittenOutput(query=query.name, target=target, batches=batches))
    return written


def _has_failed(query: StreamQuery, settings: JobSettings) -> bool:
    return query.state is StreamState.FAILED or query.failures >= settings.start_failures


def _was_stopped(query: StreamQuery) -> bool:
    """Return whether the end of its session has stopped a query."""
    return query.state is StreamState.STOPPED and query.wanted is not Wanted.RUNNING


def _is_proven(tx: Tx, query: StreamQuery, record: ChangeRecord, settings: JobSettings) -> bool:
    if query.state is StreamState.STOPPED:
        # Its sources have ended.
        return True
    # Proof is a batch of its own: a sink may have what the old version planned, and skip it.
    base = record.planned_batches.get(query.id, record.base_batches.get(query.id))
    if query.last_batch is not None and (base is None or query.last_batch > base):
        return True
    healthy_seconds = settings.healthy_period.total_seconds()
    is_running = query.state is StreamState.RUNNING and not query.failures
    return is_running and stream_queries.seconds_healthy(tx, query.id) >= healthy_seconds


def _describe_failure(query: StreamQuery) -> Failure:
    error = query.last_error
    if error is None:
        return Failure(code="stream_failed", message=f"The query {query.qualified_name} failed.")
    return error


def _describe_stop(query: StreamQuery) -> Failure:
    return Failure(
        code="stream_stopped",
        message=f"The query {query.qualified_name} was stopped: its session was closed.",
    )


def _describe_timeout(query: StreamQuery) -> Failure:
    cause = "" if query.last_error is None else f" Its last error: {query.last_error.message}"
    return Failure(
        code="deployment_timeout",
        message=(
            f"The query {query.qualified_name} has committed no batch in time"
            f" (jobs.proof_timeout); it is {query.state}.{cause}"
        ),
    )
