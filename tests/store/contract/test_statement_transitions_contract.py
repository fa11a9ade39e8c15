"""Contract of claims and transitions: fenced by the epoch, and applied once under contention."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.store import INLINE, new_statement, running_session

from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import DriverLease
from headrace.model.statement import CancelReason, Statement
from headrace.store.database import Database
from headrace.store.sessions import lease_renewals, sessions
from headrace.store.statements import statement_transitions, statements


def _claim(store: Database, lease: DriverLease) -> Statement | None:
    with store.write("test") as tx:
        claim = statement_transitions.claim_next(tx, lease)
    return None if claim is None else claim.statement


def test_statements_are_claimed_one_at_a_time_in_order(store: Database) -> None:
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
def test_no_statement_is_claimed_beside_a_command_in_flight(
    store: Database, state: StatementState
) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id, state, lease=lease)
    new_statement(store, lease.session_id)
    assert _claim(store, lease) is None


def test_a_claim_does_not_depend_on_other_sessions(store: Database) -> None:
    busy = running_session(store)
    new_statement(store, busy.session_id, StatementState.RUNNING, lease=busy)
    idle = running_session(store)
    waiting = new_statement(store, idle.session_id)
    claimed = _claim(store, idle)
    assert claimed is not None
    assert claimed.id == waiting


@pytest.mark.parametrize("state", [SessionState.CLOSING, SessionState.RECOVERING])
def test_only_a_running_session_can_claim(store: Database, state: SessionState) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id)
    with store.write("test") as tx:
        assert sessions.transition(tx, lease.session_id, state, actor="test")
    assert _claim(store, lease) is None


def test_a_driver_with_another_epoch_cannot_claim(store: Database) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id)
    for epoch in (lease.epoch - 1, lease.epoch + 1):
        assert _claim(store, DriverLease(lease.session_id, epoch)) is None


def test_a_driver_with_a_lost_lease_cannot_change_anything(store: Database) -> None:
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
        assert lease_renewals.renew(tx, stale, 60) is None
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


def test_concurrent_claims_get_each_statement_once(store: Database) -> None:
    lease = running_session(store)
    submitted = [new_statement(store, lease.session_id) for _ in range(20)]
    claimed: list[str] = []

    def claim_all() -> None:
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
        for done in [pool.submit(claim_all) for _ in range(6)]:
            done.result(timeout=60)
    assert claimed == submitted


def test_one_of_many_concurrent_ends_of_a_statement_is_applied(store: Database) -> None:
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


def test_queries_run_in_parallel_and_a_command_runs_alone(store: Database) -> None:
    lease = running_session(store, parallelism=3)
    queries = [new_statement(store, lease.session_id, is_query=True) for _ in range(4)]
    barrier = new_statement(store, lease.session_id)
    last = new_statement(store, lease.session_id, is_query=True)

    def claim_all() -> list[str]:
        claimed = []
        while statement := _claim(store, lease):
            claimed.append(statement.id)
        return claimed

    def end(*statement_ids: str) -> None:
        with store.write("test") as tx:
            for statement_id in statement_ids:
                assert statement_transitions.transition(
                    tx, statement_id, StatementState.SUCCESS, actor="d", lease=lease
                )

    assert claim_all() == queries[:3]
    end(queries[1])
    assert claim_all() == queries[3:]
    end(queries[0], queries[2])
    # No query overtakes the command.
    assert claim_all() == []
    end(queries[3])
    assert claim_all() == [barrier]
    end(barrier)
    assert claim_all() == [last]


def test_a_later_cancel_can_add_force_but_not_change_the_reason(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    for reason, force in ((CancelReason.TIMEOUT, False), (CancelReason.REQUESTED, True)):
        with store.write("test") as tx:
            state = statement_transitions.request_cancel(
                tx, statement_id, actor="ada", reason=reason, force=force
            )
        assert state is StatementState.CANCELLING
    with store.read() as tx:
        statement = statements.get(tx, statement_id)
    assert statement is not None
    assert (statement.cancel_reason, statement.cancel_forced) == (CancelReason.TIMEOUT, True)


def test_a_driver_cannot_change_a_statement_of_another_session_with_the_same_epoch(
    store: Database,
) -> None:
    lease, other = running_session(store), running_session(store)
    assert lease.epoch == other.epoch
    running = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    waiting = new_statement(store, lease.session_id)
    with store.write("test") as tx:
        for statement_id in (running, waiting):
            for target in StatementState:
                assert not statement_transitions.transition(
                    tx, statement_id, target, actor="driver", lease=other
                )
