"""Contract of statements: their fields, order, pages, ends and results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.store import (
    INLINE,
    LOST,
    OWNER,
    new_session,
    new_statement,
    read_changes,
    running_session,
)

from headrace.errors import SessionEnded, SessionNotFound, StatementNotFound
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import STATEMENT, SessionState, StatementState
from headrace.model.result import Disposition, ResultRequest
from headrace.model.session import NewSession, SessionKind
from headrace.model.statement import (
    NewStatement,
    Parameter,
    Statement,
    StatementSpec,
    StatementView,
)
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.sessions import lease_renewals, sessions
from headrace.store.statements import results, statement_transitions, statements
from headrace.store.tables import statements as statements_table

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


def test_a_statement_is_stored_with_all_its_fields(store: Database) -> None:
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


def test_the_ordinals_of_concurrent_submits_have_no_gaps(store: Database) -> None:
    session_id = new_session(store)
    with ThreadPoolExecutor(6) as pool:
        statement_ids = list(pool.map(lambda _: new_statement(store, session_id), range(24)))
    assert sorted(_get(store, statement_id).ordinal for statement_id in statement_ids) == list(
        range(24)
    )


@pytest.mark.parametrize("state", [SessionState.CLOSING, SessionState.DEAD, SessionState.FAILED])
def test_a_session_that_is_closing_or_ended_accepts_no_statement(
    store: Database, state: SessionState
) -> None:
    session_id = new_session(store, state)
    with pytest.raises(SessionEnded, match=state):
        new_statement(store, session_id)
    with store.read() as tx:
        assert statements.page(tx, session=session_id).items == []


def test_an_unknown_session_accepts_no_statement(store: Database) -> None:
    with pytest.raises(SessionNotFound, match="se_x"):
        new_statement(store, "se_x")


def test_pages_are_sorted_from_newest_to_oldest(store: Database) -> None:
    session_id = new_session(store)
    waiting = [new_statement(store, session_id) for _ in range(5)]
    ended = new_statement(store, session_id, StatementState.FAILED)
    other = new_statement(store, new_session(store, owner="bob"), owner="bob")
    with store.read() as tx:

        def ids(**chosen: object) -> list[str]:
            return [statement.id for statement in statements.page(tx, **chosen).items]  # type: ignore[arg-type]

        assert ids() == [other, ended, *reversed(waiting)]
        assert ids(limit=2) == [other, ended]
        assert ids(before=waiting[2], limit=10) == [waiting[1], waiting[0]]
        assert ids(owners=["bob"]) == [other]
        assert ids(session=session_id, states=[StatementState.WAITING]) == list(reversed(waiting))
        assert ids(states=[StatementState.FAILED, StatementState.TIMEOUT]) == [ended]
        assert ids(states=[StatementState.FAILED, StatementState.WAITING], limit=3) == [
            other,
            ended,
            waiting[4],
        ]
        assert ids(states=[]) == []


def test_a_session_takes_no_statement_of_another_owner(store: Database) -> None:
    session_id = new_session(store)
    with pytest.raises(SessionNotFound):
        new_statement(store, session_id, owner="bob")
    with store.read() as tx:
        assert statements.active_count(tx) == 0


def test_a_driver_gets_no_statement_of_another_owner(store: Database) -> None:
    """Whatever has put it there: the claim compares the owners."""
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id)
    change = update(statements_table).where(statements_table.c.id == statement_id)
    for owner, claimed in (("bob", False), (OWNER, True)):
        with store.write("test") as tx:
            tx.execute(change.values(owner=owner))
            claim = statement_transitions.claim_next(tx, lease)
        assert (claim is not None) is claimed


def _set_times(store: Database, statement_id: str, **ages: float) -> None:
    """Set instants of a statement to so many seconds ago."""
    change = update(statements_table).where(statements_table.c.id == statement_id)
    with store.write("test") as tx:
        tx.execute(change.values({name: clock(-seconds) for name, seconds in ages.items()}))


def _view(store: Database, view: StatementView, limit: int = 2, **filters: Any) -> list[str]:
    """Return the ids of a view, read in pages."""
    ids: list[str] = []
    before = None
    while True:
        with store.read() as tx:
            page = statements.page(tx, view=view, before=before, limit=limit, **filters)
        ids += [statement.id for statement in page.items]
        if not page.more:
            return ids
        before = ids[-1]


@pytest.mark.usefixtures("stopped_clock")
def test_what_waits_longest_is_listed_first_over_all_owners(store: Database) -> None:
    lease = running_session(store)
    for state in (StatementState.RUNNING, StatementState.FAILED):
        new_statement(store, lease.session_id, state, lease=lease)
    owners = ("ada", "bob", "ada", "bob", "eve")
    ids = [new_statement(store, new_session(store, owner=each), owner=each) for each in owners]
    for id_, seconds in zip(ids, (10, 300, 20, 300, 0), strict=True):
        _set_times(store, id_, waiting_since=seconds)
    longest = sorted((ids[1], ids[3]), key=lambda id_: _get(store, id_).waiting_since)
    assert _view(store, StatementView.WAITING) == [*longest, ids[2], ids[0], ids[4]]
    assert _view(store, StatementView.WAITING, over_seconds=15) == [*longest, ids[2]]
    assert _view(store, StatementView.WAITING, owners=["ada"]) == [ids[2], ids[0]]


@pytest.mark.usefixtures("stopped_clock")
def test_what_runs_longest_is_listed_first(store: Database) -> None:
    leases = [running_session(store) for _number in range(4)]
    states = [StatementState.RUNNING, StatementState.LAUNCHED, *[StatementState.RUNNING] * 2]
    ids = [
        new_statement(store, lease.session_id, state, lease=lease)
        for lease, state in zip(leases, states, strict=True)
    ]
    new_statement(store, leases[0].session_id)
    for id_, seconds in zip(ids, (10, 40, 30, 0), strict=True):
        name = "launched_at" if id_ == ids[1] else "started_at"
        _set_times(store, id_, **{name: seconds})
    assert _view(store, StatementView.RUNNING) == [ids[1], ids[2], ids[0], ids[3]]
    assert _view(store, StatementView.RUNNING, over_seconds=20) == [ids[1], ids[2]]


@pytest.mark.usefixtures("stopped_clock")
def test_ended_statements_that_ran_for_long_are_listed_newest_end_first(store: Database) -> None:
    lease = running_session(store)
    ids = []
    for ran, ended in ((70, 500), (1.5, 10), (0.5, 1), (3600, 100), (90, 200)):
        id_ = new_statement(store, lease.session_id, StatementState.FAILED)
        _set_times(store, id_, started_at=ended + ran, ended_at=ended)
        ids.append(id_)
    never_ran = new_statement(store, lease.session_id, StatementState.FAILED)
    _set_times(store, never_ran, ended_at=50)
    new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    assert _view(store, StatementView.SLOW, over_seconds=60) == [ids[3], ids[4], ids[0]]
    assert _view(store, StatementView.SLOW, over_seconds=1) == [ids[1], ids[3], ids[4], ids[0]]
    failed = {"states": [StatementState.FAILED], "session": lease.session_id}
    assert _view(store, StatementView.SLOW, over_seconds=80, **failed) == [ids[3], ids[4]]


def test_a_page_after_a_statement_that_does_not_exist_is_refused(store: Database) -> None:
    for view in StatementView:
        with store.read() as tx, pytest.raises(StatementNotFound, match="does not exist"):
            statements.page(tx, view=view, over_seconds=60, before="st_" + "0" * 32)


def test_statements_are_found_by_a_prefix_of_their_ids(store: Database) -> None:
    session_id = new_session(store)
    mine = [new_statement(store, session_id) for _ in range(3)]
    foreign = new_statement(store, new_session(store, owner="bob"), owner="bob")
    with store.read() as tx:

        def ids(prefix: str, **chosen: object) -> list[str]:
            page = statements.page(tx, owners=[OWNER], id_prefix=prefix, **chosen)  # type: ignore[arg-type]
            return [statement.id for statement in page.items]

        assert ids("st_") == mine[::-1]
        assert ids("st_", limit=2) == mine[:0:-1]
        assert ids("st_", before=mine[1]) == [mine[0]]
        for statement_id in mine:
            assert ids(statement_id) == [statement_id]
            assert ids(statement_id[:-1] + "g") == []
            same = [other for other in mine if other.startswith(statement_id[:-1])]
            assert ids(statement_id[:-1]) == same[::-1]
        assert ids(foreign) == []
        assert ids("se_") == []


def test_sessions_are_found_by_a_prefix_of_their_ids(store: Database) -> None:
    mine = [new_session(store) for _ in range(2)]
    with store.read() as tx:

        def ids(prefix: str) -> list[str]:
            return [session.id for session in sessions.page(tx, owners=[OWNER], id_prefix=prefix)]

        assert ids("se_") == mine[::-1]
        assert [ids(session_id) for session_id in mine] == [[mine[0]], [mine[1]]]
        assert sessions.page(tx, owners=["bob"], id_prefix=mine[0]) == []


def test_only_sessions_with_a_name_have_one(store: Database) -> None:
    named, other = new_session(store, name="etl"), new_session(store)
    with store.read() as tx:
        assert sessions.find_names(tx, [named, other, "se_x"]) == {named: "etl"}
        assert sessions.find_names(tx, []) == {}


def test_the_time_zone_of_a_result_is_stored_beside_its_schema(store: Database) -> None:
    statement_id = new_statement(store, new_session(store))
    report = INLINE.model_copy(update={"time_zone": "Europe/Paris"})
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx,
            statement_id,
            StatementState.SUCCESS,
            actor="driver",
            result=report,
            result_seconds=60,
        )
    info = _get(store, statement_id).result
    assert info is not None
    assert info.time_zone == "Europe/Paris"
    assert info.spark_schema == INLINE.spark_schema


def test_the_time_of_every_step_is_stored(store: Database) -> None:
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


def test_a_success_whose_start_was_not_reported_has_a_start_time(store: Database) -> None:
    statement_id = new_statement(store, new_session(store))
    _succeed(store, statement_id)
    after = _get(store, statement_id)
    assert after.started_at is not None


def test_a_statement_that_is_retried_has_no_times_and_no_epoch(store: Database) -> None:
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
    assert (claimed.statement.id, claimed.statement.attempts) == (statement_id, 2)


def test_a_result_is_readable_from_the_success_on(store: Database) -> None:
    statement_id = new_statement(store, new_session(store))
    _succeed(store, statement_id, seconds=3600)
    with store.read() as tx:
        assert results.inline_data(tx, statement_id) == INLINE.data
        assert results.expired(tx, 10) == []
        assert [statement.result for statement in statements.page(tx).items] == [
            _get(store, statement_id).result
        ]
    statement = _get(store, statement_id)
    assert statement.result is not None
    assert statement.ended_at is not None
    assert statement.result.holder is None
    not_reported = {"expires_at", "gone", "gone_reason", "location", "holder"}
    info = statement.result.model_dump(exclude=not_reported)
    assert info == INLINE.model_dump(exclude={"data", "port"})
    kept = statement.result.expires_at - statement.ended_at
    assert timedelta(minutes=59) < kept < timedelta(minutes=61)


def test_an_expired_result_keeps_its_counts_and_loses_its_rows(store: Database) -> None:
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
    info = _get(store, late).result
    assert info is not None
    assert info.gone
    assert info.row_count == INLINE.row_count


def test_a_transition_that_is_not_applied_stores_no_result(store: Database) -> None:
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


def test_an_unknown_statement_is_none_and_has_no_result(store: Database) -> None:
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
def test_a_cancel_request_changes_the_state(
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
        view = lease_renewals.load_driver_view(tx, session_id)
    assert view is not None
    assert view.in_flight == ([(statement_id, target)] if target in STATEMENT.in_flight else [])


def test_ending_all_statements_of_a_session_ends_the_live_ones(store: Database) -> None:
    session_id = new_session(store)
    by_state = {state: new_statement(store, session_id, state) for state in StatementState}
    live = [by_state[state] for state in StatementState if state in STATEMENT.live]
    with store.write("test") as tx:
        assert statements.live_ids(tx, session_id) == live
        count = statement_transitions.end_all_statements(
            tx, session_id, actor="no_1", failure=LOST, waiting=NEVER_RAN
        )
        assert count == len(STATEMENT.live)
        assert statements.live_ids(tx, session_id) == []
        assert (
            statement_transitions.end_all_statements(tx, session_id, actor="no_1", failure=LOST)
            == 0
        )
    ends = {state: _get(store, statement_id) for state, statement_id in by_state.items()}
    assert ends[StatementState.WAITING].failure == NEVER_RAN
    assert ends[StatementState.RUNNING].failure == LOST
    assert ends[StatementState.LAUNCHED].state is StatementState.FAILED
    assert ends[StatementState.CANCELLING].state is StatementState.CANCELLED
    assert ends[StatementState.CANCELLING].failure is None
    for state in STATEMENT.terminal:
        assert ends[state].state is state
    with store.read() as tx:
        log = read_changes(tx, entity_id=by_state[StatementState.RUNNING])
    assert (log[-1].source, log[-1].target, log[-1].actor) == ("running", "failed", "no_1")


def test_every_character_of_a_failure_message_is_stored(store: Database) -> None:
    failure = Failure(code="c", message="a\x00b \ud83c 🍏", condition="X", line=1, column=2)
    statement_id = new_statement(store, new_session(store))
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx, statement_id, StatementState.FAILED, actor="driver", failure=failure
        )
    assert _get(store, statement_id).failure == failure


def test_several_statements_are_read_at_once_with_their_results(store: Database) -> None:
    session_id = new_session(store)
    first, second = (new_statement(store, session_id) for _ in range(2))
    _succeed(store, first)
    with store.read() as tx:
        found = statements.get_all(tx, [second, first, new_id("st")])
        assert statements.get_all(tx, [second, first], cut_text=True) == found
    assert found == {each: _get(store, each) for each in (first, second)}


def test_a_batch_session_accepts_one_statement(store: Database) -> None:
    session_id = new_id("se")
    with store.write("test") as tx:
        new = NewSession(id=session_id, owner="ada", kind=SessionKind.BATCH)
        sessions.insert(tx, new, actor="ada")
    new_statement(store, session_id)
    with pytest.raises(SessionEnded, match="has had its one statement"):
        new_statement(store, session_id)


def test_a_large_text_is_cut_where_a_reader_wants_that(store: Database) -> None:
    session_id = running_session(store).session_id
    statement_id = new_statement(store, session_id, text="SELECT 'é" + "x" * 100_000 + "'")
    whole = _get(store, statement_id)
    with store.read() as tx:
        [cut] = statements.get_all(tx, [statement_id], cut_text=True).values()
    assert cut.spec.text == whole.spec.text[: statements.SHORT_TEXT]
    assert replace(cut, spec=whole.spec) == whole
