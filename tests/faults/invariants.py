"""What must hold of every store, whatever has died meanwhile: pure functions over its rows.

Each returns what it found wrong, in words; nothing, when all is well. Rows are mappings with the
columns of the tables; events are in the order of their ids.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.model.lifecycle import (
    SESSION,
    STATEMENT,
    TRANSACTION,
    Lifecycle,
    SessionState,
    StatementState,
    TransactionState,
)

Row = Mapping[str, Any]
S = TypeVar("S", SessionState, StatementState, TransactionState)

# A launch or a takeover of these is an event without a change of state.
_RELAUNCHED = {SessionState.STARTING, SessionState.RECOVERING, SessionState.CLOSING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A store at rest."""

    events: list[Row]
    statements: list[Row]
    sessions: list[Row]
    results: list[Row]
    transactions: list[Row] = field(default_factory=list)
    max_attempts: int = 2


def violations(rows: Rows) -> list[str]:
    """Everything that is wrong."""
    checks: list[Callable[[Rows], Iterator[str]]] = [
        statements_end_once,
        sessions_follow_their_lifecycle,
        one_epoch_writes,
        sessions_are_at_rest,
        successes_have_results,
        only_what_is_safe_runs_again,
        tables_agree_with_their_statements,
    ]
    return [wrong for check in checks for wrong in check(rows)]


def statements_end_once(rows: Rows) -> Iterator[str]:
    """Each has one end, nothing follows it, and the lifecycle allows every step."""
    yield from _followed(STATEMENT, StatementState, rows.events, rows.statements, frozenset())
    for row in rows.statements:
        if row["state"] not in STATEMENT.terminal:
            yield f"statement {row['id']} has not ended: {row['state']}"


def sessions_follow_their_lifecycle(rows: Rows) -> Iterator[str]:
    """Every step is allowed, and none revives what has ended."""
    same = frozenset(_RELAUNCHED)
    yield from _followed(SESSION, SessionState, rows.events, rows.sessions, same)


def one_epoch_writes(rows: Rows) -> Iterator[str]:
    """No driver changes anything after its session was taken from it, or before it had it."""
    held: dict[str, int] = defaultdict(int)
    for event in rows.events:
        told = _driver_of(event["actor"])
        if told is not None and held[told[0]] != told[1]:
            what = f"{event['entity']} {event['entity_id']} to {event['target']}"
            yield (
                f"the driver of epoch {told[1]} brought {what},"
                f" when epoch {held[told[0]]} had session {told[0]}"
            )
        epoch = event["detail"].get("epoch")
        if event["entity"] == "session" and epoch is not None:
            fenced_off = "reason" in event["detail"]
            epoch += fenced_off
            if epoch < held[event["entity_id"]]:
                yield f"session {event['entity_id']} went back to epoch {epoch}"
            held[event["entity_id"]] = epoch


def sessions_are_at_rest(rows: Rows) -> Iterator[str]:
    """Ended, running, or without a driver until somebody needs one.

    Of spare ones, which are nobody's yet, another is made at any time.
    """
    restful = SESSION.terminal | {SessionState.RUNNING, SessionState.RECOVERING}
    for row in rows.sessions:
        if row["state"] not in restful and not row["warm"]:
            yield f"session {row['id']} is {row['state']} for ever"
        if row["state"] is SessionState.RECOVERING and row["lease_until"] is not None:
            yield f"session {row['id']} recovers, and somebody still answers for its driver"
        if row["fenced_driver"] is not None:
            yield f"session {row['id']} has a lost driver that nobody has ended"


def successes_have_results(rows: Rows) -> Iterator[str]:
    """And nothing else has one."""
    have = {row["statement_id"] for row in rows.results}
    for row in rows.statements:
        succeeded = row["state"] is StatementState.SUCCESS
        if succeeded and row["id"] not in have:
            yield f"statement {row['id']} is a success without a result"
        if not succeeded and row["id"] in have:
            yield f"statement {row['id']} has a result and is {row['state']}"


def only_what_is_safe_runs_again(rows: Rows) -> Iterator[str]:
    """What may change something is tried once; a query, and a table in two phases, not for ever.

    A table that was being published is taken up by as many drivers as it takes.
    """
    begun = {row["statement_id"] for row in rows.transactions}
    published = {row["statement_id"] for row in rows.transactions if _was_publishing(rows, row)}
    for row in rows.statements:
        most = rows.max_attempts if row["is_query"] or row["id"] in begun else 1
        if row["attempts"] > most and row["id"] not in published:
            yield f"statement {row['id']} was tried {row['attempts']} times: {row['text']}"


def tables_agree_with_their_statements(rows: Rows) -> Iterator[str]:
    """A success has published its table once; nothing else has."""
    yield from _followed(TRANSACTION, TransactionState, rows.events, rows.transactions, frozenset())
    committed = Counter(
        row["statement_id"]
        for row in rows.transactions
        if row["state"] is TransactionState.COMMITTED
    )
    begun = {row["statement_id"] for row in rows.transactions}
    for row in rows.statements:
        expected = int(row["state"] is StatementState.SUCCESS and row["id"] in begun)
        if committed[row["id"]] != expected:
            yield f"statement {row['id']} is {row['state']}, with {committed[row['id']]} tables"


def _was_publishing(rows: Rows, transaction: Row) -> bool:
    mine = (event for event in rows.events if event["entity_id"] == transaction["id"])
    return any(event["target"] == TransactionState.COMMITTING for event in mine)


def submits_gave_one_statement(
    answers: Mapping[str, Iterable[str]], statements: Iterable[Row]
) -> Iterator[str]:
    """`answers`: the ids that each text was answered with, as often as it was submitted."""
    stored = Counter(row["text"] for row in statements)
    for text, ids in answers.items():
        if len(set(ids)) > 1 or stored[text] != 1:
            yield f"{text!r} became {stored[text]} statements, answered as {sorted(set(ids))}"


def _followed(
    lifecycle: Lifecycle[S],
    states: type[S],
    events: list[Row],
    rows: list[Row],
    same: frozenset[S],
) -> Iterator[str]:
    reached: dict[str, S] = {}
    for event in events:
        if event["entity"] != lifecycle.name:
            continue
        key, target = event["entity_id"], states(event["target"])
        source = None if event["source"] is None else states(event["source"])
        known, reached[key] = reached.get(key), target
        if source is not known:
            yield f"{lifecycle.name} {key} went from {source} to {target}, but was {known}"
        elif source is None:
            if target is not lifecycle.initial:
                yield f"{lifecycle.name} {key} began as {target}"
        elif not lifecycle.allows(source, target) and not (source is target and target in same):
            yield f"{lifecycle.name} {key} went from {source} to {target}, which is not allowed"
    for row in rows:
        if row["state"] is not reached.get(row["id"]):
            yield f"{lifecycle.name} {row['id']} is {row['state']}; its last event says otherwise"


def _driver_of(actor: str) -> tuple[str, int] | None:
    """Session and epoch of `driver:<session>:<epoch>`."""
    kind, _, rest = actor.partition(":")
    session, _, epoch = rest.partition(":")
    return (session, int(epoch)) if kind == "driver" else None
