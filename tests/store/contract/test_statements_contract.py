"""Statements in the store: what is kept, their order, their ends, and their results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from tests.support.store import INLINE, LOST, new_session, new_statement, running_session

from headrace.errors import SessionEnded, SessionNotFound
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import IN_FLIGHT, STATEMENT, SessionState, StatementState
from headrace.model.result import Disposition, ResultRequest
from headrace.model.session import SessionKind
from headrace.model.statement import NewStatement, Parameter, Statement, StatementSpec
from headrace.store import driver_view, events, results, statement_transitions, statements
from headrace.store.database import Database

NEVER_RAN = Failure(code="session_failed", message="The session failed.")


def _get(store: Database, statement_id: str) -> Statement:
    with store.read() as tx:
        statement = statements.get(tx, statement_id)
    assert statement is not None
    return statement


def _succeed(store: Database, statement_id: str, *, seconds: float = 60) -> None:
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx,
            statement_id,
            StatementState.SUCCESS,
            actor="driver",
            result=INLINE,
            result_seconds=seconds,
        )


def test_a_statement_reads_back_as_it_was_submitted(store: Database) -> None:
    new = NewStatement(
        id=new_id("st"),
        session_id=new_session(store),
        owner="ada",
        spec=StatementSpec(
            text="SELECT '🍏\n', :x",
            kind=SessionKind.BATCH,
            parameters=[Parameter(name="x", value=[1.5, None], type="ARRAY<DOUBLE>")],
            conf={"a": "b"},
            timeout_seconds=1.5,
            queue_timeout_seconds=2.5,
            result_request=ResultRequest(
                disposition=Disposition.STORED,
                row_limit=2**40,
                byte_limit=7,
                location="s3://bucket/x",
            ),
        ),
    )
    with store.write("test") as tx:
        inserted = statements.insert(tx, new, actor="ada")
    statement = _get(store, new.id)
    assert statement == inserted
    assert statement.ordinal == 0
    assert (statement.owner, statement.spec) == (new.owner, new.spec)
    assert (statement.state, statement.attempts) == (StatementState.WAITING, 0)
    assert statement.epoch is statement.launched_at is statement.result is None


def test_concurrent_submits_are_numbered_without_gaps(store: Database) -> None:
    session_id = new_session(store)
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: new_statement(store, session_id), range(24)))
    assert sorted(_get(store, one).ordinal for one in made) == list(range(24))


@pytest.mark.parametrize("state", [SessionState.CLOSING, SessionState.DEAD, SessionState.FAILED])
def test_an_ending_session_takes_no_statement(store: Database, state: SessionState) -> None:
    session_id = new_session(store, state)
    with pytest.raises(SessionEnded, match=state):
        new_statement(store, session_id)
    with store.read() as tx:
        assert statements.page(tx, session=session_id) == []


def test_an_unknown_session_takes_no_statement(store: Database) -> None:
    with pytest.raises(SessionNotFound, match="se_x"):
        new_statement(store, "se_x")


def test_pages_go_from_the_newest_to_the_oldest(store: Database) -> None:
    session_id = new_session(store)
    made = [new_statement(store, session_id) for _ in range(5)]
    ended = new_statement(store, session_id, StatementState.FAILED)
    other = new_statement(store, new_session(store), owner="bob")
    with store.read() as tx:

        def ids(**chosen: object) -> list[str]:
            return [one.id for one in statements.page(tx, **chosen)]  # type: ignore[arg-type]

        assert ids() == [other, ended, *reversed(made)]
        assert ids(limit=2) == [other, ended]
        assert ids(before=made[2], limit=10) == [made[1], made[0]]
        assert ids(owner="bob") == [other]
        assert ids(session=session_id, states=[StatementState.WAITING]) == list(reversed(made))
        assert ids(states=[StatementState.FAILED, StatementState.TIMEOUT]) == [ended]
        assert ids(states=[StatementState.FAILED, StatementState.WAITING], limit=3) == [
            other,
            ended,
            made[4],
        ]
        assert ids(states=[]) == []


def test_every_step_keeps_its_time(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id)
    with store.write("test") as tx:
        statement_transitions.claim_next(tx, lease)
    with store.write("test") as tx:
        state = StatementState.RUNNING
        assert statement_transitions.transition(
            tx, statement_id, state, actor="driver", lease=lease
        )
    _succeed(store, statement_id)
    after = _get(store, statement_id)
    assert after.launched_at is not None
    assert after.started_at is not None
    assert after.ended_at is not None
    assert after.created_at < after.launched_at < after.started_at < after.ended_at


def test_a_success_that_was_never_reported_running_has_started(store: Database) -> None:
    statement_id = new_statement(store, new_session(store))
    _succeed(store, statement_id)
    after = _get(store, statement_id)
    assert after.started_at is not None


def test_a_statement_that_waits_again_is_as_new(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx, statement_id, StatementState.WAITING, actor="no_1"
        )
    again = _get(store, statement_id)
    assert again.launched_at is again.started_at is again.epoch is None
    with store.write("test") as tx:
        claimed = statement_transitions.claim_next(tx, lease)
    assert claimed is not None
    assert (claimed.id, claimed.attempts) == (statement_id, 2)


def test_a_result_comes_with_its_success(store: Database) -> None:
    statement_id = new_statement(store, new_session(store))
    _succeed(store, statement_id, seconds=3600)
    with store.read() as tx:
        assert results.inline_data(tx, statement_id) == INLINE.data
        assert results.expired(tx, 10) == []
        assert [one.result for one in statements.page(tx)] == [_get(store, statement_id).result]
    statement = _get(store, statement_id)
    assert statement.result is not None
    assert statement.ended_at is not None
    known = statement.result.model_dump(exclude={"expires_at", "gone"})
    assert known == INLINE.model_dump(exclude={"data"})
    kept = statement.result.expires_at - statement.ended_at
    assert timedelta(minutes=59) < kept < timedelta(minutes=61)


def test_a_result_goes_when_its_time_is_over(store: Database) -> None:
    session_id = new_session(store)
    late, later, kept = (new_statement(store, session_id) for _ in range(3))
    _succeed(store, later, seconds=-1)
    _succeed(store, late, seconds=-60)
    _succeed(store, kept)
    with store.read() as tx:
        assert results.expired(tx, 10) == [(late, None), (later, None)]
        assert results.expired(tx, 1) == [(late, None)]
    with store.write("test") as tx:
        results.mark_gone(tx, late)
    with store.read() as tx:
        assert results.expired(tx, 10) == [(later, None)]
        assert results.inline_data(tx, late) is None
    known = _get(store, late).result
    assert known is not None
    assert known.gone
    assert known.row_count == INLINE.row_count


def test_a_result_is_never_left_by_a_transition_that_did_not_land(store: Database) -> None:
    statement_id = new_statement(store, new_session(store), StatementState.CANCELLED)
    with store.write("test") as tx:
        assert not statement_transitions.transition(
            tx,
            statement_id,
            StatementState.SUCCESS,
            actor="driver",
            result=INLINE,
            result_seconds=60,
        )
    assert _get(store, statement_id).result is None


def test_there_is_no_result_of_what_is_not_there(store: Database) -> None:
    with store.read() as tx:
        assert statements.get(tx, "st_x") is None
        assert results.inline_data(tx, "st_x") is None


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (StatementState.WAITING, StatementState.CANCELLED),
        (StatementState.LAUNCHED, StatementState.CANCELLING),
        (StatementState.RUNNING, StatementState.CANCELLING),
        (StatementState.CANCELLING, StatementState.CANCELLING),
        *((state, state) for state in sorted(STATEMENT.terminal)),
    ],
)
def test_a_cancel_is_asked_for(
    store: Database, source: StatementState, target: StatementState
) -> None:
    session_id = new_session(store)
    statement_id = new_statement(store, session_id, source)
    with store.write("test") as tx:
        assert statement_transitions.request_cancel(tx, statement_id, actor="ada") is target
    after = _get(store, statement_id)
    assert after.state is target
    assert (after.cancel_requested_at is not None) is (source is not target)
    with store.read() as tx:
        known = driver_view.load_driver_view(tx, session_id)
    assert known is not None
    assert known.in_flight == ([(statement_id, target)] if target in IN_FLIGHT else [])


def test_a_duty_is_what_waits_and_what_is_in_hand(store: Database) -> None:
    lease = running_session(store)
    with store.read() as tx:
        assert driver_view.load_driver_view(tx, "se_x") is None
        idle = driver_view.load_driver_view(tx, lease.session_id)
    assert idle == driver_view.DriverView(
        lease=lease,
        state=SessionState.RUNNING,
        parallelism=1,
        finished=False,
        has_waiting=False,
        in_flight=[],
    )
    made = {state: new_statement(store, lease.session_id, state) for state in StatementState}
    with store.read() as tx:
        busy = driver_view.load_driver_view(tx, lease.session_id)
    assert busy is not None
    assert busy.has_waiting
    assert busy.in_flight == [(one, state) for state, one in made.items() if state in IN_FLIGHT]


def test_the_end_of_a_session_ends_its_statements(store: Database) -> None:
    session_id = new_session(store)
    made = {state: new_statement(store, session_id, state) for state in StatementState}
    live = [made[state] for state in StatementState if state in STATEMENT.live]
    with store.write("test") as tx:
        assert statements.live_ids(tx, session_id) == live
        count = statement_transitions.end_all_statements(
            tx, session_id, actor="no_1", failure=LOST, waiting=NEVER_RAN
        )
        assert count == 4
        assert statements.live_ids(tx, session_id) == []
        assert (
            statement_transitions.end_all_statements(tx, session_id, actor="no_1", failure=LOST)
            == 0
        )
    ends = {state: _get(store, one) for state, one in made.items()}
    assert ends[StatementState.WAITING].failure == NEVER_RAN
    assert ends[StatementState.RUNNING].failure == LOST
    assert ends[StatementState.LAUNCHED].state is StatementState.FAILED
    assert ends[StatementState.CANCELLING].state is StatementState.CANCELLED
    assert ends[StatementState.CANCELLING].failure is None
    for state in STATEMENT.terminal:
        assert ends[state].state is state
    with store.read() as tx:
        found = events.read(tx, after=None, entity_id=made[StatementState.RUNNING], limit=10)
    assert (found[-1].source, found[-1].target, found[-1].actor) == ("running", "failed", "no_1")


def test_a_failure_keeps_every_character(store: Database) -> None:
    failure = Failure(code="c", message="a\x00b \ud83c 🍏", condition="X", line=1, column=2)
    statement_id = new_statement(store, new_session(store))
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx, statement_id, StatementState.FAILED, actor="driver", failure=failure
        )
    assert _get(store, statement_id).failure == failure
