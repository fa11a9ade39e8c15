"""Limits on live sessions and statements, and the fair choice between users.

A transaction that counts against a limit first locks the row of the limit, so that two nodes cannot
both take the last place. A limit that is not set costs nothing.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Table,
    and_,
    case,
    exists,
    false,
    func,
    literal,
    select,
)

from headrace.model.lifecycle import STATEMENT, SessionState, StatementState
from headrace.model.session import SessionKind
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.statements.statement_queries import (
    is_running_alone,
    queue_order,
    will_run_alone,
)
from headrace.store.tables import limit_locks, sessions, statements


class Counted(StrEnum):
    """What a limit counts. Each member has a row in `limit_locks`."""

    SESSIONS = "sessions"
    WAITING = "waiting"
    RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest number of live rows; None: no limit."""

    counted: Counted
    total: int | None = None
    per_user: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether anything must be counted."""
        return self.total is not None or self.per_user is not None


@dataclass(frozen=True, slots=True)
class Excess:
    """The part of a limit that is used up."""

    number: int
    is_per_user: bool


_SESSIONS = (
    sessions.c.ended_at.is_(None),
    sessions.c.kind != SessionKind.LOCAL,
    sessions.c.warm.is_(false()),
)
_OF_DRIVERS = (statements.c.ended_at.is_(None), statements.c.kind != SessionKind.LOCAL)
_WAITING = (*_OF_DRIVERS, statements.c.state == StatementState.WAITING)
_QUEUED = (*_OF_DRIVERS, statements.c.state.in_(sorted(STATEMENT.queued)))
_ROWS: Mapping[Counted, tuple[Table, tuple[ColumnElement[bool], ...]]] = {
    Counted.SESSIONS: (sessions, _SESSIONS),
    Counted.WAITING: (statements, _QUEUED),
}
_IN_FLIGHT = (
    select(statements.c.owner, func.count().label("number"))
    .where(statements.c.ended_at.is_(None), statements.c.state.in_(sorted(STATEMENT.in_flight)))
    .group_by(statements.c.owner)
)
_other = statements.alias("other")
_number_in_flight = (
    select(func.count())
    .select_from(_other)
    .where(
        _other.c.session_id == sessions.c.id,
        _other.c.ended_at.is_(None),
        _other.c.state.in_(sorted(STATEMENT.in_flight)),
    )
    .correlate(sessions)
    .scalar_subquery()
)
_in_session = (_other.c.session_id == sessions.c.id, _other.c.ended_at.is_(None))
_runs_alone_in_flight = (
    exists()
    .where(*_in_session, _other.c.state.in_(sorted(STATEMENT.in_flight)), is_running_alone(_other))
    .correlate(sessions)
)
_first_will_run_alone = (
    select(will_run_alone(_other))
    .where(*_in_session, _other.c.state == StatementState.WAITING)
    .order_by(*queue_order(_other))
    .limit(1)
    .correlate(sessions)
    .scalar_subquery()
)
_places = case(
    (sessions.c.pool, sessions.c.parallelism),
    (and_(~_runs_alone_in_flight, ~_first_will_run_alone), sessions.c.parallelism),
    else_=1,
)
# The drivers of these sessions are idle or have a free place. They could claim a statement at once.
_READY = (
    select(sessions.c.id, sessions.c.owner, func.min(statements.c.waiting_since).label("since"))
    .join_from(sessions, statements, statements.c.session_id == sessions.c.id)
    .where(
        sessions.c.ended_at.is_(None),
        sessions.c.state == SessionState.RUNNING,
        sessions.c.lease_until > clock(),
        *_WAITING,
        _number_in_flight < _places,
    )
    .group_by(sessions.c.id, sessions.c.owner)
)


def lock(tx: Tx, counted: Counted) -> None:
    """Lock a limit until the transaction ends, whether it is set or not."""
    query = select(limit_locks.c.counted).where(limit_locks.c.counted == counted)
    tx.execute(query.with_for_update())


def find_excess(tx: Tx, limit: Limit, owner: str) -> Excess | None:
    """Return the part of a limit that another row of this owner would exceed, or None.

    Lock the limit until the transaction ends.

    Args:
        limit: A limit on sessions or on waiting statements.
    """
    if not limit.is_set:
        return None
    lock(tx, limit.counted)
    table, rows = _ROWS[limit.counted]
    if limit.per_user is not None and _has(tx, limit.per_user, *rows, table.c.owner == owner):
        return Excess(limit.per_user, is_per_user=True)
    if limit.total is not None and _has(tx, limit.total, *rows):
        return Excess(limit.total, is_per_user=False)
    return None


def may_claim(tx: Tx, limit: Limit, owner: str) -> bool:
    """Return whether a driver of this owner may claim a statement now.

    Places are left free for users with fewer statements in flight whose drivers are idle, one for
    each of these users. Lock the limit until the transaction ends.
    """
    if not limit.is_set:
        return True
    lock(tx, limit.counted)
    in_flight = _count_in_flight(tx)
    own = in_flight.get(owner, 0)
    if limit.per_user is not None and own >= limit.per_user:
        return False
    if limit.total is None:
        return True
    free = limit.total - sum(in_flight.values())
    if free <= 0 or own == 0:
        return free > 0
    return free > _count_users_before(tx, limit, in_flight, owner)


def choose_next(tx: Tx, limit: Limit) -> list[str]:
    """Return the sessions whose drivers should claim a statement now, in a fair order.

    Users with fewer statements in flight come first, then the statements that have waited longest.
    """
    if not limit.is_set:
        return []
    in_flight = _count_in_flight(tx)
    places = math.inf if limit.total is None else limit.total - sum(in_flight.values())
    ready: dict[str, deque[Any]] = defaultdict(deque)
    for row in sorted(tx.execute(_READY).all(), key=lambda row: (row.since, row.id)):
        ready[row.owner].append(row)
    users = [(in_flight.get(owner, 0), rows[0].since, owner) for owner, rows in ready.items()]
    heapq.heapify(users)
    chosen: list[str] = []
    while users and len(chosen) < places:
        own, _since, owner = heapq.heappop(users)
        if limit.per_user is not None and own >= limit.per_user:
            continue
        chosen.append(ready[owner].popleft().id)
        if ready[owner]:
            heapq.heappush(users, (own + 1, ready[owner][0].since, owner))
    return chosen


def _has(tx: Tx, number: int, *rows: ColumnElement[bool]) -> bool:
    """Return whether at least `number` rows meet the conditions. Read no more than these."""
    some = select(literal(1)).where(*rows).limit(number).subquery()
    count: int = tx.execute(select(func.count()).select_from(some)).scalar_one()
    return count >= number


def _count_in_flight(tx: Tx) -> dict[str, int]:
    return {row.owner: row.number for row in tx.execute(_IN_FLIGHT)}


def _count_users_before(tx: Tx, limit: Limit, in_flight: Mapping[str, int], owner: str) -> int:
    """Count the users with fewer statements in flight than this one who wait for a place."""
    before = in_flight[owner]
    if limit.per_user is not None:
        before = min(before, limit.per_user)
    users = {row.owner for row in tx.execute(_READY)} - {owner}
    return sum(in_flight.get(user, 0) < before for user in users)
