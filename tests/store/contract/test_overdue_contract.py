"""Contract of the list of overdue drivers: its order and its pages."""

from __future__ import annotations

from sqlalchemy import update
from tests.support.store import register_node, running_session

from headrace.store import tables
from headrace.store.database import Database
from headrace.store.sessions import takeovers

_AGO = -1.0


def test_a_node_reads_the_overdue_drivers_that_it_has_launched_first(store: Database) -> None:
    register_node(store, "no_1")
    foreign, own = [running_session(store, lease_seconds=_AGO).session_id for _ in range(2)]
    with store.write("test") as tx:
        row = update(tables.sessions).where(tables.sessions.c.id == foreign)
        tx.execute(row.values(launched_by="no_2"))
    with store.read() as tx:
        pages = [
            [each.id for each in takeovers.overdue(tx, 1, node="no_1", seconds=60, offset=offset)]
            for offset in range(3)
        ]
    assert pages == [[own], [foreign], []]
