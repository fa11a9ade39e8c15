"""Deletion of history: ended statements, sessions and registrations of nodes, and events.

A live row is never deleted, nor a row that another row still needs: a statement waits for the
deletion of its result, for the ends of its table transaction and of its run, and for its pending
hook call, a session for its statements, and a run until its schedule has passed its time. The
newest registration of a node stays, and so do the last queries of a materialized view and of a job
that are not deleted.

Functions that delete return the numbers of deleted rows by kind.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, delete, exists, func, or_, select

from headrace.model.run import RunTrigger
from headrace.model.stream_query import ADHOC_SCOPE
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.jobs.jobs import delete_tasks_of_statements
from headrace.store.tables import (
    NODE_EVENTS,
    catalog_intents,
    cursors,
    definitions,
    deployments,
    editor_drafts,
    events,
    job_changes,
    job_schedules,
    job_versions,
    jobs,
    materialized_views,
    nodes,
    operations,
    pending_hook_calls,
    results,
    run_statements,
    runs,
    savepoints,
    sessions,
    snapshots,
    statements,
    stream_progress,
    stream_queries,
    tokens,
    transactions,
)


def count_old(tx: Tx, seconds: float) -> dict[str, int]:
    """Return how many rows that ended more than `seconds` ago can be deleted, by kind.

    A statement counts although its result must be deleted first.
    """
    can_go = _can_go(seconds)
    statement_stays = and_(statements.c.session_id == sessions.c.id, ~can_go)
    finished_stays = and_(
        transactions.c.session_id == sessions.c.id,
        transactions.c.statement_id == statements.c.id,
        ~can_go,
    )
    conditions = {
        "statements": (statements, can_go),
        "results": (
            results,
            and_(
                results.c.gone_at.is_(None),
                exists().where(statements.c.id == results.c.statement_id, can_go),
            ),
        ),
        "sessions": (
            sessions,
            and_(
                _is_old(sessions, seconds),
                ~exists().where(statement_stays),
                ~exists().where(finished_stays),
            ),
        ),
        "streams": (stream_queries, _is_old_query(seconds)),
        "jobs": (jobs, _is_old(jobs, seconds)),
        "deployments": (deployments, _is_old(deployments, seconds)),
        "runs": (runs, _is_old_run(seconds)),
        "tokens": (tokens, tokens.c.expires_at < clock(-seconds)),
        "drafts": (editor_drafts, editor_drafts.c.updated_at < clock(-seconds)),
    }
    return {
        kind: tx.execute(select(func.count()).select_from(table).where(condition)).scalar_one()
        for kind, (table, condition) in conditions.items()
    }


def _is_old(table: Table, seconds: float) -> ColumnElement[bool]:
    return and_(table.c.ended_at.is_not(None), table.c.ended_at < clock(-seconds))


def _can_go(seconds: float) -> ColumnElement[bool]:
    """Return the condition that an old statement is needed by nothing but its result."""
    # A query that counts sessions has the table itself.
    unfinished = transactions.alias("unfinished")
    return and_(
        _is_old(statements, seconds),
        ~exists().where(
            unfinished.c.statement_id == statements.c.id, unfinished.c.ended_at.is_(None)
        ),
        ~exists().where(pending_hook_calls.c.statement_id == statements.c.id),
        # A run would submit a statement again that it does not find.
        ~exists().where(
            run_statements.c.statement_id == statements.c.id,
            runs.c.id == run_statements.c.run_id,
            runs.c.ended_at.is_(None),
        ),
    )


def _is_old_run(seconds: float) -> ColumnElement[bool]:
    """Return the condition that an old run is not needed by its schedule.

    Without it, the schedule would fire a time again that a user has run before the time was due.
    """
    fires_later = and_(
        job_schedules.c.job_id == runs.c.job_id,
        job_schedules.c.cursor < runs.c.logical_time,
        # Only the runs of a schedule have an interval.
        runs.c.interval_start < runs.c.logical_time,
        runs.c.trigger != RunTrigger.CONDITION,
    )
    return and_(_is_old(runs, seconds), ~exists().where(fires_later))


def delete_statements(tx: Tx, seconds: float, limit: int) -> dict[str, int]:
    """Delete at most `limit` statements that ended more than `seconds` ago, the oldest first.

    Their results, table transactions and events are deleted too. The database itself deletes their
    executions, see `statement_executions`.
    """
    has_result = exists().where(
        results.c.statement_id == statements.c.id, results.c.gone_at.is_(None)
    )
    ids = _choose(tx, statements, and_(_can_go(seconds), ~has_result), limit)
    if ids:
        of_statements = transactions.c.statement_id.in_(ids)
        transaction_ids = _fetch(tx, select(transactions.c.id).where(of_statements))
        tx.execute(delete(transactions).where(of_statements))
        tx.execute(delete(results).where(results.c.statement_id.in_(ids)))
        tx.execute(delete(cursors).where(cursors.c.statement_id.in_(ids)))
        delete_tasks_of_statements(tx, ids)
        _delete(tx, statements, ids, transaction_ids)
    return {"statements": len(ids)}


def delete_sessions(tx: Tx, seconds: float, limit: int) -> dict[str, int]:
    """Delete at most `limit` sessions that ended more than `seconds` ago and have no statements.

    Their events are deleted too.
    """
    is_needed = or_(
        exists().where(statements.c.session_id == sessions.c.id),
        # A driver of this session has finished the table of another session's statement.
        exists().where(transactions.c.session_id == sessions.c.id),
    )
    ids = _choose(tx, sessions, and_(_is_old(sessions, seconds), ~is_needed), limit)
    if ids:
        tx.execute(delete(snapshots).where(snapshots.c.session_id.in_(ids)))
        _delete(tx, sessions, ids)
    return {"sessions": len(ids)}


def delete_streams(tx: Tx, seconds: float, limit: int) -> dict[str, int]:
    """Delete at most `limit` streaming queries that ended more than `seconds` ago.

    At most `limit` rows are deleted of each other kind too: replaced or dropped definitions,
    dropped materialized views, and ended intents. The last query of a materialized view stays as
    long as the view, because RESTART STREAM starts it again. The last queries of a job stay as long
    as the job, because plans and rollbacks read how far they have come.
    """
    deleted = {}
    for table in (stream_queries, definitions, materialized_views, catalog_intents):
        is_old = _is_old_query(seconds) if table is stream_queries else _is_old(table, seconds)
        ids = _choose(tx, table, is_old, limit)
        if ids:
            tx.execute(delete(stream_progress).where(stream_progress.c.query_id.in_(ids)))
            _delete(tx, table, ids)
        deleted["streams" if table is stream_queries else table.name] = len(ids)
    return deleted


def _is_old_query(seconds: float) -> ColumnElement[bool]:
    """Return the condition that a streaming query is old and not needed."""
    is_needed = or_(_is_last_of_view(), _is_last_of_job(), _has_intent())
    return and_(_is_old(stream_queries, seconds), ~is_needed)


def _is_last_of_job() -> ColumnElement[bool]:
    """Return the condition that no newer checkpoint replaces that of a query of a live job."""
    newer = stream_queries.alias("newer_run")
    is_replaced = exists().where(
        newer.c.owner == stream_queries.c.owner,
        newer.c.scope == stream_queries.c.scope,
        newer.c.name_key == stream_queries.c.name_key,
        newer.c.id > stream_queries.c.id,
        newer.c.checkpoint != stream_queries.c.checkpoint,
    )
    has_job = exists().where(
        jobs.c.owner == stream_queries.c.owner,
        jobs.c.name == stream_queries.c.scope,
        jobs.c.ended_at.is_(None),
    )
    return and_(stream_queries.c.scope != ADHOC_SCOPE, has_job, ~is_replaced)


def _has_intent() -> ColumnElement[bool]:
    """Return the condition that a driver must still clear the sink of a streaming query."""
    return exists().where(
        catalog_intents.c.query_id == stream_queries.c.id, catalog_intents.c.ended_at.is_(None)
    )


def _is_last_of_view() -> ColumnElement[bool]:
    """Return the condition that a streaming query is the last one of a live view."""
    newer = stream_queries.alias("newer")
    is_replaced = exists().where(
        newer.c.owner == stream_queries.c.owner,
        newer.c.scope == stream_queries.c.scope,
        newer.c.name_key == stream_queries.c.name_key,
        newer.c.id > stream_queries.c.id,
    )
    has_view = exists().where(
        materialized_views.c.owner == stream_queries.c.owner,
        materialized_views.c.name_key == stream_queries.c.name_key,
        materialized_views.c.query_id.is_not(None),
        materialized_views.c.ended_at.is_(None),
    )
    return and_(stream_queries.c.scope == ADHOC_SCOPE, has_view, ~is_replaced)


def delete_of_nodes(tx: Tx, seconds: float, limit: int) -> dict[str, int]:
    """Delete at most `limit` registrations of nodes that ended more than `seconds` ago.

    The newest registration of each node stays. At most `limit` events of nodes that are older than
    `seconds` are deleted too.
    """
    newer = nodes.alias("newer")
    is_replaced = exists().where(
        newer.c.id == nodes.c.id, newer.c.registration > nodes.c.registration
    )
    is_old = and_(_is_old(nodes, seconds), is_replaced)
    numbers = _choose(tx, nodes, is_old, limit, key=nodes.c.registration)
    if numbers:
        tx.execute(delete(nodes).where(nodes.c.registration.in_(numbers)))
    query = select(events.c.id).where(NODE_EVENTS, events.c.at < clock(-seconds))
    query = query.order_by(events.c.at).with_for_update(skip_locked=True)
    ids = _fetch(tx, query.limit(limit))
    if ids:
        tx.execute(delete(events).where(events.c.id.in_(ids)))
    return {"registrations": len(numbers), "node_events": len(ids)}


def delete_jobs(tx: Tx, seconds: float, limit: int) -> dict[str, int]:
    """Delete at most `limit` rows of each kind that ended more than `seconds` ago.

    The versions and savepoints of a job stay for as long as the job is live. Return the numbers of
    deleted rows by kind.
    """
    deployment_ids = _choose(tx, deployments, _is_old(deployments, seconds), limit)
    if deployment_ids:
        of_deployments = job_changes.c.deployment_id.in_(deployment_ids)
        change_ids = _fetch(tx, select(job_changes.c.id).where(of_deployments))
        tx.execute(delete(job_changes).where(of_deployments))
        _delete(tx, deployments, deployment_ids, change_ids)
    operation_ids = _choose(tx, operations, _is_old(operations, seconds), limit)
    if operation_ids:
        _delete(tx, operations, operation_ids)
    # The cursor of a schedule stays, so that a deleted run does not fire again.
    run_ids = _choose(tx, runs, _is_old_run(seconds), limit)
    if run_ids:
        _delete(tx, runs, run_ids)
    job_ids = _choose(tx, jobs, _is_old(jobs, seconds), limit)
    if job_ids:
        savepoint_ids = _fetch(tx, select(savepoints.c.id).where(savepoints.c.job_id.in_(job_ids)))
        tx.execute(delete(job_versions).where(job_versions.c.job_id.in_(job_ids)))
        tx.execute(delete(savepoints).where(savepoints.c.job_id.in_(job_ids)))
        _delete(tx, jobs, job_ids, savepoint_ids)
    return {
        "deployments": len(deployment_ids),
        "operations": len(operation_ids),
        "runs": len(run_ids),
        "jobs": len(job_ids),
    }


def delete_tokens(tx: Tx, seconds: float, limit: int) -> dict[str, int]:
    """Delete at most `limit` tokens that expired more than `seconds` ago, revoked or not."""
    query = select(tokens.c.id).where(tokens.c.expires_at < clock(-seconds))
    query = query.order_by(tokens.c.expires_at).with_for_update(skip_locked=True)
    ids = _fetch(tx, query.limit(limit))
    if ids:
        _delete(tx, tokens, ids)
    return {"tokens": len(ids)}


def _choose(
    tx: Tx,
    table: Table,
    condition: ColumnElement[bool],
    limit: int,
    *,
    key: ColumnElement[Any] | None = None,
) -> list[Any]:
    """Lock the oldest ended rows that meet a condition, and return their ids, or another key."""
    query = select(table.c.id if key is None else key).where(condition)
    # Several nodes delete different rows.
    query = query.order_by(table.c.ended_at).with_for_update(skip_locked=True, of=table)
    return _fetch(tx, query.limit(limit))


def _delete(tx: Tx, table: Table, ids: list[str], further: list[str] | None = None) -> None:
    """Delete rows, with their events and those of further entities."""
    tx.execute(delete(events).where(events.c.entity_id.in_([*ids, *(further or ())])))
    tx.execute(delete(table).where(table.c.id.in_(ids)))


def _fetch(tx: Tx, query: Select[Any]) -> list[Any]:
    return list(tx.execute(query).scalars())
