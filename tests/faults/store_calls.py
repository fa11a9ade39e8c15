"""Calls of nodes and drivers, made to the store and to its model: both must return the same."""

from __future__ import annotations

from sqlalchemy import update
from tests.faults.store_model import MAX_ATTEMPTS, Lease, ModelSession, ModelStatement
from tests.support.store import INLINE, LOST, OWNER, set_present_since

from headrace.control.sessions.ending import fail_session, finish_close
from headrace.errors import SessionEnded
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import DriverLease, NewSession, SessionKind
from headrace.model.statement import NewStatement, StatementSpec
from headrace.store import nodes
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import statement_transitions, statements
from headrace.store.tables import sessions as sessions_table

LONG = 1000.0


class Calls:
    """A store and its model."""

    def __init__(self, store: Database) -> None:
        super().__init__()
        self.store = store
        self.sessions: list[ModelSession] = []
        self.may_judge = True
        """Whether the node `no_1` may judge the expired leases of drivers."""

    def register_node(self) -> None:
        with self.store.write("test") as tx:
            nodes.register(tx, "no_1", address="http://node", version="1", seconds=2 * LONG)
            set_present_since(tx, "no_1", clock(-LONG - 1))

    def open(self, kind: SessionKind, parallelism: int) -> ModelSession:
        session = ModelSession(new_id("se"), kind, parallelism)
        with self.store.write("test") as tx:
            new = NewSession(id=session.id, owner=OWNER, kind=kind, parallelism=parallelism)
            sessions.insert(tx, new, actor=OWNER)
        self.sessions.append(session)
        return session

    def submit_to(self, session: ModelSession, *, is_query: bool, local: bool) -> None:
        statement = ModelStatement(new_id("st"), is_query and not local, local)
        new = NewStatement(
            id=statement.id,
            session_id=session.id,
            owner=OWNER,
            spec=StatementSpec(
                text="SELECT 1",
                kind=SessionKind.LOCAL if local else SessionKind.INTERACTIVE,
            ),
            is_query=statement.is_query,
        )
        try:
            with self.store.write("test") as tx:
                statements.insert(tx, new, actor=OWNER)
        except SessionEnded:
            assert not session.accepts_statements
        else:
            assert session.accepts_statements
            session.statements.append(statement)

    def launch_driver(self, session: ModelSession, *, comes_up: bool) -> None:
        with self.store.write("test") as tx:
            epoch = takeovers.claim_launch(
                tx, session.id, node="no_1", seconds=LONG, token_hash="hash"
            )
        assert epoch == session.claim_launch()
        if comes_up and epoch is not None:
            self.store_handle(session, epoch)
            self.report_hello(session, epoch)

    def store_handle(self, session: ModelSession, epoch: int) -> None:
        with self.store.write("test") as tx:
            lease = DriverLease(session.id, epoch)
            applied = sessions.set_handle(tx, lease, {"pid": epoch})
        assert applied == session.set_handle(epoch)

    def fence_driver(
        self, session: ModelSession, epoch: int, *, only_if_overdue: bool, dies: bool
    ) -> None:
        with self.store.write("test") as tx:
            new_epoch = takeovers.fence(
                tx,
                DriverLease(session.id, epoch),
                actor="no_1",
                reason="it died",
                seconds=LONG,
                only_if_overdue=only_if_overdue,
            )
        if only_if_overdue and not self.may_judge:
            assert new_epoch is None
            return
        assert new_epoch == session.fence(epoch, only_if_overdue=only_if_overdue)
        if dies and new_epoch is not None:
            self.finish_takeover(session, new_epoch, fails=False)

    def finish_takeover(self, session: ModelSession, epoch: int, *, fails: bool) -> None:
        with self.store.write("test") as tx:
            applied = takeovers.finish_takeover(tx, DriverLease(session.id, epoch))
            assert applied == session.finish_takeover(epoch)
            if not applied:
                return
            if session.state is SessionState.CLOSING:
                assert finish_close(tx, session.id, actor="no_1") == session.finish_close()
            elif fails:
                assert fail_session(tx, session.id, LOST, actor="no_1") == session.fail()
            else:
                takeovers.resolve_lost(
                    tx, session.id, actor="no_1", failure=LOST, max_attempts=MAX_ATTEMPTS
                )
                session.resolve_lost_statements()

    def expire_lease(self, session: ModelSession) -> None:
        if session.lease is not Lease.VALID:
            return
        query = update(sessions_table).where(sessions_table.c.id == session.id)
        with self.store.write("test") as tx:
            tx.execute(query.values(lease_until=clock(-1.0)))
        session.lease = Lease.EXPIRED

    def report_hello(self, session: ModelSession, epoch: int) -> None:
        with self.store.write("test") as tx:
            applied = sessions.transition(
                tx, session.id, SessionState.RUNNING, actor="d", epoch=epoch, lease_seconds=LONG
            )
        assert applied == session.hello(epoch)

    def claim_statement(self, session: ModelSession, epoch: int) -> None:
        with self.store.write("test") as tx:
            claimed = statement_transitions.claim_next(tx, DriverLease(session.id, epoch))
        expected = session.claim_next(epoch)
        assert (claimed and claimed.statement.id) == (expected and expected.id)

    def report_state(
        self,
        session: ModelSession,
        statement: ModelStatement,
        target: StatementState,
        epoch: int | None,
    ) -> None:
        """Report a state as the driver of an epoch, which may name any statement, or as a node."""
        with self.store.write("test") as tx:
            applied = statement_transitions.transition(
                tx,
                statement.id,
                target,
                actor="d",
                lease=None if epoch is None else DriverLease(session.id, epoch),
                result=INLINE if target is StatementState.SUCCESS else None,
                result_seconds=LONG,
            )
        if epoch is None:
            assert applied == statement.transition(target)
        else:
            assert applied == session.report(statement, epoch, target)
