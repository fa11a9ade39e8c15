"""The store against a model: random calls of nodes and drivers, in any order, late or repeated."""

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
from tests.faults.store_rows import expected_rows, read_rows
from tests.support.store import LOST, OWNER, set_present_since

from headrace.control.sessions.ending import close_session, fail_session, finish_close
from headrace.model.lifecycle import SESSION, STATEMENT, SessionState, StatementState
from headrace.model.session import DriverLease, SessionKind
from headrace.model.statement import CancelReason
from headrace.store import nodes
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.sessions import lease_renewals, sessions, takeovers
from headrace.store.statements import statement_transitions

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
    """Each rule makes one call to both and compares the answers. Then all rows are compared."""

    @initialize(
        texts=lists(sampled_from(["query", "command", "local"]), min_size=1, max_size=3),
        parallelism=integers(1, 2),
        losses=integers(0, 2),
        twin=booleans(),
    )
    def begin(self, texts: list[str], parallelism: int, losses: int, twin: bool) -> None:
        """Open sessions with statements in flight, after the loss of earlier drivers."""
        self.register_node()
        for _ in range(1 + twin):
            session = self.open(SessionKind.INTERACTIVE, parallelism)
            for text in texts:
                self.submit_to(session, is_query=text == "query", local=text == "local")
            for _ in range(losses):
                self.launch_driver(session, comes_up=True)
                self.claim_statement(session, session.epoch)
                self.fence_driver(session, session.epoch, only_if_overdue=False, dies=True)
            self.launch_driver(session, comes_up=True)
            # The lost drivers call first.
            for epoch in session.launched:
                self.claim_statement(session, epoch)
        if twin:
            # A driver reports a statement of another session's driver that has the same epoch.
            first, second = self.sessions
            for statement in first.statements:
                self.report_state(second, statement, StatementState.FAILED, second.epoch)

    # Calls of users

    @precondition(lambda self: sum(session.live for session in self.sessions) < 2)
    @rule(kind=sampled_from(_KINDS), parallelism=integers(1, 2))
    def open_session(self, kind: SessionKind, parallelism: int) -> None:
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
            state = statement_transitions.request_cancel(
                tx, statement.id, actor=OWNER, reason=reason, force=force
            )
        assert state is statement.request_cancel(reason, force=force)

    @precondition(lambda self: self.sessions)
    @rule(choice=data(), proceeds=_SELDOM)
    def close(self, choice: Any, proceeds: bool) -> None:
        session = self._a_session(choice)
        if proceeds and session.state in SESSION.live - {SessionState.CLOSING}:
            with self.store.write("test") as tx:
                close_session(tx, session.id, actor=OWNER)
            session.close()

    # Calls of nodes. A node may act on an old read, so any past epoch may appear.

    @precondition(lambda self: self.sessions)
    @rule(choice=data(), comes_up=booleans())
    def launch(self, choice: Any, comes_up: bool) -> None:
        self.launch_driver(self._a_session(choice), comes_up=comes_up)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def set_handle(self, choice: Any) -> None:
        self.store_handle(*self._a_driver(choice))

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data(), only_if_overdue=booleans(), dies=booleans())
    def fence(self, choice: Any, only_if_overdue: bool, dies: bool) -> None:
        session, epoch = self._an_epoch(choice)
        self.fence_driver(session, epoch, only_if_overdue=only_if_overdue, dies=dies)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data(), dies=booleans())
    def declare_lost(self, choice: Any, dies: bool) -> None:
        session = self._driven(choice)
        self.fence_driver(session, session.epoch, only_if_overdue=False, dies=dies)
        if not dies and session.fenced_driver is not None:
            self.expire_lease(session)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def reclaim_takeover(self, choice: Any) -> None:
        session, epoch = self._an_epoch(choice)
        with self.store.write("test") as tx:
            lease = DriverLease(session.id, epoch)
            applied = takeovers.reclaim_takeover(tx, lease, seconds=LONG)
        assert applied == session.reclaim_takeover(epoch)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def extend_lease(self, choice: Any) -> None:
        session, epoch = self._an_epoch(choice)
        with self.store.write("test") as tx:
            takeovers.extend_lease(tx, DriverLease(session.id, epoch), seconds=LONG)
        session.extend_lease(epoch)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data(), fails=_SELDOM)
    def confirm_gone(self, choice: Any, fails: bool) -> None:
        """Finish a takeover: the backend confirms that the lost driver is gone."""
        self.finish_takeover(*self._an_epoch(choice), fails=fails)

    @precondition(lambda self: self._has_statements())
    @rule(choice=data(), state=sampled_from([StatementState.SUCCESS, StatementState.FAILED]))
    def run_local(self, choice: Any, state: StatementState) -> None:
        session, statement = self._a_statement(choice)
        if statement.local:
            self.report_state(session, statement, state, epoch=None)

    @precondition(lambda self: self._has_statements())
    @rule(choice=data())
    def time_out_while_waiting(self, choice: Any) -> None:
        session, statement = self._a_statement(choice)
        if statement.state is StatementState.WAITING:
            self.report_state(session, statement, StatementState.TIMEOUT, epoch=None)

    @rule()
    def return_to_work(self) -> None:
        """Let a node come back: it waits for a lease before it judges drivers."""
        with self.store.write("test") as tx:
            nodes.mark_return(tx, "no_1", 2 * LONG)
        self.may_judge = False

    @rule()
    def stay_present(self) -> None:
        """Let a whole lease pass for the node."""
        with self.store.write("test") as tx:
            set_present_since(tx, "no_1", clock(-LONG - 1))
        self.may_judge = True

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def expire(self, choice: Any) -> None:
        """Time passes without a renewal by the driver, or by the node that takes it over."""
        self.expire_lease(self._a_session(choice))

    # Calls of drivers, including lost ones

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def hello(self, choice: Any) -> None:
        self.report_hello(*self._a_driver(choice))

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def renew(self, choice: Any) -> None:
        session, epoch = self._a_driver(choice)
        with self.store.write("test") as tx:
            state = lease_renewals.renew(tx, DriverLease(session.id, epoch), LONG)
        assert state == session.renew(epoch)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data())
    def claim(self, choice: Any) -> None:
        self.claim_statement(*self._a_driver(choice))

    @precondition(lambda self: self._has_drivers() and self._has_statements())
    @rule(choice=data())
    def started(self, choice: Any) -> None:
        session, epoch = self._a_driver(choice)
        statement = self._a_statement_to_report(choice, session)
        self.report_state(session, statement, StatementState.RUNNING, epoch)

    @precondition(lambda self: self._has_drivers() and self._has_statements())
    @rule(choice=data(), state=sampled_from(_ENDS))
    def ended(self, choice: Any, state: StatementState) -> None:
        session, epoch = self._a_driver(choice)
        statement = self._a_statement_to_report(choice, session)
        self.report_state(session, statement, state, epoch)

    @precondition(lambda self: self._has_drivers())
    @rule(choice=data(), fails=_SELDOM)
    def say_goodbye(self, choice: Any, fails: bool) -> None:
        session, epoch = self._a_driver(choice)
        with self.store.write("test") as tx:
            if fails:
                applied = fail_session(tx, session.id, LOST, actor="d", epoch=epoch)
                assert applied == session.fail(epoch)
            elif session.state is SessionState.CLOSING:
                assert finish_close(tx, session.id, actor="d", epoch=epoch) == session.finish_close(
                    epoch
                )

    # Choices

    def _a_session(self, choice: Any) -> ModelSession:
        return _choose(choice, self.sessions)

    def _a_statement(self, choice: Any) -> tuple[ModelSession, ModelStatement]:
        session = _choose(choice, [session for session in self.sessions if session.statements])
        return session, _choose(choice, session.statements)

    def _a_statement_to_report(self, choice: Any, session: ModelSession) -> ModelStatement:
        """Choose mostly from the session's live statements, sometimes from any session's."""
        all_ = [statement for each in self.sessions for statement in each.statements]
        likely = session.in_states(STATEMENT.in_flight) + session.in_states(STATEMENT.live)
        statement: ModelStatement = choice.draw(sampled_from(all_ + likely * len(all_)))
        return statement

    def _driven(self, choice: Any) -> ModelSession:
        return _choose(choice, [session for session in self.sessions if session.launched])

    def _a_driver(self, choice: Any) -> tuple[ModelSession, int]:
        """Choose a driver: the newest one of a session more often than earlier ones."""
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

    # Comparisons

    @precondition(lambda self: self.sessions)
    @rule()
    def find_work(self) -> None:
        with self.store.read() as tx:
            overdue = {
                session.id for session in takeovers.overdue(tx, _ALL, node="no_1", seconds=LONG)
            }
            launchable = {session.id for session in sessions.launchable(tx, _ALL)}
        expired = [
            session
            for session in self.sessions
            if session.lease is Lease.EXPIRED
            and (self.may_judge or session.fenced_driver is not None)
        ]
        assert overdue == {session.id for session in expired}
        assert launchable == {session.id for session in self.sessions if session.launchable}

    @invariant()
    def store_and_model_agree(self) -> None:
        with self.store.read() as tx:
            rows = read_rows(tx, [session.id for session in self.sessions])
        assert rows == expected_rows(self.sessions)

    def teardown(self) -> None:
        with self.store.write("test") as tx:
            for session in self.sessions:
                fail_session(tx, session.id, LOST, actor="teardown")


_Entity = TypeVar("_Entity", ModelSession, ModelStatement)


def _choose(choice: Any, entities: list[_Entity]) -> _Entity:
    """Choose a live entity more often than one that has ended."""
    live = [entity for entity in entities if entity.live]
    entity: _Entity = choice.draw(sampled_from([*entities, *live * 4]))
    return entity


def test_the_store_behaves_like_its_model(store: Database) -> None:
    # No shrinking: it would take minutes on two databases.
    steady = settings(max_examples=50, stateful_step_count=40, phases=[Phase.generate])
    run_state_machine_as_test(partial(StoreMachine, store), settings=steady)
