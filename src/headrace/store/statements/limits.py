"""Limits on what owners use, and the fair choice between owners.

All numbers are those of live rows, so that a node that is killed leaves nothing behind. A
transaction that counts against a limit first locks the row of the limit, so that two nodes cannot
both take the last place. A limit that is not set costs nothing.

Submits per minute are the exception: rows of the last minute cannot be counted without an index
that each submit of every owner would have to maintain, or a read of as many rows as the limit
allows. A row for each owner says when all submits of a minute are available again, and one update
checks and changes it, in the transaction of the submit and by the clock of the database.

Owners take turns by start-time fair queueing. Each claim of an owner gets a start and a finish, in
virtual time: the start is the finish of its last claim, but not before the start of the last claim
of any owner, and the finish is 1/weight later. The smallest start comes first. An owner that has
been idle thus gets no credit, and no owner starves. While others wait, no owner gets more places
than its weight gives it, so that long statements do not gather all places.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    bindparam,
    case,
    exists,
    false,
    func,
    literal,
    select,
)

from headrace.config.limits import LimitName
from headrace.model.lifecycle import STATEMENT, SessionState, StatementState
from headrace.model.session import SessionKind
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.statements.statement_queries import (
    is_connection_busy,
    is_running_alone,
    queue_order,
    will_run_alone,
)
from headrace.store.tables import (
    STORED,
    connections,
    fair_shares,
    limit_locks,
    results,
    sessions,
    statements,
    stream_queries,
    submit_rates,
)
from headrace.store.upserts import build_replacement, insert_into


class Counted(StrEnum):
    """What a limit counts. Each member has a row in `limit_locks`."""

    SESSIONS = "sessions"
    WAITING = "waiting"
    RUNNING = "running"
    STREAMS = "streams"
    CONNECTIONS = "connections"


class Share(NamedTuple):
    """What an owner may have in flight, and its part of what is scarce."""

    limit: int | None
    """None: no limit."""
    weight: int
    setting: str | None = None
    """Key that sets the limit."""


FindShares = Callable[[Tx, Collection[str]], Mapping[str, Share]]
"""Returns the shares of owners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest number of live rows; None: no limit."""

    counted: Counted
    total: int | None = None
    per_user: int | None = None
    find_shares: FindShares | None = None
    """For statements in flight, where the shares of owners differ."""

    @property
    def is_set(self) -> bool:
        """Whether anything must be counted."""
        bounds = (self.total, self.per_user, self.find_shares)
        return any(bound is not None for bound in bounds)

    def shares_of(self, tx: Tx, owners: Collection[str]) -> Mapping[str, Share]:
        """Return the share of each of these owners."""
        if self.find_shares is None:
            return dict.fromkeys(owners, Share(self.per_user, weight=1))
        return self.find_shares(tx, owners)


@dataclass(frozen=True, slots=True)
class Excess:
    """The part of a limit that is used up."""

    number: int
    """The limit."""
    is_per_user: bool
    used: int
    """The present use: more than the limit if the limit was lowered."""


class Turn(NamedTuple):
    """A claim that an owner may make now."""

    owner: str
    times: tuple[float, float] | None
    """Start and finish in virtual time; None: no owner waits for another one."""


_SESSIONS = (
    sessions.c.ended_at.is_(None),
    sessions.c.kind != SessionKind.LOCAL,
    sessions.c.warm.is_(false()),
)
_OF_DRIVERS = (statements.c.ended_at.is_(None), statements.c.kind != SessionKind.LOCAL)
_WAITING = (*_OF_DRIVERS, statements.c.state == StatementState.WAITING)
_QUEUED = (*_OF_DRIVERS, statements.c.state.in_(sorted(STATEMENT.queued)))
_RUNNING = (
    statements.c.ended_at.is_(None),
    statements.c.state.in_(sorted(STATEMENT.in_flight)),
)
_ROWS: Mapping[Counted, tuple[Table, tuple[ColumnElement[bool], ...]]] = {
    Counted.SESSIONS: (sessions, _SESSIONS),
    Counted.WAITING: (statements, _QUEUED),
    Counted.RUNNING: (statements, _RUNNING),
    Counted.STREAMS: (stream_queries, (stream_queries.c.ended_at.is_(None),)),
    Counted.CONNECTIONS: (connections, (connections.c.ended_at.is_(None),)),
}
_IN_FLIGHT = (
    select(statements.c.owner, func.count().label("number"))
    .where(*_RUNNING)
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
        ~is_connection_busy(statements),
        _number_in_flight < _places,
    )
    .group_by(sessions.c.id, sessions.c.owner)
)


_SAVE_SHARE = build_replacement(fair_shares, "owner", "start", "finish")
# The last claims: those that later claims of their owners follow.
_LAST_CLAIMS = select(fair_shares).where(
    fair_shares.c.finish > select(func.max(fair_shares.c.start)).scalar_subquery()
)
_MINUTE = 60.0
_TOLERANCE = 0.01
"""Part of the time of one submit that rounding may add or take."""
_EXPIRIES_READ = 1000


def lock(tx: Tx, counted: Counted) -> None:
    """Lock a limit until the transaction ends, whether it is set or not."""
    query = select(limit_locks.c.counted).where(limit_locks.c.counted == counted)
    tx.execute(query.with_for_update())


def find_excess(tx: Tx, limit: Limit, owner: str) -> Excess | None:
    """Return the part of a limit that another row of this owner would exceed, or None.

    Lock the limit until the transaction ends.
    """
    if not limit.is_set:
        return None
    lock(tx, limit.counted)
    query = _count_up_to(
        limit.counted, own=limit.per_user is not None, total=limit.total is not None
    )
    values = {"of_owner": owner, "max_own": limit.per_user, "max_all": limit.total}
    row = tx.execute(query, values).one()
    if limit.per_user is not None and row.own >= limit.per_user:
        used = tx.execute(_count_of_owner(limit.counted), {"of_owner": owner}).scalar_one()
        return Excess(limit.per_user, is_per_user=True, used=used)
    if limit.total is not None and row.all >= limit.total:
        return Excess(limit.total, is_per_user=False, used=row.all)
    return None


def take_submit(tx: Tx, owner: str, per_minute: int) -> float:
    """Take one of the submits that an owner may make in a minute.

    Return the seconds until there is one; 0: it is taken. Another submit of the owner waits until
    the transaction ends.
    """
    step = _MINUTE / per_minute
    # The part of a microsecond that each step loses must not refuse the last submit of a minute.
    longest = _MINUTE - step * (1 - _TOLERANCE)
    to_full = -seconds_since(submit_rates.c.full_at)
    taken = (
        insert_into(tx, submit_rates)
        .values(owner=owner, full_at=clock(step))
        .on_conflict_do_update(
            index_elements=[submit_rates.c.owner],
            set_={"full_at": clock(case((to_full > 0, to_full), else_=0.0) + step)},
            where=to_full <= longest,
        )
        .returning(submit_rates.c.owner)
    )
    if tx.execute(taken).one_or_none() is not None:
        return 0.0
    query = select(to_full).where(submit_rates.c.owner == owner)
    seconds: float = tx.execute(query).scalar_one()
    return max(seconds - longest, step * _TOLERANCE)


def sum_stored_bytes(tx: Tx, owner: str) -> int:
    """Return the bytes of the stored results of an owner."""
    return int(tx.execute(_STORED_BYTES, {"of_owner": owner}).scalar_one())


def seconds_until_stored(tx: Tx, owner: str, *, excess: int) -> float | None:
    """Return the seconds until enough stored results of an owner expire to free `excess` bytes.

    None if it is too far away to be known.
    """
    query = (
        select(results.c.byte_count, (-seconds_since(results.c.expires_at)).label("seconds"))
        .where(STORED, results.c.owner == owner)
        .order_by(results.c.expires_at)
        .limit(_EXPIRIES_READ)
    )
    for row in tx.execute(query):
        excess -= row.byte_count
        if excess <= 0:
            return float(row.seconds)
    return None


def measure(tx: Tx, owner: str, *, per_minute: int | None) -> dict[LimitName, int]:
    """Return what an owner uses at present of everything that is limited.

    Args:
        per_minute: Limit on the submits of the owner in a minute. Without it, they are 0.
    """
    row = tx.execute(_USE, {"of_owner": owner}).mappings().one()
    to_full = max(0.0, row["to_full"] or 0.0)
    submits = math.ceil(to_full * (per_minute or 0) / _MINUTE - _TOLERANCE)
    used = {name: int(row[name.value]) for name in LimitName if name is not LimitName.SUBMITS}
    return used | {LimitName.SUBMITS: submits}


def find_turn(tx: Tx, limit: Limit, owner: str) -> Turn | None:
    """Return the turn of an owner, one of whose drivers may claim a statement now, or None.

    Places are left free for the owners that come before and whose drivers are idle. Lock the limit
    until the transaction ends.
    """
    if not limit.is_set:
        return Turn(owner, None)
    lock(tx, limit.counted)
    in_flight = _count_in_flight(tx)
    if limit.total is None:
        share = limit.shares_of(tx, [owner])[owner]
        is_allowed = share.limit is None or in_flight.get(owner, 0) < share.limit
        return Turn(owner, None) if is_allowed else None
    if sum(in_flight.values()) >= limit.total:
        return None
    turns = _take_turns(tx, limit, in_flight, claiming=owner)
    return next((turn for turn, _session in turns if turn.owner == owner), None)


def record_turn(tx: Tx, turn: Turn) -> None:
    """Record that an owner has taken its turn, in the transaction that has found it."""
    if turn.times is None:
        return
    start, finish = turn.times
    tx.execute(_SAVE_SHARE[tx.dialect], {"owner": turn.owner, "start": start, "finish": finish})


def choose_next(tx: Tx, limit: Limit) -> list[str]:
    """Return the sessions whose drivers should claim a statement now, in a fair order.

    Within an owner, the statements that have waited longest come first.
    """
    if not limit.is_set:
        return []
    turns = _take_turns(tx, limit, _count_in_flight(tx))
    return [session for _turn, session in turns if session is not None]


class _Place(NamedTuple):
    """The place of an owner in the order, as it is compared with others."""

    is_over: bool
    """Whether the owner has as many places as its weight gives it."""
    start: float
    """Start of its next claim, in virtual time."""
    own_part: float
    """Its statements in flight, divided by its weight."""
    since: datetime
    """Begin of its longest wait."""
    owner: str
    own: int
    """Its statements in flight."""


def _take_turns(
    tx: Tx, limit: Limit, in_flight: Mapping[str, int], *, claiming: str | None = None
) -> Iterator[tuple[Turn, str | None]]:
    """Yield the turns at the free places in order, each with the session that should claim.

    Args:
        claiming: An owner whose driver claims now. If the store does not know that this driver can,
            its turn is the last, and has no session.
    """
    ready = _read_ready(tx)
    owners = {*in_flight, *ready} | ({claiming} if claiming is not None else set())
    shares = limit.shares_of(tx, owners)
    free, fair = math.inf, dict.fromkeys(owners, math.inf)
    if limit.total is not None:
        free = limit.total - sum(in_flight.values())
        weights = sum(shares[owner].weight for owner in owners)
        fair = {owner: limit.total * shares[owner].weight / weights for owner in owners}
    # Without others that wait, there is no order to keep.
    is_ordered = limit.total is not None and bool(ready.keys() - {claiming})
    now, finishes = _read_claims(tx) if is_ordered else (0.0, {})

    def place(owner: str, own: int, start: float) -> _Place:
        own_part = own / shares[owner].weight
        return _Place(own >= fair[owner], start, own_part, ready[owner][0].since, owner, own)

    waiting = [
        place(owner, in_flight.get(owner, 0), max(now, finishes.get(owner, 0.0))) for owner in ready
    ]
    heapq.heapify(waiting)
    while free > 0 and waiting:
        first = heapq.heappop(waiting)
        owner, own, start = first.owner, first.own, first.start
        if not _has_place(shares[owner], own):
            continue
        finish = start + 1 / shares[owner].weight
        free -= 1
        yield Turn(owner, (start, finish) if is_ordered else None), ready[owner].popleft().id
        if ready[owner]:
            heapq.heappush(waiting, place(owner, own + 1, finish))
    if claiming is not None and free > 0:
        share = shares[claiming]
        if _has_place(share, in_flight.get(claiming, 0)):
            start = max(now, finishes.get(claiming, 0.0))
            times = (start, start + 1 / share.weight)
            yield Turn(claiming, times if is_ordered else None), None


def _has_place(share: Share, own: int) -> bool:
    return share.limit is None or own < share.limit


def _read_ready(tx: Tx) -> dict[str, deque[Any]]:
    """Return the sessions whose drivers could claim at once, by owner, the longest wait first."""
    ready: dict[str, deque[Any]] = defaultdict(deque)
    for row in sorted(tx.execute(_READY).all(), key=lambda row: (row.since, row.id)):
        ready[row.owner].append(row)
    return ready


def _read_claims(tx: Tx) -> tuple[float, dict[str, float]]:
    """Return the virtual time, and where the last claims of owners finish after it."""
    claims = tx.execute(_LAST_CLAIMS).all()
    now = max((claim.start for claim in claims), default=0.0)
    return now, {claim.owner: claim.finish for claim in claims}


@cache
def _count_up_to(counted: Counted, *, own: bool, total: bool) -> Select[Any]:
    """Return the query of the rows of an owner and of all owners. It reads no more than needed."""
    table, rows = _ROWS[counted]

    def up_to(name: str, *conditions: ColumnElement[bool]) -> Any:
        some = select(literal(1)).where(*rows, *conditions).limit(bindparam(name)).subquery()
        return select(func.count()).select_from(some).scalar_subquery()

    of_owner = table.c.owner == bindparam("of_owner")
    return select(
        (up_to("max_own", of_owner) if own else literal(0)).label("own"),
        (up_to("max_all") if total else literal(0)).label("all"),
    )


@cache
def _count_of_owner(counted: Counted) -> Select[Any]:
    table, rows = _ROWS[counted]
    of_owner = table.c.owner == bindparam("of_owner")
    return select(func.count()).select_from(table).where(*rows, of_owner)


def _count_in_flight(tx: Tx) -> dict[str, int]:
    return {row.owner: row.number for row in tx.execute(_IN_FLIGHT)}


_STORED_BYTES = select(func.coalesce(func.sum(results.c.byte_count), 0)).where(
    STORED, results.c.owner == bindparam("of_owner")
)
_USE = select(
    *(
        _count_of_owner(counted).scalar_subquery().label(name)
        for name, counted in (
            (LimitName.SESSIONS, Counted.SESSIONS),
            (LimitName.WAITING, Counted.WAITING),
            (LimitName.RUNNING, Counted.RUNNING),
            (LimitName.STREAMS, Counted.STREAMS),
            (LimitName.CONNECTIONS, Counted.CONNECTIONS),
        )
    ),
    _STORED_BYTES.scalar_subquery().label(LimitName.STORED_BYTES),
    select(-seconds_since(submit_rates.c.full_at))
    .where(submit_rates.c.owner == bindparam("of_owner"))
    .scalar_subquery()
    .label("to_full"),
)
