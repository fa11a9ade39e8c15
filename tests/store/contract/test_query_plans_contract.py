"""Contract of query plans: no frequent query scans the ended statements or all events."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Table, event, insert, select, text
from tests.support.batch_jobs import insert_batch_job
from tests.support.store import new_session, new_statement, running_session

from headrace.control.jobs.firing import fire
from headrace.model.deployment import DeploymentPlan, JobAction
from headrace.model.identity import Scope
from headrace.model.lifecycle import SessionState, StatementState, StreamState, TokenState
from headrace.model.lineage import LineageDirection
from headrace.model.run import FiringRules
from headrace.model.schedule import Schedule
from headrace.model.session import DriverLease, NewSession
from headrace.model.statement import StatementView
from headrace.model.stream_query import NewStreamQuery, QuerySpec
from headrace.model.transaction import TableWrite
from headrace.store import deliveries, events, lineage, nodes, table_writes, tables
from headrace.store.clock import clock
from headrace.store.database import Database, Tx
from headrace.store.identity import tokens
from headrace.store.jobs import expectations, job_changes, runs, schedules, triggers
from headrace.store.live_counts import MEASUREMENTS, count_live
from headrace.store.sessions import lease_renewals, sessions, warm_sessions
from headrace.store.statements import (
    idempotency,
    limits,
    results,
    statement_transitions,
    statements,
    time_limits,
    wait_view,
)
from headrace.store.statements.limits import Counted, Limit
from headrace.store.streams import stream_minutes, stream_progress, stream_queries

_ENDED = 3000

# Copies of an ended statement, each with an event.
_NUMBERS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)",
    "postgresql": "WITH n AS (SELECT generate_series(1, :count) AS i)",
}
_COPIES = [
    """INSERT INTO statements (id, session_id, ordinal, owner, kind, state, text, parameters, conf,
       result_request, attempts, created_at, waiting_since, ended_at)
       {numbers} SELECT id || i, session_id, i, owner, kind, state, text, parameters, conf,
       result_request, attempts, created_at, waiting_since, ended_at
       FROM statements, n WHERE ordinal = 0""",
    """INSERT INTO events (generation, xid, entity, entity_id, target, at, actor, detail)
       {numbers} SELECT generation, xid, entity, entity_id || i, target, at, actor, detail
       FROM events, n WHERE entity = 'statement'""",
]


@pytest.fixture
def store(store: Database) -> Database:
    """Return an empty store without the pages of the rows that earlier tests have deleted.

    PostgreSQL counts these pages until a VACUUM, and may then choose another index.
    """
    if store.dialect == "postgresql":
        kept = {"event_generations", "limit_locks", "schema_support"}
        with store.write("test") as tx:
            tx.execute(text(f"TRUNCATE {', '.join(tables.metadata.tables.keys() - kept)}"))
    return store


@pytest.fixture
def busy(store: Database) -> tuple[Database, DriverLease]:
    """Return a store with many ended statements and a waiting one, and the lease of its driver."""
    new_statement(store, new_session(store), StatementState.FAILED)
    with store.write("test") as tx:
        for copy in _COPIES:
            numbers = _NUMBERS[store.dialect]
            tx.execute(text(copy.format(numbers=numbers)), {"count": _ENDED})
        tx.execute(text("ANALYZE"))
    lease = running_session(store)
    new_statement(store, lease.session_id)
    return store, lease


def _plans(tx: Tx, act: Any) -> list[str]:
    """Return the plan of each query that `act` runs."""
    explain = "EXPLAIN QUERY PLAN " if tx.dialect == "sqlite" else "EXPLAIN "
    plans = []
    for sql, values in _queries(tx, act):
        rows = tx.connection.exec_driver_sql(explain + sql, values)
        plans.append("\n".join(str(row[-1]) for row in rows))
    return plans


def _queries(tx: Tx, act: Any) -> list[tuple[str, Any]]:
    """Return the queries that `act` runs, with their values."""
    queries: list[tuple[str, Any]] = []

    def collect(_c: Any, _cursor: Any, sql: str, values: Any, _context: Any, _many: bool) -> None:
        queries.append((sql, values))

    event.listen(tx.connection, "before_cursor_execute", collect)
    try:
        act(tx)
    finally:
        event.remove(tx.connection, "before_cursor_execute", collect)
    return queries


@pytest.mark.parametrize(
    "act",
    [
        statement_transitions.claim_next,
        lambda tx, lease: statements.live_ids(tx, lease.session_id),
        lambda tx, lease: lease_renewals.load_driver_view(tx, lease.session_id),
        lambda tx, lease: statements.active_count(tx),
        lambda tx, lease: time_limits.timed_out(tx, 10),
        lambda tx, lease: time_limits.unanswered_cancels(tx, 5, 10),
        lambda tx, lease: time_limits.has_other_work(tx, lease.session_id, "st_x"),
        lambda tx, lease: lineage.list_of_statement(tx, "st_x"),
        lambda tx, lease: lineage.has_table(tx, "t", owners=["ada"]),
        lambda tx, lease: expectations.find_last_refresh(tx, "mv_x"),
        lambda tx, lease: lineage.list_neighbours(
            tx, "t", LineageDirection.READ, owners=["ada"], newest=9, limit=9
        ),
        lambda tx, lease: lineage.list_stream_neighbours(
            tx, "t", LineageDirection.READ, owners=["ada"], newest=9, limit=9
        ),
        lambda tx, lease: statements.get(tx, "st_x"),
        lambda tx, lease: statements.page(tx, limit=10),
        lambda tx, lease: statements.page(tx, owners=["ada"], before="st_9", limit=10),
        lambda tx, lease: statements.page(tx, owners=["ada"], id_prefix="st_0", limit=10),
        lambda tx, lease: sessions.find_names(tx, [lease.session_id]),
        lambda tx, lease: sessions.get(tx, lease.session_id),
        lambda tx, lease: events.read(tx, after="0.0.9999999", limit=10),
        lambda tx, lease: events.read(tx, after="0.0.9", entity_id="st_x", limit=10),
        lambda tx, lease: events.read_newest(tx, ["st_x"], owners=None, before=None, limit=10),
        lambda tx, lease: events.last(tx),
        lambda tx, lease: results.expired(tx, 10),
        lambda tx, lease: idempotency.find(tx, "ada", "k"),
        lambda tx, lease: wait_view.read_queues(tx, ["st_x", "st_y"], counts_users=True),
    ],
    ids=[
        "claim_next",
        "live_ids",
        "driver view",
        "active_count",
        "timeouts",
        "unanswered cancels",
        "other work",
        "lineage",
        "table of a lineage",
        "last refresh of a view",
        "neighbours",
        "neighbours by streams",
        "get",
        "page",
        "page of an owner",
        "page of a prefix",
        "session names",
        "session",
        "events after",
        "events of an entity",
        "last events of an entity",
        "last event",
        "expired",
        "idempotency",
        "queue",
    ],
)
def test_no_query_scans_all_statements_or_events(
    busy: tuple[Database, DriverLease], act: Any
) -> None:
    store, lease = busy
    with store.write("test") as tx:
        plans = _plans(tx, lambda tx: act(tx, lease))
    assert plans
    for plan in plans:
        # A search of the index by its first column alone reads every event.
        assert "xid>?" not in plan
        assert "(xid=?)" not in plan
        assert "(generation=?)" not in plan
        assert "xid=?)" not in plan
        for table in ("statements", "events"):
            # A walk along an index that stops when the page is full is not a full scan.
            for line in plan.splitlines():
                assert f"Seq Scan on {table}" not in line, plan
                full = line.startswith(f"SCAN {table}")
                assert not full or "INDEX" in line, plan
        assert "TEMP B-TREE" not in plan, plan


# Copies of an ended statement as slow ones, and as ones that wait.
_SLOW = """INSERT INTO statements (id, session_id, ordinal, owner, kind, state, text, parameters,
    conf, result_request, attempts, created_at, waiting_since, started_at, ended_at)
    {numbers} SELECT id || 'slow' || i, session_id, i + 10000, owner, kind, state, text, parameters,
    conf, result_request, attempts, created_at, waiting_since, created_at, created_at + {seconds}
    FROM statements, n WHERE ordinal = 0 AND state = 'failed'"""
_QUEUED = """INSERT INTO statements (id, session_id, ordinal, owner, kind, state, text, parameters,
    conf, result_request, attempts, created_at, waiting_since)
    {numbers} SELECT id || 'queued' || i, session_id, i + 20000, owner, kind, 'waiting', text,
    parameters, conf, result_request, attempts, created_at, waiting_since
    FROM statements, n WHERE ordinal = 0 AND state = 'failed'"""
_RAN = {"sqlite": "i * 1000000", "postgresql": "i * interval '1 second'"}


@pytest.mark.parametrize("next_page", [False, True], ids=["first page", "next page"])
@pytest.mark.parametrize(
    ("view", "index"),
    [
        (StatementView.WAITING, "statements_waiting"),
        (StatementView.RUNNING, "statements_live"),
        (StatementView.SLOW, "statements_slow"),
    ],
)
def test_a_page_of_what_waits_runs_or_was_slow_is_read_by_an_index(
    busy: tuple[Database, DriverLease], view: StatementView, index: str, next_page: bool
) -> None:
    store, _lease = busy
    with store.write("test") as tx:
        for copy, count in ((_SLOW, _ENDED // 50), (_QUEUED, _ENDED)):
            query = copy.format(numbers=_NUMBERS[store.dialect], seconds=_RAN[store.dialect])
            tx.execute(text(query), {"count": count})
        tx.execute(text("ANALYZE"))
        any_id = tx.execute(text("SELECT min(id) FROM statements")).scalar_one()
    before = any_id if next_page else None
    with store.write("test") as tx:
        plans = _plans(
            tx,
            lambda tx: statements.page(tx, view=view, over_seconds=60, before=before, limit=10),
        )
    # Sizes, then rows, and before them the place of the cursor.
    assert len(plans) == (3 if next_page else 2)
    for plan in plans[-2:]:
        assert index in plan, plan
        for line in plan.splitlines():
            assert "Seq Scan on statements" not in line, plan
            assert not line.startswith("SCAN statements") or "INDEX" in line, plan
        # The statements in flight are as few as the drivers.
        if view is not StatementView.RUNNING:
            assert "TEMP B-TREE" not in plan, plan
            assert "Sort" not in plan, plan


def test_a_page_of_failures_is_read_by_an_index_however_many_statements_have_succeeded(
    busy: tuple[Database, DriverLease],
) -> None:
    store, _lease = busy
    with store.write("test") as tx:
        tx.execute(text("UPDATE statements SET state = 'success' WHERE ended_at IS NOT NULL"))
        tx.execute(text("ANALYZE"))
    for states in ([StatementState.TIMEOUT], [StatementState.FAILED, StatementState.CANCELLED]):
        with store.write("test") as tx:
            read = partial(statements.page, owners=["ada"], states=states, before="st_9", limit=10)
            plans = _plans(tx, read)
        for plan in plans:
            # Neither index has the statements that have succeeded.
            assert "statements_unsuccessful" in plan or "statements_by_end" in plan, plan
            assert "TEMP B-TREE" not in plan, plan


def test_the_earlier_runs_of_a_text_are_read_by_an_index(
    busy: tuple[Database, DriverLease],
) -> None:
    store, lease = busy
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    with store.write("test") as tx:
        query = _SLOW.format(numbers=_NUMBERS[store.dialect], seconds=_RAN[store.dialect])
        tx.execute(text(query), {"count": _ENDED // 10})
        tx.execute(text("UPDATE statements SET text_digest = id"))
        tx.execute(text("ANALYZE"))
        statement = statements.get(tx, statement_id)
        assert statement is not None
        [plan] = _plans(tx, lambda tx: statements.read_durations(tx, statement, 20))
    assert "statements_slow_by_text" in plan, plan
    assert "Sort" not in plan, plan
    assert "TEMP B-TREE" not in plan, plan


_ENDED_QUERY = """
    INSERT INTO stream_queries (id, owner, scope, name, name_key, spec, state, wanted, generation,
    session_id, statement_id, attempt, failures, created_at, ended_at)
    {numbers} SELECT id || i, owner, scope, name, name_key || (i % 100), spec, 'stopped', 'stopped',
    generation, session_id, 'st_' || i, attempt, failures, created_at, created_at
    FROM stream_queries, n"""


def _list_attempts(tx: Any, _session: str) -> None:
    query = stream_queries.get(tx, "sq_1")
    assert query is not None
    stream_queries.list_attempts(tx, query, 10)


@pytest.mark.parametrize(
    "act",
    [
        stream_queries.desired,
        lambda tx, session: stream_queries.fetch(tx, stream_queries.select_live(session)),
        stream_queries.count_live,
        lambda tx, session: stream_queries.any_live(tx),
        lambda tx, session: stream_queries.find(tx, "ada", "adhoc", "q7"),
        lambda tx, session: stream_queries.page(tx, owners=["ada"], live=False, limit=10),
        lambda tx, session: stream_queries.of_statement(tx, "st_1"),
        lambda tx, session: stream_queries.starting_statements(tx, ["st_1", "st_2"]),
        lambda tx, session: sessions.find_open_pool(tx, "ada", "default"),
        lambda tx, session: sessions.list_to_close(tx, sessions.IDLE, 10),
        lambda tx, session: sessions.launchable(tx, 10),
        lambda tx, session: stream_progress.read_live(tx, 10),
        lambda tx, session: stream_queries.list_worst(tx, ["ada"], seconds=60, limit=10),
        lambda tx, session: stream_queries.list_worst(tx, None, seconds=60, limit=10),
        _list_attempts,
        lambda tx, session: stream_minutes.delete_ended(tx, 10),
    ],
    ids=[
        "desired",
        "live of a session",
        "count",
        "any live",
        "find",
        "page",
        "of a statement",
        "of statements",
        "pool session",
        "idle sessions",
        "launchable sessions",
        "measurements",
        "worst of an owner",
        "worst of all",
        "attempts",
        "minutes of ended queries",
    ],
)
def test_no_query_scans_all_ended_streaming_queries(store: Database, act: Any) -> None:
    session = running_session(store).session_id
    with store.write("test") as tx:
        stream_queries.insert_query(tx, _new_query(session), actor="ada")
        numbers = _NUMBERS[store.dialect]
        tx.execute(text(_ENDED_QUERY.format(numbers=numbers)), {"count": _ENDED})
        tx.execute(text("ANALYZE"))
    with store.write("test") as tx:
        plans = _plans(tx, lambda tx: act(tx, session))
    assert plans
    for plan in plans:
        for line in plan.splitlines():
            assert "Seq Scan on stream_queries" not in line, plan
            full = line.startswith("SCAN stream_queries")
            assert not full or "INDEX" in line, plan


def _new_query(session: str) -> NewStreamQuery:
    return NewStreamQuery(
        id="sq_1",
        owner="ada",
        scope="adhoc",
        name="q",
        spec=QuerySpec(text="SAVE STREAM t TO noop", sink="noop"),
        checkpoint_place=None,
        session_id=session,
        statement_id=None,
    )


_ENDED_SESSION = """
    INSERT INTO sessions (id, owner, kind, state, profile, conf, jars, files, py_files, epoch,
    next_ordinal, created_at, ended_at)
    {numbers} SELECT id || i, owner, kind, 'dead', profile, conf, jars, files, py_files, epoch,
    next_ordinal, created_at, created_at
    FROM sessions, n WHERE ended_at IS NULL"""
_LIVE_SESSION = """
    INSERT INTO sessions (id, owner, kind, state, profile, conf, jars, files, py_files, epoch,
    next_ordinal, created_at)
    {numbers} SELECT id || 'live' || i, owner, kind, state, profile, conf, jars, files, py_files,
    epoch, next_ordinal, created_at
    FROM sessions, n WHERE ended_at IS NULL"""


@pytest.mark.parametrize(
    "act",
    [
        lambda tx: warm_sessions.live(tx, "default"),
        lambda tx: warm_sessions.failed_recently(tx, "default", 60),
        lambda tx: warm_sessions.assign(tx, NewSession(id="se_x", owner="ada")),
    ],
    ids=["live", "failed_recently", "assign"],
)
def test_queries_for_warm_sessions_read_no_other_sessions(store: Database, act: Any) -> None:
    new_session(store)
    with store.write("test") as tx:
        for copy in (_ENDED_SESSION, _LIVE_SESSION):
            numbers = _NUMBERS[store.dialect]
            tx.execute(text(copy.format(numbers=numbers)), {"count": _ENDED})
        if store.dialect == "postgresql":
            tx.execute(text("ANALYZE"))
    with store.write("test") as tx:
        plans = _plans(tx, act)
    assert any("sessions_warm" in plan for plan in plans), plans
    for plan in plans:
        assert "Seq Scan on sessions" not in plan, plan
        assert "SCAN sessions" not in plan, plan


# Lists whose pages have ten rows.
_LISTS: dict[str, Any] = {
    "statements": lambda tx, owners: statements.page(tx, owners=owners, limit=10).items,
    "earlier statements": lambda tx, owners: (
        statements.page(tx, owners=owners, before="01500", limit=10).items
    ),
    "failed statements": lambda tx, owners: (
        statements.page(tx, owners=owners, states=[StatementState.FAILED], limit=10).items
    ),
    "sessions": lambda tx, owners: sessions.page(tx, owners=owners, limit=10),
    "streams": lambda tx, owners: stream_queries.page(tx, owners=owners, live=False, limit=10),
    "deployments": lambda tx, owners: job_changes.list_deployments(tx, owners, 10),
    "tokens": lambda tx, owners: tokens.page(tx, owners=owners, before=None, limit=10),
    "events": lambda tx, owners: events.read(tx, after=None, owners=owners, limit=10),
}
_COPIED: dict[Table, dict[str, Any]] = {
    tables.sessions: {"state": SessionState.DEAD, "ended_at": clock()},
    tables.statements: {},
    tables.stream_queries: {"state": StreamState.STOPPED, "ended_at": clock()},
    tables.deployments: {},
    tables.tokens: {"state": TokenState.REVOKED, "ended_at": clock()},
    tables.events: {},
}
"""The tables of these lists, with the values in which copies differ from a row."""


@pytest.fixture
def shared_store(store: Database) -> Database:
    """Return a store with 3000 rows of each list. Each tenth is Bob's, and the others are Ada's."""
    session = new_session(store)
    new_statement(store, session, StatementState.FAILED)
    with store.write("test") as tx:
        stream_queries.insert_query(tx, _new_query(session), actor="ada")
        plan = DeploymentPlan(state_location="file:/state")
        job_changes.insert_deployment(tx, "ada", JobAction.DEPLOY, plan, actor="ada")
        tokens.insert_token(
            tx, "", owner="ada", name="t", scope=Scope.READ, seconds=60, created_by="ada"
        )
        for table, values in _COPIED.items():
            [row] = tx.execute(select(table).limit(1)).mappings()
            fixed = {name: row[name] for name in row.keys() - values.keys() - {"id", "number"}}
            copies = [
                fixed | {"owner": "ada" if number % 10 else "bob"} | _key_of(table, number)
                for number in range(_ENDED)
            ]
            tx.execute(insert(table).values(values), copies)
        if store.dialect == "postgresql":
            tx.execute(text("ANALYZE"))
    return store


def _key_of(table: Table, number: int) -> dict[str, Any]:
    """Return the columns in which each copy of a row differs."""
    if table is tables.events:
        return {}
    ordinal = {"ordinal": number + 1} if table is tables.statements else {}
    return {"id": f"{number:05}", **ordinal}


def test_a_page_of_several_owners_takes_little_more_work_than_that_of_one(
    shared_store: Database,
) -> None:
    with shared_store.read() as tx:
        for name, read in _LISTS.items():
            of_one = _count_work(tx, lambda tx, read=read: read(tx, ["ada"]))
            for owners in (["ada", "eve"], ["ada", "bob", "eve"]):
                assert len(read(tx, owners)) == 10, name
                of_all = _count_work(tx, lambda tx, read=read, owners=owners: read(tx, owners))
                assert of_all < 3 * of_one + 100, (name, owners)


def _count_work(tx: Tx, act: Any) -> int:
    """Return the work of the queries of `act`: on SQLite, steps of its machine; else, rows read."""
    if tx.dialect == "sqlite":
        steps = itertools.count()
        connection: Any = tx.connection.connection.driver_connection
        connection.set_progress_handler(lambda: next(steps) < 0, 1)
        try:
            act(tx)
        finally:
            connection.set_progress_handler(None, 0)
        return next(steps)
    explain = "EXPLAIN (ANALYZE, FORMAT JSON) "
    nodes_of_plans = [
        tx.connection.exec_driver_sql(explain + sql, values).scalar_one()[0]["Plan"]
        for sql, values in _queries(tx, act)
    ]
    rows = 0
    for node in nodes_of_plans:
        nodes_of_plans += node.get("Plans", [])
        if "Relation Name" in node:
            read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            rows += read * node["Actual Loops"]
    return rows


_NODE_COPIES = """INSERT INTO nodes (id, address, version, state, profiles, backends, started_at,
    present_since, lease_until, ended_at) {numbers} SELECT id, address, version, 'gone', profiles,
    backends, started_at, present_since, started_at, started_at FROM nodes, n"""
_WRITE_COPIES = """INSERT INTO table_writes (statement_id, session_id, epoch, identity, location,
    "table", overwrite, released, created_at) {numbers} SELECT statement_id || i, session_id, epoch,
    identity, location || i, "table", overwrite, released, created_at FROM table_writes, n"""


@pytest.mark.parametrize("with_statistics", [True, False])
@pytest.mark.parametrize(
    "act",
    [table_writes.find_blocker, lambda tx, statement, lease: wait_view.read_locks(tx, [statement])],
    ids=["find_blocker", "read_locks"],
)
def test_a_statement_that_waits_for_its_lock_does_not_read_the_writes_to_other_tables(
    store: Database, act: Any, with_statistics: bool
) -> None:
    lease = running_session(store)
    statement = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    write = TableWrite(location="file:/t", overwrite=True)
    with store.write("test") as tx:
        table_writes.request(tx, statement, [write], "metastore", lease)
    [plan] = _plans_beside_many(
        store,
        _WRITE_COPIES,
        lambda tx: act(tx, statement, lease),
        with_statistics=with_statistics,
    )
    assert "table_writes_by_location" in plan, plan


@pytest.mark.parametrize("with_statistics", [True, False])
def test_the_addresses_of_the_live_nodes_are_read_without_the_ended_registrations(
    store: Database, with_statistics: bool
) -> None:
    with store.write("test") as tx:
        nodes.register(tx, "no_1", address="http://node", version="1", seconds=60)
    [plan] = _plans_beside_many(
        store, _NODE_COPIES, nodes.addresses, with_statistics=with_statistics
    )
    assert "nodes_live" in plan, plan


def _plans_beside_many(store: Database, copy: str, act: Any, *, with_statistics: bool) -> list[str]:
    """Return the plans of the queries of `act` after 3000 copies of a row were inserted."""
    with store.write("test") as tx:
        tx.execute(text(copy.format(numbers=_NUMBERS[store.dialect])), {"count": _ENDED})
        if with_statistics or store.dialect == "postgresql":
            tx.execute(text("ANALYZE"))
    with store.write("test") as tx:
        return _plans(tx, act)


@pytest.mark.finding("B11")
@pytest.mark.parametrize(
    "act",
    [
        statement_transitions.claim_next,
        lambda tx, lease: lease_renewals.load_driver_view(tx, lease.session_id),
        lambda tx, lease: time_limits.has_other_work(tx, lease.session_id, "st_x"),
        lambda tx, lease: time_limits.unanswered_cancels(tx, 5, 10),
        lambda tx, lease: statements.in_flight_ids(tx, lease.session_id),
    ],
    ids=["claim_next", "driver view", "other work", "unanswered cancels", "in_flight_ids"],
)
def test_no_query_for_statements_in_flight_reads_the_queue(
    busy: tuple[Database, DriverLease], act: Any
) -> None:
    store, lease = busy
    with store.write("test") as tx:
        # Many waiting statements of the session, and current statistics.
        tx.execute(
            text(
                "UPDATE statements SET ended_at = NULL, state = 'waiting', session_id = :s, "
                "ordinal = ordinal + 10 WHERE ended_at IS NOT NULL"
            ),
            {"s": lease.session_id},
        )
        tx.execute(text("ANALYZE" if store.dialect == "postgresql" else "DELETE FROM sqlite_stat1"))
    with store.write("test") as tx:
        plans = _plans(tx, lambda tx: act(tx, lease))
    assert any("statements_live_by_state" in plan for plan in plans), plans
    for plan in plans:
        assert "SCAN other" not in plan, plan
        assert "INDEX statements_live (session_id=?)" not in plan, plan


@pytest.mark.parametrize(
    ("act", "index"),
    [
        (lambda tx: limits.sum_stored_bytes(tx, "ada"), "results_stored"),
        (
            lambda tx: limits.find_excess(
                tx, Limit(counted=Counted.STREAMS, per_user=1, total=9), "ada"
            ),
            "stream_queries_live_name",
        ),
        (
            lambda tx: limits.find_excess(
                tx, Limit(counted=Counted.SESSIONS, per_user=1, total=9), "ada"
            ),
            "sessions_live",
        ),
    ],
    ids=["stored bytes", "streams", "sessions"],
)
def test_what_an_owner_uses_is_counted_by_an_index(store: Database, act: Any, index: str) -> None:
    with store.write("test") as tx:
        if store.dialect == "postgresql":
            # A small table would be read as a whole.
            tx.execute(text("SET LOCAL enable_seqscan = off"))
        plans = "\n".join(_plans(tx, act))
    assert index in plans, plans


_ENDED_RUNS = """
    INSERT INTO runs (id, job_id, owner, name, version_id, state, "trigger", logical_time,
    repetition, interval_start, interval_end, zone, utc_offset, is_shifted, tzdata, attempt,
    position, awaits_attempt, has_turn, parallelism, due_at, reason, created_at, ended_at)
    {numbers} SELECT id || i, job_id, owner, name, version_id, 'succeeded', "trigger", logical_time,
    i, interval_start, interval_end, zone, utc_offset, is_shifted, tzdata, attempt, position,
    awaits_attempt, has_turn, parallelism, due_at, reason, created_at, {ended_at}
    FROM runs, n"""
_WEEK_AGO = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now', '-7 days')",
    "postgresql": "now() - interval '7 days'",
}
_OF_RUNS = {
    "headrace_waiting_runs",
    "headrace_oldest_due_run_seconds",
    "headrace_oldest_due_schedule_seconds",
    "headrace_recently_failed_runs",
}


def test_the_metrics_of_runs_read_no_ended_runs(store: Database) -> None:
    rules = FiringRules(schedule=Schedule(cron="0 * * * *"))
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    job_id = insert_batch_job(store, rules, cursor=noon)
    with store.write("test") as tx:
        schedule = schedules.lock(tx, job_id)
        assert schedule is not None
        fire(tx, schedule, noon + timedelta(hours=1))
        copies = _ENDED_RUNS.format(
            numbers=_NUMBERS[store.dialect], ended_at=_WEEK_AGO[store.dialect]
        )
        tx.execute(text(copies), {"count": _ENDED})
        tx.execute(text("ANALYZE"))
    measured = [each.read for each in MEASUREMENTS if each.name in _OF_RUNS]
    assert len(measured) == len(_OF_RUNS)
    with store.write("test") as tx:
        plans = [
            *(plan for read in measured for plan in _plans(tx, read)),
            *_plans(tx, count_live),
            *_plans(tx, partial(runs.find_queue, job_id=job_id)),
            *_plans(tx, partial(runs.list_starts, job_id=job_id, before=noon, limit=20)),
            *_plans(tx, partial(schedules.list_lags, limit=500)),
            *_plans(tx, partial(runs.find_begun, job_ids=[job_id])),
            *_plans(tx, partial(runs.find_statements, run_ids=["rn_x", "rn_y"])),
        ]
    for plan in plans:
        for line in plan.splitlines():
            assert "Seq Scan on runs" not in line, plan
            assert not line.startswith("SCAN runs") or "INDEX" in line, plan


_ENDED_MESSAGES = """
    INSERT INTO deliveries (id, endpoint, kind, subject, payload, attempts, created_at, sent_at)
    {numbers} SELECT 'dl_' || i, 'wh_1', 'run.failed', i, '', 1, {now}, {now} FROM n"""
_OF_MESSAGES = {"headrace_waiting_messages", "headrace_oldest_message_seconds"}


def test_the_outbox_and_its_metrics_read_no_sent_messages(store: Database) -> None:
    now = {"sqlite": "1764000000000000", "postgresql": "now() - interval '7 days'"}[store.dialect]
    with store.write("test") as tx:
        copies = _ENDED_MESSAGES.format(numbers=_NUMBERS[store.dialect], now=now)
        tx.execute(text(copies), {"count": _ENDED})
        tx.execute(text("ANALYZE"))
    measured = [each.read for each in MEASUREMENTS if each.name in _OF_MESSAGES]
    assert len(measured) == len(_OF_MESSAGES)
    acts: list[Any] = [*measured, deliveries.has_waiting, deliveries.has_due]
    acts.append(partial(deliveries.read_recent, endpoints=["wh_1", "wh_2"]))
    with store.write("test") as tx:
        for act in acts:
            for plan in _plans(tx, act):
                for line in plan.splitlines():
                    assert "Seq Scan on deliveries" not in line, plan
                    assert not line.startswith("SCAN deliveries") or "INDEX" in line, plan


@pytest.mark.parametrize(
    "act",
    [
        lambda tx: triggers.list_ready(tx, 10),
        lambda tx: triggers.list_followers(tx, "ada", "load"),
        lambda tx: triggers.list_tables(tx, "jb_x"),
        lambda tx: runs.list_upstream(tx, "jb_x", 10),
        lambda tx: runs.list_live_of_jobs(tx, "ada", ["load"]),
        lambda tx: runs.list_live_by_job(tx, ["jb_x", "jb_y"]),
        lambda tx: runs.list_times_by_job(tx, ["jb_x", "jb_y"]),
        lambda tx: runs.list_noted(tx, ["jb_x", "jb_y"]),
        lambda tx: triggers.list_changed(tx, ["jb_x", "jb_y"]),
        lambda tx: schedules.list_by_name(tx, "ada", ["load"]),
        lambda tx: runs.find_previous(tx, "jb_x", before=datetime.now(UTC), limit=31),
    ],
    ids=[
        *("ready", "followers", "tables", "upstream runs", "live runs of jobs", "live", "times"),
        *("noted runs", "changed tables", "schedules by name", "previous times"),
    ],
)
def test_what_starts_runs_is_found_by_indexes(store: Database, act: Any) -> None:
    if store.dialect == "postgresql":
        # It scans empty tables.
        return
    with store.write("test") as tx:
        plans = _plans(tx, act)
    assert plans
    for plan in plans:
        assert all("INDEX" in line for line in plan.splitlines() if line.startswith("SCAN")), plan
