"""Streaming queries: creation and reads. stream_transitions.py changes their states."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from datetime import timedelta
from typing import Any

from sqlalchemy import RowMapping, Select, case, exists, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from headrace.errors import CheckpointInUse, StreamNameExists, TooManyStreams
from headrace.model.lifecycle import STREAM, StreamState
from headrace.model.materialized_view import NameScope
from headrace.model.stream_query import (
    ADHOC_SCOPE,
    WORST_FIRST,
    DesiredQueries,
    DesiredQuery,
    NewStreamQuery,
    QueryAttempt,
    StreamQuery,
    Wanted,
)
from headrace.store import events
from headrace.store.clock import clock, read_clock, seconds_since
from headrace.store.database import Tx
from headrace.store.notifications import LAUNCH, session_topic
from headrace.store.tables import FAILED, sessions, statements, stream_queries

MAX_PER_SESSION = 200
"""Largest number of live queries of one session. Its driver reports all of them in one message."""
_MAX_NAMED = 200
"""Largest number of queries with one name that are read for several owners."""
IS_LIVE = stream_queries.c.ended_at.is_(None)
_HIDDEN = {"name_key", "checkpoint"}
_RECORD = [
    *(column for column in stream_queries.c if column.name not in _HIDDEN),
    stream_queries.c.checkpoint.label("checkpoint_place"),
]
_SELECT = select(*_RECORD)
_RANKS = {state: rank for rank, state in enumerate(WORST_FIRST)}
_ATTEMPT = [stream_queries.c[field.name] for field in fields(QueryAttempt)]
_OF_STATEMENT = exists().where(
    statements.c.id == stream_queries.c.statement_id, statements.c.ended_at.is_(None)
)
HAS_LIVE_QUERY = exists().where(stream_queries.c.session_id == sessions.c.id, IS_LIVE)
"""Condition on a session: a query of the session has not ended."""
NEEDS_DRIVER = exists().where(
    stream_queries.c.session_id == sessions.c.id,
    IS_LIVE,
    stream_queries.c.wanted == Wanted.RUNNING,
    stream_queries.c.state != StreamState.PAUSED,
)
"""Condition on a session: a query of the session is to run."""


def insert_query(tx: Tx, new: NewStreamQuery, *, actor: str) -> None:
    """Insert a query that is to run.

    Raises:
        TooManyStreams: The session has as many live queries as its driver can report.
        StreamNameExists: A live query of the owner has the name, in the same scope.
        CheckpointInUse: A live query of any owner uses the checkpoint.
    """
    check_new(tx, new)
    row = {
        "id": new.id,
        "owner": new.owner,
        "scope": new.scope,
        "name": new.name,
        "name_key": new.name.casefold(),
        "spec": new.spec,
        "checkpoint": new.checkpoint_place,
        "state": STREAM.initial,
        "wanted": Wanted.RUNNING,
        "generation": 1,
        "session_id": new.session_id,
        "statement_id": new.statement_id,
        "attempt": new.attempt,
        "previous_id": new.previous_id,
        "last_batch": new.last_batch,
    }
    try:
        tx.execute(insert(stream_queries).values(created_at=clock()), row)
    except IntegrityError as error:
        # Another node has inserted such a query between the check and this.
        raise StreamNameExists(
            f"Another query has just taken the name {new.name!r} or its checkpoint.",
            hint="Submit the statement again to see which.",
        ) from error
    detail = {"name": f"{new.scope}.{new.name}", "session": new.session_id}
    events.append_creation(tx, STREAM, new.id, actor=actor, detail=detail)
    announce_change(tx, new.session_id)


def check_new(tx: Tx, new: NewStreamQuery) -> None:
    """Check that a query can be inserted. Raise as `insert_query` does."""
    _check_count(tx, new)
    _check_conflicts(tx, new)


def _check_count(tx: Tx, new: NewStreamQuery) -> None:
    if count_live(tx, new.session_id) >= MAX_PER_SESSION:
        raise TooManyStreams(
            f"{MAX_PER_SESSION} streaming queries are live in session {new.session_id}, and no more"
            " may be.",
            hint="Start the query in another session, or stop others.",
        )


def _check_conflicts(tx: Tx, new: NewStreamQuery) -> None:
    key = new.name.casefold()
    named = _SELECT.where(
        stream_queries.c.owner == new.owner,
        stream_queries.c.scope == new.scope,
        stream_queries.c.name_key == key,
        IS_LIVE,
    )
    other = _first(tx, named)
    if other is not None:
        raise StreamNameExists(
            f"The query {other.qualified_name} ({other.id}) is {other.state} and has the name"
            f" {new.name!r} already.",
            hint="Choose another name with IDENTIFIED BY, or stop that query first:"
            f" STOP STREAM `{other.name}`.",
        )
    if new.checkpoint_place is None:
        return
    other = _first(tx, _SELECT.where(stream_queries.c.checkpoint == new.checkpoint_place, IS_LIVE))
    if other is None:
        return
    is_own = other.owner == new.owner
    user = f"{other.qualified_name} ({other.id})" if is_own else "a query of another owner"
    raise CheckpointInUse(
        f"The checkpoint {new.spec.checkpoint} is in use: {user} writes to it.",
        hint="Choose another location with the option checkpointLocation.",
    )


def announce_change(tx: Tx, session_id: str) -> None:
    """Raise the generation of a session's desired queries, and wake its driver."""
    change = update(sessions).where(sessions.c.id == session_id)
    tx.execute(change.values(streams_generation=sessions.c.streams_generation + 1))
    tx.wake(session_topic(session_id), LAUNCH)


def get(tx: Tx, query_id: str) -> StreamQuery | None:
    """Return a query, or None if there is no such query."""
    return _first(tx, _SELECT.where(stream_queries.c.id == query_id))


def find(tx: Tx, owner: str, scope: str, name: str) -> StreamQuery | None:
    """Return the newest query with this name, live or not, or None if there is none."""
    query = _SELECT.where(
        stream_queries.c.owner == owner,
        stream_queries.c.scope == scope,
        stream_queries.c.name_key == name.casefold(),
    )
    # A live query is the newest of its name: no other can begin before it has ended.
    return _first(tx, query.order_by(stream_queries.c.id.desc()).limit(1))


def list_named(tx: Tx, owners: Collection[str] | None, scope: str, name: str) -> list[StreamQuery]:
    """Return the newest query with this name of each of these owners; None: of all owners."""
    query = _SELECT.where(
        stream_queries.c.scope == scope, stream_queries.c.name_key == name.casefold()
    )
    if owners is not None:
        query = query.where(stream_queries.c.owner.in_(owners))
    newest: dict[str, StreamQuery] = {}
    for each in fetch(tx, query.order_by(stream_queries.c.id.desc()).limit(_MAX_NAMED)):
        newest.setdefault(each.owner, each)
    return list(newest.values())


def list_worst(
    tx: Tx, owners: Collection[str] | None, *, seconds: float, limit: int
) -> tuple[list[StreamQuery], list[StreamQuery]]:
    """Return at most `limit` queries that failed lately, the last first, and as many live ones.

    Of the live queries, those in the worst states come first.

    Args:
        owners: Owners of the queries; None: all.
        seconds: Time for which a query that has failed counts, unless there is a later attempt.
    """
    worst_live = _SELECT.where(IS_LIVE).order_by(
        # A newer node may know further states.
        case(_RANKS, value=stream_queries.c.state, else_=0),
        stream_queries.c.failures.desc(),
        stream_queries.c.id.desc(),
    )
    later = stream_queries.alias("later")
    has_later = exists().where(
        later.c.owner == stream_queries.c.owner,
        later.c.scope == stream_queries.c.scope,
        later.c.name_key == stream_queries.c.name_key,
        later.c.id > stream_queries.c.id,
    )
    ended_at = stream_queries.c.ended_at
    # PostgreSQL searches no index with the clock, whose value changes within a query.
    begin = read_clock(tx.connection) - timedelta(seconds=seconds)
    failed = _SELECT.where(FAILED, ended_at > begin, ~has_later).order_by(ended_at.desc())
    if owners is not None:
        worst_live, failed = (
            query.where(stream_queries.c.owner.in_(owners)) for query in (worst_live, failed)
        )
    return fetch(tx, failed.limit(limit)), fetch(tx, worst_live.limit(limit))


def list_attempts(tx: Tx, query: StreamQuery, limit: int) -> list[QueryAttempt]:
    """Return at most `limit` attempts with the name of a query, newest first."""
    attempts = select(*_ATTEMPT).where(
        stream_queries.c.owner == query.owner,
        stream_queries.c.scope == query.scope,
        stream_queries.c.name_key == query.name.casefold(),
    )
    attempts = attempts.order_by(stream_queries.c.id.desc()).limit(limit)
    return [QueryAttempt(**row) for row in tx.execute(attempts).mappings()]


def find_newest(
    tx: Tx, scope: str, names: Collection[tuple[str, str]]
) -> dict[tuple[str, str], StreamQuery]:
    """Return the newest query, live or not, of each pair of an owner and a name that has one."""
    wanted = {(owner, name.casefold()): (owner, name) for owner, name in names}
    of_name = stream_queries.c.owner, stream_queries.c.name_key
    newest = (
        select(func.max(stream_queries.c.id))
        .where(
            stream_queries.c.scope == scope,
            of_name[0].in_({owner for owner, _key in wanted}),
            of_name[1].in_({key for _owner, key in wanted}),
        )
        .group_by(*of_name)
    )
    found = fetch(tx, _SELECT.where(stream_queries.c.id.in_(newest)))
    keys = {(each.owner, each.name.casefold()): each for each in found}
    return {wanted[key]: each for key, each in keys.items() if key in wanted}


def find_last_of_checkpoint(tx: Tx, owner: str, place: str) -> StreamQuery | None:
    """Return the last query of an owner whose checkpoint has this identity, or None."""
    query = _SELECT.where(stream_queries.c.checkpoint == place, stream_queries.c.owner == owner)
    return _first(tx, query.order_by(stream_queries.c.id.desc()).limit(1))


def find_last_batches(tx: Tx, owner: str, places: Collection[str]) -> dict[str, int]:
    """Return the last batch that is known of each checkpoint, by the name of the query.

    Checkpoints are given by the identities of their places. A checkpoint without a committed batch
    is missing.
    """
    last = func.max(stream_queries.c.last_batch)
    query = (
        select(stream_queries.c.name, last.label("batch"))
        .where(
            stream_queries.c.owner == owner,
            stream_queries.c.checkpoint.in_(places),
            stream_queries.c.last_batch.is_not(None),
        )
        .group_by(stream_queries.c.name)
    )
    return {row.name: row.batch for row in tx.execute(query)}


def find_committed(tx: Tx, owner: str, places: Collection[str]) -> set[str]:
    """Return those of these checkpoints, by the identities of their places, that have a batch."""
    query = (
        select(stream_queries.c.checkpoint)
        .where(
            stream_queries.c.owner == owner,
            stream_queries.c.checkpoint.in_(places),
            stream_queries.c.last_batch.is_not(None),
        )
        .distinct()
    )
    return set(tx.execute(query).scalars())


def page(
    tx: Tx,
    *,
    owners: Collection[str] | None,
    live: bool,
    before: str | None = None,
    limit: int,
) -> list[StreamQuery]:
    """Return at most `limit` queries, newest first.

    Args:
        owners: Owners of the queries; None: all.
        live: Only queries that have not ended.
        before: Id of the last query of the previous page; None: the first page.
    """
    query = _SELECT.where(IS_LIVE) if live else _SELECT
    if owners is not None:
        query = query.where(stream_queries.c.owner.in_(owners))
    if before is not None:
        query = query.where(stream_queries.c.id < before)
    return fetch(tx, query.order_by(stream_queries.c.id.desc()).limit(limit))


def has_live(tx: Tx, owner: str, scope: str) -> bool:
    """Return whether a query of a job has not ended."""
    query = select(stream_queries.c.id).where(
        stream_queries.c.owner == owner, stream_queries.c.scope == scope, IS_LIVE
    )
    return tx.execute(query.limit(1)).first() is not None


def list_live_of_jobs(tx: Tx, owners: Collection[str] | None) -> list[StreamQuery]:
    """Return the live queries of all jobs of these owners, oldest first; None: of all owners."""
    query = _SELECT.where(stream_queries.c.scope != ADHOC_SCOPE, IS_LIVE)
    if owners is not None:
        query = query.where(stream_queries.c.owner.in_(owners))
    return fetch(tx, query.order_by(stream_queries.c.id))


def list_live_adhoc(tx: Tx, owner: str, limit: int) -> list[StreamQuery]:
    """Return at most `limit` live queries of an owner that no job has, by name."""
    query = _SELECT.where(
        stream_queries.c.owner == owner, stream_queries.c.scope == ADHOC_SCOPE, IS_LIVE
    )
    ordered = query.order_by(stream_queries.c.name_key, stream_queries.c.id)
    return fetch(tx, ordered.limit(limit))


def list_backing_off(tx: Tx, limit: int) -> list[StreamQuery]:
    """Return at most `limit` live queries that wait for their next start after a failure."""
    query = _SELECT.where(IS_LIVE, stream_queries.c.state == StreamState.BACKING_OFF)
    return fetch(tx, query.order_by(stream_queries.c.session_id).limit(limit))


def list_by_id(tx: Tx, query_ids: Collection[str]) -> list[StreamQuery]:
    """Return these queries, oldest first."""
    query = _SELECT.where(stream_queries.c.id.in_(query_ids))
    return fetch(tx, query.order_by(stream_queries.c.id))


def seconds_healthy(tx: Tx, query_id: str) -> float:
    """Return the time since the start of the current run of a query; 0 before the first run."""
    query = select(seconds_since(stream_queries.c.healthy_since))
    seconds = tx.execute(query.where(stream_queries.c.id == query_id)).scalar_one_or_none()
    return 0.0 if seconds is None else float(seconds)


def select_live(session_id: str) -> Select[Any]:
    """Return the locking query for the live queries of a session, oldest first."""
    query = _SELECT.where(stream_queries.c.session_id == session_id, IS_LIVE)
    return query.order_by(stream_queries.c.id).with_for_update()


def fetch(tx: Tx, query: Select[Any]) -> list[StreamQuery]:
    """Return the queries that a query of `select_live` selects."""
    return [_to_record(row) for row in tx.execute(query).mappings()]


def lock(tx: Tx, query_id: str) -> StreamQuery | None:
    """Lock a query until the transaction ends, and return it; None if there is no such query."""
    return _first(tx, _SELECT.where(stream_queries.c.id == query_id).with_for_update())


def of_statement(tx: Tx, statement_id: str) -> StreamQuery | None:
    """Return the live query that a statement starts, locked, or None."""
    query = _SELECT.where(stream_queries.c.statement_id == statement_id, IS_LIVE)
    return _first(tx, query.with_for_update())


def set_scope(tx: Tx, statement_id: str, scope: NameScope) -> None:
    """Keep the catalog and namespace in which the query of a statement has started."""
    query = of_statement(tx, statement_id)
    if query is None or query.spec.scope is not None:
        return
    spec = query.spec.model_copy(update={"scope": scope})
    change = update(stream_queries).where(stream_queries.c.id == query.id)
    tx.execute(change.values(spec=spec))


def starting_statements(tx: Tx, statement_ids: Collection[str]) -> list[str]:
    """Return those of the statements that are to start a live query."""
    query = select(stream_queries.c.statement_id)
    of_statements = stream_queries.c.statement_id.in_(statement_ids)
    return list(tx.execute(query.where(of_statements, IS_LIVE)).scalars())


def generation_of(tx: Tx, session_id: str) -> int:
    """Return the generation of the desired queries of a session."""
    query = select(sessions.c.streams_generation).where(sessions.c.id == session_id)
    generation: int = tx.execute(query).scalar_one()
    return generation


def desired(tx: Tx, session_id: str) -> DesiredQueries:
    """Return what the driver of a session must run and stop."""
    query = (
        select(
            *_RECORD,
            _OF_STATEMENT.label("held"),
            (-seconds_since(stream_queries.c.retry_at)).label("retry_seconds"),
        )
        .where(
            stream_queries.c.session_id == session_id,
            IS_LIVE,
            stream_queries.c.state != StreamState.PAUSED,
            # A driver has the rights of the owner of its session, and acts for no other owner.
            stream_queries.c.owner
            == select(sessions.c.owner).where(sessions.c.id == session_id).scalar_subquery(),
        )
        .order_by(stream_queries.c.id)
    )
    # Read the generation first: with a later one, the driver would never learn of a change that
    # was committed between the two reads.
    generation = generation_of(tx, session_id)
    rows = tx.execute(query).mappings().all()
    return DesiredQueries(generation=generation, queries=[_to_desired(row) for row in rows])


def desired_of_statement(tx: Tx, statement_id: str) -> DesiredQuery | None:
    """Return the live query that a statement starts, as its driver needs it, or None."""
    query = _first(tx, _SELECT.where(stream_queries.c.statement_id == statement_id, IS_LIVE))
    if query is None:
        return None
    return DesiredQuery(
        id=query.id,
        name=query.name,
        job_id=job_id(query.owner, query.scope),
        spec=query.spec,
        wanted=query.wanted,
        generation=query.generation,
        failures=query.failures,
        last_batch=query.last_batch,
    )


def job_id(owner: str, scope: str) -> str:
    """Return the id of the job that a query belongs to: `adhoc-<owner>` outside any job."""
    return f"{ADHOC_SCOPE}-{owner}" if scope == ADHOC_SCOPE else scope


def count_live(tx: Tx, session_id: str) -> int:
    """Return the number of queries of a session that have not ended."""
    query = select(func.count()).where(stream_queries.c.session_id == session_id, IS_LIVE)
    count: int = tx.execute(query).scalar_one()
    return count


def any_live(tx: Tx) -> bool:
    """Return whether a query in the whole store has not ended."""
    return tx.execute(select(stream_queries.c.id).where(IS_LIVE).limit(1)).first() is not None


def has_no_driver(tx: Tx, session_id: str) -> bool:
    """Return whether a session has no driver, neither a live nor a fenced one."""
    query = select(sessions.c.id).where(
        sessions.c.id == session_id,
        or_(
            sessions.c.ended_at.is_not(None),
            sessions.c.lease_until.is_(None) & sessions.c.fenced_driver.is_(None),
        ),
    )
    return tx.execute(query).first() is not None


def _to_desired(row: RowMapping) -> DesiredQuery:
    retry = row["retry_seconds"]
    return DesiredQuery(
        id=row["id"],
        name=row["name"],
        job_id=job_id(row["owner"], row["scope"]),
        spec=row["spec"],
        wanted=row["wanted"],
        generation=row["generation"],
        held=row["held"],
        failures=row["failures"],
        retry_seconds=None if retry is None else max(0.0, float(retry)),
        last_batch=row["last_batch"],
    )


def _to_record(row: RowMapping) -> StreamQuery:
    return StreamQuery(**row)


def _first(tx: Tx, query: Select[Any]) -> StreamQuery | None:
    row = tx.execute(query).mappings().first()
    return None if row is None else _to_record(row)
