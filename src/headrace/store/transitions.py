"""The compare-and-set that changes the state of any entity, with its times and its event.

The caller has locked the row, or names the state that the row must still have.
`statements/statement_transitions.py` makes the same change with prepared updates, because it runs
for every statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Table, update

from headrace.model.failure import Failure
from headrace.model.lifecycle import Lifecycle
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx

S = TypeVar("S", bound=StrEnum)


def move(
    tx: Tx,
    lifecycle: Lifecycle[S],
    table: Table,
    row_id: str,
    source: S,
    target: S,
    *conditions: ColumnElement[bool],
    actor: str,
    values: Mapping[str, Any] | None = None,
    detail: dict[str, Any] | None = None,
    failure: Failure | None = None,
    column: str = "state",
) -> bool:
    """Change the state of a row from `source` to `target`, with its event.

    The row gets the time `ended_at` with a terminal state.

    Args:
        conditions: Further conditions of the row.
        values: Further columns to set.
        detail: Detail of the event.
        failure: A failure to add to the detail.
        column: The column of the state.

    Returns:
        False if the lifecycle does not allow the change, if the row has another state by now, or if
        it does not meet the conditions. Then nothing is changed.
    """
    if not lifecycle.allows(source, target):
        return False
    columns = {**(values or {}), column: target}
    if target in lifecycle.terminal:
        columns["ended_at"] = clock()
    change = update(table).where(table.c.id == row_id, table.c[column] == source, *conditions)
    if not tx.execute(change.values(columns)).rowcount:
        return False
    events.append(
        tx, lifecycle.entity, row_id, source, target, actor=actor, detail=detail, failure=failure
    )
    return True


def move_locked(
    tx: Tx,
    lifecycle: Lifecycle[S],
    table: Table,
    row_id: str,
    source: S,
    target: S,
    *,
    actor: str,
    values: Mapping[str, Any] | None = None,
    detail: dict[str, Any] | None = None,
    failure: Failure | None = None,
    column: str = "state",
) -> None:
    """Change the state of a row that the transaction has locked. The arguments are those of `move`.

    Raises:
        ValueError: The lifecycle does not allow the change.
    """
    applied = move(
        tx,
        lifecycle,
        table,
        row_id,
        source,
        target,
        actor=actor,
        values=values,
        detail=detail,
        failure=failure,
        column=column,
    )
    if not applied:
        raise ValueError(f"the {lifecycle.name} {row_id} cannot go from {source} to {target}")
