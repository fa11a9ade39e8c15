"""Sessions and statements in a store, brought to where a test needs them."""

from __future__ import annotations

from headrace.errors import DriverLost
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.result import Disposition, ResultReport
from headrace.model.session import NewSession, Session
from headrace.model.statement import NewStatement
from headrace.store import sessions, statement_transitions, statements, takeovers
from headrace.store.database import Database

OWNER = "ada"
LOST = Failure.of(DriverLost())
INLINE = ResultReport(
    disposition=Disposition.INLINE,
    spark_schema={"type": "struct", "fields": []},
    row_count=1,
    byte_count=4,
    truncated=False,
    chunks=1,
    data=b"\x00row",
)

# The states that lead from a fresh statement or session to each state.
STATEMENT_PATHS = {
    StatementState.WAITING: [],
    StatementState.LAUNCHED: [StatementState.LAUNCHED],
    StatementState.RUNNING: [StatementState.LAUNCHED, StatementState.RUNNING],
    StatementState.CANCELLING: [StatementState.LAUNCHED, StatementState.CANCELLING],
    StatementState.SUCCESS: [StatementState.SUCCESS],
    StatementState.FAILED: [StatementState.FAILED],
    StatementState.TIMEOUT: [StatementState.TIMEOUT],
    StatementState.CANCELLED: [StatementState.CANCELLED],
}
SESSION_PATHS = {
    SessionState.NOT_STARTED: [],
    SessionState.STARTING: [SessionState.STARTING],
    SessionState.RUNNING: [SessionState.STARTING, SessionState.RUNNING],
    SessionState.RECOVERING: [
        SessionState.STARTING,
        SessionState.RUNNING,
        SessionState.RECOVERING,
    ],
    SessionState.CLOSING: [SessionState.CLOSING],
    SessionState.DEAD: [SessionState.CLOSING, SessionState.DEAD],
    SessionState.FAILED: [SessionState.FAILED],
}


def new_session(
    store: Database,
    state: SessionState = SessionState.NOT_STARTED,
    *,
    owner: str = OWNER,
    name: str | None = None,
    parallelism: int = 1,
) -> str:
    """The id of a new session in that state, at epoch 0: nobody has claimed its launch."""
    session_id = new_id("se")
    with store.write() as tx:
        new = NewSession(id=session_id, owner=owner, name=name, parallelism=parallelism)
        sessions.insert(tx, new, actor=owner)
        for step in SESSION_PATHS[state]:
            assert sessions.transition(tx, session_id, step, actor="test")
    return session_id


def running_session(
    store: Database, *, lease_seconds: float = 60.0, parallelism: int = 1
) -> tuple[str, int]:
    """The id and epoch of a session whose driver has said hello."""
    session_id = new_session(store, parallelism=parallelism)
    with store.write() as tx:
        epoch = takeovers.claim_launch(tx, session_id, node="no_1", seconds=60, token_hash="hash")
        assert epoch is not None
        assert sessions.transition(
            tx,
            session_id,
            SessionState.RUNNING,
            actor="driver",
            epoch=epoch,
            lease_seconds=lease_seconds,
        )
    return session_id, epoch


def new_statement(
    store: Database,
    session_id: str,
    state: StatementState = StatementState.WAITING,
    *,
    owner: str = OWNER,
    epoch: int | None = None,
    text: str = "SELECT 1",
    is_query: bool = False,
) -> str:
    """The id of a new statement in that state, in the hands of the driver of `epoch`."""
    statement_id = new_id("st")
    with store.write() as tx:
        new = NewStatement(
            id=statement_id, session_id=session_id, owner=owner, text=text, is_query=is_query
        )
        statements.insert(tx, new, actor=owner)
        for step in STATEMENT_PATHS[state]:
            fence = epoch if STATEMENT_PATHS[state][0] is StatementState.LAUNCHED else None
            assert statement_transitions.transition(
                tx, statement_id, step, actor="test", epoch=fence
            )
    return statement_id


def session_of(store: Database, session_id: str) -> Session:
    """A session as it is; there must be one."""
    with store.read() as tx:
        session = sessions.get(tx, session_id)
    assert session is not None
    return session
