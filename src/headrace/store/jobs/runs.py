"""Runs of batch jobs, and the statements of their attempts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, insert, select, update

from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import RUN, RunState
from headrace.model.run import (
    JobRun,
    RunInput,
    RunStatement,
    RunTimes,
    RunTrigger,
    UpstreamRun,
)
from headrace.store import events
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.jobs import file_watches, triggers
from headrace.store.tables import job_schedules, jobs, run_statements, upstream_runs
from headrace.store.tables import runs as table
from headrace.store.transitions import Transitions

_TRANSITIONS = Transitions(RUN, table)
_LIVE = table.c.ended_at.is_(None)
_INSERT = insert(table).values(created_at=clock()).returning(table)
_SELECT = select(table)
_TIMES = tuple(RunTimes.__dataclass_fields__)


def insert_run(
    tx: Tx,
    job_id: str,
    *,
    owner: str,
    name: str,
    version_id: str,
    trigger: RunTrigger,
    times: RunTimes,
    due_at: datetime,
    actor: str,
    last: JobRun | None = None,
    position: int = 0,
    parallelism: int = 1,
    backfill_id: str | None = None,
    inputs: Sequence[RunInput] = (),
    awaits_conditions: bool = False,
) -> JobRun:
    """Insert a run that is due, and return it.

    The transaction has locked the schedule of the job, or the job itself.

    Args:
        due_at: Time from which it may begin.
        last: The last run of the logical time, which the run repeats: it reads the same files.
            None: it is the first one.
        position: Position of the first statement to run.
        parallelism: Number of runs of the job beside which it may begin, itself included.
        inputs: What starts it.
        awaits_conditions: Whether other conditions of its schedule are not met yet.
    """
    run_id = new_id("rn")
    files = [] if last is None else last.files
    row = {
        "id": run_id,
        "job_id": job_id,
        "owner": owner,
        "name": name,
        "version_id": version_id,
        "state": RUN.initial,
        "trigger": trigger,
        "repetition": 0 if last is None else last.repetition + 1,
        "attempt": 0,
        "position": position,
        "backfill_id": backfill_id,
        "awaits_attempt": True,
        "awaits_conditions": awaits_conditions,
        "has_turn": False,
        "parallelism": parallelism,
        "due_at": due_at,
        "reason": "",
        "inputs": [*inputs, *(each for each in files if each not in inputs)] or None,
        **{field: getattr(times, field) for field in _TIMES},
    }
    run = _to_run(tx.execute(_INSERT, row).mappings().one())
    detail = {"job": name, "logical_time": times.logical_time.isoformat(), "trigger": trigger}
    events.append_creation(tx, RUN, run_id, actor=actor, detail=detail)
    if last is not None and files:
        file_watches.copy_run_files(tx, last.id, run_id)
    return run


def get(tx: Tx, run_id: str) -> JobRun | None:
    """Return a run, or None."""
    return _first(tx, _SELECT.where(table.c.id == run_id))


def lock(tx: Tx, run_id: str) -> JobRun | None:
    """Lock a run until the transaction ends, and return it; None if there is no such run."""
    return _first(tx, _SELECT.where(table.c.id == run_id).with_for_update())


def list_by_id(tx: Tx, run_ids: Collection[str]) -> dict[str, JobRun]:
    """Return the runs with these ids, by id."""
    rows = tx.execute(_SELECT.where(table.c.id.in_(run_ids))).mappings()
    return {row["id"]: _to_run(row) for row in rows}


def find_last(tx: Tx, job_id: str, logical_time: datetime) -> JobRun | None:
    """Return the last repetition of the run of a logical time, or None."""
    query = _SELECT.where(table.c.job_id == job_id, table.c.logical_time == logical_time)
    return _first(tx, query.order_by(table.c.repetition.desc()).limit(1))


def find_last_runs(
    tx: Tx, job_id: str, *, start: datetime, end: datetime
) -> dict[datetime, JobRun]:
    """Return the last run of each logical time after `start` and up to `end` that has one."""
    query = _SELECT.where(
        table.c.job_id == job_id, table.c.logical_time > start, table.c.logical_time <= end
    )
    rows = tx.execute(query.order_by(table.c.logical_time, table.c.repetition)).mappings()
    return {row["logical_time"]: _to_run(row) for row in rows}


def find_previous(tx: Tx, job_id: str, *, before: datetime, limit: int) -> list[JobRun]:
    """Return the last run of each of the last logical times before an instant, the latest first."""
    last = (
        select(table.c.logical_time, func.max(table.c.repetition).label("repetition"))
        .where(table.c.job_id == job_id, table.c.logical_time < before)
        .group_by(table.c.logical_time)
        .order_by(table.c.logical_time.desc())
        .limit(limit)
        .subquery()
    )
    query = _SELECT.join(
        last,
        (table.c.logical_time == last.c.logical_time) & (table.c.repetition == last.c.repetition),
    ).where(table.c.job_id == job_id)
    rows = tx.execute(query.order_by(table.c.logical_time.desc())).mappings()
    return [_to_run(row) for row in rows]


def has_succeeded(tx: Tx, job_id: str, version_id: str) -> bool:
    """Return whether a run of a version of a job has succeeded."""
    query = select(table.c.id).where(
        table.c.job_id == job_id,
        table.c.version_id == version_id,
        table.c.state == RunState.SUCCEEDED,
    )
    return tx.execute(query.order_by(table.c.logical_time.desc()).limit(1)).first() is not None


def list_backfill(tx: Tx, backfill_id: str) -> list[JobRun]:
    """Return the runs of a backfill, the earliest logical time first."""
    query = _SELECT.where(table.c.backfill_id == backfill_id)
    rows = tx.execute(query.order_by(table.c.logical_time, table.c.id)).mappings()
    return [_to_run(row) for row in rows]


def list_live(tx: Tx, job_id: str) -> list[JobRun]:
    """Return the live runs of a job, the earliest logical time first."""
    query = _SELECT.where(table.c.job_id == job_id, _LIVE)
    rows = tx.execute(query.order_by(table.c.logical_time, table.c.id)).mappings()
    return [_to_run(row) for row in rows]


def list_live_by_job(tx: Tx, job_ids: Collection[str]) -> dict[str, list[JobRun]]:
    """Return the live runs of each of these jobs, as `list_live` does of one."""
    query = _SELECT.where(table.c.job_id.in_(sorted(job_ids)), _LIVE)
    live: dict[str, list[JobRun]] = {job_id: [] for job_id in job_ids}
    for row in tx.execute(query).mappings():
        live[row["job_id"]].append(_to_run(row))
    for listed in live.values():
        listed.sort(key=lambda run: (run.times.logical_time, run.id))
    return live


def list_live_of_jobs(tx: Tx, owner: str, names: Collection[str]) -> list[JobRun]:
    """Return the live runs of the jobs of an owner with these names."""
    keys = [name.casefold() for name in names]
    joined = _SELECT.join(jobs, jobs.c.id == table.c.job_id)
    query = joined.where(
        jobs.c.owner == owner, jobs.c.name_key.in_(keys), jobs.c.ended_at.is_(None)
    )
    return [_to_run(row) for row in tx.execute(query.where(_LIVE)).mappings()]


def list_upstream(
    tx: Tx, job_id: str, limit: int, *, after: datetime | None = None
) -> list[UpstreamRun]:
    """Return the ended runs that a job which follows them has not used yet, the oldest first.

    Args:
        after: Instant after which the intervals of successful runs end; None: any.
    """
    query = select(table, upstream_runs.c.is_missed).join(
        upstream_runs, upstream_runs.c.run_id == table.c.id
    )
    ordered = query.where(upstream_runs.c.job_id == job_id).order_by(
        table.c.logical_time, table.c.id
    )
    if after is not None:
        ordered = ordered.where(
            (table.c.interval_end > after) | (table.c.state != RunState.SUCCEEDED)
        )
    rows = map(dict, tx.execute(ordered.limit(limit)).mappings())
    return [UpstreamRun(is_missed=row.pop("is_missed"), run=_to_run(row)) for row in rows]


def list_noted(tx: Tx, job_ids: Collection[str]) -> list[tuple[str, str, datetime]]:
    """Return jobs with name and logical time of the successful runs that they have not used yet."""
    query = (
        select(upstream_runs.c.job_id, table.c.name, table.c.logical_time)
        .join(table, upstream_runs.c.run_id == table.c.id)
        .where(upstream_runs.c.job_id.in_(sorted(job_ids)), table.c.state == RunState.SUCCEEDED)
    )
    return [(row.job_id, row.name, row.logical_time) for row in tx.execute(query)]


def find_first_noted(tx: Tx, job_id: str) -> dict[str, datetime]:
    """Return where the intervals begin of the successful runs that a job has not used yet.

    This is the first begin for each job that it follows, by the name in lower case.
    """
    query = select(table.c.name, table.c.interval_start).join(
        upstream_runs, upstream_runs.c.run_id == table.c.id
    )
    noted = query.where(upstream_runs.c.job_id == job_id, table.c.state == RunState.SUCCEEDED)
    first = dict[str, datetime]()
    for row in tx.execute(noted):
        key = row.name.casefold()
        first[key] = min(row.interval_start, first.get(key, row.interval_start))
    return first


def find_queue(tx: Tx, job_id: str) -> tuple[int, datetime | None]:
    """Return how many runs of a job wait for their turn, and the first of their logical times.

    Times whose conditions are not met do not count.
    """
    query = select(func.count().label("waiting"), func.min(table.c.logical_time).label("first"))
    waiting = query.where(
        table.c.job_id == job_id, _LIVE, ~table.c.has_turn, ~table.c.awaits_conditions
    )
    row = tx.execute(waiting).one()
    return row.waiting, row.first


def list_starts(tx: Tx, job_id: str, *, before: datetime, limit: int) -> list[datetime]:
    """Return when the last attempts of runs began whose logical times are the last before one.

    Args:
        limit: Number of runs, also of those that never began.
    """
    last = (
        select(table.c.started_at)
        .where(table.c.job_id == job_id, table.c.logical_time < before)
        .order_by(table.c.logical_time.desc(), table.c.repetition.desc())
        .limit(limit)
    )
    return [started_at for started_at in tx.execute(last).scalars() if started_at is not None]


def find_begun(tx: Tx, job_ids: Collection[str]) -> dict[str, str]:
    """Return the id of a live run that has its turn, for each of these jobs that has one."""
    query = select(table.c.job_id, table.c.id).where(
        table.c.job_id.in_(sorted(job_ids)), _LIVE, table.c.has_turn
    )
    return {row.job_id: row.id for row in tx.execute(query)}


def list_times_by_job(tx: Tx, job_ids: Collection[str]) -> dict[str, set[datetime]]:
    """Return the logical times after the cursor of its schedule for which each job has a run."""
    query = (
        select(table.c.job_id, table.c.logical_time)
        .join(job_schedules, job_schedules.c.job_id == table.c.job_id)
        .where(
            job_schedules.c.job_id.in_(sorted(job_ids)),
            table.c.logical_time > job_schedules.c.cursor,
        )
    )
    times: dict[str, set[datetime]] = {job_id: set() for job_id in job_ids}
    for row in tx.execute(query):
        times[row.job_id].add(row.logical_time)
    return times


def list_late(tx: Tx, *, seconds: float, age_limit: float, limit: int) -> list[JobRun]:
    """Return live runs of schedules whose logical time was more than `seconds` ago, by their jobs.

    Args:
        age_limit: Seconds since the insertion above which a run is not returned.
    """
    query = _SELECT.where(
        _LIVE,
        table.c.trigger == RunTrigger.SCHEDULE,
        table.c.logical_time < clock(-seconds),
        table.c.created_at > clock(-age_limit),
    )
    rows = tx.execute(query.order_by(table.c.job_id, table.c.logical_time).limit(limit)).mappings()
    return [_to_run(row) for row in rows]


def page(
    tx: Tx,
    *,
    owners: Collection[str] | None,
    job_id: str | None = None,
    states: Collection[RunState] | None = None,
    before: str | None = None,
    limit: int,
) -> list[JobRun]:
    """Return at most `limit` runs, the newest first.

    Args:
        owners: Owners of the runs; None: all.
        job_id: Only runs of this job, by their logical times; None: of all jobs, by their ids.
        before: Only runs before this one.
    """
    query = _SELECT
    if owners is not None:
        query = query.where(table.c.owner.in_(sorted(owners)))
    if states is not None:
        query = query.where(table.c.state.in_(states))
    if job_id is not None:
        query = query.where(table.c.job_id == job_id)
        order = [table.c.logical_time.desc(), table.c.repetition.desc()]
        last = None if before is None else get(tx, before)
        if last is not None:
            query = query.where(
                (table.c.logical_time < last.times.logical_time)
                | (
                    (table.c.logical_time == last.times.logical_time)
                    & (table.c.repetition < last.repetition)
                )
            )
    else:
        order = [table.c.id.desc()]
        if before is not None:
            query = query.where(table.c.id < before)
    rows = tx.execute(query.order_by(*order).limit(limit)).mappings()
    return [_to_run(row) for row in rows]


def begin_attempt(tx: Tx, run: JobRun, *, position: int, connection_id: str, actor: str) -> None:
    """Begin an attempt of a locked run: the first one, or one after a failure."""
    values = {
        "attempt": run.attempt + 1,
        "awaits_attempt": False,
        "position": position,
        "connection_id": connection_id,
        "reason": "",
        "failure": None,
        "started_at": clock(),
    }
    if run.state is RunState.DUE:
        detail = {"job": run.name}
        _TRANSITIONS.apply(
            tx,
            run.id,
            RunState.DUE,
            RunState.RUNNING,
            actor=actor,
            values=values,
            detail=detail,
            is_locked=True,
        )
    else:
        tx.execute(update(table).where(table.c.id == run.id).values(values))


def set_columns(tx: Tx, run_id: str, values: Mapping[str, Any]) -> None:
    """Change columns of a locked run, apart from its state."""
    tx.execute(update(table).where(table.c.id == run_id).values(values))


def postpone(tx: Tx, run_id: str, seconds: float, *, reason: str, failure: Failure | None) -> None:
    """Let a locked run wait until its next attempt."""
    values = {"awaits_attempt": True, "due_at": clock(seconds), "reason": reason}
    set_columns(tx, run_id, {**values, "failure": failure})


def end(
    tx: Tx,
    run: JobRun,
    target: RunState,
    *,
    actor: str,
    reason: str = "",
    failure: Failure | None = None,
) -> bool:
    """End a locked run. Return whether a job has to take the end into account."""
    has_followers = triggers.note_end(tx, run)
    _TRANSITIONS.apply(
        tx,
        run.id,
        run.state,
        target,
        actor=actor,
        values={"reason": reason, "failure": failure},
        detail={"job": run.name, "logical_time": run.times.logical_time.isoformat()}
        | ({"reason": reason} if reason else {}),
        failure=failure,
        is_locked=True,
    )
    return has_followers


def set_turns(tx: Tx, run_ids: Collection[str]) -> None:
    """Store that runs have their turn. The operations that make them are inserted apart."""
    tx.execute(update(table).where(table.c.id.in_(sorted(run_ids))).values(has_turn=True))


def request_cancel(tx: Tx, run_id: str, *, actor: str) -> None:
    """Record that a user, or the next run, wants the end of a live run."""
    change = update(table).where(table.c.id == run_id, _LIVE, table.c.cancelled_by.is_(None))
    tx.execute(change.values(cancelled_by=actor))


def seconds_until_due(tx: Tx, run_id: str) -> float:
    """Return the seconds until a run may begin; 0 or less: it may."""
    seconds: float = tx.execute(
        select(-seconds_since(table.c.due_at)).where(table.c.id == run_id)
    ).scalar_one()
    return seconds


def seconds_in_attempt(tx: Tx, run_id: str) -> float:
    """Return the seconds since the begin of the attempt of a run."""
    query = select(seconds_since(table.c.started_at)).where(table.c.id == run_id)
    return tx.execute(query).scalar_one() or 0.0


def insert_statement(tx: Tx, run: JobRun, position: int, statement_id: str) -> None:
    """Record the intent to submit a statement of the attempt of a run."""
    row = {
        "run_id": run.id,
        "attempt": run.attempt,
        "position": position,
        "statement_id": statement_id,
    }
    tx.execute(insert(run_statements), row)


def find_statement(tx: Tx, run: JobRun) -> str | None:
    """Return the id of the statement in progress of a run, or None between two attempts."""
    if run.awaits_attempt:
        return None
    query = select(run_statements.c.statement_id).where(
        run_statements.c.run_id == run.id,
        run_statements.c.attempt == run.attempt,
        run_statements.c.position == run.position,
    )
    statement_id: str | None = tx.execute(query).scalar_one_or_none()
    return statement_id


def find_statements(tx: Tx, run_ids: Collection[str]) -> dict[str, str]:
    """Return the id of the last statement of each of these runs that has one, by the run."""
    query = (
        select(run_statements.c.run_id, run_statements.c.statement_id)
        .join(
            table,
            (table.c.id == run_statements.c.run_id)
            & (table.c.attempt == run_statements.c.attempt)
            & (table.c.position == run_statements.c.position),
        )
        .where(table.c.id.in_(sorted(run_ids)))
    )
    return {row.run_id: row.statement_id for row in tx.execute(query)}


def list_statements(tx: Tx, run_ids: Collection[str]) -> list[RunStatement]:
    """Return the statements of runs in the order in which they were submitted."""
    query = select(run_statements).where(run_statements.c.run_id.in_(run_ids))
    columns = (run_statements.c.run_id, run_statements.c.attempt, run_statements.c.position)
    return [RunStatement(**row) for row in tx.execute(query.order_by(*columns)).mappings()]


def _first(tx: Tx, query: Select[Any]) -> JobRun | None:
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else _to_run(row)


def _to_run(row: Mapping[Any, Any]) -> JobRun:
    values = dict(row)
    values["inputs"] = values["inputs"] or []
    times = RunTimes(**{field: values.pop(field) for field in _TIMES})
    return JobRun(times=times, **values)
