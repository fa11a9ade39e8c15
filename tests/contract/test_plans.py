"""What runs all the time stays flat, however many statements have ended: the planner says how."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event, text
from tests.support.store import new_session, new_statement, running_session

from headrace.model.lifecycle import StatementState
from headrace.store import (
    driver_view,
    events,
    idempotency,
    node_statements,
    results,
    sessions,
    statement_transitions,
    statements,
    timeouts,
)
from headrace.store.database import Database, Tx

_ENDED = 3000

# Copies of one ended statement, with a result and an event each.
_NUMBERS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)",
    "postgresql": "WITH n AS (SELECT generate_series(1, :count) AS i)",
}
_COPIES = [
    """INSERT INTO statements (id, session_id, ordinal, owner, kind, state, text, parameters, conf,
       disposition, attempts, created_at, ended_at)
       {numbers} SELECT id || i, session_id, i, owner, kind, state, text, parameters, conf,
       disposition, attempts, created_at, ended_at FROM statements, n WHERE ordinal = 0""",
    """INSERT INTO events (xid, entity, entity_id, target, at, who, detail)
       {numbers} SELECT xid, entity, entity_id || i, target, at, who, detail FROM events, n
       WHERE entity = 'statement'""",
]


@pytest.fixture
def busy(store: Database) -> tuple[Database, str, int]:
    """A store with many ended statements and one that waits; the session and its epoch."""
    new_statement(store, new_session(store), StatementState.FAILED)
    with store.write() as tx:
        for copy in _COPIES:
            numbers = _NUMBERS[store.dialect]
            tx.execute(text(copy.format(numbers=numbers)), {"count": _ENDED})
        tx.execute(text("ANALYZE"))
    session_id, epoch = running_session(store)
    new_statement(store, session_id)
    return store, session_id, epoch


def _plans(tx: Tx, act: Any) -> list[str]:
    """How the database goes about each query that `act` makes."""
    queries: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, sql: str, values: Any, _context: Any, _many: bool) -> None:
        queries.append((sql, values))

    event.listen(tx.connection, "before_cursor_execute", note)
    try:
        act(tx)
    finally:
        event.remove(tx.connection, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN " if tx.dialect == "sqlite" else "EXPLAIN "
    plans = []
    for sql, values in queries:
        rows = tx.connection.exec_driver_sql(explain + sql, values)
        plans.append("\n".join(str(row[-1]) for row in rows))
    return plans


@pytest.mark.parametrize(
    "act",
    [
        lambda tx, session, epoch: statement_transitions.claim_next(tx, session, epoch, actor="d"),
        lambda tx, session, epoch: statements.live_ids(tx, session),
        lambda tx, session, epoch: driver_view.load_driver_view(tx, session),
        lambda tx, session, epoch: statements.active_count(tx),
        lambda tx, session, epoch: timeouts.timed_out(tx, 10),
        lambda tx, session, epoch: timeouts.unanswered_cancels(tx, 5, 10),
        lambda tx, session, epoch: timeouts.has_other_work(tx, session, "st_x"),
        lambda tx, session, epoch: node_statements.runnable(tx, None, 10),
        lambda tx, session, epoch: statements.get(tx, "st_x"),
        lambda tx, session, epoch: statements.page(tx, limit=10),
        lambda tx, session, epoch: statements.page(tx, owner="ada", before="st_9", limit=10),
        lambda tx, session, epoch: sessions.get(tx, session),
        lambda tx, session, epoch: events.read(tx, after="0.9999999", limit=10),
        lambda tx, session, epoch: events.read(tx, after="0.9", entity_id="st_x", limit=10),
        lambda tx, session, epoch: events.last(tx),
        lambda tx, session, epoch: results.expired(tx, 10),
        lambda tx, session, epoch: idempotency.find(tx, "ada", "k"),
    ],
    ids=[
        "claim_next",
        "live_ids",
        "duty",
        "active_count",
        "overtime",
        "stuck cancels",
        "neighbours of a stuck one",
        "local",
        "get",
        "page",
        "page of an owner",
        "session",
        "events after",
        "events of one",
        "last event",
        "expired",
        "idempotency",
    ],
)
def test_nothing_reads_all_statements_or_events(busy: tuple[Database, str, int], act: Any) -> None:
    store, session_id, epoch = busy
    with store.write() as tx:
        plans = _plans(tx, lambda tx: act(tx, session_id, epoch))
    assert plans
    for plan in plans:
        # An index whose second column is not searched reads every event ever written.
        assert "xid>?" not in plan
        assert "(xid=?)" not in plan
        for table in ("statements", "events"):
            # Walking through an index from one end, until the page is full, is no full scan.
            for line in plan.splitlines():
                assert f"Seq Scan on {table}" not in line, plan
                full = line.startswith(f"SCAN {table}")
                assert not full or "INDEX" in line, plan
        assert "TEMP B-TREE" not in plan, plan
