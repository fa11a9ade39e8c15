"""State transitions of streaming queries: requests of users, reports of drivers, lost drivers.

Every transition is one compare-and-set, with its event. A transaction locks the session of a query
before the query.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise
from typing import Any

from sqlalchemy import update

from headrace.errors import DriverLost, SessionClosed, SessionFailed
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import STREAM, StatementState, StreamState
from headrace.model.session import DriverLease
from headrace.model.stream_providers import find_sink
from headrace.model.stream_query import (
    ADHOC_SCOPE,
    CLAIMED_REASONS,
    EndReason,
    NewStreamQuery,
    QueryReport,
    StreamQuery,
    StreamRunChange,
    StreamRunStep,
    Wanted,
    describe_end,
)
from headrace.store import catalog_intents, lineage
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.jobs import jobs
from headrace.store.streams import stream_queries
from headrace.store.tables import stream_queries as table
from headrace.store.transitions import Transitions

_TRANSITIONS = Transitions(STREAM, table)
_REPORTED = STREAM.started | {StreamState.STOPPED, StreamState.FAILED}
"""States that a driver can report."""
_ANSWERED = STREAM.started | {StreamState.STOPPING}
"""States in which the store waits for reports of a driver."""


def is_new(query: StreamQuery, report: QueryReport, epoch: int) -> bool:
    """Return whether a report is newer than the last one that was applied.

    A repeated report is not, nor one that a network or a frozen node has delayed.

    Args:
        epoch: Epoch of the driver that reports.
    """
    if report.sequence is None or query.report_epoch != epoch:
        return True
    return report.sequence > (query.report_sequence or 0)


def answers(query: StreamQuery, report: QueryReport) -> bool:
    """Return whether a report answers the present request of the store.

    A driver that is to run a query ends it only with a reason. A driver that exits also stops its
    queries, but then the end of the session decides what becomes of them.
    """
    if report.generation != query.generation or report.state not in _REPORTED:
        return False
    # The answer for a paused query was its stop. No driver works on the query until it is resumed.
    if query.state not in _ANSWERED:
        return False
    if report.state is not StreamState.STOPPED or query.state is StreamState.STOPPING:
        return True
    return report.reason is not None or report.sequence is None


def find_path(query: StreamQuery, report: QueryReport) -> list[StreamState] | None:
    """Return the states on the way to the reported one; None if there is no way.

    A driver reports its current state, and may have passed through others since its last report.
    If the report names a new run, the states include `running`, with which the run begins.
    """
    source, target = query.state, report.state
    if source is target and not _has_restarted(query, report):
        return []
    for way in _WAYS:
        steps = [source, *way, target]
        if _has_new_run(query, report) and StreamState.RUNNING not in steps[1:]:
            continue
        if all(STREAM.allows(*pair) for pair in pairwise(steps)):
            return steps[1:]
    return None


def _has_new_run(query: StreamQuery, report: QueryReport) -> bool:
    return report.run_id is not None and report.run_id != query.run_id


def _has_restarted(query: StreamQuery, report: QueryReport) -> bool:
    """Return whether a query in the same state as before has failed or run in the meantime."""
    if _has_new_run(query, report):
        return True
    if report.state is StreamState.BACKING_OFF:
        return report.failures != query.failures
    return report.state is StreamState.RUNNING and report.run_id != query.run_id


_WAYS: tuple[tuple[StreamState, ...], ...] = (
    (),
    (StreamState.STARTING,),
    (StreamState.RUNNING,),
    (StreamState.STARTING, StreamState.RUNNING),
)
"""States that a query can pass through between two reports."""


def columns_of(report: QueryReport) -> dict[str, Any]:
    """Return the columns that a report sets."""
    retry_at = None
    if report.state is StreamState.BACKING_OFF and report.retry_seconds is not None:
        retry_at = clock(report.retry_seconds)
    facts = {
        "failures": report.failures,
        "retry_at": retry_at,
        "run_id": report.run_id,
        "last_error": report.error,
    }
    # A driver that has not run the query yet does not know its last batch.
    return facts if report.last_batch is None else {**facts, "last_batch": report.last_batch}


def reason_of(report: QueryReport) -> EndReason:
    """Return why a query has ended that was to run, as far as a driver can know."""
    return report.reason if report.reason in CLAIMED_REASONS else EndReason.NOT_REPORTED


def detail_of(report: QueryReport) -> dict[str, Any] | None:
    """Return the detail of the event of a reported change."""
    if report.state is StreamState.RUNNING:
        return {"run": report.run_id}
    if report.state is StreamState.BACKING_OFF:
        return {"failures": report.failures, "delay_seconds": report.delay_seconds}
    return None


_REPEATED = ("failures", "run_id", "last_error", "last_batch")
"""Columns that a report sets although the state stays the same."""
_FAILURES_OF_NODES = {DriverLost.code, SessionFailed.code, SessionClosed.code}
"""Codes of failures that no driver has reported."""
_UNKNOWN_FAILURE = Failure(
    code="stream_failed", message="The driver did not report why the query failed."
)


def stop(tx: Tx, query: StreamQuery, *, actor: str, reason: EndReason = EndReason.STOPPED) -> None:
    """Request the end of a locked live query. Do nothing if that is requested already.

    Args:
        reason: Why the query ends. After `RESTARTED`, the next attempt begins.
    """
    wanted = Wanted.RESTARTED if reason is EndReason.RESTARTED else Wanted.STOPPED
    if query.state in STREAM.terminal or query.wanted is wanted:
        return
    changed = _want(tx, query, wanted, reason)
    if changed.state is StreamState.PAUSED:
        _end_stopped(tx, changed, actor=actor)
        return
    _request_stop(tx, changed, actor=actor, detail=describe_end(reason))


def pause(tx: Tx, query: StreamQuery, *, actor: str) -> None:
    """Request a pause of a locked query that is to run."""
    detail = {"reason": "paused by a user"}
    _request_stop(tx, _want(tx, query, Wanted.PAUSED), actor=actor, detail=detail)


def resume(tx: Tx, query: StreamQuery, *, actor: str) -> None:
    """Continue a locked query that is paused, or take back its pause."""
    changed = _want(tx, query, Wanted.RUNNING)
    if changed.state is StreamState.PAUSED:
        _change(tx, changed, StreamState.STARTING, actor=actor)


def retry(tx: Tx, query: StreamQuery, *, actor: str) -> None:
    """Start a locked query now that backs off."""
    changed = _want(tx, query, Wanted.RUNNING)
    _change(tx, changed, StreamState.STARTING, actor=actor, values={"retry_at": None})


def apply_reports(
    tx: Tx, lease: DriverLease, reports: Collection[QueryReport]
) -> list[tuple[StreamQuery, QueryReport]]:
    """Apply what the driver of a session reports about its queries.

    The transaction has locked the session with the epoch of the driver. A report is ignored if its
    query belongs to another session, if it is not newer than the last one, or if it does not answer
    the present desired state. So is a second report about a query in one message.

    Returns:
        The new reports about queries of the session, whatever state they report, each with its
        query as it was before.
    """
    if not reports:
        return []
    live = stream_queries.fetch(tx, stream_queries.select_live(lease.session_id))
    queries = {query.id: query for query in live}
    new = []
    for report in reports:
        query = queries.pop(report.id, None)
        if query is None or not is_new(query, report, lease.epoch):
            continue
        new.append((query, report))
        if report.sequence is not None:
            number = {"report_epoch": lease.epoch, "report_sequence": report.sequence}
            _save(tx, query, number)
        if report.lineage:
            _save_lineage(tx, query, report)
        if answers(query, report):
            _apply(tx, query, report, actor=lease.actor)
    return new


def _save_lineage(tx: Tx, query: StreamQuery, report: QueryReport) -> None:
    lineage.save_of_stream(tx, query, report.lineage)
    if query.state is report.state is StreamState.RUNNING and query.run_id == report.run_id:
        _note_run(tx, query, StreamRunStep.TABLES_REPORTED)


def release(tx: Tx, session_id: str, *, actor: str, reason: str) -> None:
    """Release the queries of a driver that is gone: the next driver starts them."""
    for query in stream_queries.fetch(tx, stream_queries.select_live(session_id)):
        if query.state is StreamState.STOPPING:
            _confirm_stop(tx, query, actor=actor)
        elif query.state is StreamState.RUNNING:
            _change(
                tx,
                query,
                StreamState.STARTING,
                actor=actor,
                detail={"reason": reason},
                run_failure=Failure.of(DriverLost(f"The driver was lost: {reason}")),
            )


def stop_all(tx: Tx, session_id: str, *, actor: str) -> None:
    """Request the end of all queries of a session that closes."""
    for query in stream_queries.fetch(tx, stream_queries.select_live(session_id)):
        reason, changed = EndReason.SESSION_CLOSED, query
        if query.wanted is not Wanted.STOPPED:
            changed = _want(tx, query, Wanted.STOPPED, reason)
        if changed.state is StreamState.PAUSED:
            _end_stopped(tx, changed, actor=actor)
        elif changed.state is not StreamState.STOPPING:
            detail = describe_end(reason)
            _change(tx, changed, StreamState.STOPPING, actor=actor, detail=detail)


def end_all(tx: Tx, session_id: str, *, actor: str, failure: Failure | None = None) -> None:
    """End all queries of a session that ends.

    Args:
        failure: Why the session failed. The queries that a driver worked on fail with it.
    """
    for query in stream_queries.fetch(tx, stream_queries.select_live(session_id)):
        if query.state not in STREAM.started:
            _end_stopped(tx, query, actor=actor)
        elif failure is not None:
            _fail(tx, query, failure, actor=actor)
        else:
            changed = _change(tx, query, StreamState.STOPPING, actor=actor)
            _end_stopped(tx, changed, actor=actor, reason=EndReason.SESSION_ENDED)


def end_with_statement(
    tx: Tx, statement_id: str, state: StatementState, *, actor: str, failure: Failure | None
) -> None:
    """End the query of a statement that ended without success.

    The session is not locked: the transaction has locked the statement, and the order of locks is
    session before statement. A requested restart therefore has no effect.

    Args:
        state: State in which the statement ended.
        failure: Why it failed.
    """
    query = stream_queries.of_statement(tx, statement_id)
    if query is None:
        return
    is_cancelled = state is StatementState.CANCELLED
    if query.state in STREAM.started and not is_cancelled and failure is not None:
        is_clean = failure.code not in _FAILURES_OF_NODES
        _fail(tx, query, failure, actor=actor, is_clean=is_clean)
        return
    if query.state in STREAM.started:
        query = _change(tx, query, StreamState.STOPPING, actor=actor)
    reason = query.end_reason or EndReason.STATEMENT_ENDED
    _change(
        tx,
        query,
        StreamState.STOPPED,
        actor=actor,
        detail=describe_end(reason),
        values={"end_reason": reason},
    )


def restart(tx: Tx, ended: StreamQuery, session_id: str, *, actor: str) -> str:
    """Begin the next attempt of a query that has ended. Return the id of the attempt.

    Raises StreamNameExists and CheckpointInUse.
    """
    query_id = new_id("sq")
    successor = NewStreamQuery(
        id=query_id,
        owner=ended.owner,
        scope=ended.scope,
        name=ended.name,
        spec=ended.spec,
        checkpoint_place=ended.checkpoint_place,
        session_id=session_id,
        statement_id=None,
        attempt=ended.attempt + 1,
        previous_id=ended.id,
        # Without a checkpoint, the next attempt begins anew.
        last_batch=None if ended.spec.checkpoint is None else ended.last_batch,
    )
    stream_queries.insert_query(tx, successor, actor=actor)
    return query_id


def _apply(tx: Tx, query: StreamQuery, report: QueryReport, *, actor: str) -> None:
    target = report.state
    if query.state is StreamState.STOPPING:
        if target in STREAM.terminal:
            _confirm_stop(tx, query, actor=actor, values=columns_of(report))
            return
        if query.wanted is not Wanted.RUNNING:
            return
        # The pause was taken back. The driver has started the query again already, or has not seen
        # the pause: then the run has no end.
        runs_on = report.run_id == query.run_id
        stopped = replace(query, healthy_since=None) if runs_on else query
        query = _confirm_stop(tx, stopped, actor=actor)
    path = find_path(query, report)
    if path is None:
        return
    query = _walk(tx, query, path, report, actor=actor)
    # Most renewals report a query that runs as before.
    news = {name: value for name, value in columns_of(report).items() if name in _REPEATED}
    if not path and any(getattr(query, name) != value for name, value in news.items()):
        _save(tx, query, news)


def _walk(
    tx: Tx, query: StreamQuery, path: list[StreamState], report: QueryReport, *, actor: str
) -> StreamQuery:
    """Change the state of a query along a path. Return the query in the reported state."""
    detail, values = detail_of(report), columns_of(report)
    if report.state is StreamState.STOPPED:
        reason = reason_of(report)
        detail, values = describe_end(reason), {**values, "end_reason": reason}
    is_running = report.state is StreamState.RUNNING
    for index, state in enumerate(path, start=1):
        is_last = index == len(path)
        on_the_way = {"run_id": report.run_id} if state is StreamState.RUNNING else None
        query = _change(
            tx,
            query,
            state,
            actor=actor,
            detail=detail if is_last else None,
            failure=report.error if is_last and not is_running else None,
            # A driver that runs the query again reports why the run before has failed.
            run_failure=report.error if is_running else None,
            values=values if is_last else on_the_way,
        )
    if query.state in STREAM.terminal:
        failure = report.error or _UNKNOWN_FAILURE
        has_failed = query.state is StreamState.FAILED
        _end_in_job(tx, query, actor=actor, failure=failure if has_failed else None)
    return query


def _want(
    tx: Tx, query: StreamQuery, wanted: Wanted, reason: EndReason | None = None
) -> StreamQuery:
    changes: dict[str, Any] = {"wanted": wanted, "generation": query.generation + 1}
    changes["end_reason"] = reason
    _save(tx, query, changes)
    stream_queries.announce_change(tx, query.session_id)
    return replace(query, **changes)


def _request_stop(tx: Tx, query: StreamQuery, *, actor: str, detail: dict[str, str]) -> None:
    """Move a query to `stopping`, and on if no driver has to stop it."""
    if query.state is not StreamState.STOPPING:
        query = _change(tx, query, StreamState.STOPPING, actor=actor, detail=detail)
    if stream_queries.has_no_driver(tx, query.session_id):
        _confirm_stop(tx, query, actor=actor)


def _confirm_stop(
    tx: Tx, query: StreamQuery, *, actor: str, values: dict[str, Any] | None = None
) -> StreamQuery:
    """Continue a `stopping` query that does not run any more, as its users want. Return it."""
    if query.wanted not in {Wanted.PAUSED, Wanted.RUNNING}:
        return _end_stopped(tx, query, actor=actor, values=values)
    paused = _change(tx, query, StreamState.PAUSED, actor=actor, values=values)
    if query.wanted is Wanted.PAUSED:
        return paused
    return _change(tx, paused, StreamState.STARTING, actor=actor)


def _end_stopped(
    tx: Tx,
    query: StreamQuery,
    *,
    actor: str,
    values: dict[str, Any] | None = None,
    reason: EndReason = EndReason.SESSION_ENDED,
) -> StreamQuery:
    """End a query as `stopped`, and begin its next attempt if that is wanted. Return the query.

    Args:
        reason: Why the query ends if no end was requested.
    """
    reason = query.end_reason or reason
    ended = _change(
        tx,
        query,
        StreamState.STOPPED,
        actor=actor,
        detail=describe_end(reason),
        values={**(values or {}), "end_reason": reason},
    )
    if query.wanted is Wanted.RESTARTED:
        restart(tx, ended, query.session_id, actor=actor)
    else:
        _end_in_job(tx, ended, actor=actor)
    return ended


def _fail(
    tx: Tx, query: StreamQuery, failure: Failure, *, actor: str, is_clean: bool = False
) -> None:
    """End a query as `failed`.

    Args:
        is_clean: See `_change`.
    """
    ended = _change(
        tx,
        query,
        StreamState.FAILED,
        actor=actor,
        failure=failure,
        values={"last_error": failure},
        is_clean=is_clean,
    )
    _end_in_job(tx, ended, actor=actor, failure=failure)


def _end_in_job(tx: Tx, query: StreamQuery, *, actor: str, failure: Failure | None = None) -> None:
    """Let the job of a query follow its end, if the query belongs to a job."""
    if query.scope != ADHOC_SCOPE:
        is_last = not stream_queries.has_live(tx, query.owner, query.scope)
        jobs.end_with_query(
            tx, query.owner, query.scope, failure=failure, is_last=is_last, actor=actor
        )


def _change(
    tx: Tx,
    query: StreamQuery,
    target: StreamState,
    *,
    actor: str,
    detail: dict[str, Any] | None = None,
    failure: Failure | None = None,
    run_failure: Failure | None = None,
    values: dict[str, Any] | None = None,
    is_clean: bool = False,
) -> StreamQuery:
    """Change the state of a locked query, with its event. Return the query in its new state.

    Args:
        run_failure: Why the present run has failed, if the query itself continues. By default, the
            run has failed with `failure`.
        values: Columns to set, for example those of a report.
        is_clean: Whether the query has left nothing in its sink. A report without failures says so.
    """
    columns = dict(values or {})
    keeps_run = query.has_run and target is StreamState.STOPPING
    if not keeps_run:
        # A node of an older version leaves it behind when a run ends.
        columns["healthy_since"] = None
    if target is StreamState.RUNNING:
        columns["healthy_since"] = clock()
        if query.started_at is None:
            columns["started_at"] = clock()
    if target is not StreamState.BACKING_OFF:
        columns["retry_at"] = None
    may_have_staged = find_sink(query.spec.sink).stages_batches and columns.get("failures") != 0
    if target in STREAM.terminal and may_have_staged and not is_clean:
        catalog_intents.insert_sink_intent(tx, query, actor=actor)
    _TRANSITIONS.apply(
        tx,
        query.id,
        query.state,
        target,
        actor=actor,
        values=columns,
        detail=detail,
        failure=failure,
        is_locked=True,
    )
    if query.has_run and not keeps_run:
        _note_end_of_run(tx, query, target, columns.get("end_reason"), run_failure or failure)
    changed = replace(
        query,
        state=target,
        healthy_since=query.healthy_since if keeps_run else None,
        run_id=columns.get("run_id", query.run_id),
        last_batch=columns.get("last_batch", query.last_batch),
    )
    if target is StreamState.RUNNING:
        _note_run(tx, changed, StreamRunStep.STARTED)
    return changed


def _note_end_of_run(
    tx: Tx,
    query: StreamQuery,
    target: StreamState,
    reason: EndReason | None,
    failure: Failure | None,
) -> None:
    """Note the end of the run of a query.

    Args:
        query: The query before its change of state.
        target: State of the query after the change.
        reason: Why the query has stopped, if `target` is `stopped`.
        failure: Why the run has failed, if that is known.
    """
    if target not in {StreamState.STOPPED, StreamState.PAUSED}:
        _note_run(tx, query, StreamRunStep.FAILED, failure=failure or _UNKNOWN_FAILURE)
        return
    has_finished = reason is EndReason.SOURCES_ENDED
    _note_run(tx, query, StreamRunStep.FINISHED if has_finished else StreamRunStep.STOPPED)


def _note_run(
    tx: Tx, query: StreamQuery, step: StreamRunStep, *, failure: Failure | None = None
) -> None:
    """Note a step of the run of a query. Do nothing if no driver has reported the id of the run."""
    if query.run_id is not None:
        change = StreamRunChange(query=query, run_id=query.run_id, step=step, failure=failure)
        tx.note_stream_run(change)


def _save(tx: Tx, query: StreamQuery, values: dict[str, Any]) -> None:
    tx.execute(update(table).where(table.c.id == query.id).values(values))
