"""The store against a model: whatever nodes and drivers call, in whatever order, late or twice."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from hypothesis import Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import booleans, data, integers, lists, sampled_from
from tests.faults.store_calls import LONG, Calls
from tests.faults.store_model import Lease, ModelSession, ModelStatement
from tests.faults.store_rows import modelled, stored
from tests.support.store import LOST, OWNER

from headrace.control.sessions.service import close_session, end_session, finish_close
from headrace.model.lifecycle import IN_FLIGHT, SESSION, STATEMENT, SessionState, StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import CancelReason
from headrace.store import sessions, statement_transitions, takeovers
from headrace.store.database import Database

_ALL = 1_000_000
_ENDS = [
    StatementState.SUCCESS,
    StatementState.FAILED,
    StatementState.CANCELLED,
    StatementState.TIMEOUT,
]
_SELDOM = sampled_from([False, False, False, True])
_KINDS = [SessionKind.INTERACTIVE, SessionKind.INTERACTIVE, SessionKind.BATCH]


class StoreMachine(Calls, RuleBasedStateMachine):
    """Every rule makes one call of both and compares what they answer; then all rows are."""

    @initialize(
        texts=lists(sampled_from(["query", "command", "local"]), min_size=1, max_size=3),
        parallelism=integers(1, 2),
        losses=integers(0, 2),
        twin=booleans(),
    )
    def begin(self, texts: list[str], parallelism: int, losses: int, twin: bool) -> None:
        """Sessions whose drivers have something in hand, after others that were lost."""
        for _ in range(1 + twin):
            session = self.open(SessionKind.INTERACTIVE, parallelism)
            for text in texts:
                self.submit_to(session, is_query=text == "query", local=text == "local")
            for _ in range(losses):
                self.launch_one(session, comes_up=True)
                self.claim_for(session, session.epoch)
                self.condemn_epoch(session, session.epoch, if_overdue=False, dies=True)
            self.launch_one(session, comes_up=True)
            # The lost ones ask first.
            for epoch in session.launched:
                self.claim_for(session, epoch)
        if twin:
            # A driver tells of what another session's driver of the same epoch has.
            first, second = self.sessions
            for one in first.statements:
                self.tell(second, one, StatementState.FAILED, second.epoch)

    # What users do.

    @precondition(lambda self: sum(one.live for one in self.sessions) < 2)
    @rule(kind=sampled_from(_KINDS), parallelism=integers(1, 2))
    def opened(self, kind: SessionKind, parallelism: int) -> None:
        self.open(kind, parallelism)

    @precondition(lambda self: self.sessions)
    @rule(choice=data(), is_query=booleans(), local=_SELDOM)
    def submit(self, choice: Any, is_query: bool, local: bool) -> None:
        self.submit_to(self._a_session(choice), is_query=is_query, local=local)

    @precondition(lambda self: self._has_statements())
    @rule(choice=data(), reason=sampled_from(CancelReason), force=booleans())
    def cancel(self, choice: Any, reason: CancelReason, force: bool) -> None:
        _session, statement = self._a_statement(choice)
        with self.store.write("test") as tx:
            told = statement_transitions.request_cancel(
                tx, statement.id, actor=OWNER, reason=reason, force=force
            )
        assert told is statement.cancelled(reason, force=force)

    @precondition(lambda self: self.sessions)
    @rule(choice=data(), truly=_SELDOM)
    def close(self, choice: Any, truly: bool) -> None:
        session = self._a_session(choice)
        if truly and session.state in SESSION.live - {SessionState.CLOSING}:
            with self.store.write("test") as tx:
                known = sessions.get(tx, session.id)
                assert known is not None
                close_session(tx, known, actor=OWNER)
            session.close()

    # What nodes do. What they have read may be of yesterday: any epoch that ever was.

    @precondition(lambda self: self.sessions)
    @rule(choice=data(), comes_up=booleans())
    def launch(self, choice: Any, comes_up: bool) -> None:
        self.launch_one(self._a_session(choice), comes_up=comes_up)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def keep_handle(self, choice: Any) -> None:
        self.keep_handle_of(*self._a_driver(choice))

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data(), if_overdue=booleans(), dies=booleans())
    def condemn(self, choice: Any, if_overdue: bool, dies: bool) -> None:
        self.condemn_epoch(*self._an_epoch(choice), if_overdue=if_overdue, dies=dies)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data(), dies=booleans())
    def declare_lost(self, choice: Any, dies: bool) -> None:
        session = self._driven(choice)
        self.condemn_epoch(session, session.epoch, if_overdue=False, dies=dies)
        if not dies and session.fenced_driver is not None:
            self.expire_lease(session)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def retake(self, choice: Any) -> None:
        session, epoch = self._an_epoch(choice)
        with self.store.write("test") as tx:
            taken = takeovers.reclaim_takeover(tx, session.id, epoch, seconds=LONG)
        assert taken == session.retake(epoch)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def prolong(self, choice: Any) -> None:
        session, epoch = self._an_epoch(choice)
        with self.store.write("test") as tx:
            takeovers.extend_lease(tx, session.id, epoch, seconds=LONG)
        session.prolong(epoch)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data(), fails=_SELDOM)
    def release(self, choice: Any, fails: bool) -> None:
        """The lost driver's process is gone, as its backend says."""
        self.release_epoch(*self._an_epoch(choice), fails=fails)

    @precondition(lambda self: self._has_statements())
    @rule(choice=data(), state=sampled_from([StatementState.SUCCESS, StatementState.FAILED]))
    def run_local(self, choice: Any, state: StatementState) -> None:
        session, statement = self._a_statement(choice)
        if statement.local:
            self.tell(session, statement, state, epoch=None)

    @precondition(lambda self: self._has_statements())
    @rule(choice=data())
    def time_out_in_line(self, choice: Any) -> None:
        session, statement = self._a_statement(choice)
        if statement.state is StatementState.WAITING:
            self.tell(session, statement, StatementState.TIMEOUT, epoch=None)

    @rule()
    def extend_all(self) -> None:
        with self.store.write("test") as tx:
            sessions.extend_all(tx, node="no_1", seconds=LONG / 2)
        for session in self.sessions:
            if session.lease is Lease.OVER:
                session.lease = Lease.HELD

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def expire(self, choice: Any) -> None:
        """Time goes by without a word of the driver, or of the node that takes over from it."""
        self.expire_lease(self._a_session(choice))

    # What drivers do, lost ones too.

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def hello(self, choice: Any) -> None:
        self.greet(*self._a_driver(choice))

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def renew(self, choice: Any) -> None:
        session, epoch = self._a_driver(choice)
        with self.store.write("test") as tx:
            told = sessions.renew(tx, session.id, epoch, LONG)
        assert told == session.renew(epoch)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def claim(self, choice: Any) -> None:
        self.claim_for(*self._a_driver(choice))

    @precondition(lambda self: self._has_drivers() and self._has_statements())
    @rule(choice=data())
    def started(self, choice: Any) -> None:
        session, epoch = self._a_driver(choice)
        statement = self._one_to_tell_of(choice, session)
        self.tell(session, statement, StatementState.RUNNING, epoch)

    @precondition(lambda self: self._has_drivers() and self._has_statements())
    @rule(choice=data(), state=sampled_from(_ENDS))
    def ended(self, choice: Any, state: StatementState) -> None:
        session, epoch = self._a_driver(choice)
        statement = self._one_to_tell_of(choice, session)
        self.tell(session, statement, state, epoch)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data(), fails=_SELDOM)
    def leave(self, choice: Any, fails: bool) -> None:
        session, epoch = self._a_driver(choice)
        with self.store.write("test") as tx:
            if fails:
                applied = end_session(tx, session.id, LOST, actor="d", epoch=epoch)
                assert applied == session.fail(epoch)
            elif session.state is SessionState.CLOSING:
                assert finish_close(tx, session.id, actor="d", epoch=epoch) == session.bury(epoch)

    # Which one.

    def _a_session(self, choice: Any) -> ModelSession:
        return _one(choice, self.sessions)

    def _a_statement(self, choice: Any) -> tuple[ModelSession, ModelStatement]:
        session = _one(choice, [one for one in self.sessions if one.statements])
        return session, _one(choice, session.statements)

    def _one_to_tell_of(self, choice: Any, session: ModelSession) -> ModelStatement:
        """Mostly what the session's drivers had been given; else any other session's too."""
        all_ = [one for session in self.sessions for one in session.statements]
        likely = session.in_states(IN_FLIGHT) + session.in_states(STATEMENT.live)
        found: ModelStatement = choice.draw(sampled_from(all_ + likely * len(all_)))
        return found

    def _driven(self, choice: Any) -> ModelSession:
        return _one(choice, [one for one in self.sessions if one.launched])

    def _a_driver(self, choice: Any) -> tuple[ModelSession, int]:
        """The newest of a session more often than those before."""
        driven = self._driven(choice)
        epochs = [*driven.launched, *[driven.launched[-1]] * 3]
        return driven, choice.draw(sampled_from(epochs))

    def _an_epoch(self, choice: Any) -> tuple[ModelSession, int]:
        driven = self._driven(choice)
        epochs = [*range(1, driven.epoch), *[driven.epoch] * 3]
        return driven, choice.draw(sampled_from(epochs))

    def _has_drivers(self) -> bool:
        return any(session.launched for session in self.sessions)

    def _has_statements(self) -> bool:
        return any(session.statements for session in self.sessions)

    # What must be the same.

    @precondition(lambda self: self.sessions)
    @rule()
    def look_for_work(self) -> None:
        with self.store.read() as tx:
            late = {one.id for one in takeovers.overdue(tx, _ALL)}
            launchable = {one.id for one in sessions.launchable(tx, _ALL)}
        assert late == {one.id for one in self.sessions if one.lease is Lease.OVER}
        assert launchable == {one.id for one in self.sessions if one.launchable}

    @invariant()
    def store_and_model_agree(self) -> None:
        with self.store.read() as tx:
            found = stored(tx, [session.id for session in self.sessions])
        assert found == modelled(self.sessions)

    def teardown(self) -> None:
        with self.store.write("test") as tx:
            for session in self.sessions:
                end_session(tx, session.id, LOST, actor="teardown")


Either = TypeVar("Either", ModelSession, ModelStatement)


def _one(choice: Any, found: list[Either]) -> Either:
    """One that lives more often than one that has ended."""
    one: Either = choice.draw(sampled_from([*found, *[one for one in found if one.live] * 4]))
    return one


def test_the_store_does_what_the_model_says(store: Database) -> None:
    # A failure is told as it was found: to make its steps fewer takes minutes, on two databases.
    steady = settings(max_examples=50, stateful_step_count=40, phases=[Phase.generate])
    run_state_machine_as_test(partial(StoreMachine, store), settings=steady)
