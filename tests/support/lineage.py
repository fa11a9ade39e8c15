"""Statements with lineage in a store, without Spark."""

from __future__ import annotations

from tests.support.store import OWNER, new_statement, running_session

from headrace.model.lifecycle import StatementState
from headrace.model.lineage import LineageDirection, TableUse
from headrace.store import lineage
from headrace.store.database import Database

READ, WRITE = LineageDirection.READ, LineageDirection.WRITE


def make_use(name: str, direction: LineageDirection, *columns: str) -> TableUse:
    """Return the use of a table in the database `default`."""
    return TableUse(
        direction=direction,
        catalog="spark_catalog",
        namespace=["default"],
        name=name,
        columns=list(columns),
    )


def save_lineage(store: Database, source: str, target: str, *, owner: str = OWNER) -> str:
    """Store a statement that writes one table from another one. Return its id."""
    lease = running_session(store, owner=owner)
    statement_id = new_statement(
        store, lease.session_id, StatementState.RUNNING, owner=owner, lease=lease
    )
    with store.write("test") as tx:
        tables = [make_use(source, READ, "a", "b"), make_use(target, WRITE)]
        lineage.save(tx, statement_id, tables)
    return statement_id
