"""Contract of held results: the row names the holder, and the end of the holder is their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from sqlalchemy import JSON, select, type_coerce, update
from tests.support.store import INLINE, new_session, new_statement, running_session

from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.result import (
    Disposition,
    GoneReason,
    ResultHolder,
    ResultInfo,
    ResultRequest,
)
from headrace.model.session import DriverLease, FlightAccess
from headrace.model.statement import NewStatement, StatementSpec
from headrace.store import tables
from headrace.store.clock import clock
from headrace.store.database import Database, Tx
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import results, statement_transitions, statements

HELD = INLINE.model_copy(update={"disposition": Disposition.MEMORY, "data": None, "port": 40_000})
FLIGHT = FlightAccess("10.0.0.5", "secret of the driver")


def start_holder(store: Database) -> DriverLease:
    """Insert a session whose driver serves held results."""
    session_id = new_session(store)
    with store.write("test") as tx:
        epoch = takeovers.claim_launch(
            tx,
            session_id,
            node="no_1",
            seconds=60,
            token_hash="hash",
            results_location="/results",
            flight=FLIGHT,
        )
        assert epoch is not None
        assert sessions.transition(
            tx, session_id, SessionState.RUNNING, actor="driver", epoch=epoch, lease_seconds=60
        )
    return DriverLease(session_id, epoch)


def hold(store: Database, lease: DriverLease) -> str:
    """Let a statement succeed whose rows the driver holds. Return its id."""
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx,
            statement_id,
            StatementState.SUCCESS,
            actor="driver",
            lease=lease,
            result=HELD,
            result_seconds=3600,
        )
    return statement_id


def read_result(store: Database, statement_id: str) -> ResultInfo:
    with store.read() as tx:
        statement = statements.get(tx, statement_id)
    assert statement is not None
    assert statement.result is not None
    return statement.result


def read_column(store: Database, name: str, statement_id: str) -> Any:
    column = tables.results.c[name]
    with store.read() as tx:
        query = select(column).where(tables.results.c.statement_id == statement_id)
        return tx.execute(query).scalar_one()


def test_a_held_result_names_its_holder(store: Database) -> None:
    lease = start_holder(store)
    statement_id = hold(store, lease)
    result = read_result(store, statement_id)
    assert result.disposition == Disposition.MEMORY
    assert result.holder == ResultHolder(
        session_id=lease.session_id, epoch=lease.epoch, endpoint="10.0.0.5:40000"
    )
    assert not result.gone
    with store.read() as tx:
        assert results.flight_secret_of(tx, result.holder) == FLIGHT.secret
        late = result.holder.model_copy(update={"epoch": lease.epoch + 1})
        assert results.flight_secret_of(tx, late) is None


def test_older_nodes_read_a_held_result_as_stored(store: Database) -> None:
    statement_id = hold(store, start_holder(store))
    assert read_column(store, "disposition", statement_id) == Disposition.STORED
    assert read_column(store, "location", statement_id) is not None


class OlderRequest(BaseModel):
    """The request as older nodes know it."""

    disposition: Literal["auto", "inline", "stored"]
    row_limit: int | None
    byte_limit: int | None
    location: str | None


def test_older_nodes_read_the_limits_of_a_request_for_a_held_result(store: Database) -> None:
    spec = StatementSpec(
        text="SELECT 1",
        result_request=ResultRequest(
            disposition=Disposition.MEMORY, row_limit=7, byte_limit=8, location="/elsewhere"
        ),
    )
    session_id = new_session(store)
    with store.write("test") as tx:
        new = NewStatement(id=new_id("st"), session_id=session_id, owner="ada", spec=spec)
        statements.insert(tx, new, actor="ada")
        read = statements.get(tx, new.id)
        column = type_coerce(tables.statements.c.result_request, JSON)
        older = OlderRequest.model_validate(tx.execute(select(column)).scalar_one())
    assert read is not None
    assert read.spec.result_request == spec.result_request
    assert older == OlderRequest(
        disposition="auto", row_limit=7, byte_limit=8, location="/elsewhere"
    )


def test_a_driver_that_serves_no_results_cannot_hold_one(store: Database) -> None:
    lease = running_session(store)
    with store.write("test") as tx:
        tx.execute(update(tables.sessions).values(results_location="/results"))
    with pytest.raises(ValueError, match="serves results"):
        hold(store, lease)


def _fence(tx: Tx, lease: DriverLease) -> None:
    assert takeovers.fence(tx, lease, actor="no_1", reason="test", seconds=60)


def _fence_exiting(tx: Tx, lease: DriverLease) -> None:
    assert takeovers.fence(tx, lease, actor="no_1", reason="test", seconds=60, is_exiting=True)


def _fail(tx: Tx, lease: DriverLease) -> None:
    assert sessions.transition(tx, lease.session_id, SessionState.FAILED, actor="test")


def _end(tx: Tx, lease: DriverLease) -> None:
    for state in (SessionState.CLOSING, SessionState.DEAD):
        assert sessions.transition(tx, lease.session_id, state, actor="test")


def _release(tx: Tx, lease: DriverLease) -> None:
    assert sessions.transition(tx, lease.session_id, SessionState.CLOSING, actor="test")
    takeovers.release_closing(tx, lease.session_id)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (_fence, GoneReason.DRIVER_LOST),
        (_fence_exiting, GoneReason.SESSION_CLOSED),
        (_fail, GoneReason.SESSION_FAILED),
        (_end, GoneReason.SESSION_CLOSED),
        (_release, GoneReason.SESSION_CLOSED),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_end_of_the_holder_is_the_end_of_its_results(
    store: Database, end: Callable[[Tx, DriverLease], None], reason: GoneReason
) -> None:
    lease, other = start_holder(store), start_holder(store)
    held = [hold(store, lease), hold(store, lease)]
    kept = hold(store, other)
    with store.write("test") as tx:
        end(tx, lease)
    for statement_id in held:
        result = read_result(store, statement_id)
        assert (result.gone, result.gone_reason) == (True, reason)
        assert result.holder is not None
        with store.read() as tx:
            assert results.flight_secret_of(tx, result.holder) is None
    assert not read_result(store, kept).gone
    # No copy of the store keeps a secret that is of no use.
    with store.read() as tx:
        secret = select(tables.sessions.c.flight_secret).where(
            tables.sessions.c.id == lease.session_id
        )
        assert tx.execute(secret).scalar_one() is None


def test_the_reason_of_an_expired_result_stays(store: Database) -> None:
    lease = start_holder(store)
    statement_id = hold(store, lease)
    with store.write("test") as tx:
        results.mark_gone(tx, statement_id)
        _fence(tx, lease)
    assert read_result(store, statement_id).gone_reason is GoneReason.EXPIRED


def test_a_lost_driver_cannot_report_a_held_result(store: Database) -> None:
    lease = start_holder(store)
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    with store.write("test") as tx:
        _fence(tx, lease)
        assert not statement_transitions.transition(
            tx,
            statement_id,
            StatementState.SUCCESS,
            actor="driver",
            lease=lease,
            result=HELD,
            result_seconds=3600,
        )


def test_a_session_that_holds_a_result_is_not_idle(store: Database) -> None:
    lease = start_holder(store)
    statement_id = hold(store, lease)
    with store.write("test") as tx:
        values = {"last_used_at": clock(-120), "started_at": clock(-120), "idle_seconds": 60.0}
        tx.execute(update(tables.sessions).values(**values))
        assert sessions.list_to_close(tx, sessions.IDLE, 10) == []
        assert not sessions.must_close(tx, sessions.IDLE, lease.session_id)
        results.mark_gone(tx, statement_id)
        assert [session.id for session in sessions.list_to_close(tx, sessions.IDLE, 10)] == [
            lease.session_id
        ]


def test_a_driver_releases_what_it_need_not_hold(store: Database) -> None:
    lease, other = start_holder(store), start_holder(store)
    held, gone, foreign = hold(store, lease), hold(store, lease), hold(store, other)
    unknown = new_id("st")
    with store.write("test") as tx:
        results.mark_gone(tx, gone)
        released = results.find_released(tx, lease, [held, gone, foreign, unknown])
        assert results.find_released(tx, lease, []) == []
    assert released == [gone, foreign, unknown]


def test_a_reason_of_a_newer_node_is_tolerated(store: Database) -> None:
    statement_id = hold(store, start_holder(store))
    with store.write("test") as tx:
        tx.execute(update(tables.results).values(gone_at=clock(), gone_reason="moved"))
    result = read_result(store, statement_id)
    assert (result.gone, result.gone_reason) == (True, None)
