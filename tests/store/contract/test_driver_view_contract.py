"""Contract of the driver view, from which a node answers a poll."""

from __future__ import annotations

from tests.support.store import new_statement, running_session

from headrace.model.lifecycle import STATEMENT, SessionState, StatementState
from headrace.store.database import Database
from headrace.store.sessions import lease_renewals


def test_a_driver_view_has_waiting_and_in_flight_statements(store: Database) -> None:
    lease = running_session(store)
    with store.read() as tx:
        assert lease_renewals.load_driver_view(tx, "se_x") is None
        idle = lease_renewals.load_driver_view(tx, lease.session_id)
    assert idle == lease_renewals.DriverView(
        epoch=lease.epoch,
        state=SessionState.RUNNING,
        parallelism=1,
        pool=False,
        streams_generation=0,
        link_process=None,
        results_location=None,
        batch_submitted=False,
        has_waiting=False,
        in_flight=[],
    )
    by_state = {state: new_statement(store, lease.session_id, state) for state in StatementState}
    with store.read() as tx:
        busy = lease_renewals.load_driver_view(tx, lease.session_id)
    assert busy is not None
    assert busy.has_waiting
    in_flight = STATEMENT.in_flight
    assert busy.in_flight == [(id_, state) for state, id_ in by_state.items() if state in in_flight]
