"""Alerts on what takes too long or expires."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.batch_jobs import insert_batch_job
from tests.support.certificates import Authority
from tests.support.in_process_node import make_settings
from tests.support.store import running_session

from headrace.control.context import NodeContext
from headrace.control.outbox.watch import AlertWatch
from headrace.model.failure import Failure
from headrace.model.identity import Scope
from headrace.model.ids import new_id
from headrace.model.lifecycle import RunState, StreamState
from headrace.model.run import FiringRules, RunTimes, RunTrigger
from headrace.model.schedule import Schedule
from headrace.model.stream_query import ADHOC_SCOPE, NewStreamQuery, QuerySpec
from headrace.store import deliveries, events
from headrace.store.clock import clock, read_clock
from headrace.store.database import Database
from headrace.store.identity import tokens
from headrace.store.jobs import runs
from headrace.store.streams import stream_queries
from headrace.store.tables import events as event_table
from headrace.store.tables import stream_queries as query_table
from headrace.store.tables import tokens as token_table

OWNER = "ada"
ALL = ["run.late", "stream.backoff", "credential.expiring"]


@pytest.fixture
def make_context(store: Database, tmp_path: Path) -> Callable[..., NodeContext]:
    def make(**changes: Any) -> NodeContext:
        webhook = {"url": "https://hooks.example.com/", "secret": "${secret:hook}", "events": ALL}
        settings = make_settings(
            tmp_path,
            secrets={"provider": "environment"},
            **({"webhooks": {"all": webhook}} | changes),
        )
        return NodeContext(store, settings, "no_1", "https://node.example.com")

    return make


def list_messages(store: Database) -> list[tuple[str, str, str | None]]:
    with store.read() as tx:
        found = deliveries.page(tx, "settings/all", before=None, limit=100)
    return [(each.kind, each.subject.partition("/")[0], each.owner) for each in found]


def insert_run(store: Database, minutes: float, **fields: Any) -> str:
    """Insert a run of a schedule whose logical time was some minutes ago."""
    with store.read() as tx:
        now = read_clock(tx.connection)
    rules = FiringRules(schedule=Schedule(cron="@yearly"), delay=fields.pop("delay", timedelta()))
    job = insert_batch_job(store, rules, cursor=now, name=new_id("jb"), owner=OWNER)
    time = now - timedelta(minutes=minutes)
    defaults = {"trigger": RunTrigger.SCHEDULE, "version_id": new_id("jv")}
    with store.write("test") as tx:
        run = runs.insert_run(
            tx,
            job,
            owner=OWNER,
            name="load",
            times=RunTimes(logical_time=time, interval_start=time, interval_end=time),
            due_at=now,
            actor="test",
            **(defaults | fields),
        )
    return run.id


def test_a_late_run_is_reported_once_and_others_are_not(
    store: Database, make_context: Callable[..., NodeContext]
) -> None:
    late = insert_run(store, 16)
    insert_run(store, 14)
    insert_run(store, 16, delay=timedelta(minutes=5))
    insert_run(store, 16, trigger=RunTrigger.BACKFILL)
    ended = insert_run(store, 16)
    with store.write("test") as tx:
        run = runs.lock(tx, ended)
        assert run is not None
        runs.end(tx, run, RunState.SKIPPED, actor="test")
    watches = [AlertWatch(make_context()) for _node in range(3)]
    for watch in watches * 2:
        watch.run()
    assert list_messages(store) == [("run.late", late, OWNER)]


@pytest.mark.usefixtures("stopped_clock")
def test_a_token_that_expires_soon_is_reported_once_a_day(
    store: Database, make_context: Callable[..., NodeContext]
) -> None:
    def insert_token(name: str, days: float, age: float) -> str:
        with store.write("test") as tx:
            token = tokens.insert_token(
                tx,
                "hash",
                owner=OWNER,
                name=name,
                scope=Scope.READ,
                seconds=timedelta(days=days).total_seconds(),
                created_by=OWNER,
            )
            created = clock(-timedelta(days=age).total_seconds())
            change = update(token_table).where(token_table.c.id == token.id)
            tx.execute(change.values(created_at=created))
        return token.id

    expiring = insert_token("soon", 10, 80)
    insert_token("later", 15, 80)
    insert_token("short", 10, 1)
    revoked = insert_token("revoked", 10, 80)
    with store.write("test") as tx:
        tokens.revoke(tx, revoked, actor=OWNER)
    watch = AlertWatch(make_context())
    watch.run()
    watch.run()
    assert list_messages(store) == [("credential.expiring", expiring, OWNER)]


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize(("days", "reported"), [(3, True), (40, False)])
def test_a_certificate_that_expires_soon_is_reported_to_operators(
    store: Database,
    make_context: Callable[..., NodeContext],
    tmp_path: Path,
    days: int,
    reported: bool,
) -> None:
    pair = Authority(tmp_path / "ca").issue("node", "localhost", ends=timedelta(days=days))
    tls = {"cert": str(pair.cert), "key": str(pair.key)}
    watch = AlertWatch(make_context(tls=tls))
    watch.run()
    watch.run()
    expected = [("credential.expiring", "no_1", None)] if reported else []
    assert list_messages(store) == expected


def test_a_stream_that_fails_for_long_is_reported_once_in_each_series(
    store: Database, make_context: Callable[..., NodeContext]
) -> None:
    lease = running_session(store, owner=OWNER)
    new = NewStreamQuery(
        id=new_id("sq"),
        owner=OWNER,
        scope=ADHOC_SCOPE,
        name="clicks",
        spec=QuerySpec(text="SAVE STREAM a TO noop", sink="noop"),
        checkpoint_place=None,
        session_id=lease.session_id,
        statement_id=None,
    )
    with store.write("test") as tx:
        stream_queries.insert_query(tx, new, actor=OWNER)

    def fail(failures: int, minutes: float) -> None:
        values = {"state": StreamState.BACKING_OFF, "failures": failures}
        values["last_error"] = Failure(code="a", message="b")
        with store.write("test") as tx:
            tx.execute(update(query_table).where(query_table.c.id == new.id).values(values))
            events.append(
                tx,
                "stream",
                new.id,
                StreamState.RUNNING,
                StreamState.BACKING_OFF,
                actor="test",
                detail={"failures": failures},
            )
            newest = event_table.c.entity_id == new.id
            at = event_table.c.at > clock(-60)
            change = update(event_table).where(newest, at)
            tx.execute(change.values(at=clock(-60 * minutes)))

    watch = AlertWatch(make_context())
    fail(1, 9)
    watch.run()
    assert list_messages(store) == []
    fail(1, 30)
    fail(2, 20)
    for _sweep in range(2):
        watch.run()
    assert list_messages(store) == [("stream.backoff", new.id, OWNER)]
    fail(1, 11)
    watch.run()
    assert len(list_messages(store)) == 2


def test_a_node_without_webhooks_looks_for_nothing(
    store: Database, make_context: Callable[..., NodeContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_run(store, 16)
    watch = AlertWatch(make_context(webhooks={}))
    monkeypatch.setattr(watch, "_report", pytest.fail)
    watch.run()
