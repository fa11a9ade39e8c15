"""What nodes and drivers ask of the store, asked of the model too: both must answer the same."""

from __future__ import annotations

from sqlalchemy import update
from tests.faults.store_model import MAX_ATTEMPTS, Lease, ModelSession, ModelStatement
from tests.support.store import INLINE, LOST, OWNER

from headrace.control.sessions.service import end_session, finish_close
from headrace.errors import SessionEnded
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import NewSession, SessionKind
from headrace.model.statement import NewStatement
from headrace.store import sessions, statement_transitions, statements, takeovers
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.tables import sessions as sessions_table

LONG = 1000.0


class Calls:
    """One store and its model."""

    def __init__(self, store: Database) -> None:
        super().__init__()
        self.store = store
        self.sessions: list[ModelSession] = []

    def open(self, kind: SessionKind, parallelism: int) -> ModelSession:
        made = ModelSession(new_id("se"), kind, parallelism)
        with self.store.write("test") as tx:
            new = NewSession(id=made.id, owner=OWNER, kind=kind, parallelism=parallelism)
            sessions.insert(tx, new, actor=OWNER)
        self.sessions.append(made)
        return made

    def submit_to(self, session: ModelSession, *, is_query: bool, local: bool) -> None:
        made = ModelStatement(new_id("st"), is_query and not local, local)
        new = NewStatement(
            id=made.id,
            session_id=session.id,
            owner=OWNER,
            text="SELECT 1",
            kind=SessionKind.LOCAL if local else SessionKind.INTERACTIVE,
            is_query=made.is_query,
        )
        try:
            with self.store.write("test") as tx:
                statements.insert(tx, new, actor=OWNER)
        except SessionEnded:
            assert not session.takes
        else:
            assert session.takes
            session.statements.append(made)

    def launch_one(self, session: ModelSession, *, comes_up: bool) -> None:
        with self.store.write("test") as tx:
            epoch = takeovers.claim_launch(
                tx, session.id, node="no_1", seconds=LONG, token_hash="hash"
            )
        assert epoch == session.claim_launch()
        if comes_up and epoch is not None:
            self.keep_handle_of(session, epoch)
            self.greet(session, epoch)

    def keep_handle_of(self, session: ModelSession, epoch: int) -> None:
        with self.store.write("test") as tx:
            kept = sessions.set_handle(tx, session.id, epoch, {"pid": epoch})
        assert kept == session.set_handle(epoch)

    def condemn_epoch(
        self, session: ModelSession, epoch: int, *, if_overdue: bool, dies: bool
    ) -> None:
        with self.store.write("test") as tx:
            fence = takeovers.fence(
                tx,
                session.id,
                epoch,
                actor="no_1",
                reason="it died",
                seconds=LONG,
                if_overdue=if_overdue,
            )
        assert fence == session.condemn(epoch, if_overdue=if_overdue)
        if dies and fence is not None:
            self.release_epoch(session, fence, fails=False)

    def release_epoch(self, session: ModelSession, epoch: int, *, fails: bool) -> None:
        with self.store.write("test") as tx:
            applied = takeovers.finish_takeover(tx, session.id, epoch)
            assert applied == session.release(epoch)
            if not applied:
                return
            if session.state is SessionState.CLOSING:
                assert finish_close(tx, session.id, actor="no_1") == session.bury()
            elif fails:
                assert end_session(tx, session.id, LOST, actor="no_1") == session.fail()
            else:
                statement_transitions.resolve_lost_statements(
                    tx, session.id, actor="no_1", failure=LOST, max_attempts=MAX_ATTEMPTS
                )
                session.settle()

    def expire_lease(self, session: ModelSession) -> None:
        if session.lease is not Lease.HELD:
            return
        late = update(sessions_table).where(sessions_table.c.id == session.id)
        with self.store.write("test") as tx:
            tx.execute(late.values(lease_until=clock(-1.0)))
        session.lease = Lease.OVER

    def greet(self, session: ModelSession, epoch: int) -> None:
        with self.store.write("test") as tx:
            applied = sessions.transition(
                tx, session.id, SessionState.RUNNING, actor="d", epoch=epoch, lease_seconds=LONG
            )
        assert applied == session.hello(epoch)

    def claim_for(self, session: ModelSession, epoch: int) -> None:
        with self.store.write("test") as tx:
            found = statement_transitions.claim_next(tx, session.id, epoch, actor="d")
        expected = session.claim_next(epoch)
        assert (found and found.id) == (expected and expected.id)

    def tell(
        self,
        session: ModelSession,
        statement: ModelStatement,
        target: StatementState,
        epoch: int | None,
    ) -> None:
        """As the link does for a driver, which may name any statement; a node has no epoch."""
        with self.store.write("test") as tx:
            applied = statement_transitions.transition(
                tx,
                statement.id,
                target,
                actor="d",
                session_id=session.id,
                epoch=epoch,
                result=INLINE if target is StatementState.SUCCESS else None,
                result_seconds=LONG,
            )
        expected = (
            statement.told(target) if epoch is None else session.report(statement, epoch, target)
        )
        assert applied == expected
