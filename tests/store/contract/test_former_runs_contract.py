"""Contract of the earlier runs of a text."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.support.store import OWNER, new_statement, running_session

from headrace.model.lifecycle import StatementState
from headrace.model.session import DriverLease
from headrace.model.statement import Statement
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.statements import statements
from headrace.store.tables import statements as table

TEXT = "SELECT 'é'"


def add_run(
    store: Database,
    lease: DriverLease,
    *,
    ago: float,
    seconds: float,
    text: str = TEXT,
    state: StatementState = StatementState.SUCCESS,
) -> str:
    """Add a statement that ended some seconds ago, and ran for some seconds."""
    statement = new_statement(store, lease.session_id, state, lease=lease, text=text)
    with store.write("test.run") as tx:
        change = update(table).where(table.c.id == statement)
        tx.execute(change.values(started_at=clock(-ago - seconds), ended_at=clock(-ago)))
    return statement


def read(store: Database, statement_id: str, limit: int = 20) -> list[float]:
    with store.read() as tx:
        statement = statements.get(tx, statement_id)
        assert isinstance(statement, Statement)
        return [round(each, 1) for each in statements.read_durations(tx, statement, limit)]


@pytest.mark.usefixtures("stopped_clock")
def test_the_last_runs_of_the_same_text_are_found(store: Database) -> None:
    lease = running_session(store)
    for ago, seconds in ((300.0, 3.0), (200.0, 2.0), (100.0, 1.5)):
        add_run(store, lease, ago=ago, seconds=seconds)
    add_run(store, lease, ago=150, seconds=0.9)
    add_run(store, lease, ago=150, seconds=7, text=f"{TEXT} ")
    add_run(store, lease, ago=150, seconds=8, state=StatementState.FAILED)
    # It has not ended when the statement begins.
    add_run(store, lease, ago=1, seconds=20)
    of_bob = add_run(store, lease, ago=150, seconds=9)
    with store.write("test.owner") as tx:
        tx.execute(update(table).where(table.c.id == of_bob).values(owner="bob"))
    statement = add_run(store, lease, ago=0, seconds=10)
    assert read(store, statement) == [1.5, 2.0, 3.0]
    assert read(store, statement, limit=2) == [1.5, 2.0]
    assert read(store, of_bob) == []


def test_a_statement_of_an_earlier_version_has_no_digest(store: Database) -> None:
    lease = running_session(store)
    old = add_run(store, lease, ago=100, seconds=5)
    with store.write("test.old") as tx:
        tx.execute(update(table).where(table.c.id == old).values(text_digest=None))
    assert read(store, add_run(store, lease, ago=0, seconds=5)) == []
    assert read(store, new_statement(store, lease.session_id, owner=OWNER)) == []
