"""Statements: submission and reads. statement_transitions.py changes their states."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    TextClause,
    bindparam,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from headrace.errors import QueueFull, SessionEnded, SessionNotFound, StatementNotFound
from headrace.model.failure import Failure
from headrace.model.lifecycle import SESSION, STATEMENT, StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import NewStatement, Statement, StatementView
from headrace.store import events
from headrace.store.clock import Instant, clock, seconds_between
from headrace.store.database import Tx
from headrace.store.notifications import NO_PROCESS, SEVERAL, session_topic
from headrace.store.records import (
    RESULT_PREFIX,
    Page,
    count_within_budget,
    length_of,
    record_to_columns,
    row_to_statement,
    starts_with,
)
from headrace.store.statements import results, statement_queue
from headrace.store.statements.statement_transitions import record
from headrace.store.tables import SLOW, sessions, statements
from headrace.store.tables import results as results_table
from headrace.text.readable import describe_count

_LIVE = statements.c.ended_at.is_(None)
# A literal, so that a plan can use the index of the statements without success.
_UNSUCCESSFUL = statements.c.state != literal_column(f"'{StatementState.SUCCESS}'")
_FAILED = [StatementState.FAILED, StatementState.TIMEOUT]
_ROWS = "inline_rows"
"""Name of the column with the rows of an inline result."""
_DIGEST_BYTES = 16

# SQLAlchemy takes longer to build a query than SQLite takes to run it: build each once.
_SELECT = select(
    *statements.c,
    *(column.label(f"{RESULT_PREFIX}{column.name}") for column in results.INFO_COLUMNS),
).outerjoin_from(statements, results_table)
_SIZES = select(
    func.length(statements.c.text)
    + length_of(statements.c.parameters)
    + length_of(statements.c.failure)
    + length_of(results_table.c.spark_schema)
).outerjoin_from(statements, results_table)
_GET = _SELECT.where(statements.c.id == bindparam("statement"))
_GET_WITH_ROWS = _GET.add_columns(
    case((results_table.c.byte_count <= bindparam("max_bytes"), results_table.c.data)).label(_ROWS)
)
_AMONG = statements.c.id.in_(bindparam("statements", expanding=True))
_GET_ALL = _SELECT.where(_AMONG)
SHORT_TEXT = 4096
"""Characters of a text that is cut."""
_GET_ALL_SHORT = (
    select(
        *(column for column in statements.c if column is not statements.c.text),
        func.substr(statements.c.text, 1, SHORT_TEXT).label(statements.c.text.name),
        *(column.label(f"{RESULT_PREFIX}{column.name}") for column in results.INFO_COLUMNS),
    )
    .outerjoin_from(statements, results_table)
    .where(_AMONG)
)
_INSERT_ALL = statements.insert().values(
    attempts=0, cancel_forced=False, created_at=clock(), waiting_since=clock()
)
_INSERT = _INSERT_ALL.returning(*statements.c)
_NEXT_ORDINAL = (
    update(sessions)
    .where(
        sessions.c.id == bindparam("session"),
        sessions.c.owner == bindparam("statement_owner"),
        sessions.c.state.in_(sorted(SESSION.accepting)),
        # A batch session accepts one statement, and those of its file (`insert_file`).
        or_(sessions.c.kind != SessionKind.BATCH, sessions.c.next_ordinal == 0),
    )
    .values(next_ordinal=sessions.c.next_ordinal + 1, last_used_at=clock())
    .returning(sessions.c.next_ordinal, sessions.c.state, sessions.c.link_process)
)
# Without ORDER BY: SQLite would choose an index in that order and read all waiting statements.
_IN_FLIGHT = select(statements.c.ordinal, statements.c.id).where(
    statements.c.session_id == bindparam("session"),
    _LIVE,
    statements.c.state.in_(sorted(STATEMENT.in_flight)),
)
_RUNNING_SINCE = func.coalesce(statements.c.started_at, statements.c.launched_at, type_=Instant())
_INSTANTS: dict[StatementView, ColumnElement[Any]] = {
    StatementView.WAITING: statements.c.waiting_since,
    StatementView.RUNNING: _RUNNING_SINCE,
    StatementView.SLOW: statements.c.ended_at,
}
_ORDERS: dict[StatementView, tuple[ColumnElement[Any], ...]] = {
    StatementView.WAITING: (statements.c.waiting_since, statements.c.id),
    StatementView.RUNNING: (_RUNNING_SINCE, statements.c.id),
    StatementView.SLOW: (statements.c.ended_at.desc(), statements.c.id.desc()),
}
SHORTEST_SLOW_SECONDS = 1.0
"""Shortest time of a statement of the view `slow`: the index of the view has no shorter ones."""
_LIVE_IDS = (
    select(statements.c.id)
    .where(statements.c.session_id == bindparam("session"), _LIVE)
    .order_by(statements.c.ordinal)
)


def insert(tx: Tx, new: NewStatement, *, actor: str, max_waiting: int | None = None) -> Statement:
    """Insert a statement that waits for the session's driver.

    Args:
        max_waiting: Largest number of statements that may wait in the session; None: no limit.

    Raises:
        SessionNotFound: The owner of the statement has no such session.
        SessionEnded: The session accepts no more statements.
        QueueFull: `max_waiting` statements wait in the session already.
    """
    ordinal = _next_ordinal(tx, new.session_id, new.owner)
    if max_waiting is not None and statement_queue.is_full(
        tx, new.session_id, next_ordinal=ordinal, limit=max_waiting
    ):
        raise QueueFull(
            f"{describe_count(max_waiting, 'statement waits', 'statements wait')} in session"
            f" {new.session_id}, and no more may wait "
            "(setting statements.max_waiting).",
            hint="Submit the statement again when some of them have ended, or submit it to "
            "another session.",
        )
    row = {**_to_columns(new), "ordinal": ordinal, "state": STATEMENT.initial}
    statement = row_to_statement(tx.execute(_INSERT, row).mappings().one())
    record(tx, new.id, new.session_id, None, STATEMENT.initial, actor=actor)
    return statement


def insert_file(tx: Tx, session_id: str, new: Sequence[NewStatement], *, actor: str) -> None:
    """Insert the statements of the file that a batch session runs, behind its first statement.

    Raise SessionEnded if the session accepts no more statements.
    """
    if not new:
        return
    change = update(sessions).where(
        sessions.c.id == session_id, sessions.c.state.in_(sorted(SESSION.accepting))
    )
    change = change.values(next_ordinal=sessions.c.next_ordinal + len(new), last_used_at=clock())
    following = tx.execute(change.returning(sessions.c.next_ordinal)).scalar_one_or_none()
    if following is None:
        raise SessionEnded(f"Session {session_id} accepts no more statements.")
    first = following - len(new)
    rows = [
        {**_to_columns(each), "ordinal": first + index, "state": STATEMENT.initial}
        for index, each in enumerate(new)
    ]
    tx.execute(_INSERT_ALL, rows)
    ids = [each.id for each in new]
    events.append_all(tx, STATEMENT.entity, ids, None, STATEMENT.initial, actor=actor)
    tx.wake(session_topic(session_id))


def _to_columns(new: NewStatement) -> dict[str, Any]:
    return record_to_columns(new) | {"text_digest": digest_text(new.spec.text)}


def _next_ordinal(tx: Tx, session_id: str, owner: str) -> int:
    names = {"session": session_id, "statement_owner": owner}
    accepting = tx.execute(_NEXT_ORDINAL, names).one_or_none()
    if accepting is not None:
        polls = accepting.state not in SESSION.before_driver
        tx.note_waiter(session_topic(session_id), accepting.link_process if polls else NO_PROCESS)
        following: int = accepting.next_ordinal
        return following - 1
    query = select(sessions.c.state, sessions.c.kind).where(
        sessions.c.id == session_id, sessions.c.owner == owner
    )
    session = tx.execute(query).one_or_none()
    if session is None:
        raise SessionNotFound(f"There is no session {session_id}.")
    if session.state in SESSION.accepting:
        raise SessionEnded(
            f"Session {session_id} is a batch session and has had its one statement.",
            hint="Submit the statement without a session, or to an interactive one.",
        )
    raise SessionEnded(
        f"Session {session_id} is {session.state} and accepts no more statements.",
        hint="Submit the statement to another session.",
    )


def get(tx: Tx, statement_id: str) -> Statement | None:
    """Return a statement with the description of its result, or None if there is none."""
    row = tx.execute(_GET, {"statement": statement_id}).mappings().one_or_none()
    return None if row is None else row_to_statement(row)


def get_with_rows(
    tx: Tx, statement_id: str, *, max_bytes: int
) -> tuple[Statement, bytes | None] | None:
    """Return a statement as `get` does, with the rows of an inline result.

    Args:
        max_bytes: Size of a result above which the rows are not read.
    """
    names = {"statement": statement_id, "max_bytes": max_bytes}
    row = tx.execute(_GET_WITH_ROWS, names).mappings().one_or_none()
    if row is None:
        return None
    columns = {**row}
    rows: bytes | None = columns.pop(_ROWS)
    return row_to_statement(columns), rows


def get_all(
    tx: Tx, statement_ids: Sequence[str], *, cut_text: bool = False
) -> dict[str, Statement]:
    """Return the statements with these ids that exist, by id, as `get` returns them.

    Args:
        cut_text: Whether each text is cut to `SHORT_TEXT`: it may have 10 MiB.
    """
    query = _GET_ALL_SHORT if cut_text else _GET_ALL
    rows = tx.execute(query, {"statements": statement_ids}).mappings()
    return {row["id"]: row_to_statement(row) for row in rows}


def page(
    tx: Tx,
    *,
    owners: Collection[str] | None = None,
    session: str | None = None,
    states: Collection[StatementState] | None = None,
    before: str | None = None,
    id_prefix: str | None = None,
    view: StatementView | None = None,
    over_seconds: float = 0.0,
    limit: int = 100,
) -> Page[Statement]:
    """Return at most `limit` statements, as many as have a bounded size together.

    They are in the order of the view; without a view, the newest is first.

    Args:
        owners: Owners of the statements; None: all.
        session: Only statements of the session with this id.
        before: Id of the last statement of the previous page; None: the first page.
        id_prefix: Only statements whose ids begin with it.
        view: Only statements of this view.
        over_seconds: Only statements that have waited, or run, for at least this time. For the view
            `slow`, at least SHORTEST_SLOW_SECONDS.

    Raise StatementNotFound if a view has no statement `before`.
    """
    chosen = _choose(owners=owners, session=session, states=states)
    chosen += starts_with(statements.c.id, id_prefix)
    order: Sequence[ColumnElement[Any]] = [statements.c.id.desc()]
    if view is not None:
        order = _ORDERS[view]
        chosen += _choose_view(tx, view, over_seconds)
        chosen += _choose_after(tx, view, before, owners)
    elif before is not None:
        chosen.append(statements.c.id < before)
    if owners is not None and len(owners) > 1:
        # SQLite reads one page of each owner, and in a join with the results it reads all rows.
        first = select(statements.c.id).where(*chosen).order_by(*order).limit(limit + 1)
        chosen = [statements.c.id.in_(first.correlate(None))]
    sizes = _SIZES.where(*chosen).order_by(*order)
    count, more = count_within_budget(tx, sizes, limit)
    query = _SELECT.where(*chosen).order_by(*order).limit(count)
    return Page([row_to_statement(row) for row in tx.execute(query).mappings()], more)


def count_newer(
    tx: Tx,
    statement_id: str,
    *,
    owners: Collection[str] | None,
    session: str | None,
    states: Collection[StatementState] | None,
    limit: int,
) -> int:
    """Return the number of statements that are newer than a statement, and at most `limit`."""
    chosen = _choose(owners=owners, session=session, states=states)
    newest = select(statements.c.id).where(*chosen, statements.c.id > statement_id)
    first = newest.order_by(statements.c.id.desc()).limit(limit).subquery()
    count: int = tx.execute(select(func.count()).select_from(first)).scalar_one()
    return count


def find_last(tx: Tx, session_ids: Sequence[str]) -> list[Statement]:
    """Return the last statement of each of these sessions, its text cut to `SHORT_TEXT`."""
    others = statements.alias()
    newest = select(func.max(others.c.ordinal)).where(others.c.session_id == sessions.c.id)
    query = select(statements.c.id).join(sessions, sessions.c.id == statements.c.session_id)
    last = statements.c.ordinal == newest.correlate(sessions).scalar_subquery()
    ids = tx.execute(query.where(sessions.c.id.in_(session_ids), last)).scalars().all()
    return list(get_all(tx, ids, cut_text=True).values())


def id_of_ordinal(tx: Tx, session_id: str, ordinal: int) -> str | None:
    """Return the id of a statement by its position in its session, or None if there is none."""
    of_session = statements.c.session_id == session_id
    query = select(statements.c.id).where(of_session, statements.c.ordinal == ordinal)
    statement_id: str | None = tx.execute(query).scalar_one_or_none()
    return statement_id


def count_in_session(tx: Tx, session_id: str) -> int:
    """Return the number of statements of a session."""
    query = select(func.count()).where(statements.c.session_id == session_id)
    count: int = tx.execute(query).scalar_one()
    return count


def states_by_session(tx: Tx, session_ids: Collection[str]) -> dict[str, set[StatementState]]:
    """Return the states of the statements of sessions, by session. Each has at least one state."""
    query = select(statements.c.session_id, statements.c.state).distinct()
    found: dict[str, set[StatementState]] = {}
    for row in tx.execute(query.where(statements.c.session_id.in_(session_ids))):
        found.setdefault(row.session_id, set()).add(row.state)
    return found


def first_failure(tx: Tx, session_id: str) -> tuple[int, Failure] | None:
    """Return position and failure of the first statement of a session that has failed, or None."""
    query = select(statements.c.ordinal, statements.c.failure).where(
        statements.c.session_id == session_id, statements.c.state.in_(_FAILED)
    )
    row = tx.execute(query.order_by(statements.c.ordinal).limit(1)).one_or_none()
    return None if row is None or row.failure is None else (row.ordinal, row.failure)


def slice_of_session(
    tx: Tx, session_id: str, *, offset: int, limit: int, newest_first: bool
) -> list[Statement]:
    """Return at most `limit` statements of a session after the first `offset`, in their order."""
    order = statements.c.ordinal.desc() if newest_first else statements.c.ordinal
    query = _SELECT.where(statements.c.session_id == session_id).order_by(order)
    rows = tx.execute(query.offset(offset).limit(limit)).mappings()
    return [row_to_statement(row) for row in rows]


def _choose_view(
    tx: Tx, view: StatementView, over_seconds: float
) -> list[ColumnElement[bool] | TextClause]:
    """Return the conditions of a view, in the words of the index that serves it."""
    since = clock(-over_seconds)
    if view is StatementView.WAITING:
        # A bound parameter would not match the condition of the index.
        is_waiting = statements.c.state == literal_column(f"'{StatementState.WAITING}'")
        return [_LIVE, is_waiting, statements.c.waiting_since <= since]
    if view is StatementView.RUNNING:
        return [_LIVE, statements.c.state.in_(sorted(STATEMENT.in_flight)), since >= _RUNNING_SINCE]
    ran = seconds_between(statements.c.started_at, statements.c.ended_at)
    return [SLOW[tx.dialect], ran >= over_seconds]


def _choose_after(
    tx: Tx, view: StatementView, before: str | None, owners: Collection[str] | None
) -> list[ColumnElement[bool]]:
    """Return the condition for the statements of a view that follow a statement of these owners."""
    if before is None:
        return []
    instant = _INSTANTS[view]
    # A statement may have changed its state since the previous page.
    query = select(func.coalesce(instant, statements.c.waiting_since)).where(
        statements.c.id == before, *([] if owners is None else [statements.c.owner.in_(owners)])
    )
    last = tx.execute(query).scalar_one_or_none()
    if last is None:
        raise StatementNotFound(
            f"Statement {before}, after which the page begins, does not exist any more.",
            hint="Read the first page again.",
        )
    place = tuple_(instant, statements.c.id)
    cursor = tuple_(literal(last, Instant()), literal(before))
    return [place < cursor if view is StatementView.SLOW else place > cursor]


def _choose(
    *,
    owners: Collection[str] | None,
    session: str | None,
    states: Collection[StatementState] | None,
) -> list[ColumnElement[bool] | TextClause]:
    conditions: list[ColumnElement[bool] | TextClause] = []
    if owners is not None:
        conditions.append(statements.c.owner.in_(owners))
    if session is not None:
        conditions.append(statements.c.session_id == session)
    if states is not None:
        conditions.append(statements.c.state.in_(states))
        if STATEMENT.terminal.isdisjoint(states):
            conditions.append(_LIVE)
        elif STATEMENT.live.isdisjoint(states):
            conditions.append(statements.c.ended_at.is_not(None))
            if StatementState.SUCCESS not in states:
                conditions.append(_UNSUCCESSFUL)
    return conditions


def await_end(tx: Tx, statement_id: str, process: str) -> None:
    """Record that a process waits for the end of a statement, unless it has ended."""
    others = or_(statements.c.awaited_by.is_(None), statements.c.awaited_by == process)
    tx.execute(
        update(statements)
        .where(statements.c.id == statement_id, _LIVE)
        .values(awaited_by=case((others, process), else_=SEVERAL))
    )


def in_flight_ids(tx: Tx, session_id: str) -> list[str]:
    """Return the ids of the statements that the session's driver has claimed, in order."""
    rows = tx.execute(_IN_FLIGHT, {"session": session_id}).all()
    return [row.id for row in sorted(rows, key=lambda row: row.ordinal)]


def live_ids(tx: Tx, session_id: str) -> list[str]:
    """Return the ids of a session's statements that have not ended, in order of submission."""
    return list(tx.execute(_LIVE_IDS, {"session": session_id}).scalars())


def active_count(tx: Tx) -> int:
    """Return the number of statements in the whole store that have not ended."""
    count: int = tx.execute(select(func.count()).select_from(statements).where(_LIVE)).scalar_one()
    return count


def digest_text(text: str) -> str:
    """Return the digest by which the store finds statements with the same text."""
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def read_durations(tx: Tx, statement: Statement, limit: int) -> list[float]:
    """Return how many seconds the last successful runs of the same text took, the newest first.

    They are runs of the same owner that took at least a second, and ended before the statement
    began. Shorter ones are not in the index.
    """
    if statement.started_at is None:
        return []
    columns = statements.c
    query = (
        select(columns.started_at, columns.ended_at)
        .where(
            columns.owner == statement.owner,
            columns.text_digest == digest_text(statement.spec.text),
            SLOW[tx.dialect],
            columns.state == StatementState.SUCCESS,
            columns.ended_at <= statement.started_at,
        )
        .order_by(columns.ended_at.desc())
        .limit(limit)
    )
    return [(row.ended_at - row.started_at).total_seconds() for row in tx.execute(query)]
