"""The compare-and-set that changes the state of any entity, with its times and its event.

The caller has locked the row, or names the state that the row must still have.
`statements/statement_transitions.py` makes the same change with prepared updates, because it runs
for every statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Table, update

from headrace.model.failure import Failure
from headrace.model.lifecycle import Lifecycle
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True)
class Transitions(Generic[S]):
    """The changes of state that the rows of one table make."""

    lifecycle: Lifecycle[S]
    table: Table
    column: str = "state"
    """Name of the column of the state."""

    def apply(
        self,
        tx: Tx,
        row_id: str,
        source: S,
        target: S,
        *conditions: ColumnElement[bool],
        actor: str,
        values: Mapping[str, Any] | None = None,
        detail: dict[str, Any] | None = None,
        failure: Failure | None = None,
        is_locked: bool = False,
    ) -> bool:
        """Change the state of a row from `source` to `target`, with its event.

        With a terminal state, the row gets the time `ended_at`.

        Args:
            conditions: Further conditions that the row must meet.
            values: Further columns to set.
            detail: Detail of the event.
            failure: A failure to add to the detail.
            is_locked: Whether the transaction has locked the row in the state `source`, so that the
                change must be possible.

        Returns:
            False if the lifecycle does not allow the change, if the row has another state by now,
            or if it does not meet the conditions. Then nothing is changed.

        Raises:
            ValueError: A change of a locked row is not possible.
        """
        columns = {**(values or {}), self.column: target}
        if target in self.lifecycle.terminal:
            columns["ended_at"] = clock()
        has_source = self.table.c[self.column] == source
        change = update(self.table).where(self.table.c.id == row_id, has_source, *conditions)
        is_allowed = self.lifecycle.allows(source, target)
        if is_allowed and tx.execute(change.values(columns)).rowcount:
            kind = self.lifecycle.entity
            events.append(
                tx, kind, row_id, source, target, actor=actor, detail=detail, failure=failure
            )
            return True
        if is_locked:
            name = self.lifecycle.name
            raise ValueError(f"the {name} {row_id} cannot go from {source} to {target}")
        return False
