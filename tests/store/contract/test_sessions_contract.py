"""Contract of sessions: their fields, names, pages, and leases by the database's clock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.store import (
    LOST,
    get_session,
    new_session,
    new_statement,
    read_changes,
    register_node,
    running_session,
)

from headrace.errors import SessionNameExists
from headrace.model.ids import new_id
from headrace.model.lifecycle import STATEMENT, SessionState, StatementState
from headrace.model.session import DriverLease, NewSession, SessionSpec
from headrace.store.database import Database
from headrace.store.sessions import lease_renewals, sessions, takeovers
from headrace.store.statements import statements

_AGO = -1.0


def test_a_session_is_stored_with_all_its_fields(store: Database) -> None:
    new = NewSession(
        id=new_id("se"),
        owner="ada",
        name="Äpfel 🍏",
        spec=SessionSpec(
            profile="big",
            conf={"spark.sql.shuffle.partitions": "4", "a": "\x00"},
            catalog="spark_catalog",
            database="sales",
            jars=["a.jar"],
            files=["b.txt"],
            py_files=["c.py"],
        ),
    )
    with store.write("test") as tx:
        sessions.insert(tx, new, actor="ada")
    session = get_session(store, new.id)
    assert (session.owner, session.kind, session.name) == ("ada", new.kind, new.name)
    assert session.spec == new.spec
    assert session.state is SessionState.NOT_STARTED
    assert session.epoch == 0
    assert abs(session.created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert session.started_at is session.ended_at is session.lease_until is session.driver is None


def test_an_unknown_session_is_none(store: Database) -> None:
    with store.read() as tx:
        assert sessions.get(tx, "se_x") is None
        assert sessions.id_of_name(tx, "ada", "x") is None
        assert sessions.owner_of(tx, "se_x") is None
        assert sessions.token_hash(tx, DriverLease("se_x", 1)) is None


def test_session_numbers_increase(store: Database) -> None:
    numbers = [get_session(store, new_session(store)).number for _ in range(3)]
    assert numbers == sorted(set(numbers))


def test_active_counts_the_live_statements_of_a_session(store: Database) -> None:
    session_id = new_session(store)
    for state in StatementState:
        new_statement(store, session_id, state)
    assert get_session(store, session_id).active == len(STATEMENT.live)
    with store.read() as tx:
        assert statements.active_count(tx) == len(STATEMENT.live)


def test_a_name_is_unique_among_the_live_sessions_of_an_owner(store: Database) -> None:
    first = new_session(store, name="etl")
    with pytest.raises(SessionNameExists, match="etl"):
        new_session(store, name="etl")
    new_session(store, name="etl", owner="bob")
    with store.read() as tx:
        assert sessions.id_of_name(tx, "ada", "etl") == first
        assert sessions.owner_of(tx, first) == "ada"
    with store.write("test") as tx:
        assert sessions.transition(tx, first, SessionState.FAILED, actor="test")
    with store.read() as tx:
        assert sessions.id_of_name(tx, "ada", "etl") is None
    second = new_session(store, name="etl")
    with store.read() as tx:
        assert sessions.id_of_name(tx, "ada", "etl") == second


def test_one_of_many_concurrent_sessions_gets_a_name(store: Database) -> None:
    def attempt(_: int) -> bool:
        try:
            new_session(store, name="etl")
        except SessionNameExists:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(attempt, range(6))) == 1


def test_pages_are_sorted_from_newest_to_oldest(store: Database) -> None:
    waiting_ids = [new_session(store) for _ in range(5)]
    new_session(store, owner="bob")
    ended = new_session(store, SessionState.FAILED)
    newest_first = [ended, *reversed(waiting_ids)]
    with store.read() as tx:
        first = [session.id for session in sessions.page(tx, owners=["ada"], limit=4)]
        rest = [
            session.id for session in sessions.page(tx, owners=["ada"], before=first[-1], limit=4)
        ]
        waiting = sessions.page(tx, owners=["ada"], states={SessionState.NOT_STARTED})
        failed = sessions.page(tx, states=[SessionState.FAILED])
        assert len(sessions.page(tx)) == 7
        assert sessions.page(tx, states=[]) == []
    assert first + rest == newest_first
    assert [session.id for session in waiting] == list(reversed(waiting_ids))
    assert [session.id for session in failed] == [ended]


def test_launchable_sessions_are_sorted_from_oldest_to_newest(store: Database) -> None:
    launchable = [new_session(store), new_session(store, SessionState.STARTING), new_session(store)]
    claimed = new_session(store)
    with store.write("test") as tx:
        takeovers.claim_launch(tx, claimed, node="no_1", seconds=60, token_hash="h")
    with store.read() as tx:
        assert [session.id for session in sessions.launchable(tx, 10)] == launchable
        assert [session.id for session in sessions.launchable(tx, 2)] == launchable[:2]


def test_live_sessions_can_be_restricted_to_those_that_a_node_launched(store: Database) -> None:
    running = running_session(store).session_id
    waiting = new_session(store)
    new_session(store, SessionState.DEAD)
    with store.read() as tx:
        assert [session.id for session in sessions.live(tx)] == [running, waiting]
        assert [session.id for session in sessions.live(tx, launched_by="no_1")] == [running]
        assert sessions.live(tx, launched_by="no_2") == []


def test_hello_stores_the_driver_and_starts_its_lease(store: Database) -> None:
    session_id = new_session(store)
    with store.write("test") as tx:
        epoch = takeovers.claim_launch(tx, session_id, node="no_1", seconds=60, token_hash="h")
        assert epoch is not None
        lease = DriverLease(session_id, epoch)
        assert sessions.set_handle(tx, lease, {"pid": 7})
        assert sessions.transition(
            tx,
            session_id,
            SessionState.RUNNING,
            actor="driver",
            epoch=epoch,
            driver={"spark_version": "4"},
            lease_seconds=15,
        )
        assert sessions.token_hash(tx, lease) == "h"
    session = get_session(store, session_id)
    assert (session.handle, session.driver) == ({"pid": 7}, {"spark_version": "4"})
    assert session.lease_until is not None
    assert session.started_at is not None
    assert timedelta(seconds=14) < session.lease_until - session.started_at <= timedelta(seconds=16)


def test_a_lease_expires_by_the_databases_clock_and_can_be_renewed(store: Database) -> None:
    register_node(store)
    expired = running_session(store, lease_seconds=_AGO)
    running_session(store, lease_seconds=60)
    new_session(store)
    assert overdue_ids(store) == [expired.session_id]
    with store.write("test") as tx:
        # An expired lease can be renewed until a takeover raises the epoch.
        assert lease_renewals.renew(tx, expired, 60) is SessionState.RUNNING
    assert overdue_ids(store) == []


def overdue_ids(store: Database) -> list[str]:
    with store.read() as tx:
        return [session.id for session in takeovers.overdue(tx, 10, node="no_1", seconds=60)]


def test_a_launch_without_hello_becomes_overdue(store: Database) -> None:
    register_node(store)
    session_id = new_session(store)
    with store.write("test") as tx:
        takeovers.claim_launch(tx, session_id, node="no_1", seconds=_AGO, token_hash="h")
    assert overdue_ids(store) == [session_id]


@pytest.mark.parametrize("state", [SessionState.RUNNING, SessionState.CLOSING])
def test_a_renewal_returns_the_state_of_the_session(store: Database, state: SessionState) -> None:
    lease = running_session(store)
    if state is not SessionState.RUNNING:
        with store.write("test") as tx:
            assert sessions.transition(tx, lease.session_id, state, actor="test")
    before = get_session(store, lease.session_id)
    with store.write("test") as tx:
        assert lease_renewals.renew(tx, lease, 600) is state
    after = get_session(store, lease.session_id)
    assert after.lease_until is not None
    assert before.lease_until is not None
    assert after.lease_until - before.lease_until > timedelta(minutes=8)
    assert after.last_update_time is not None


@pytest.mark.parametrize("state", [SessionState.DEAD, SessionState.FAILED])
def test_the_lease_is_lost_when_the_session_ends(store: Database, state: SessionState) -> None:
    lease = running_session(store)
    with store.write("test") as tx:
        assert sessions.transition(tx, lease.session_id, state, actor="test")
        assert lease_renewals.renew(tx, lease, 60) is None


def test_the_end_of_a_session_is_stored_with_its_failure(store: Database) -> None:
    lease = running_session(store)
    with store.write("test") as tx:
        assert sessions.transition(
            tx,
            lease.session_id,
            SessionState.FAILED,
            actor="no_1",
            epoch=lease.epoch,
            failure=LOST,
            detail={"exit": 9},
        )
    session = get_session(store, lease.session_id)
    assert session.failure == LOST
    assert session.ended_at is not None
    assert session.lease_until is None
    with store.read() as tx:
        last = read_changes(tx, entity_id=lease.session_id)[-1]
    assert (last.entity, last.source, last.target, last.actor) == (
        "session",
        "running",
        "failed",
        "no_1",
    )
    assert last.detail["exit"] == 9
    assert last.detail["failure"]["code"] == "driver_lost"
