"""Contract of launches and takeovers: lost drivers are fenced, and their statements resolved."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.store import (
    get_session,
    new_session,
    new_statement,
    read_changes,
    register_node,
    running_session,
)

from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import DriverLease, FencedDriver, Snapshot
from headrace.store.database import Database
from headrace.store.sessions import lease_renewals, sessions, takeovers
from headrace.store.statements import statement_transitions, statements

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


def _next_epoch(lease: DriverLease) -> DriverLease:
    return DriverLease(lease.session_id, lease.epoch + 1)


def test_a_fenced_driver_cannot_change_anything(store: Database) -> None:
    lease = running_session(store)
    in_flight = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    with store.write("test") as tx:
        sessions.set_handle(tx, lease, {"pid": 7})
    assert _fence(store, lease) == _next_epoch(lease)
    assert _fence(store, lease) is None
    assert _fence(store, _next_epoch(lease)) is None
    with store.write("test") as tx:
        assert lease_renewals.renew(tx, lease, 60) is None
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
    assert session.fenced_driver == FencedDriver(
        epoch=lease.epoch, handle={"pid": 7}, reason="it died"
    )
    assert session.handle is None
    # Its statements are resolved only once its process is gone.
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
def test_fencing_a_running_driver_makes_its_session_recovering(
    store: Database, state: SessionState, after: SessionState
) -> None:
    session_id = new_session(store)
    with store.write("test") as tx:
        epoch = takeovers.claim_launch(tx, session_id, node="no_1", seconds=60, token_hash="h")
        if state is not SessionState.STARTING:
            assert sessions.transition(tx, session_id, state, actor="test")
    assert epoch is not None
    lease = DriverLease(session_id, epoch)
    assert _fence(store, lease) == _next_epoch(lease)
    assert get_session(store, session_id).state is after
    with store.read() as tx:
        last = read_changes(tx, entity_id=session_id)[-1]
    assert (last.source, last.target) == (state, after)
    assert last.detail == {"reason": "it died", "epoch": epoch}


@pytest.mark.parametrize("state", [SessionState.NOT_STARTED, SessionState.DEAD])
def test_a_session_without_a_driver_cannot_be_fenced(store: Database, state: SessionState) -> None:
    session_id = new_session(store, state)
    assert _fence(store, DriverLease(session_id, 0)) is None


def test_only_an_expired_lease_is_fenced_as_overdue(store: Database) -> None:
    register_node(store)
    valid = running_session(store, lease_seconds=60)
    expired = running_session(store, lease_seconds=_AGO)
    assert _fence(store, valid, only_if_overdue=True) is None
    assert _fence(store, expired, only_if_overdue=True) == _next_epoch(expired)


def test_a_driver_with_other_work_is_not_fenced_for_one_statement(store: Database) -> None:
    lease = running_session(store)
    stuck = new_statement(store, lease.session_id, StatementState.CANCELLING, lease=lease)
    waiting = new_statement(store, lease.session_id)
    neighbour = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    assert _fence(store, lease, only_if_alone_with=stuck) is None
    with store.write("test") as tx:
        assert statement_transitions.transition(tx, neighbour, StatementState.SUCCESS, actor="test")
        lease_renewals.renew(tx, lease, 60, streams=1)
    assert _fence(store, lease, only_if_alone_with=stuck) is None
    with store.write("test") as tx:
        lease_renewals.renew(tx, lease, 60, streams=0)
        still = statements.get(tx, waiting)
    # A waiting statement does not count as other work.
    assert still is not None
    assert still.state is StatementState.WAITING
    assert _fence(store, lease, only_if_alone_with=stuck) == _next_epoch(lease)


def test_the_lease_of_an_ended_session_is_not_extended(store: Database) -> None:
    lease = running_session(store, lease_seconds=_AGO)
    with store.write("test") as tx:
        assert sessions.transition(
            tx, lease.session_id, SessionState.DEAD, actor="driver", epoch=lease.epoch
        )
        takeovers.extend_lease(tx, lease, seconds=60)
    assert get_session(store, lease.session_id).lease_until is None


def test_one_of_many_nodes_fences_a_driver_and_one_finishes_the_takeover(store: Database) -> None:
    register_node(store)
    lease = running_session(store, lease_seconds=_AGO)
    ready = threading.Barrier(6)

    def take_over(_node: int) -> tuple[DriverLease | None, bool]:
        ready.wait()
        takeover = _fence(store, lease, only_if_overdue=True)
        ready.wait()
        with store.write("test") as tx:
            return takeover, takeovers.finish_takeover(tx, _next_epoch(lease))

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(take_over, range(6)))
    fenced = [new_lease for new_lease, _ in outcomes if new_lease is not None]
    assert fenced == [_next_epoch(lease)]
    assert [finished for _, finished in outcomes].count(True) == 1


def test_a_takeover_that_is_not_finished_in_time_is_reclaimed(store: Database) -> None:
    lease = running_session(store)
    takeover = _fence(store, lease, seconds=_AGO)
    assert takeover is not None
    with store.read() as tx:
        # The driver is fenced already: any node may continue, at once.
        [overdue] = takeovers.overdue(tx, 10, node="no_9", seconds=60)
        assert overdue.id == lease.session_id
    with store.write("test") as tx:
        assert takeovers.reclaim_takeover(tx, takeover, seconds=60)
        assert not takeovers.reclaim_takeover(tx, takeover, seconds=60)
        assert takeovers.overdue(tx, 10, node="no_9", seconds=60) == []


def test_no_driver_is_launched_before_the_lost_one_is_gone(store: Database) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id)
    takeover = _fence(store, lease)
    assert takeover is not None

    def launch() -> int | None:
        with store.write("test") as tx:
            launchable = [session.id for session in sessions.launchable(tx, 10)]
            claim = {"node": "no_1", "seconds": 60.0, "token_hash": "new"}
            launched = takeovers.claim_launch(tx, lease.session_id, **claim)
        assert launchable == ([lease.session_id] if launched else [])
        return launched

    assert launch() is None
    with store.write("test") as tx:
        assert not takeovers.finish_takeover(tx, lease)
        assert takeovers.finish_takeover(tx, takeover)
        assert not takeovers.finish_takeover(tx, takeover)
    assert launch() == takeover.epoch + 1
    session = get_session(store, lease.session_id)
    assert (session.state, session.starts) == (SessionState.RECOVERING, 1)
    with store.write("test") as tx:
        running = SessionState.RUNNING
        assert sessions.transition(
            tx,
            lease.session_id,
            running,
            actor="driver",
            epoch=takeover.epoch + 1,
            lost=["view v: gone"],
        )
    session = get_session(store, lease.session_id)
    assert (session.starts, session.lost) == (0, ["view v: gone"])


def test_a_recovering_session_is_launchable_once_a_statement_waits(store: Database) -> None:
    lease = running_session(store)
    takeover = _fence(store, lease)
    assert takeover is not None
    with store.write("test") as tx:
        takeovers.finish_takeover(tx, takeover)
        assert sessions.launchable(tx, 10) == []
    new_statement(store, lease.session_id)
    with store.read() as tx:
        assert [session.id for session in sessions.launchable(tx, 10)] == [lease.session_id]


def test_a_session_is_launchable_again_after_a_failed_launch(store: Database) -> None:
    session_id = new_session(store)
    for attempt in (1, 2):
        with store.write("test") as tx:
            claim = {"node": "no_1", "seconds": 60.0, "token_hash": "h"}
            epoch = takeovers.claim_launch(tx, session_id, **claim)
        assert epoch is not None
        assert get_session(store, session_id).starts == attempt
        takeover = _fence(store, DriverLease(session_id, epoch))
        assert takeover is not None
        with store.write("test") as tx:
            takeovers.finish_takeover(tx, takeover)
            assert [session.id for session in sessions.launchable(tx, 10)] == [session_id]


def test_a_launch_without_a_handle_is_unconfirmed(store: Database) -> None:
    unconfirmed = running_session(store).session_id
    confirmed = running_session(store)
    with store.write("test") as tx:
        sessions.set_handle(tx, confirmed, {"pid": 7})
    new_session(store)
    with store.read() as tx:
        assert [session.id for session in takeovers.unconfirmed_launches(tx, "no_1")] == [
            unconfirmed
        ]
        assert takeovers.unconfirmed_launches(tx, "no_2") == []


def test_a_new_snapshot_of_a_session_replaces_the_earlier_one(store: Database) -> None:
    session_id = running_session(store).session_id
    first = Snapshot(catalog="spark_catalog", namespace=["default"], conf={"a": "\x00"})
    second = Snapshot(catalog="lake", namespace=["sales"], conf={"b": "2"})
    with store.write("test") as tx:
        assert sessions.get_snapshot(tx, session_id) is None
        sessions.save_snapshot(tx, session_id, first)
    with store.write("test") as tx:
        assert sessions.get_snapshot(tx, session_id) == first
        sessions.save_snapshot(tx, session_id, second)
    with store.read() as tx:
        assert sessions.get_snapshot(tx, session_id) == second


def test_a_session_that_ends_keeps_no_snapshot(store: Database) -> None:
    session_id = running_session(store).session_id
    with store.write("test") as tx:
        sessions.save_snapshot(
            tx, session_id, Snapshot(catalog="spark_catalog", namespace=["default"])
        )
        assert sessions.get_snapshot(tx, session_id) is not None
    with store.write("test") as tx:
        assert sessions.transition(tx, session_id, SessionState.DEAD, actor="test")
        assert sessions.get_snapshot(tx, session_id) is None


def test_one_of_many_nodes_claims_a_launch(store: Database) -> None:
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
