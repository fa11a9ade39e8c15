"""Why a statement, a stream, a job or a run is in its state: a sentence for users, and a code.

The functions are pure. The API, the commands and the pages show what they return.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from headrace.model.deployment import Job, JobChange
from headrace.model.failure import Failure
from headrace.model.freshness import Freshness
from headrace.model.lifecycle import (
    STATEMENT,
    ChangeStep,
    JobState,
    RunState,
    StatementState,
    StreamState,
)
from headrace.model.run import JobRun
from headrace.model.statement import CancelReason, Statement, WaitingFor
from headrace.model.stream_query import QueryAttempt, StreamQuery, describe_end
from headrace.text.readable import describe_count, describe_duration, format_utc


class ReasonCode(StrEnum):
    """Kinds of reasons. Those for which a statement waits are the same as in `WaitCode`."""

    SESSION_START = "session_start"
    SESSION_RECOVERY = "session_recovery"
    SESSION_CLOSING = "session_closing"
    CONNECTION = "connection"
    QUEUE = "queue"
    EXCLUSIVE = "exclusive"
    PARALLELISM = "parallelism"
    LIMIT = "limit"
    DRIVER = "driver"
    WRITE_LOCK = "write_lock"
    TRANSACTION = "transaction"
    NO_STAGE = "no_stage"
    TASKS = "tasks"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    FAILED = "failed"
    DRIVER_LOST = "driver_lost"
    STARTING = "starting"
    RETRY = "retry"
    STOPPING = "stopping"
    PAUSED = "paused"
    STOPPED = "stopped"
    CHANGE = "change"
    CONDITIONS = "conditions"
    RUN_BEFORE = "run_before"
    DELAY = "delay"
    DUE = "due"
    STATEMENT = "statement"
    SKIPPED = "skipped"
    FILES = "files"
    LAG = "lag"


MEANINGS: dict[ReasonCode, tuple[str, str]] = {
    ReasonCode.SESSION_START: (
        "statement",
        "It waits for the driver of its session, which starts.",
    ),
    ReasonCode.SESSION_RECOVERY: (
        "statement",
        "The driver of its session was lost: it waits for the next driver.",
    ),
    ReasonCode.SESSION_CLOSING: ("statement", "Its session closes, and cancels it."),
    ReasonCode.CONNECTION: ("statement", "It waits for the statement before it in its connection."),
    ReasonCode.QUEUE: ("statement", "It waits for the statements before it in its session."),
    ReasonCode.EXCLUSIVE: ("statement", "It, or the statement before it, runs alone."),
    ReasonCode.PARALLELISM: ("statement", "Its session runs as many statements as it may."),
    ReasonCode.LIMIT: ("statement", "Its user, or all users, run as many statements as they may."),
    ReasonCode.DRIVER: ("statement", "It is next: the driver of its session claims it."),
    ReasonCode.WRITE_LOCK: ("statement", "Another statement writes to its table."),
    ReasonCode.TRANSACTION: ("statement", "Another statement publishes the same table."),
    ReasonCode.NO_STAGE: ("statement", "A driver has it, and Spark has reported no stage yet."),
    ReasonCode.TASKS: ("statement", "Spark runs its tasks."),
    ReasonCode.CANCELLING: (
        "statement, run",
        "A cancel is requested, and the driver has not confirmed it.",
    ),
    ReasonCode.CANCELLED: ("statement, run", "It was cancelled."),
    ReasonCode.TIMEOUT: ("statement", "It has run or waited longer than it may."),
    ReasonCode.FAILED: (
        "statement, stream, job, run",
        "It failed. The text is the message of the error.",
    ),
    ReasonCode.DRIVER_LOST: ("statement", "It failed, because its driver was lost."),
    ReasonCode.STARTING: ("stream, job", "No driver has reported a run yet."),
    ReasonCode.RETRY: ("stream, job, run", "It has failed, and is started again at a time."),
    ReasonCode.STOPPING: ("stream, job", "Its driver stops it."),
    ReasonCode.PAUSED: ("stream, job", "A user has paused it."),
    ReasonCode.STOPPED: ("stream, job", "It was stopped."),
    ReasonCode.CHANGE: ("job", "A deployment, or an action of a user, changes the job."),
    ReasonCode.CONDITIONS: (
        "run",
        "Its time has come, and it waits for other conditions of its schedule.",
    ),
    ReasonCode.RUN_BEFORE: ("run", "It waits for another run of its job."),
    ReasonCode.DELAY: ("run", "It begins when the `delay` of its job has passed."),
    ReasonCode.DUE: ("run", "It is next: a node begins it."),
    ReasonCode.STATEMENT: ("run", "Its statement has not ended. The text says why."),
    ReasonCode.SKIPPED: ("run", "It was skipped. The text says why."),
    ReasonCode.FILES: ("job", "A node cannot list the files that start its runs."),
    ReasonCode.LAG: (
        "job",
        "Its lag exceeds `max-lag`, or its runs take too long or read tables that do not count.",
    ),
}
"""What has a reason of each kind, and what the reason is, for the reference."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an object is in its state."""

    code: ReasonCode
    text: str
    """The reason as a sentence."""
    retry_at: datetime | None = None
    """Time of the next attempt, if the sentence says in how long it is."""


_ENDS = {
    StatementState.CANCELLED: ReasonCode.CANCELLED,
    StatementState.TIMEOUT: ReasonCode.TIMEOUT,
    StatementState.FAILED: ReasonCode.FAILED,
}


_CANCELS: dict[CancelReason | None, str] = {
    CancelReason.REQUESTED: "Cancelled on request.",
    CancelReason.CLOSED: "Cancelled, because its session was closed.",
}


def explain_statement(statement: Statement, waiting_for: WaitingFor | None = None) -> Reason | None:
    """Return why a statement has not ended, or has not succeeded; None for a success.

    Args:
        waiting_for: What it waits for. Without it, a statement that waits has no reason.
    """
    if statement.state in STATEMENT.terminal:
        return _explain_end(statement)
    if statement.cancel_requested_at is not None:
        note = statement.cancel_note or "the driver has not confirmed it yet."
        return Reason(ReasonCode.CANCELLING, f"It is being cancelled: {note}")
    if waiting_for is not None:
        return Reason(ReasonCode(waiting_for.code), waiting_for.text)
    return None if statement.state is StatementState.WAITING else _explain_run(statement)


def _explain_end(statement: Statement) -> Reason | None:
    code = _ENDS.get(statement.state)
    if code is ReasonCode.CANCELLED and statement.cancel_reason in _CANCELS:
        return Reason(code, _CANCELS[statement.cancel_reason])
    return None if code is None else _explain_failure(statement.failure, code)


def _explain_run(statement: Statement) -> Reason:
    progress = statement.progress
    if statement.state is StatementState.RUNNING and progress is not None and progress.tasks_total:
        if progress.tasks_done >= progress.tasks_total and not progress.tasks_active:
            all_done = f"All of {describe_count(progress.tasks_total, 'task')} done"
            rest = "its driver is writing the result, or Spark plans further tasks."
            return Reason(ReasonCode.TASKS, f"{all_done}: {rest}")
        done = f"{progress.tasks_done:,} of {describe_count(progress.tasks_total, 'task')} done"
        return Reason(ReasonCode.TASKS, f"{done}, {progress.tasks_active:,} running.")
    begin = "A driver has claimed it, and " if statement.state is StatementState.LAUNCHED else ""
    return Reason(ReasonCode.NO_STAGE, f"{begin}Spark has not reported a stage yet.")


def _explain_failure(failure: Failure | None, code: ReasonCode) -> Reason:
    if failure is None:
        return Reason(code, f"{code.capitalize()}.")
    if failure.code == "driver_lost":
        code = ReasonCode.DRIVER_LOST
    return Reason(code, failure.summarize().text)


def explain_stream(
    query: QueryAttempt, now: datetime | None = None, *, retries: int | None = None
) -> Reason | None:
    """Return why a streaming query does not run; None while it runs.

    Args:
        now: Time of the store, for a text that says in how many seconds the next attempt is. None:
            the text has the time of the attempt, and stays the same.
        retries: Largest number of successive failures after which it is started again; None: any.
    """
    error = "." if query.last_error is None else f": {query.last_error.summarize().text}"
    end = None if query.end_reason is None else describe_end(query.end_reason)["reason"]
    most = "∞" if retries is None else f"{retries:,}"
    retry = f"{query.failures} of {most} {_describe_retry(query.retry_at, now)}"
    reasons = {
        StreamState.STARTING: (ReasonCode.STARTING, "No driver has reported a run yet."),
        StreamState.PAUSED: (ReasonCode.PAUSED, "Paused by a user."),
        StreamState.BACKING_OFF: (ReasonCode.RETRY, f"Retry {retry}{error}"),
        StreamState.STOPPING: (
            ReasonCode.STOPPING,
            f"Its driver stops it{f' ({end})' if end else ''}. Then it is {query.wanted}.",
        ),
        StreamState.FAILED: (ReasonCode.FAILED, f"Failed{error}"),
        StreamState.STOPPED: (ReasonCode.STOPPED, f"Stopped: {end}." if end else "Stopped."),
    }
    found = reasons.get(query.state)
    if found is None:
        return None
    return Reason(*found, retry_at=query.retry_at if found[0] is ReasonCode.RETRY else None)


def _describe_retry(retry_at: datetime | None, now: datetime | None) -> str:
    if retry_at is None:
        return "is due"
    if now is None:
        return f"at {format_utc(retry_at)}"
    remaining = (retry_at - now).total_seconds()
    return f"in {describe_duration(remaining)}" if remaining > 0 else "is due"


_STEPS = {
    ChangeStep.PLANNED: "it has not begun to stop the old queries",
    ChangeStep.STOP_WANTED: "the old queries stop",
    ChangeStep.STOPPED: "the state is copied",
    ChangeStep.VERIFIED: "the state of the new version is prepared",
    ChangeStep.RESTORED: "the new queries are started",
    ChangeStep.STARTED: "the new queries have not committed a batch yet",
    ChangeStep.PROVEN: "the new queries run, and the change ends",
    ChangeStep.UNDOING: "the new queries stop, because the change has failed",
}
_TROUBLES = (
    ReasonCode.FAILED,
    ReasonCode.RETRY,
    ReasonCode.STOPPED,
    ReasonCode.PAUSED,
    ReasonCode.STOPPING,
    ReasonCode.STARTING,
)
"""Reasons of the queries of a job, the worst first."""


def explain_job(
    job: Job,
    change: JobChange | None,
    queries: Sequence[tuple[StreamQuery, Reason | None]],
    *,
    is_batch: bool = False,
    files_problem: str | None = None,
) -> Reason | None:
    """Return why a job does not run as it should; None if all of its queries run.

    Args:
        change: The change that is in progress, if the store still has it.
        queries: Its live queries, each with the reason for which it does not run.
        is_batch: Whether it has a schedule, and no queries.
        files_problem: Why the files of its schedule cannot start runs; None: they can.
    """
    if job.change_id is not None:
        text = "A change of the job is in progress"
        if change is not None:
            text += f" ({change.record.action})"
            step = _STEPS.get(change.step)
            text += f": {step}" if step else ""
        return Reason(ReasonCode.CHANGE, f"{text}.")
    if job.state is JobState.FAILED:
        return _explain_failure(job.failure, ReasonCode.FAILED)
    if job.state is JobState.STOPPED and is_batch:
        text = f"Paused: its schedule starts no runs. `headrace job start {job.name}` continues it."
        return Reason(ReasonCode.STOPPED, text)
    if job.state is JobState.STOPPED:
        text = f"Stopped. `headrace job start {job.name}` starts it from its latest state."
        return Reason(ReasonCode.STOPPED, text)
    if files_problem is not None:
        return Reason(ReasonCode.FILES, files_problem)
    return _explain_queries(queries)


def _explain_queries(queries: Sequence[tuple[StreamQuery, Reason | None]]) -> Reason | None:
    found = [(query, reason) for query, reason in queries if reason is not None]
    if not found:
        return None
    query, reason = min(found, key=lambda each: _rank(each[1]))
    return Reason(reason.code, f"The query {query.name}: {reason.text}", reason.retry_at)


def explain_lag(freshness: Freshness) -> Reason | None:
    """Return why a job does not keep its `max-lag`; None if it does."""
    limit = f"`max-lag` is {_describe(freshness.max_lag)}"
    sentences = []
    if freshness.is_exceeded:
        behind = _describe(freshness.lag)
        sentences.append(f"Its rows are {behind} behind its tables, and {limit}.")
    if freshness.is_unattainable:
        assert freshness.expected is not None
        assert freshness.reachable_lag is not None
        sentences.append(
            f"The limit is unattainable while tables change all the time: {limit}, and a run takes"
            f" {_describe(freshness.expected)}. The next run reads what changes during a run, so"
            f" that changes can get {_describe(freshness.reachable_lag)} old."
        )
    if freshness.unwatched:
        first, *others = freshness.unwatched
        more = f" and {describe_count(len(others), 'other')}" if others else ""
        sentences.append(
            f"Its runs read {first}{more}, whose changes do not count. Name all tables in `of`."
        )
    return Reason(ReasonCode.LAG, " ".join(sentences)) if sentences else None


def _describe(duration: timedelta) -> str:
    return describe_duration(duration.total_seconds())


def _rank(reason: Reason) -> int:
    return _TROUBLES.index(reason.code) if reason.code in _TROUBLES else len(_TROUBLES)


def explain_run(
    run: JobRun,
    now: datetime,
    *,
    attempts: int | None = None,
    before: str | None = None,
    unmet: str = "",
    statement: tuple[Statement, Reason | None] | None = None,
) -> Reason | None:
    """Return why a run has not ended, or has not succeeded; None for a success.

    Args:
        now: Time of the store.
        attempts: Largest number of its attempts; None: not known.
        before: Another run of its job for which it waits; None: it waits for none.
        unmet: What its schedule waits for, if it waits for conditions.
        statement: Its statement in progress, with the reason of the statement.
    """
    if run.state is RunState.DUE:
        return _explain_due(run, now, before, unmet)
    if run.state is RunState.RUNNING:
        return _explain_attempt(run, now, attempts, statement)
    if run.state is RunState.FAILED:
        return _explain_failure(run.failure, ReasonCode.FAILED)
    if run.state is RunState.SKIPPED:
        return Reason(ReasonCode.SKIPPED, run.reason)
    if run.state is RunState.CANCELLED:
        return Reason(ReasonCode.CANCELLED, f"Cancelled ({run.reason}).")
    return None


def _explain_due(run: JobRun, now: datetime, before: str | None, unmet: str) -> Reason:
    if run.cancelled_by is not None:
        return Reason(ReasonCode.CANCELLING, f"It is being cancelled by {run.cancelled_by}.")
    if run.awaits_conditions:
        return Reason(ReasonCode.CONDITIONS, f"It waits for {unmet}.")
    if not run.has_turn:
        other = "another run" if before is None else f"the run {before}"
        return Reason(ReasonCode.RUN_BEFORE, f"It waits for {other} of its job.")
    seconds = (run.due_at - now).total_seconds()
    if seconds > 0:
        text = f"It is due in {describe_duration(seconds)}: its job has a delay."
        return Reason(ReasonCode.DELAY, text, run.due_at)
    return Reason(ReasonCode.DUE, "It is next: a node begins it.")


def _explain_attempt(
    run: JobRun,
    now: datetime,
    attempts: int | None,
    statement: tuple[Statement, Reason | None] | None,
) -> Reason:
    if run.cancelled_by is not None:
        text = f"It is being cancelled by {run.cancelled_by}: its statement has not ended."
        return Reason(ReasonCode.CANCELLING, text)
    if run.awaits_attempt:
        most = "" if attempts is None else f" of {attempts:,}"
        error = "." if run.failure is None else f": {run.failure.summarize().text}"
        text = f"Attempt {run.attempt + 1}{most} {_describe_retry(run.due_at, now)}{error}"
        return Reason(ReasonCode.RETRY, text, run.due_at)
    if statement is None:
        return Reason(ReasonCode.STATEMENT, "Its statement is being submitted.")
    found, reason = statement
    why = "." if reason is None else f": {reason.text}"
    return Reason(ReasonCode.STATEMENT, f"Statement {found.id} is {found.state}{why}")
