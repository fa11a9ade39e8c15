"""Lost drivers in every store: condemned, released, launched again; their statements settled."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.store import LOST, get_session, new_session, new_statement, running_session

from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import DriverLease, FencedDriver
from headrace.model.snapshot import Snapshot
from headrace.store import (
    events,
    pending_hook_calls,
    sessions,
    snapshots,
    statement_transitions,
    statements,
    takeovers,
)
from headrace.store.database import Database

_AGO = -1.0


def _fence(
    store: Database,
    lease: DriverLease,
    *,
    seconds: float = 60,
    only_if_overdue: bool = False,
    only_if_alone_with: str | None = None,
) -> DriverLease | None:
    """Fence a driver. Return the lease of the new epoch, or None if the driver was not fenced."""
    with store.write("test") as tx:
        epoch = takeovers.fence(
            tx,
            lease,
            actor="no_1",
            reason="it died",
            seconds=seconds,
            only_if_overdue=only_if_overdue,
            only_if_alone_with=only_if_alone_with,
        )
    return None if epoch is None else DriverLease(lease.session_id, epoch)


def _next(lease: DriverLease) -> DriverLease:
    return DriverLease(lease.session_id, lease.epoch + 1)


def test_a_fenceed_driver_can_do_nothing_any_more(store: Database) -> None:
    lease = running_session(store)
    in_flight = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    with store.write("test") as tx:
        sessions.set_handle(tx, lease, {"pid": 7})
    assert _fence(store, lease) == _next(lease)
    assert _fence(store, lease) is None
    assert _fence(store, _next(lease)) is None
    with store.write("test") as tx:
        assert sessions.renew(tx, lease, 60) is None
        assert sessions.token_hash(tx, lease) is None
        assert statement_transitions.claim_next(tx, lease) is None
        assert not sessions.set_handle(tx, lease, {"pid": 8})
        running = SessionState.RUNNING
        assert not sessions.transition(
            tx, lease.session_id, running, actor="driver", epoch=lease.epoch
        )
        ended = StatementState.FAILED
        assert not statement_transitions.transition(
            tx, in_flight, ended, actor="driver", lease=lease
        )
        still = statements.get(tx, in_flight)
    session = get_session(store, lease.session_id)
    assert session.state is SessionState.RECOVERING
    assert session.fenced_driver == FencedDriver(lease=lease, handle={"pid": 7}, reason="it died")
    assert session.handle is None
    # Not before its process is gone is it decided what becomes of its statements.
    assert still is not None
    assert still.state is StatementState.RUNNING


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (SessionState.STARTING, SessionState.STARTING),
        (SessionState.RUNNING, SessionState.RECOVERING),
        (SessionState.CLOSING, SessionState.CLOSING),
    ],
)
def test_what_becomes_of_the_state(
    store: Database, state: SessionState, after: SessionState
) -> None:
    session_id = new_session(store)
    with store.write("test") as tx:
        epoch = takeovers.claim_launch(tx, session_id, node="no_1", seconds=60, token_hash="h")
        if state is not SessionState.STARTING:
            assert sessions.transition(tx, session_id, state, actor="test")
    assert epoch is not None
    lease = DriverLease(session_id, epoch)
    assert _fence(store, lease) == _next(lease)
    assert get_session(store, session_id).state is after
    with store.read() as tx:
        last = events.read(tx, after=None, entity_id=session_id, limit=100)[-1]
    assert (last.source, last.target) == (state, after)
    assert last.detail == {"reason": "it died", "epoch": epoch}


@pytest.mark.parametrize("state", [SessionState.NOT_STARTED, SessionState.DEAD])
def test_where_there_is_no_driver_none_is_lost(store: Database, state: SessionState) -> None:
    session_id = new_session(store, state)
    assert _fence(store, DriverLease(session_id, 0)) is None


def test_a_driver_that_renews_in_time_is_not_overdue(store: Database) -> None:
    valid = running_session(store, lease_seconds=60)
    expired = running_session(store, lease_seconds=_AGO)
    assert _fence(store, valid, only_if_overdue=True) is None
    assert _fence(store, expired, only_if_overdue=True) == _next(expired)


def test_a_driver_with_a_neighbour_is_not_taken_for_one_statement(store: Database) -> None:
    lease = running_session(store)
    stuck = new_statement(store, lease.session_id, StatementState.CANCELLING, lease=lease)
    waiting = new_statement(store, lease.session_id)
    neighbour = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    assert _fence(store, lease, only_if_alone_with=stuck) is None
    with store.write("test") as tx:
        assert statement_transitions.transition(tx, neighbour, StatementState.SUCCESS, actor="test")
        sessions.renew(tx, lease, 60, streams=1)
    assert _fence(store, lease, only_if_alone_with=stuck) is None
    with store.write("test") as tx:
        sessions.renew(tx, lease, 60, streams=0)
        still = statements.get(tx, waiting)
    # What only waits loses nothing.
    assert still is not None
    assert still.state is StatementState.WAITING
    assert _fence(store, lease, only_if_alone_with=stuck) == _next(lease)


def test_who_has_said_goodbye_meanwhile_gets_no_other_lease(store: Database) -> None:
    lease = running_session(store, lease_seconds=_AGO)
    with store.write("test") as tx:
        assert sessions.transition(
            tx, lease.session_id, SessionState.DEAD, actor="driver", epoch=lease.epoch
        )
        takeovers.extend_lease(tx, lease, seconds=60)
    assert get_session(store, lease.session_id).lease_until is None


def test_one_of_many_nodes_wins_a_takeover_and_one_its_end(store: Database) -> None:
    lease = running_session(store, lease_seconds=_AGO)
    ready = threading.Barrier(6)

    def take(_node: int) -> tuple[int | None, bool]:
        ready.wait()
        fence = _fence(store, lease, only_if_overdue=True)
        ready.wait()
        with store.write("test") as tx:
            return fence, takeovers.finish_takeover(tx, _next(lease))

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(take, range(6)))
    assert sorted(str(fence) for fence, _ in found) == [str(_next(lease))] + ["None"] * 5
    assert [released for _, released in found].count(True) == 1


def test_a_takeover_that_is_not_finished_is_gone_on_with(store: Database) -> None:
    lease = running_session(store)
    fence = _fence(store, lease, seconds=_AGO)
    assert fence is not None
    with store.read() as tx:
        assert [one.id for one in takeovers.overdue(tx, 10)] == [lease.session_id]
    with store.write("test") as tx:
        assert takeovers.reclaim_takeover(tx, fence, seconds=60)
        assert not takeovers.reclaim_takeover(tx, fence, seconds=60)
        assert takeovers.overdue(tx, 10) == []


def test_nothing_is_launched_before_the_lost_driver_is_gone(store: Database) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id)
    fence = _fence(store, lease)
    assert fence is not None

    def launch() -> int | None:
        with store.write("test") as tx:
            found = [one.id for one in sessions.launchable(tx, 10)]
            claim = {"node": "no_1", "seconds": 60.0, "token_hash": "new"}
            launched = takeovers.claim_launch(tx, lease.session_id, **claim)
        assert found == ([lease.session_id] if launched else [])
        return launched

    assert launch() is None
    with store.write("test") as tx:
        assert not takeovers.finish_takeover(tx, lease)
        assert takeovers.finish_takeover(tx, fence)
        assert not takeovers.finish_takeover(tx, fence)
    assert launch() == fence.epoch + 1
    session = get_session(store, lease.session_id)
    assert (session.state, session.starts) == (SessionState.RECOVERING, 1)
    with store.write("test") as tx:
        running = SessionState.RUNNING
        assert sessions.transition(
            tx,
            lease.session_id,
            running,
            actor="driver",
            epoch=fence.epoch + 1,
            lost=["view v: gone"],
        )
    session = get_session(store, lease.session_id)
    assert (session.starts, session.lost) == (0, ["view v: gone"])


def test_a_lost_session_is_rebuilt_when_it_is_needed(store: Database) -> None:
    lease = running_session(store)
    fence = _fence(store, lease)
    assert fence is not None
    with store.write("test") as tx:
        takeovers.finish_takeover(tx, fence)
        assert sessions.launchable(tx, 10) == []
    new_statement(store, lease.session_id)
    with store.read() as tx:
        assert [one.id for one in sessions.launchable(tx, 10)] == [lease.session_id]


def test_a_launch_that_fails_is_made_again(store: Database) -> None:
    session_id = new_session(store)
    for attempt in (1, 2):
        with store.write("test") as tx:
            claim = {"node": "no_1", "seconds": 60.0, "token_hash": "h"}
            epoch = takeovers.claim_launch(tx, session_id, **claim)
        assert epoch is not None
        assert get_session(store, session_id).starts == attempt
        fence = _fence(store, DriverLease(session_id, epoch))
        assert fence is not None
        with store.write("test") as tx:
            takeovers.finish_takeover(tx, fence)
            assert [one.id for one in sessions.launchable(tx, 10)] == [session_id]


def test_half_launched_is_what_a_node_claimed_and_nobody_has_a_handle_of(store: Database) -> None:
    half = running_session(store).session_id
    whole = running_session(store)
    with store.write("test") as tx:
        sessions.set_handle(tx, whole, {"pid": 7})
    new_session(store)
    with store.read() as tx:
        assert [one.id for one in takeovers.unconfirmed_launches(tx, "no_1")] == [half]
        assert takeovers.unconfirmed_launches(tx, "no_2") == []


@pytest.mark.parametrize("state", [StatementState.LAUNCHED, StatementState.RUNNING])
@pytest.mark.parametrize("is_query", [True, False])
def test_what_can_change_nothing_is_tried_again(
    store: Database, state: StatementState, is_query: bool
) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, state, lease=lease, is_query=is_query)
    waiting = new_statement(store, lease.session_id)

    def settled() -> tuple[StatementState, int]:
        with store.write("test") as tx:
            statement_transitions.resolve_lost_statements(
                tx, lease.session_id, actor="no_1", failure=LOST, max_attempts=2
            )
            statement = statements.get(tx, statement_id)
            other = statements.get(tx, waiting)
        assert statement is not None
        assert other is not None
        assert other.state is StatementState.WAITING
        ended = statement.state is not StatementState.WAITING
        assert statement.failure == (LOST if ended else None)
        assert (statement.started_at is None) or ended
        return statement.state, statement.attempts

    if not is_query:
        assert settled() == (StatementState.FAILED, 1)
        return
    assert settled() == (StatementState.WAITING, 1)
    with store.write("test") as tx:
        again = statement_transitions.claim_next(tx, lease)
    assert again is not None
    assert (again.id, again.attempts) == (statement_id, 2)
    assert settled() == (StatementState.FAILED, 2)


def test_what_was_being_cancelled_is_cancelled(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(
        store, lease.session_id, StatementState.CANCELLING, lease=lease, is_query=True
    )
    with store.write("test") as tx:
        statement_transitions.resolve_lost_statements(
            tx, lease.session_id, actor="no_1", failure=LOST, max_attempts=2
        )
        statement = statements.get(tx, statement_id)
    assert statement is not None
    assert (statement.state, statement.failure) == (StatementState.CANCELLED, None)


def test_what_ends_with_its_driver_is_kept_for_the_hooks(store: Database) -> None:
    """Neither what is run again, nor what never had a driver; until they have heard of it."""
    lease = running_session(store)
    failed, cancelled, _again, _waiting = [
        new_statement(store, lease.session_id, state, lease=lease, is_query=is_query)
        for state, is_query in (
            (StatementState.RUNNING, False),
            (StatementState.CANCELLING, True),
            (StatementState.RUNNING, True),
            (StatementState.WAITING, True),
        )
    ]
    with store.write("test") as tx:
        statement_transitions.resolve_lost_statements(
            tx, lease.session_id, actor="no_1", failure=LOST, max_attempts=2
        )
    with store.write("test") as tx:
        known = [
            (one.statement_id, one.state, one.failure)
            for one in pending_hook_calls.list_for_session(tx, lease.session_id)
        ]
        assert known == [
            (failed, StatementState.FAILED, LOST),
            (cancelled, StatementState.CANCELLED, None),
        ]
        pending_hook_calls.remove(tx, lease.session_id, [failed])
        assert [
            one.statement_id for one in pending_hook_calls.list_for_session(tx, lease.session_id)
        ] == [cancelled]
        assert sessions.transition(tx, lease.session_id, SessionState.DEAD, actor="test")
        assert pending_hook_calls.list_for_session(tx, lease.session_id) == []


def test_a_new_snapshot_of_a_session_replaces_the_earlier_one(store: Database) -> None:
    session_id = running_session(store).session_id
    first = Snapshot(catalog="spark_catalog", namespace=["default"], conf={"a": "\x00"})
    second = Snapshot(catalog="lake", namespace=["sales"], conf={"b": "2"})
    with store.write("test") as tx:
        assert snapshots.get(tx, session_id) is None
        snapshots.save(tx, session_id, first)
    with store.write("test") as tx:
        assert snapshots.get(tx, session_id) == first
        snapshots.save(tx, session_id, second)
    with store.read() as tx:
        assert snapshots.get(tx, session_id) == second


def test_a_session_that_ends_keeps_no_snapshot(store: Database) -> None:
    session_id = running_session(store).session_id
    with store.write("test") as tx:
        snapshots.save(tx, session_id, Snapshot(catalog="spark_catalog", namespace=["default"]))
        assert snapshots.get(tx, session_id) is not None
    with store.write("test") as tx:
        assert sessions.transition(tx, session_id, SessionState.DEAD, actor="test")
        assert snapshots.get(tx, session_id) is None
