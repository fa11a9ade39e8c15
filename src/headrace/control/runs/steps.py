"""The steps of a run: its statements one after the other, attempts again, its end.

A run is an operation of a node. It submits its statements as any client does, in a connection of
its own in the pool driver of its owner. The id of each statement is stored before it is submitted,
so that the next node finds it and does not submit it twice.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from headrace.control.context import NodeContext
from headrace.control.jobs.conditions import Conditions
from headrace.control.jobs.job_sessions import find_session, open_session
from headrace.control.jobs.live_runs import start_next
from headrace.control.jobs.operation_runner import Pause
from headrace.control.outbox.openlineage import OpenLineageEvents
from headrace.control.policy import Caller
from headrace.control.statements.service import Statements
from headrace.errors import (
    AlreadyEnded,
    AtomicityRequired,
    ConnectionNotFound,
    DriverLost,
    ExpectationFailed,
    ExpectationsUnknown,
    HeadraceError,
    InvalidExpectation,
    InvalidRequest,
    LeaseLost,
    MaterializedViewNotFound,
    NotPermitted,
    SessionConflict,
    StatementNotFound,
    StoreUnavailable,
    TimestampAmbiguous,
)
from headrace.model.connection import RUN_PROTOCOL, ConnectionSpec
from headrace.model.deployment import JobSession, JobVersion, OperationLease
from headrace.model.expectation import StatementChecks
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.job_messages import BindRows
from headrace.model.lifecycle import RUN, SESSION, STATEMENT, RunState, StatementState
from headrace.model.result import ResultRequest
from headrace.model.retry_policy import RetryPolicy
from headrace.model.run import INPUT_FILES, RUN_PARAMETERS, BatchSpec, JobRun, ResumeAt
from headrace.model.statement import Parameter, Statement, StatementSpec
from headrace.store import operations, transactions
from headrace.store.database import Tx
from headrace.store.jobs import expectations, file_watches, jobs, runs, schedules
from headrace.store.notifications import statement_topic
from headrace.store.sessions import connections
from headrace.store.statements import statements
from headrace.text.readable import describe_duration

_LOG = logging.getLogger("headrace.runs")
_POLL_SECONDS = (0.5, 2.0)
"""Shortest and longest time between two looks at a statement, whose end is a wake-up too."""
_ROWS = 1000
"""Rows that the result of a statement keeps. The rows of a job are in its table."""
_REFUSED_SECONDS = 5.0
"""Time after which a statement is submitted again that a limit has refused."""
_MOST_SPECS = 1000
"""Versions whose statements a node keeps in memory."""
_LONGEST_WAIT = 5.0
"""Longest time without a look at a run, so that a cancel is seen."""
_REFUSALS = (InvalidRequest, NotPermitted, SessionConflict, MaterializedViewNotFound)
"""Errors of a submit after which the run fails. After others, it is submitted again."""
_PERMANENT_STATES = ("42", "0A", "P0001")
"""Begins of SQLSTATEs of errors that another attempt meets again: wrong SQL, SQL that is not
supported, and `raise_error`."""
_PERMANENT_CODES = frozenset(
    {
        *("invalid_statement", "secret_misplaced", "permission_denied"),
        # The next attempt would read the same rows.
        *(ExpectationFailed.code, InvalidExpectation.code, AtomicityRequired.code),
        TimestampAmbiguous.code,
    }
)


@dataclass(frozen=True, slots=True)
class _Step:
    """What follows a transaction of a run."""

    seconds: float | None
    """Seconds until the next step; None: the run has ended."""
    submits: bool = False
    """Whether the statement of the run is submitted now."""
    cancels: str | None = None
    """Statement to cancel."""
    checks: StatementChecks | None = None
    """What the statement that has ended has counted for its expectations."""
    has_followers: bool = False
    """Whether jobs take the end of the run into account."""
    begun: JobRun | None = None
    """The run, if an attempt of it begins."""


class RunSteps:
    """Makes the runs that have their turn."""

    def __init__(
        self,
        context: NodeContext,
        service: Statements,
        observe_checks: Callable[[JobRun, StatementChecks | None], None] = lambda _run, _checks: (
            None
        ),
        observe_begin: Callable[[JobRun], None] = lambda _run: None,
    ) -> None:
        self._observe_checks = observe_checks
        self._observe_begin = observe_begin
        self._database = context.database
        self._settings = context.settings
        self._lease_seconds = context.lease_seconds
        self._actor = context.node_id
        self._service = service
        self._alerts = context.alerts
        self._openlineage = OpenLineageEvents(context.settings.openlineage)
        self._conditions = Conditions(context)
        self._specs: dict[str, BatchSpec] = {}
        """What versions do. It never changes, and each look at a run needs it."""
        # Tests of other code compare the state of the module's own generator.
        self._random = random.SystemRandom()

    def advance(self, lease: OperationLease, run_id: str) -> float | Pause | None:
        """Make the next step of a run if it is due. See `Advance`."""
        with self._database.read() as tx:
            pause = self._find_pause(tx, run_id)
        if pause is not None:
            return pause
        run, step = self._change(lease, run_id, self._make_step)
        if run is not None:
            self._observe_checks(run, step.checks)
        if step.begun is not None:
            self._observe_begin(step.begun)
        if run is not None and step.cancels is not None:
            self._cancel(run, step.cancels)
            return _await_end(step.cancels, _POLL_SECONDS[0])
        if step.submits:
            return self._submit(lease, run_id)
        if step.has_followers:
            # The next sweep would start them too, up to a second later.
            self._conditions.run()
        return step.seconds

    def _change(
        self, lease: OperationLease, run_id: str, make_step: Callable[[Tx, JobRun], _Step]
    ) -> tuple[JobRun | None, _Step]:
        """Make a step in a transaction that holds the lease and locks the run.

        Return the run before the step, None if it has ended, and the step. Raises LeaseLost.
        """
        with self._database.write("run.step") as tx:
            if not operations.renew(tx, lease, self._lease_seconds):
                raise LeaseLost(f"Operation {lease.id} has another node.")
            found = runs.get(tx, run_id)
            if found is not None:
                # Before the run: firings lock in this order.
                schedules.lock(tx, found.job_id)
            run = runs.lock(tx, run_id)
            if run is None or run.state in RUN.terminal:
                operations.finish(tx, lease)
                return None, _Step(None)
            step = make_step(tx, run)
            self._alerts.record_violations(tx, run, step.checks)
            if step.seconds is None:
                operations.finish(tx, lease)
        return run, step

    def _find_pause(self, tx: Tx, run_id: str) -> Pause | None:
        """Return how long nothing is to be done, or None if a step is due."""
        run = runs.get(tx, run_id)
        if run is None or run.state in RUN.terminal:
            return None
        statement_id = runs.find_statement(tx, run)
        statement = None if statement_id is None else statements.get(tx, statement_id)
        if statement is None or statement.state in STATEMENT.terminal:
            wait = runs.seconds_until_due(tx, run_id) if statement_id is None else 0.0
            is_wanted = run.cancelled_by is None and statement_id is None and wait > 0
            return Pause(min(wait, _LONGEST_WAIT)) if is_wanted else None
        spec = self._read_spec(tx, run)
        has_to_end = run.cancelled_by is not None or _is_late(tx, run, spec)
        if has_to_end and statement.state is not StatementState.CANCELLING:
            return None
        shortest, longest = _POLL_SECONDS
        seconds = min(max(runs.seconds_in_attempt(tx, run_id) / 10, shortest), longest)
        return _await_end(statement.id, seconds)

    def _read_spec(self, tx: Tx, run: JobRun) -> BatchSpec:
        spec = self._specs.get(run.version_id)
        if spec is None:
            version = jobs.get_version(tx, run.version_id)
            assert version is not None
            assert version.spec.batch is not None
            if len(self._specs) >= _MOST_SPECS:
                self._specs.clear()
            spec = self._specs[run.version_id] = version.spec.batch
        return spec

    def _make_step(self, tx: Tx, run: JobRun) -> _Step:
        spec = self._read_spec(tx, run)
        statement_id = runs.find_statement(tx, run)
        statement = None if statement_id is None else statements.get(tx, statement_id)
        if statement is not None and statement.state not in STATEMENT.terminal:
            # The run is cancelled, or its time limit has passed.
            return _Step(_POLL_SECONDS[0], cancels=statement.id)
        if statement is not None:
            return self._follow(tx, run, spec, statement)
        if run.cancelled_by is not None:
            return self._end(tx, run, RunState.CANCELLED, reason=f"by {run.cancelled_by}")
        begun = self._begin_attempt(tx, run, spec) if statement_id is None else None
        return _Step(0.0, submits=True, begun=begun)

    def _begin_attempt(self, tx: Tx, run: JobRun, spec: BatchSpec) -> JobRun:
        position, connection_id = run.position, run.connection_id
        connection = None if connection_id is None else connections.get(tx, connection_id)
        if connection is None or connection.ended_at is not None:
            # Temporary views and settings of earlier statements are gone. To run these again could
            # write twice.
            connection = connections.insert_connection(
                tx, run.owner, RUN_PROTOCOL, ConnectionSpec(conf=spec.conf)
            )
        if spec.resume_at is ResumeAt.START:
            position = 0
        position = self._skip_creation(tx, run, spec, position)
        runs.begin_attempt(
            tx, run, position=position, connection_id=connection.id, actor=self._actor
        )
        begun = runs.get(tx, run.id)
        assert begun is not None
        _insert_statement(tx, begun, position, spec)
        self._openlineage.begin(tx, begun)
        return begun

    def _follow(self, tx: Tx, run: JobRun, spec: BatchSpec, statement: Statement) -> _Step:
        """Continue after the end of the statement of a run."""
        if statement.state is StatementState.SUCCESS or self._has_committed(tx, statement):
            return self._follow_write(tx, run, spec, statement)
        if self._is_in_doubt(tx, statement):
            # Its write may become visible: only then is it known whether to write again.
            return _Step(_POLL_SECONDS[1])
        is_cancelled = statement.state is StatementState.CANCELLED and not _is_late(tx, run, spec)
        if run.cancelled_by is not None or is_cancelled:
            by = run.cancelled_by
            reason = f"by {by}" if by else f"statement {statement.id} was cancelled"
            return self._end(tx, run, RunState.CANCELLED, reason=reason)
        failure = _describe_failure(tx, run, spec, statement)
        if failure.code == DriverLost.code and statement.atomic is not True:
            # It was lost after Spark had begun it: a second one could write twice.
            return self._end(tx, run, RunState.FAILED, failure=failure)
        step = self._fail(tx, run, spec, failure)
        return replace(step, checks=_find_checks(tx, run, spec, statement))

    def _go_on(self, tx: Tx, run: JobRun, spec: BatchSpec) -> _Step:
        """Submit the next statement of a run, or end it after the last one."""
        position = self._skip_creation(tx, run, spec, run.position + 1)
        if position == len(spec.statements):
            return self._end(tx, run, RunState.SUCCEEDED)
        if run.cancelled_by is not None:
            return self._end(tx, run, RunState.CANCELLED, reason=f"by {run.cancelled_by}")
        self._openlineage.end_statement(tx, run, RunState.SUCCEEDED)
        runs.set_columns(tx, run.id, {"position": position})
        _insert_statement(tx, run, position, spec)
        self._openlineage.begin(tx, replace(run, position=position))
        return _Step(0.0, submits=True)

    def _follow_write(self, tx: Tx, run: JobRun, spec: BatchSpec, statement: Statement) -> _Step:
        """Continue after a statement that has succeeded, if its expectations were counted."""
        checks = _find_checks(tx, run, spec, statement)
        if checks is None or checks.counts is not None:
            return replace(self._go_on(tx, run, spec), checks=checks)
        error = ExpectationsUnknown(
            f"The rows of statement {statement.id} are in the table, but its driver has not"
            " reported what it counted, so that the expectations are not proven."
        )
        return self._end(tx, run, RunState.FAILED, failure=Failure.of(error))

    def _skip_creation(self, tx: Tx, run: JobRun, spec: BatchSpec, position: int) -> int:
        """Return the position of the first statement, from a position on, that a run needs.

        The statement that creates the target table is not the last one.
        """
        if position == len(spec.statements) or not spec.statements[position].creates_target:
            return position
        has_target = runs.has_succeeded(tx, run.job_id, run.version_id)
        return position + 1 if has_target else position

    def _has_committed(self, tx: Tx, statement: Statement) -> bool:
        """Return whether the write of a statement that has failed is visible."""
        return transactions.has_committed(tx, statement.id)

    def _is_in_doubt(self, tx: Tx, statement: Statement) -> bool:
        """Return whether the write of a statement that has ended may still become visible."""
        return transactions.live(tx, statement.id) is not None

    def _fail(self, tx: Tx, run: JobRun, spec: BatchSpec, failure: Failure) -> _Step:
        """Attempt a run again later, or end it."""
        retries = spec.retries
        policy = RetryPolicy(
            max_attempts=retries.max_attempts,
            min_backoff=retries.min_backoff,
            max_backoff=retries.max_backoff,
            random_factor=retries.random_factor,
        )
        failures = run.attempt - 1
        if _is_permanent(failure) or not policy.allows(failures + 1):
            return self._end(tx, run, RunState.FAILED, failure=failure)
        self._openlineage.end_statement(tx, run, RunState.FAILED, failure)
        delay = policy.delay(failures, self._random.random()).total_seconds()
        reason = f"Attempt {run.attempt} has failed."
        runs.postpone(tx, run.id, delay, reason=reason, failure=failure)
        return _Step(min(delay, _LONGEST_WAIT))

    def _end(
        self,
        tx: Tx,
        run: JobRun,
        target: RunState,
        *,
        reason: str = "",
        failure: Failure | None = None,
    ) -> _Step:
        has_followers = runs.end(tx, run, target, actor=self._actor, reason=reason, failure=failure)
        self._openlineage.end_run(tx, run, target, failure)
        if target is RunState.FAILED:
            self._alerts.record_failed_run(tx, run, failure)
        if run.connection_id is not None:
            connections.close(tx, run.connection_id)
        start_next(tx, run.job_id, actor=self._actor)
        return _Step(None, has_followers=has_followers)

    def _cancel(self, run: JobRun, statement_id: str) -> None:
        try:
            self._service.cancel(_act_as(run), statement_id)
        except (AlreadyEnded, StatementNotFound):
            # It has ended by itself.
            return

    def _submit(self, lease: OperationLease, run_id: str) -> float | Pause | None:
        """Submit the statement of a run, whose id is stored."""
        with self._database.read() as tx:
            run = runs.get(tx, run_id)
            assert run is not None
            statement_id = runs.find_statement(tx, run)
            assert statement_id is not None
            is_submitted = statements.get(tx, statement_id) is not None
            version = jobs.get_version(tx, run.version_id)
            has_files = any(each.location is not None for each in run.inputs)
            files = file_watches.list_run_files(tx, run.id) if has_files else []
        assert version is not None
        assert version.spec.batch is not None
        spec, parameters = version.spec.batch, list_parameters(run, version, files)
        if is_submitted:
            return _await_end(statement_id, _POLL_SECONDS[0])
        part = spec.statements[run.position]
        statement = StatementSpec(
            text=part.text,
            parameters=parameters,
            conf={**spec.conf, **part.conf},
            result_request=ResultRequest(row_limit=_ROWS),
        )
        try:
            session_id = None
            if not spec.in_pool:
                session_id = self._open_session(run.owner, version.spec.session)
                if session_id is None:
                    return _POLL_SECONDS[1]
            self._service.submit(
                _act_as(run),
                statement,
                session=session_id,
                connection=run.connection_id,
                statement_id=statement_id,
                rows=None if part.code is None else BindRows(code=part.code),
                awaited=True,
            )
        except _REFUSALS as error:
            self._refuse(lease, run_id, Failure.of(error))
            return None
        except (StoreUnavailable, ConnectionNotFound):
            raise
        except HeadraceError as error:
            _LOG.warning("run %s waits: %s", run_id, error.message)
            return _REFUSED_SECONDS
        return _await_end(statement_id, _POLL_SECONDS[0])

    def _open_session(self, owner: str, wanted: JobSession) -> str | None:
        """Return the session of a job that has one of its own; None: ask again a moment later."""
        with self._database.read() as tx:
            present = find_session(tx, owner, wanted)
        is_open = present is not None and present.state in SESSION.accepting
        if present is not None and is_open and present.spec == wanted.spec:
            return present.id
        with self._database.write("run.session") as tx:
            return open_session(tx, self._settings, owner, wanted)

    def _refuse(self, lease: OperationLease, run_id: str, failure: Failure) -> None:
        """End a run whose statement is not accepted."""
        self._change(
            lease, run_id, lambda tx, run: self._end(tx, run, RunState.FAILED, failure=failure)
        )


def _await_end(statement_id: str, seconds: float) -> Pause:
    """Return a pause until the end of a statement, at most for some seconds."""
    return Pause(seconds, topic=statement_topic(statement_id))


def _insert_statement(tx: Tx, run: JobRun, position: int, spec: BatchSpec) -> None:
    """Record the intent to submit a statement of the attempt of a run."""
    statement_id = new_id("st")
    runs.insert_statement(tx, run, position, statement_id)
    conditions = spec.statements[position].expectations
    if conditions:
        expectations.insert_expectations(tx, run, statement_id, conditions)


def _find_checks(
    tx: Tx, run: JobRun, spec: BatchSpec, statement: Statement
) -> StatementChecks | None:
    """Return what the statement of a run has counted, or None if it has no expectations."""
    if not spec.statements[run.position].expectations:
        return None
    return expectations.find(tx, statement.id)


def _is_late(tx: Tx, run: JobRun, spec: BatchSpec) -> bool:
    """Return whether the attempt of a run has taken longer than its limit."""
    limit = spec.time_limit
    return limit is not None and runs.seconds_in_attempt(tx, run.id) > limit.total_seconds()


def _describe_failure(tx: Tx, run: JobRun, spec: BatchSpec, statement: Statement) -> Failure:
    if spec.time_limit is not None and _is_late(tx, run, spec):
        limit = describe_duration(spec.time_limit.total_seconds())
        return Failure(
            code="time_limit",
            message=f"The attempt has taken longer than {limit} (time-limit).",
        )
    return statement.failure or Failure(
        code=f"statement_{statement.state}",
        message=f"Statement {statement.id} is {statement.state}.",
    )


def list_parameters(run: JobRun, version: JobVersion, files: list[str]) -> list[Parameter]:
    """Return the typed values that the statements of a run can name.

    Args:
        files: URIs of the files that the run has to read.
    """
    instants = {
        "run_time": run.times.logical_time,
        "interval_start": run.times.interval_start,
        "interval_end": run.times.interval_end,
        "query_create_timestamp": version.query_created_at,
    }
    values: dict[str, Any] = {
        **{name: _format(instant) for name, instant in instants.items()},
        "run_id": run.id,
        "query_name": run.name,
        "query_description": version.spec.description,
        "query_id": version.query_id,
        "query_version": version.version,
        INPUT_FILES: files,
    }
    return [
        Parameter(name=name, value=values[name], type=type_)
        for name, type_ in RUN_PARAMETERS.items()
    ]


def _format(instant: datetime) -> str:
    """Return an instant with its offset: the time zone of the Spark session does not matter."""
    return instant.astimezone(UTC).isoformat()


def _is_permanent(failure: Failure) -> bool:
    """Return whether another attempt would fail in the same way."""
    sqlstate = failure.sqlstate or ""
    return failure.code in _PERMANENT_CODES or sqlstate.startswith(_PERMANENT_STATES)


def _act_as(run: JobRun) -> Caller:
    """Return the owner of a run as a caller: a schedule has no credentials of its own."""
    return Caller(owner=run.owner)
