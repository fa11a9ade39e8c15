"""Contract of limits: exact under contention, and fair between users."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.store import new_session, new_statement, running_session

from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import DriverLease
from headrace.store.database import Database
from headrace.store.sessions import sessions
from headrace.store.statements import limits, statement_transitions
from headrace.store.statements.limits import Counted, Excess, Limit


def _claim(store: Database, lease: DriverLease, limit: Limit) -> str | None:
    with store.write("test") as tx:
        claim = statement_transitions.claim_next(tx, lease, limit)
    return None if claim is None else claim.statement.id


def _end(store: Database, statement_id: str) -> None:
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx, statement_id, StatementState.SUCCESS, actor="test"
        )


def _running(total: int | None = None, per_user: int | None = None) -> Limit:
    return Limit(counted=Counted.RUNNING, total=total, per_user=per_user)


def _busy_session(store: Database, owner: str) -> DriverLease:
    """Return a running session of this owner, in which a statement waits."""
    lease = running_session(store, owner=owner)
    new_statement(store, lease.session_id, owner=owner)
    return lease


def _excess(store: Database, limit: Limit, owner: str) -> Excess | None:
    with store.write("test") as tx:
        return limits.find_excess(tx, limit, owner)


def test_sessions_are_counted_for_each_user_and_in_total(store: Database) -> None:
    for owner in ("ada", "ada", "bob"):
        new_session(store, owner=owner)
    new_session(store, SessionState.DEAD, owner="bob")
    limit = Limit(counted=Counted.SESSIONS, total=4, per_user=2)

    assert _excess(store, limit, "ada") == Excess(2, is_per_user=True)
    assert _excess(store, limit, "bob") is None
    new_session(store, owner="bob")
    assert _excess(store, limit, "cyd") == Excess(4, is_per_user=False)


def test_only_waiting_statements_count_as_waiting(store: Database) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    new_statement(store, lease.session_id, StatementState.FAILED)
    waiting = new_statement(store, lease.session_id)
    limit = Limit(counted=Counted.WAITING, per_user=1)

    assert _excess(store, limit, "ada") == Excess(1, is_per_user=True)
    assert _excess(store, limit, "bob") is None
    _end(store, waiting)
    assert _excess(store, limit, "ada") is None


def test_concurrent_claims_do_not_exceed_the_limit(store: Database) -> None:
    leases = [_busy_session(store, f"user{number}") for number in range(8)]

    with ThreadPoolExecutor(8) as threads:
        claimed = list(threads.map(lambda lease: _claim(store, lease, _running(total=3)), leases))

    assert sum(statement_id is not None for statement_id in claimed) == 3


def test_a_user_cannot_exceed_the_limit_of_a_user(store: Database) -> None:
    first, second = _busy_session(store, "ada"), _busy_session(store, "ada")
    limit = _running(per_user=1)

    statement_id = _claim(store, first, limit)
    assert statement_id is not None
    assert _claim(store, second, limit) is None
    assert _claim(store, _busy_session(store, "bob"), limit) is not None
    _end(store, statement_id)
    assert _claim(store, second, limit) is not None


def test_a_free_place_is_left_to_the_user_with_fewer_statements(store: Database) -> None:
    ada = [_busy_session(store, "ada") for _number in range(3)]
    limit = _running(total=3)
    assert _claim(store, ada[0], limit) is not None
    bob = _busy_session(store, "bob")

    # Two places are free: one for each user. The last one is left to bob.
    assert _claim(store, ada[1], limit) is not None
    assert _claim(store, ada[2], limit) is None
    assert _claim(store, bob, limit) is not None


def test_a_place_is_not_left_to_a_user_whose_driver_cannot_claim(store: Database) -> None:
    limit = _running(total=2)
    ada = [_busy_session(store, "ada") for _number in range(2)]
    assert _claim(store, ada[0], limit) is not None
    starting = new_session(store, SessionState.STARTING, owner="bob")
    new_statement(store, starting, owner="bob")
    expired = running_session(store, owner="cyd", lease_seconds=-1.0)
    new_statement(store, expired.session_id, owner="cyd")

    assert _claim(store, ada[1], limit) is not None


def test_the_next_sessions_are_chosen_in_turn(store: Database) -> None:
    ada = [_busy_session(store, "ada").session_id for _number in range(4)]
    bob = [_busy_session(store, "bob").session_id for _number in range(2)]

    with store.read() as tx:
        assert limits.choose_next(tx, _running(total=4)) == [ada[0], bob[0], ada[1], bob[1]]
        assert limits.choose_next(tx, _running(per_user=1)) == [ada[0], bob[0]]
        assert limits.choose_next(tx, _running()) == []


@pytest.mark.parametrize("pool", [False, True])
def test_a_session_with_a_free_place_is_chosen(store: Database, pool: bool) -> None:
    limit = _running(total=3)
    lease = running_session(store, parallelism=2, pool=pool)
    chosen: list[list[str]] = []
    for _ in range(3):
        new_statement(store, lease.session_id, is_query=True)
    for _ in range(3):
        with store.read() as tx:
            chosen.append(limits.choose_next(tx, limit))
        _claim(store, lease, limit)
    assert chosen == [[lease.session_id], [lease.session_id], []]


@pytest.mark.parametrize("is_query", [(True, False), (False, True)])
def test_a_session_whose_next_statement_must_wait_is_not_chosen(
    store: Database, is_query: tuple[bool, bool]
) -> None:
    limit = _running(total=3)
    lease = running_session(store, parallelism=2)
    for each in is_query:
        new_statement(store, lease.session_id, is_query=each)
    assert _claim(store, lease, limit) is not None
    with store.read() as tx:
        assert limits.choose_next(tx, limit) == []


def test_a_user_with_statements_in_flight_comes_later(store: Database) -> None:
    limit = _running(total=3)
    assert _claim(store, _busy_session(store, "ada"), limit) is not None
    ada = _busy_session(store, "ada").session_id
    bob = _busy_session(store, "bob").session_id

    with store.read() as tx:
        assert limits.choose_next(tx, limit) == [bob, ada]


def test_drivers_are_started_for_users_in_turn(store: Database) -> None:
    running_session(store, owner="ada")
    ada = [new_session(store, owner="ada") for _number in range(2)]
    bob = [new_session(store, owner="bob") for _number in range(2)]

    with store.read() as tx:
        launchable = [session.id for session in sessions.launchable(tx, 3)]

    assert launchable == [bob[0], ada[0], bob[1]]
