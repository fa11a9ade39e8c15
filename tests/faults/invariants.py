"""Invariants of every store, whatever has failed: pure functions over its rows.

Each check yields a sentence for each violation. Rows are mappings with the columns of the tables.
Events are in the order of their ids.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.model.lifecycle import (
    CATALOG_INTENT,
    DEPLOYMENT,
    JOB,
    OPERATION,
    SAVEPOINT,
    SESSION,
    STATEMENT,
    STREAM,
    TRANSACTION,
    DeploymentState,
    IntentState,
    JobState,
    Lifecycle,
    OperationState,
    SavepointState,
    SessionState,
    StatementState,
    StreamState,
    TransactionState,
)
from headrace.model.statement import RETRIED

Row = Mapping[str, Any]
S = TypeVar(
    "S",
    SessionState,
    StatementState,
    StreamState,
    TransactionState,
    IntentState,
    JobState,
    DeploymentState,
    OperationState,
    SavepointState,
)

# A launch or a takeover of a session in one of these states is an event without a new state.
_RELAUNCHABLE = frozenset({SessionState.STARTING, SessionState.RECOVERING, SessionState.CLOSING})


_JOB_AT_REST = frozenset({JobState.STOPPED, JobState.FAILED, JobState.DELETED})
"""The histories stop their jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a store at rest."""

    events: Sequence[Row]
    statements: Sequence[Row]
    sessions: Sequence[Row]
    results: Sequence[Row]
    transactions: Sequence[Row] = field(default_factory=list)
    stream_queries: Sequence[Row] = field(default_factory=list)
    catalog_intents: Sequence[Row] = field(default_factory=list)
    jobs: Sequence[Row] = field(default_factory=list)
    deployments: Sequence[Row] = field(default_factory=list)
    operations: Sequence[Row] = field(default_factory=list)
    savepoints: Sequence[Row] = field(default_factory=list)
    max_attempts: int = 2


def find_violations(rows: Rows) -> list[str]:
    """Return all violations of the invariants."""
    checks: list[Callable[[Rows], Iterator[str]]] = [
        check_statements_end_once,
        check_session_lifecycles,
        check_drivers_write_in_their_epoch,
        check_sessions_are_at_rest,
        check_successes_have_results,
        check_attempts,
        check_tables_match_statements,
        check_streams_end_as_users_want,
        check_intents,
        check_jobs,
    ]
    return [violation for check in checks for violation in check(rows)]


def check_statements_end_once(rows: Rows) -> Iterator[str]:
    """Check that each statement has ended once and that the lifecycle allows every change."""
    yield from _check_lifecycle(
        STATEMENT, StatementState, rows.events, rows.statements, frozenset()
    )
    for row in rows.statements:
        if row["state"] not in STATEMENT.terminal:
            yield f"statement {row['id']} has not ended: {row['state']}"


def check_session_lifecycles(rows: Rows) -> Iterator[str]:
    """Check that the lifecycle allows every change of a session."""
    yield from _check_lifecycle(SESSION, SessionState, rows.events, rows.sessions, _RELAUNCHABLE)


def check_drivers_write_in_their_epoch(rows: Rows) -> Iterator[str]:
    """Check that a driver changes something only in the epoch in which it owns its session."""
    epochs: dict[str, int] = defaultdict(int)
    for event in rows.events:
        driver = _parse_driver(event["actor"])
        if driver is not None and epochs[driver[0]] != driver[1]:
            session, epoch = driver
            yield (
                f"the driver of epoch {epoch} changed {event['entity']} {event['entity_id']}"
                f" to {event['target']} when session {session} was at epoch {epochs[session]}"
            )
        epoch = event["detail"].get("epoch")
        if event["entity"] == "session" and epoch is not None:
            is_takeover = "reason" in event["detail"]
            epoch += is_takeover
            if epoch < epochs[event["entity_id"]]:
                yield f"session {event['entity_id']} went back to epoch {epoch}"
            epochs[event["entity_id"]] = epoch


def check_sessions_are_at_rest(rows: Rows) -> Iterator[str]:
    """Check that each session has ended, is running, or waits without a driver for a statement.

    Warm sessions that are not assigned may be starting: the node replaces them at any time.
    """
    restful = SESSION.terminal | {SessionState.RUNNING, SessionState.RECOVERING}
    for row in rows.sessions:
        if row["state"] not in restful and not row["warm"]:
            yield f"session {row['id']} stays in state {row['state']}"
        if row["state"] is SessionState.RECOVERING and row["lease_until"] is not None:
            yield f"session {row['id']} is recovering and still has a lease"
        if row["fenced_driver"] is not None:
            yield f"session {row['id']} has a fenced driver whose takeover is not finished"


def check_successes_have_results(rows: Rows) -> Iterator[str]:
    """Check that successful statements have results, and no other statement has one."""
    with_result = {row["statement_id"] for row in rows.results}
    for row in rows.statements:
        succeeded = row["state"] is StatementState.SUCCESS
        if succeeded and row["id"] not in with_result:
            yield f"statement {row['id']} is success, without a result"
        if not succeeded and row["id"] in with_result:
            yield f"statement {row['id']} is {row['state']}, with a result"


def check_attempts(rows: Rows) -> Iterator[str]:
    """Check that only what is safe to retry is retried, up to the limit of attempts.

    The limit does not hold for a table that was being published: every new driver continues it.
    """
    begun = {row["statement_id"] for row in rows.transactions}
    harmless = {
        event["entity_id"]
        for event in rows.events
        if event["target"] == "waiting" and (event["detail"] or {}).get("effects") is False
    }
    published = {row["statement_id"] for row in rows.transactions if _was_publishing(rows, row)}
    for row in rows.statements:
        is_safe = row["is_query"] or row["command"] in RETRIED or row["id"] in begun | harmless
        limit = rows.max_attempts if is_safe else 1
        if row["attempts"] > limit and row["id"] not in published:
            yield f"statement {row['id']} has {row['attempts']} attempts: {row['text']}"


def check_tables_match_statements(rows: Rows) -> Iterator[str]:
    """Check that a successful CTAS has committed one table, and no other statement has.

    A CTAS with IF NOT EXISTS that is retried may find the table of another statement. It then
    commits none.
    """
    yield from _check_lifecycle(
        TRANSACTION, TransactionState, rows.events, rows.transactions, frozenset()
    )
    committed = Counter(
        row["statement_id"]
        for row in rows.transactions
        if row["state"] is TransactionState.COMMITTED
    )
    begun = {row["statement_id"] for row in rows.transactions}
    for row in rows.statements:
        is_noop = (row["note"] or "").startswith("Nothing was done")
        has_written = row["state"] is StatementState.SUCCESS and row["id"] in begun
        expected = int(has_written and not is_noop)
        if committed[row["id"]] != expected:
            yield f"statement {row['id']} is {row['state']}, with {committed[row['id']]} tables"


def check_streams_end_as_users_want(rows: Rows) -> Iterator[str]:
    """Check that each streaming query has ended, and has failed only with its statement or session.

    The queries of the histories fail for no reason of their own.
    """
    yield from _check_lifecycle(STREAM, StreamState, rows.events, rows.stream_queries, frozenset())
    failed = {row["id"] for row in rows.sessions if row["state"] is SessionState.FAILED}
    succeeded = {row["id"] for row in rows.statements if row["state"] is StatementState.SUCCESS}
    for row in rows.stream_queries:
        if row["state"] not in STREAM.terminal:
            yield f"the query {row['name']} has not ended: {row['state']}"
        is_blameless = row["session_id"] not in failed and row["statement_id"] in succeeded
        if row["state"] is StreamState.FAILED and is_blameless:
            yield f"the query {row['name']} failed: {row['last_error']}"
    for event in rows.events:
        is_end_of_pause = event["entity"] == "stream" and (event["source"], event["target"]) == (
            StreamState.PAUSED,
            StreamState.STOPPED,
        )
        if is_end_of_pause and _parse_driver(event["actor"]) is not None:
            yield f"{event['actor']} ended the pause of the query {event['entity_id']}"


def check_intents(rows: Rows) -> Iterator[str]:
    """Check the states of the intents for the catalog. None has a reason to fail."""
    intents = rows.catalog_intents
    yield from _check_lifecycle(CATALOG_INTENT, IntentState, rows.events, intents, frozenset())
    for row in intents:
        if row["state"] is IntentState.FAILED:
            yield f"the intent {row['id']} failed: {row['last_error']}"


def check_jobs(rows: Rows) -> Iterator[str]:
    """Check that every deployment has ended, and that no job or savepoint is left half-way."""
    yield from _check_lifecycle(JOB, JobState, rows.events, rows.jobs, frozenset())
    yield from _check_lifecycle(
        DEPLOYMENT, DeploymentState, rows.events, rows.deployments, frozenset()
    )
    yield from _check_lifecycle(
        OPERATION, OperationState, rows.events, rows.operations, frozenset()
    )
    yield from _check_lifecycle(
        SAVEPOINT, SavepointState, rows.events, rows.savepoints, frozenset()
    )
    for row in rows.jobs:
        if row["change_id"] is not None or row["state"] not in _JOB_AT_REST:
            yield f"the job {row['name']} is {row['state']}, in the change {row['change_id']}"
    for row in rows.deployments:
        if row["state"] not in DEPLOYMENT.terminal | {DeploymentState.PLANNED}:
            yield f"the deployment {row['id']} has not ended: {row['state']}"
    for row in rows.savepoints:
        if row["state"] in {SavepointState.COPYING, SavepointState.BROKEN}:
            yield f"the savepoint {row['place']} is {row['state']}"


def check_healthy_drivers_keep_their_leases(rows: Rows, *, after: int) -> Iterator[str]:
    """Check that no running driver was taken over, in a scenario that harms no driver.

    A driver that does not carry out a cancel is killed on purpose, also if a slow node has held the
    cancel back.

    Args:
        after: Id of the last event before the scenario.
    """
    for event in rows.events:
        is_takeover = event["entity"] == "session" and (event["source"], event["target"]) == (
            SessionState.RUNNING,
            SessionState.RECOVERING,
        )
        if event["id"] > after and is_takeover:
            reason = str(event["detail"].get("reason"))
            if not reason.startswith("it was killed because it did not stop"):
                yield f"the healthy driver of session {event['entity_id']} lost its lease: {reason}"


def check_submits_are_idempotent(
    answers: Mapping[str, Iterable[str]], statements: Iterable[Row]
) -> Iterator[str]:
    """Check that each submitted text has become one statement.

    Args:
        answers: The statement ids in the answers to each text, one for each submit.
        statements: The rows of all statements.
    """
    stored = Counter(row["text"] for row in statements)
    for text, ids in answers.items():
        if len(set(ids)) > 1 or stored[text] != 1:
            yield f"{text!r} became {stored[text]} statements; the answers: {sorted(set(ids))}"


def _was_publishing(rows: Rows, transaction: Row) -> bool:
    return any(
        event["entity_id"] == transaction["id"] and event["target"] == TransactionState.COMMITTING
        for event in rows.events
    )


def _check_lifecycle(
    lifecycle: Lifecycle[S],
    states: type[S],
    events: Sequence[Row],
    rows: Sequence[Row],
    repeatable: frozenset[S],
) -> Iterator[str]:
    """Check the events of all entities of a lifecycle, and that they lead to the rows.

    Args:
        repeatable: States that an event may repeat.
    """
    reached: dict[str, S] = {}
    for event in events:
        if event["entity"] == lifecycle.entity:
            source = None if event["source"] is None else states(event["source"])
            target = states(event["target"])
            previous = reached.get(event["entity_id"])
            fault = _check_transition(lifecycle, source, target, previous, repeatable)
            if fault is not None:
                yield f"{lifecycle.name} {event['entity_id']} {fault}"
            reached[event["entity_id"]] = target
    for row in rows:
        if row["state"] is not reached.get(row["id"]):
            last = reached.get(row["id"])
            yield f"{lifecycle.name} {row['id']} is {row['state']}, but its last event is {last}"


def _check_transition(
    lifecycle: Lifecycle[S],
    source: S | None,
    target: S,
    previous: S | None,
    repeatable: frozenset[S],
) -> str | None:
    """Return what is wrong with an event after the previous state, or None."""
    if source is not previous:
        return f"changed from {source} to {target}, but was {previous}"
    if source is None:
        return None if target is lifecycle.initial else f"began as {target}"
    if lifecycle.allows(source, target) or (source is target and target in repeatable):
        return None
    return f"changed from {source} to {target}, which is not allowed"


def _parse_driver(actor: str) -> tuple[str, int] | None:
    """Return session and epoch of the actor `driver:<session>:<epoch>`, None for other actors."""
    kind, _, rest = actor.partition(":")
    session, _, epoch = rest.partition(":")
    return (session, int(epoch)) if kind == "driver" else None
