"""The deletion of old history: what goes, and what stays."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, insert, select, update
from tests.support.executions import make_execution
from tests.support.in_process_node import make_settings
from tests.support.store import (
    INLINE,
    OWNER,
    new_session,
    new_statement,
    read_changes,
    running_session,
)
from tests.support.stream_minutes import add_minutes

from headrace.config.settings import load
from headrace.control import history as history_module
from headrace.control.context import NodeContext
from headrace.control.history import HistoryPurge, HistoryRetention
from headrace.control.policy import Caller, Role
from headrace.control.retention import Retention
from headrace.errors import InvalidRequest, InvalidSetting
from headrace.model.identity import Scope
from headrace.model.ids import new_id
from headrace.model.lifecycle import NodeState, SessionState, StatementState, TransactionState
from headrace.model.session import DriverLease
from headrace.model.stream_query import (
    Definition,
    DefinitionKind,
    NewStreamQuery,
    QueryProgress,
    QuerySpec,
)
from headrace.model.transaction import Staged, Transaction
from headrace.store import editor_drafts, nodes, transactions
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.identity import tokens
from headrace.store.sessions import sessions
from headrace.store.statements import executions, idempotency, results, statement_transitions
from headrace.store.streams import (
    definitions,
    stream_minutes,
    stream_progress,
    stream_queries,
    stream_transitions,
)
from headrace.store.tables import definitions as definitions_table
from headrace.store.tables import editor_drafts as drafts_table
from headrace.store.tables import events as events_table
from headrace.store.tables import idempotency as idempotency_table
from headrace.store.tables import jobs as jobs_table
from headrace.store.tables import nodes as nodes_table
from headrace.store.tables import sessions as sessions_table
from headrace.store.tables import statements as statements_table
from headrace.store.tables import stream_progress as stream_progress_table
from headrace.store.tables import stream_queries as stream_queries_table
from headrace.store.tables import tokens as tokens_table
from headrace.store.tables import transactions as transactions_table

DAY = 24 * 3600.0
CALLER = Caller(OWNER, roles=frozenset({Role.ADMIN}))
STAGED = Staged(kind="session", catalog="c", identity="here", target="`d`.`t`", record={})


def _history(store: Database, tmp_path: Path, retention: str | None = "30d") -> HistoryRetention:
    settings = make_settings(tmp_path, history={"retention": retention})
    return HistoryRetention(NodeContext(store, settings, "no_1", "http://node"))


def _age(store: Database, days: float) -> None:
    """Date all ends, events and keys back, as if so much time had passed."""
    seconds = -days * DAY
    columns = [
        *(table.c.ended_at for table in (statements_table, sessions_table, transactions_table)),
        *(stream_queries_table.c.ended_at, definitions_table.c.ended_at),
        *(nodes_table.c.ended_at, events_table.c.at, idempotency_table.c.created_at),
    ]
    with store.write("test") as tx:
        for column in columns:
            change = update(column.table).where(column.is_not(None))
            tx.execute(change.values({column.name: clock(seconds)}))


def test_drafts_that_were_not_saved_for_long_are_deleted(store: Database, tmp_path: Path) -> None:
    with store.write("test.drafts") as tx:
        for draft_id in ("dr_old", "dr_new"):
            editor_drafts.insert_draft(tx, draft_id, OWNER, title="", text="", connection_id=None)
        change = update(drafts_table).where(drafts_table.c.id == "dr_old")
        tx.execute(change.values(updated_at=clock(-31 * DAY)))
    _history(store, tmp_path).run()
    assert _ids(store, drafts_table) == {"dr_new"}


def test_minutes_of_ended_streams_are_deleted_long_before_the_streams(
    store: Database, tmp_path: Path
) -> None:
    lease = running_session(store)
    new = NewStreamQuery(
        id=new_id("sq"),
        owner=OWNER,
        scope="adhoc",
        name="q",
        spec=QuerySpec(text="SAVE STREAM t TO noop IDENTIFIED BY q", sink="noop"),
        checkpoint_place=None,
        session_id=lease.session_id,
        statement_id=None,
    )
    with store.write("test") as tx:
        stream_queries.insert_query(tx, new, actor=OWNER)
        stream_transitions.end_all(tx, lease.session_id, actor=OWNER)
    add_minutes(store, new.id, *range(350))
    history = _history(store, tmp_path, retention=None)
    history.run()
    with store.read() as tx:
        assert len(stream_minutes.read(tx, [new.id])) == 350
    _age(store, 0.3)
    history.run()
    with store.read() as tx:
        assert stream_minutes.read(tx, [new.id]) == []
    assert _ids(store, stream_queries_table) == {new.id}


def _ids(store: Database, table: Table) -> set[str]:
    with store.read() as tx:
        return set(tx.execute(select(table.c.id)).scalars())


def _entities(store: Database) -> set[str]:
    with store.read() as tx:
        # Readers of events on PostgreSQL wait for the end of every transaction of the server.
        return set(tx.execute(select(events_table.c.entity_id)).scalars())


def _prepare(store: Database, lease: DriverLease, statement_id: str) -> str:
    """Journal a table transaction of a running statement. Return its id."""
    new = Transaction(
        id=new_id("tx"),
        statement_id=statement_id,
        session_id=lease.session_id,
        epoch=lease.epoch,
        state=TransactionState.PREPARED,
        staged=STAGED,
        staged_epoch=lease.epoch,
    )
    with store.write("test") as tx:
        assert transactions.prepare(tx, new, actor="driver")
    return new.id


def _advance(store: Database, lease: DriverLease, id_: str, *states: TransactionState) -> None:
    with store.write("test") as tx:
        for state in states:
            assert transactions.advance(tx, id_, state, lease=lease, actor="driver")


def _end(store: Database, lease: DriverLease, statement_id: str, **options: Any) -> None:
    state = StatementState.SUCCESS if options else StatementState.FAILED
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx, statement_id, state, actor="driver", lease=lease, **options
        )


@pytest.mark.finding("B20")
def test_old_statements_sessions_and_events_are_deleted(store: Database, tmp_path: Path) -> None:
    ended = new_session(store)
    new_statement(store, ended, StatementState.FAILED)
    _close(store, ended)
    lease = running_session(store)
    aborted = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    table = _prepare(store, lease, aborted)
    _advance(store, lease, table, TransactionState.ABORTING, TransactionState.ABORTED)
    _end(store, lease, aborted)
    with store.write("test") as tx:
        assert executions.save(tx, lease, {aborted: make_execution()}) == 1
        nodes.register(tx, "no_1", address="http://node", version="1", seconds=60)
        idempotency.remember(tx, OWNER, "key", "hash", aborted)
    _age(store, 31)
    with store.write("test") as tx:
        nodes.register(tx, "no_1", address="http://node", version="1", seconds=60)

    _history(store, tmp_path).run()

    assert _ids(store, statements_table) == set()
    assert _ids(store, transactions_table) == set()
    with store.read() as tx:
        assert executions.find(tx, aborted) is None
    # The live session stays, with its events. Nodes stay, with their recent events.
    assert _ids(store, sessions_table) == {lease.session_id}
    assert _entities(store) == {lease.session_id, "no_1"}
    with store.read() as tx:
        assert [record.id for record in nodes.page(tx)] == ["no_1"]
        log = read_changes(tx, entity="node")
        assert [event.target for event in log] == ["gone", "up"]
        assert tx.execute(select(func.count()).select_from(nodes_table)).scalar_one() == 2
        assert tx.execute(select(func.count()).select_from(idempotency_table)).scalar_one() == 0


@pytest.mark.finding("B20")
def test_recent_and_live_rows_and_rows_that_others_need_are_kept(
    store: Database, tmp_path: Path
) -> None:
    lease = running_session(store)
    waiting = new_statement(store, lease.session_id)
    kept = {waiting}
    # Its result is not deleted yet.
    with_result = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    _end(store, lease, with_result, result=INLINE, result_seconds=90 * DAY)
    # Recovery still needs its record.
    in_doubt = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    table = _prepare(store, lease, in_doubt)
    _end(store, lease, in_doubt)
    # The next driver must still call its hooks.
    with_hook = new_statement(store, lease.session_id, StatementState.FAILED)
    with store.write("test") as tx:
        sessions.add_hook_calls(tx, lease.session_id, [with_hook])
    kept |= {with_result, in_doubt, with_hook}
    old_session = new_session(store)
    new_statement(store, old_session, StatementState.FAILED)
    _close(store, old_session)
    _age(store, 31)
    recent = new_session(store)
    kept |= {new_statement(store, recent, StatementState.FAILED)}
    _close(store, recent)

    _history(store, tmp_path).run()
    assert _ids(store, statements_table) == kept
    assert _ids(store, transactions_table) == {table}
    assert _ids(store, sessions_table) == {lease.session_id, recent}
    assert kept | {table, lease.session_id, recent} == _entities(store)

    # When nothing needs them any more, they go too.
    _advance(store, lease, table, TransactionState.ABORTING, TransactionState.ABORTED)
    with store.write("test") as tx:
        results.mark_gone(tx, with_result)
        sessions.remove_hook_calls(tx, lease.session_id)
    _history(store, tmp_path).run()
    assert _ids(store, statements_table) == kept - {with_result, in_doubt, with_hook}


def test_a_token_is_deleted_when_it_has_expired_long_ago(store: Database, tmp_path: Path) -> None:
    expiries = {"new": DAY, "expired": -29 * DAY, "old": -31 * DAY}
    ids = {}
    with store.write("test") as tx:
        for name, seconds in expiries.items():
            token = tokens.insert_token(
                tx,
                "",
                owner="ada",
                name=name,
                scope=Scope.READ,
                seconds=seconds,
                created_by="ada",
            )
            ids[name] = token.id
        tokens.revoke(tx, ids["new"], actor="ada")
    _history(store, tmp_path).run()
    kept = {ids["new"], ids["expired"]}
    assert _ids(store, tokens_table) == kept == _entities(store)


@pytest.mark.finding("B20")
def test_a_session_stays_as_long_as_a_table_that_its_driver_has_finished(
    store: Database, tmp_path: Path
) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    table = _prepare(store, lease, statement_id)
    _end(store, lease, statement_id, result=INLINE, result_seconds=90 * DAY)
    helper = new_session(store)
    with store.write("test") as tx:
        change = update(transactions_table).where(transactions_table.c.id == table)
        tx.execute(change.values(session_id=helper, state="aborted", ended_at=clock()))
    _close(store, helper)
    _age(store, 31)

    _history(store, tmp_path).run()
    assert _ids(store, sessions_table) == {lease.session_id, helper}

    with store.write("test") as tx:
        results.mark_gone(tx, statement_id)
    _history(store, tmp_path).run()
    assert _ids(store, sessions_table) == {lease.session_id}


def test_of_a_node_that_restarted_often_only_recent_registrations_and_the_newest_stay(
    store: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "_BATCH", 2)

    def register(node_id: str) -> int:
        with store.write("test") as tx:
            return nodes.register(tx, node_id, address="http://node", version="1", seconds=60)

    crashing = [register("no_crashing") for _ in range(6)]
    stopped = [register("no_stopped") for _ in range(2)]
    with store.write("test") as tx:
        nodes.transition(tx, "no_stopped", NodeState.GONE, actor="no_stopped")
    _age(store, 31)
    # The sixth registration of that node ends now.
    recent = [crashing[-1], register("no_crashing"), register("no_crashing")]

    _history(store, tmp_path).run()

    with store.read() as tx:
        kept = tx.execute(select(nodes_table.c.registration)).scalars()
        assert sorted(kept) == sorted([stopped[-1], *recent])
        assert [node.id for node in nodes.page(tx)] == ["no_crashing", "no_stopped"]


@pytest.mark.finding("B20")
def test_ended_queries_and_dropped_definitions_are_deleted_and_live_ones_stay(
    store: Database, tmp_path: Path
) -> None:
    session = running_session(store).session_id
    _start_query(store, session, "ended")
    with store.write("test") as tx:
        stream_transitions.end_all(tx, session, actor="ada")
    kept = _start_query(store, session, "kept")
    with store.write("test") as tx:
        for name in ("dropped", "live"):
            text = f"CREATE STREAM {name} FROM rate"
            definition = Definition(
                owner="ada", scope="adhoc", kind=DefinitionKind.STREAM, name=name, text=text
            )
            definitions.define(tx, definition, replace=False, actor="ada")
        definitions.drop(tx, "ada", "adhoc", DefinitionKind.STREAM, "dropped", actor="ada")
    _age(store, 31)
    _history(store, tmp_path).run()

    assert _ids(store, stream_queries_table) == {kept}
    assert _ids(store, stream_progress_table, "query_id") == {kept}
    with store.read() as tx:
        assert [
            each.name for each in definitions.list_live(tx, "ada", "adhoc", DefinitionKind.STREAM)
        ] == ["live"]
        assert tx.execute(select(func.count()).select_from(definitions_table)).scalar() == 1


def _start_query(store: Database, session: str, name: str) -> str:
    """Insert a query with the progress of one batch. Return its id."""
    spec = QuerySpec(text=f"SAVE STREAM {name} TO noop", sink="noop")
    new = NewStreamQuery(
        id=new_id("sq"),
        owner="ada",
        scope="adhoc",
        name=name,
        spec=spec,
        checkpoint_place=None,
        session_id=session,
        statement_id=None,
    )
    batch = QueryProgress(
        batch=0, at="", input_rows=0, input_rate=0.0, process_rate=0.0, milliseconds=0
    )
    with store.write("test") as tx:
        stream_queries.insert_query(tx, new, actor="ada")
        stream_progress.save(tx, new.id, [batch])
    return new.id


def _ids(store: Database, table: Table, column: str = "id") -> set[str]:
    with store.read() as tx:
        return set(tx.execute(select(table.c[column])).scalars())


def test_history_is_deleted_in_small_batches(
    store: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "_BATCH", 2)
    session_id = new_session(store)
    for _ in range(5):
        new_statement(store, session_id, StatementState.FAILED)
    _age(store, 31)
    before = store.write_counts

    _history(store, tmp_path).run()

    assert _ids(store, statements_table) == set()
    name = "retention.statements"
    assert store.write_counts[name] - before.get(name, 0) == 3


@pytest.mark.finding("B20")
def test_history_can_be_kept_for_ever(store: Database, tmp_path: Path) -> None:
    statement_id = new_statement(store, new_session(store), StatementState.FAILED)
    _age(store, 3000)
    _history(store, tmp_path, retention=None).run()
    assert _ids(store, statements_table) == {statement_id}


@pytest.mark.finding("B20")
@pytest.mark.parametrize(
    "sections",
    [{"history": {"retention": "23h"}}, {"results": {"retention": "31d"}}],
    ids=["shorter than keys", "shorter than results"],
)
def test_history_cannot_be_shorter_than_keys_and_results(
    sections: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSetting, match=r"history\.retention must be at least 24h"):
        load(sections)


def _close(store: Database, session_id: str) -> None:
    with store.write("test") as tx:
        for state in (SessionState.CLOSING, SessionState.DEAD):
            assert sessions.transition(tx, session_id, state, actor="test")


def _make_purge(store: Database, tmp_path: Path) -> HistoryPurge:
    settings = make_settings(tmp_path, history={"retention": None})
    context = NodeContext(store, settings, "no_1", "http://node")
    return HistoryPurge(context, Retention(context))


def test_a_purge_deletes_what_its_dry_run_has_counted(store: Database, tmp_path: Path) -> None:
    old, recent = new_session(store), new_session(store)
    lease = running_session(store)
    for session in (old, old, old, lease.session_id):
        new_statement(store, session, StatementState.FAILED)
    with_result = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    _end(store, lease, with_result, result=INLINE, result_seconds=DAY)
    _close(store, old)
    _age(store, 8)
    live = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    kept = new_statement(store, recent, StatementState.FAILED)
    _close(store, recent)
    purge = _make_purge(store, tmp_path)

    counted = purge.count(CALLER, timedelta(days=7))
    assert _ids(store, statements_table) > {live, kept, with_result}
    deleted = purge.purge(CALLER, timedelta(days=7))

    # The result has not expired, and goes with its statement.
    assert counted.counts["statements"] == deleted.counts["statements"] == 5
    assert counted.counts["results"] == deleted.counts["results"] == 1
    assert counted.counts["sessions"] == deleted.counts["sessions"] == 1
    assert not deleted.more
    assert _ids(store, statements_table) == {live, kept}
    assert _ids(store, sessions_table) == {recent, lease.session_id}
    assert set(purge.count(CALLER, timedelta(days=7)).counts.values()) == {0}


def test_a_purge_stops_when_its_time_is_over_and_continues_with_the_next(
    store: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = new_session(store)
    for _number in range(3):
        new_statement(store, session, StatementState.FAILED)
    _age(store, 8)
    purge = _make_purge(store, tmp_path)
    monkeypatch.setattr(history_module, "_PURGE_SECONDS", -1.0)
    stopped = purge.purge(CALLER, timedelta(days=7))
    assert stopped.more
    assert len(_ids(store, statements_table)) == 3
    monkeypatch.undo()
    assert not purge.purge(CALLER, timedelta(days=7)).more
    assert _ids(store, statements_table) == set()


def test_a_purge_keeps_a_statement_whose_result_cannot_be_deleted(
    store: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = running_session(store)
    statement = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    _end(store, lease, statement, result=INLINE, result_seconds=DAY)
    _age(store, 8)
    monkeypatch.setattr(Retention, "_delete_files", lambda *_arguments: False)
    purge = _make_purge(store, tmp_path)
    assert not purge.purge(CALLER, timedelta(days=7)).more
    assert _ids(store, statements_table) == {statement}


def test_the_last_queries_of_a_job_stay_as_long_as_the_job(store: Database, tmp_path: Path) -> None:
    lease = running_session(store)
    checkpoints = {"sq_1": "file:/run1", "sq_2": "file:/run2", "sq_3": "file:/run2"}
    with store.write("test") as tx:
        for id_, checkpoint in checkpoints.items():
            new = NewStreamQuery(
                id=id_,
                owner=OWNER,
                scope="etl",
                name="q",
                spec=QuerySpec(text="SAVE STREAM t TO noop", sink="noop"),
                checkpoint_place=checkpoint,
                session_id=lease.session_id,
                statement_id=None,
            )
            stream_queries.insert_query(tx, new, actor="ada")
            change = update(stream_queries_table).where(stream_queries_table.c.id == id_)
            tx.execute(change.values(state="stopped", ended_at=clock()))
        row = {"id": "jo_1", "owner": OWNER, "name": "etl", "name_key": "etl", "state": "stopped"}
        row |= {"generation": 1, "state_location": "file:/jobs"}
        times = {"created_at": clock(), "updated_at": clock()}
        tx.execute(insert(jobs_table).values(**times), row)
    _age(store, 8)
    purge = _make_purge(store, tmp_path)
    assert purge.count(CALLER, timedelta(days=7)).counts["streams"] == 1
    purge.purge(CALLER, timedelta(days=7))
    assert _ids(store, stream_queries_table) == {"sq_2", "sq_3"}


def test_a_purge_of_everything_is_refused(store: Database, tmp_path: Path) -> None:
    purge = _make_purge(store, tmp_path)
    with pytest.raises(InvalidRequest, match="above 0"):
        purge.count(CALLER, timedelta())
    with pytest.raises(InvalidRequest, match="above 0"):
        purge.purge(CALLER, timedelta())
