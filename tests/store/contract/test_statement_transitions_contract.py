"""Who gets what, and that only one does: launches and claims, by epoch and under contention."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.store import INLINE, new_session, new_statement, running_session

from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import DriverLease
from headrace.model.statement import Statement
from headrace.store import sessions, statement_transitions, statements, takeovers
from headrace.store.database import Database


def _claim(store: Database, lease: DriverLease) -> Statement | None:
    with store.write("test") as tx:
        return statement_transitions.claim_next(tx, lease)


def test_statements_are_claimed_one_after_the_other_in_order(store: Database) -> None:
    lease = running_session(store)
    submitted = [new_statement(store, lease.session_id) for _ in range(3)]
    claimed = []
    for _ in submitted:
        statement = _claim(store, lease)
        assert statement is not None
        assert statement.state is StatementState.LAUNCHED
        assert (statement.epoch, statement.attempts) == (lease.epoch, 1)
        assert statement.launched_at is not None
        assert _claim(store, lease) is None, "one at a time"
        with store.write("test") as tx:
            done = StatementState.SUCCESS
            assert statement_transitions.transition(
                tx, statement.id, done, actor="driver", lease=lease
            )
        claimed.append(statement.id)
    assert claimed == submitted
    assert _claim(store, lease) is None


@pytest.mark.parametrize(
    "state", [StatementState.LAUNCHED, StatementState.RUNNING, StatementState.CANCELLING]
)
def test_nothing_is_claimed_beside_a_statement_in_hand(
    store: Database, state: StatementState
) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id, state, lease=lease)
    new_statement(store, lease.session_id)
    assert _claim(store, lease) is None


def test_another_sessions_work_is_no_hindrance(store: Database) -> None:
    busy = running_session(store)
    new_statement(store, busy.session_id, StatementState.RUNNING, lease=busy)
    idle = running_session(store)
    waiting = new_statement(store, idle.session_id)
    claimed = _claim(store, idle)
    assert claimed is not None
    assert claimed.id == waiting


@pytest.mark.parametrize("state", [SessionState.CLOSING, SessionState.RECOVERING])
def test_only_a_running_session_gets_work(store: Database, state: SessionState) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id)
    with store.write("test") as tx:
        assert sessions.transition(tx, lease.session_id, state, actor="test")
    assert _claim(store, lease) is None


def test_a_superseded_epoch_gets_nothing(store: Database) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id)
    for epoch in (lease.epoch - 1, lease.epoch + 1):
        assert _claim(store, DriverLease(lease.session_id, epoch)) is None


def test_a_zombie_changes_nothing(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    stale = DriverLease(lease.session_id, lease.epoch - 1)
    with store.write("test") as tx:
        for target in StatementState:
            if target is not StatementState.LAUNCHED:
                assert not statement_transitions.transition(
                    tx,
                    statement_id,
                    target,
                    actor="zombie",
                    lease=stale,
                    result=INLINE,
                    result_seconds=60,
                )
        for state in SessionState:
            assert not sessions.transition(
                tx, lease.session_id, state, actor="zombie", epoch=stale.epoch
            )
        assert sessions.renew(tx, stale, 60) is None
        assert not sessions.set_handle(tx, stale, {"pid": 1})
    with store.read() as tx:
        statement, session = statements.get(tx, statement_id), sessions.get(tx, lease.session_id)
        assert sessions.token_hash(tx, stale) is None
    assert statement is not None
    assert statement.state is StatementState.RUNNING
    assert statement.result is None
    assert session is not None
    assert session.state is SessionState.RUNNING
    assert session.handle is None


def test_many_claims_at_once_get_each_statement_once(store: Database) -> None:
    lease = running_session(store)
    submitted = [new_statement(store, lease.session_id) for _ in range(20)]
    claimed: list[str] = []

    def assignment() -> None:
        while len(claimed) < len(submitted):
            statement = _claim(store, lease)
            if statement is None:
                continue
            claimed.append(statement.id)
            with store.write("test") as tx:
                ended = StatementState.FAILED
                assert statement_transitions.transition(
                    tx, statement.id, ended, actor="t", lease=lease
                )

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(assignment) for _ in range(6)]:
            done.result(timeout=60)
    assert claimed == submitted


def test_one_node_wins_a_launch(store: Database) -> None:
    session_id = new_session(store)
    ready = threading.Barrier(6)

    def claim(node: str) -> int | None:
        ready.wait()
        with store.write("test") as tx:
            return takeovers.claim_launch(tx, session_id, node=node, seconds=60, token_hash=node)

    with ThreadPoolExecutor(6) as pool:
        epochs = list(pool.map(claim, [f"no_{number}" for number in range(6)]))
    winners = [f"no_{number}" for number, epoch in enumerate(epochs) if epoch is not None]
    assert [epoch for epoch in epochs if epoch is not None] == [1]
    with store.read() as tx:
        session = sessions.get(tx, session_id)
        assert session is not None
        assert session.state is SessionState.STARTING
        assert [session.launched_by] == winners
        assert [sessions.token_hash(tx, DriverLease(session_id, 1))] == winners


def test_only_one_of_many_ends_of_a_statement_lands(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    ready = threading.Barrier(6)

    def end(target: StatementState) -> bool:
        ready.wait()
        with store.write("test") as tx:
            return statement_transitions.transition(tx, statement_id, target, actor="test")

    ends = [StatementState.SUCCESS, StatementState.FAILED, StatementState.TIMEOUT] * 2
    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(end, ends)) == 1


def test_queries_run_beside_each_other_and_anything_else_alone(store: Database) -> None:
    lease = running_session(store, parallelism=3)
    queries = [new_statement(store, lease.session_id, is_query=True) for _ in range(4)]
    barrier = new_statement(store, lease.session_id)
    last = new_statement(store, lease.session_id, is_query=True)

    def claimed() -> list[str]:
        found = []
        while statement := _claim(store, lease):
            found.append(statement.id)
        return found

    def end(*ended: str) -> None:
        with store.write("test") as tx:
            for one in ended:
                assert statement_transitions.transition(
                    tx, one, StatementState.SUCCESS, actor="d", lease=lease
                )

    assert claimed() == queries[:3]
    end(queries[1])
    assert claimed() == queries[3:]
    end(queries[0], queries[2])
    # Nothing overtakes what runs alone.
    assert claimed() == []
    end(queries[3])
    assert claimed() == [barrier]
    end(barrier)
    assert claimed() == [last]
