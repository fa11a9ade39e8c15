"""The invariants of docs/explanation/lost-drivers.md, checked in every state and for every step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.model_explorer import queries
from tests.model_explorer.state import World
from tests.model_explorer.store import MemoryStore, tables_of
from tests.model_explorer.world import Violation

from headrace.model.lifecycle import (
    SESSION,
    STATEMENT,
    STREAM,
    TRANSACTION,
    Lifecycle,
    SessionState,
    StatementState,
    StreamState,
    TransactionState,
)

MAX_ATTEMPTS = 2
_FENCED_WITHIN = 4
"""Ticks: the lease of the driver has three and ends in the fourth. In the same time, a node that
returns has been present for a lease."""
_LIFECYCLES: dict[str, tuple[Lifecycle[Any], Any]] = {
    "session": (SESSION, SessionState),
    "statement": (STATEMENT, StatementState),
    "transaction": (TRANSACTION, TransactionState),
    "stream": (STREAM, StreamState),
}


def check_step(before: World, after: World, store: MemoryStore) -> None:
    """Raise Violation if a step has made a change that is not allowed from the state before."""
    for message in (*_find_wrong_changes(before, after, store), *_find_wrong_fences(before, after)):
        raise Violation(message)


def _find_wrong_changes(before: World, after: World, store: MemoryStore) -> Iterator[str]:
    """Yield the changes of state that the lifecycles do not allow, or that have no event."""
    states = {row["id"]: row["state"] for row in _rows(before)}
    paused = {key for key, state in states.items() if state == StreamState.PAUSED}
    for entity, entity_id, source, target, actor in store.new_events():
        if entity not in _LIFECYCLES:
            continue
        if entity_id in paused and actor.startswith("driver:"):
            yield f"a report of a driver changed a paused query to {target}"
        if states.get(entity_id) != source:
            yield f"{entity} changed from {source}, but was {states.get(entity_id)}"
        if not _is_allowed(entity, source, target):
            yield f"{entity} changed from {source} to {target}"
        states[entity_id] = target
    for row in _rows(after):
        if states.get(row["id"]) != row["state"]:
            yield f"{row['id']} became {row['state']} without an event"


def _is_allowed(entity: str, source: str | None, target: str) -> bool:
    lifecycle, names = _LIFECYCLES[entity]
    # A launch or a takeover may leave a session in its state.
    return source in {None, target} or lifecycle.allows(names(source), names(target))


def _find_wrong_fences(before: World, after: World) -> Iterator[str]:
    old, new = _one(before, "sessions"), _one(after, "sessions")
    if new["epoch"] < old["epoch"]:
        yield "the epoch of the session decreased"
    fenced = new["fenced_driver"] is not None and old["fenced_driver"] is None
    driver = after.driver(old["epoch"])
    if fenced and driver is not None and driver.healthy:
        yield f"the healthy driver of epoch {old['epoch']} is fenced"


def check_state(world: World, kind: str) -> None:
    """Raise Violation if the world is in a state that the docs exclude."""
    if kind in queries.KINDS:
        return
    for message in _find_faults(world, kind):
        raise Violation(message)


def _find_faults(world: World, kind: str) -> Iterator[str]:
    statement, session = _one(world, "statements"), _one(world, "sessions")
    state = StatementState(statement["state"])
    if world.effects > 1:
        yield "a statement that is not safe to repeat ran twice"
    if statement["attempts"] > (MAX_ATTEMPTS if kind == "query" else 99):
        yield f"a query had {statement['attempts']} attempts"
    if world.acknowledged and state is not StatementState.SUCCESS:
        yield f"a success was acknowledged, but the statement is {state}"
    if kind == "query" and state is StatementState.FAILED and statement["attempts"] < MAX_ATTEMPTS:
        yield f"a pure query failed after attempt {statement['attempts']} because its driver ended"
    yield from _find_table_faults(world, state)
    views = list(_table_rows(world, "materialized_views"))
    if kind == "view" and state is StatementState.SUCCESS and not views[0]["current_generation"]:
        yield "a CREATE MATERIALIZED VIEW is a success, but its view has no rows"
    present = max(node.present_ticks if node.serves else 0 for node in world.nodes)
    if session["state"] == SessionState.RUNNING and min(world.gone_ticks, present) > _FENCED_WITHIN:
        yield (
            f"the driver has been gone for {world.gone_ticks} ticks, a node has been present for "
            f"{present}, and no takeover has begun"
        )


def _find_table_faults(world: World, state: StatementState) -> Iterator[str]:
    if len(world.published) > 1:
        yield f"the table was published by several transactions: {world.published}"
    rows = list(_table_rows(world, "transactions"))
    for row in rows:
        published = row["id"] in world.published
        if row["state"] == TransactionState.COMMITTED and not published:
            yield f"transaction {row['id']} is committed, but its table is not published"
        if row["state"] == TransactionState.ABORTED and published:
            yield f"transaction {row['id']} is aborted, but its table is published"
    if state is StatementState.SUCCESS and rows and not world.published:
        yield "a CTAS is a success, but its table is not published"


def _rows(world: World) -> Iterator[dict[str, Any]]:
    for name in ("sessions", "statements", "transactions", "stream_queries"):
        yield from _table_rows(world, name)


def _one(world: World, name: str) -> dict[str, Any]:
    return next(_table_rows(world, name))


def _table_rows(world: World, name: str) -> Iterator[dict[str, Any]]:
    for table, rows in zip(tables_of(world.rows), world.rows, strict=True):
        if table.name == name:
            names = [column.name for column in table.columns]
            yield from (dict(zip(names, row, strict=True)) for row in rows)
