"""Contract of limits: exact under contention, and fair between users."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import pairwise

import pytest
from sqlalchemy import text
from tests.support.store import (
    INLINE,
    new_session,
    new_statement,
    running_session,
    stop_clock,
)

from headrace.config.limits import LimitName
from headrace.model.connection import ConnectionSpec
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.result import Disposition, ResultReport
from headrace.model.session import DriverLease, NewSession
from headrace.model.statement import NewStatement, StatementSpec
from headrace.model.stream_query import NewStreamQuery, QuerySpec
from headrace.store.database import Database, Tx
from headrace.store.sessions import connections, sessions
from headrace.store.statements import limits, results, statement_transitions, statements
from headrace.store.statements.limits import Counted, Excess, Limit, Share
from headrace.store.streams import stream_queries


def _claim(store: Database, lease: DriverLease, limit: Limit) -> str | None:
    with store.write("test") as tx:
        claim = statement_transitions.claim_next(tx, lease, limit)
    return None if claim is None else claim.statement.id


def _end(store: Database, statement_id: str) -> None:
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx, statement_id, StatementState.SUCCESS, actor="test"
        )


def _running(total: int | None = None, per_user: int | None = None) -> Limit:
    return Limit(counted=Counted.RUNNING, total=total, per_user=per_user)


def _busy_session(store: Database, owner: str) -> DriverLease:
    """Return a running session of this owner, in which a statement waits."""
    lease = running_session(store, owner=owner)
    new_statement(store, lease.session_id, owner=owner)
    return lease


def _excess(store: Database, limit: Limit, owner: str) -> Excess | None:
    with store.write("test") as tx:
        return limits.find_excess(tx, limit, owner)


def test_sessions_are_counted_for_each_user_and_in_total(store: Database) -> None:
    for owner in ("ada", "ada", "bob"):
        new_session(store, owner=owner)
    new_session(store, SessionState.DEAD, owner="bob")
    limit = Limit(counted=Counted.SESSIONS, total=4, per_user=2)

    assert _excess(store, limit, "ada") == Excess(2, is_per_user=True, used=2)
    assert _excess(store, limit, "bob") is None
    new_session(store, owner="bob")
    assert _excess(store, limit, "cyd") == Excess(4, is_per_user=False, used=4)


def test_only_waiting_statements_count_as_waiting(store: Database) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    new_statement(store, lease.session_id, StatementState.FAILED)
    waiting = new_statement(store, lease.session_id)
    limit = Limit(counted=Counted.WAITING, per_user=1)

    assert _excess(store, limit, "ada") == Excess(1, is_per_user=True, used=1)
    assert _excess(store, limit, "bob") is None
    _end(store, waiting)
    assert _excess(store, limit, "ada") is None


def test_concurrent_claims_do_not_exceed_the_limit(store: Database) -> None:
    leases = [_busy_session(store, f"user{number}") for number in range(8)]

    with ThreadPoolExecutor(8) as threads:
        claimed = list(threads.map(lambda lease: _claim(store, lease, _running(total=3)), leases))

    assert sum(statement_id is not None for statement_id in claimed) == 3


def test_a_user_cannot_exceed_the_limit_of_a_user(store: Database) -> None:
    first, second = _busy_session(store, "ada"), _busy_session(store, "ada")
    limit = _running(per_user=1)

    statement_id = _claim(store, first, limit)
    assert statement_id is not None
    assert _claim(store, second, limit) is None
    assert _claim(store, _busy_session(store, "bob"), limit) is not None
    _end(store, statement_id)
    assert _claim(store, second, limit) is not None


def test_a_free_place_is_left_to_the_user_with_fewer_statements(store: Database) -> None:
    ada = [_busy_session(store, "ada") for _number in range(3)]
    limit = _running(total=3)
    assert _claim(store, ada[0], limit) is not None
    bob = _busy_session(store, "bob")

    # Two places are free: one for each user. The last one is left to bob.
    assert _claim(store, ada[1], limit) is not None
    assert _claim(store, ada[2], limit) is None
    assert _claim(store, bob, limit) is not None


def test_a_place_is_not_left_to_a_user_whose_driver_cannot_claim(store: Database) -> None:
    limit = _running(total=2)
    ada = [_busy_session(store, "ada") for _number in range(2)]
    assert _claim(store, ada[0], limit) is not None
    starting = new_session(store, SessionState.STARTING, owner="bob")
    new_statement(store, starting, owner="bob")
    expired = running_session(store, owner="cyd", lease_seconds=-1.0)
    new_statement(store, expired.session_id, owner="cyd")

    assert _claim(store, ada[1], limit) is not None


def test_the_next_sessions_are_chosen_in_turn(store: Database) -> None:
    ada = [_busy_session(store, "ada").session_id for _number in range(4)]
    bob = [_busy_session(store, "bob").session_id for _number in range(2)]

    with store.read() as tx:
        assert limits.choose_next(tx, _running(total=4)) == [ada[0], bob[0], ada[1], bob[1]]
        assert limits.choose_next(tx, _running(per_user=1)) == [ada[0], bob[0]]
        assert limits.choose_next(tx, _running()) == []


@pytest.mark.parametrize("pool", [False, True])
def test_a_session_with_a_free_place_is_chosen(store: Database, pool: bool) -> None:
    limit = _running(total=3)
    lease = running_session(store, parallelism=2, pool=pool)
    chosen: list[list[str]] = []
    for _ in range(3):
        new_statement(store, lease.session_id, is_query=True)
    for _ in range(3):
        with store.read() as tx:
            chosen.append(limits.choose_next(tx, limit))
        _claim(store, lease, limit)
    assert chosen == [[lease.session_id], [lease.session_id], []]


@pytest.mark.parametrize("is_query", [(True, False), (False, True)])
def test_a_session_whose_next_statement_must_wait_is_not_chosen(
    store: Database, is_query: tuple[bool, bool]
) -> None:
    limit = _running(total=3)
    lease = running_session(store, parallelism=2)
    for each in is_query:
        new_statement(store, lease.session_id, is_query=each)
    assert _claim(store, lease, limit) is not None
    with store.read() as tx:
        assert limits.choose_next(tx, limit) == []


def test_a_statement_that_waits_for_its_connection_takes_no_place(store: Database) -> None:
    limit = _running(total=2)
    lease = running_session(store, owner="ada", pool=True, parallelism=4)
    with store.write("test") as tx:
        connection = connections.insert_connection(tx, "ada", "test", ConnectionSpec()).id
    for _number in range(2):
        new_statement(store, lease.session_id, owner="ada", connection=connection)
    assert _claim(store, lease, limit) is not None
    bob = _busy_session(store, "bob")
    with store.read() as tx:
        assert limits.choose_next(tx, limit) == [bob.session_id]
    assert _claim(store, bob, limit) is not None


def test_a_user_with_statements_in_flight_comes_later(store: Database) -> None:
    limit = _running(total=3)
    assert _claim(store, _busy_session(store, "ada"), limit) is not None
    ada = _busy_session(store, "ada").session_id
    bob = _busy_session(store, "bob").session_id

    with store.read() as tx:
        assert limits.choose_next(tx, limit) == [bob, ada]


def test_drivers_are_started_for_users_in_turn(store: Database) -> None:
    running_session(store, owner="ada")
    ada = [new_session(store, owner="ada") for _number in range(2)]
    bob = [new_session(store, owner="bob") for _number in range(2)]

    with store.read() as tx:
        launchable = [session.id for session in sessions.launchable(tx, 3)]

    assert launchable == [bob[0], ada[0], bob[1]]


def test_drivers_are_started_for_owners_by_their_weights(store: Database) -> None:
    ada = [new_session(store, owner="ada") for _number in range(4)]
    bob = [new_session(store, owner="bob") for _number in range(4)]

    with store.read() as tx:
        assert sorted(sessions.list_launching_owners(tx, ["default"])) == ["ada", "bob"]
        assert sessions.list_launching_owners(tx, ["other"]) == []
        launchable = [each.id for each in sessions.launchable(tx, 8, weights={"bob": 3})]

    # Bob has three drivers for one of Ada's. An older session comes first.
    assert launchable == [bob[0], bob[1], ada[0], bob[2], bob[3], *ada[1:]]


WEIGHTS = {"ada": 3}


def _weighted(total: int) -> Limit:
    def find_shares(_tx: Tx, owners: Collection[str]) -> Mapping[str, Share]:
        return {owner: Share(None, WEIGHTS.get(owner, 1)) for owner in owners}

    return Limit(counted=Counted.RUNNING, total=total, find_shares=find_shares)


def _busy_sessions(store: Database, owner: str) -> dict[DriverLease, str]:
    return {_busy_session(store, owner): owner for _number in range(5)}


def _claim_in_turn(
    store: Database, leases: Mapping[DriverLease, str], limit: Limit, *, claims: int
) -> Iterator[str]:
    """Let the owners of sessions always have waiting statements. Yield the owner of each claim.

    All drivers ask in each round, in this order. The oldest statement in flight then ends.
    """
    in_flight: list[str] = []
    while claims > 0:
        for lease, owner in leases.items():
            claimed = _claim(store, lease, limit)
            if claimed is not None:
                in_flight.append(claimed)
                new_statement(store, lease.session_id, owner=owner)
                claims -= 1
                yield owner
        _end(store, in_flight.pop(0))
    for statement_id in in_flight:
        _end(store, statement_id)


@pytest.mark.parametrize("total", [1, 2, 4])
def test_owners_share_scarce_places_by_their_weights(store: Database, total: int) -> None:
    # The driver of the lighter owner asks first.
    leases = _busy_sessions(store, "bob") | _busy_sessions(store, "ada")
    owners = list(_claim_in_turn(store, leases, _weighted(total), claims=100))[:100]

    assert 72 <= Counter(owners)["ada"] <= 78
    # The order is deterministic, and no owner waits for longer than the other's part of a round.
    gaps = [at for at, owner in enumerate(owners) if owner == "bob"]
    assert max(after - before for before, after in pairwise(gaps)) <= 5 + total


def test_an_owner_that_was_idle_gets_no_credit(store: Database) -> None:
    limit = _weighted(1)
    leases = _busy_sessions(store, "bob") | _busy_sessions(store, "ada")
    assert "ada" in set(_claim_in_turn(store, leases, limit, claims=40))
    leases = _busy_sessions(store, "cyd") | leases

    owners = Counter(_claim_in_turn(store, leases, limit, claims=20))

    # 1 of 1 + 1 + 3. With a credit for the 40 claims before, it would have more than a half.
    assert 3 <= owners["cyd"] <= 6


def test_long_statements_do_not_gather_all_places(store: Database) -> None:
    """The owner of short statements claims more often, and still keeps its part of the places."""
    limit = Limit(counted=Counted.RUNNING, total=4)
    ada = [_busy_session(store, "ada") for _number in range(6)]
    bob = [_busy_session(store, "bob") for _number in range(6)]
    assert [_claim(store, lease, limit) is not None for lease in (ada[0], ada[1])] == [True, True]
    short = [_claim(store, lease, limit) for lease in bob[:2]]
    for _number in range(6):
        ended = short.pop(0)
        assert ended is not None
        _end(store, ended)
        assert [_claim(store, lease, limit) for lease in ada[2:]] == [None] * 4
        for lease in bob:
            new_statement(store, lease.session_id, owner="bob")
        short += [claimed for lease in bob if (claimed := _claim(store, lease, limit))]
        assert len(short) == 2


def test_an_owner_alone_takes_all_places(store: Database) -> None:
    limit = _weighted(3)
    leases = [_busy_session(store, "bob") for _number in range(4)]
    claimed = [_claim(store, lease, limit) is not None for lease in leases]
    assert claimed == [True, True, True, False]


# Submits per minute.


def _submit(store: Database, owner: str, per_minute: int) -> float:
    with store.write("test") as tx:
        return limits.take_submit(tx, owner, per_minute)


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("per_minute", [1, 7, 10])
def test_the_submits_of_a_minute_can_be_made_at_once_and_no_more(
    store: Database, per_minute: int
) -> None:
    assert [_submit(store, "ada", per_minute) for _number in range(per_minute)] == [0] * per_minute
    wait = _submit(store, "ada", per_minute)
    assert wait == pytest.approx(60 / per_minute, rel=0.02)
    assert _submit(store, "bob", per_minute) == 0
    with store.read() as tx:
        used = limits.measure(tx, "ada", per_minute=per_minute)
        assert used[LimitName.SUBMITS] == per_minute
        assert limits.measure(tx, "cyd", per_minute=per_minute)[LimitName.SUBMITS] == 0


@pytest.mark.usefixtures("stopped_clock")
def test_a_submit_is_possible_again_when_the_time_of_one_has_passed(store: Database) -> None:
    assert [_submit(store, "ada", 6) for _number in range(6)] == [0] * 6
    _let_pass(store, 10)
    assert _submit(store, "ada", 6) == 0
    assert _submit(store, "ada", 6) > 0
    _let_pass(store, 3600)
    assert [_submit(store, "ada", 6) > 0 for _number in range(7)] == [False] * 6 + [True]


def _let_pass(store: Database, seconds: int) -> None:
    """Move what the store knows of submits into the past."""
    past = {
        "sqlite": f"full_at - {seconds * 1_000_000}",
        "postgresql": f"full_at - interval '{seconds} s'",
    }
    with store.write("test") as tx:
        tx.execute(text(f"UPDATE submit_rates SET full_at = {past[store.dialect]}"))


def test_a_submit_that_is_rolled_back_was_not_made(store: Database) -> None:
    with pytest.raises(RuntimeError), store.write("test") as tx:
        assert limits.take_submit(tx, "ada", 1) == 0
        raise RuntimeError
    assert _submit(store, "ada", 1) == 0


# Reservations, at once and across nodes.


def _insert_session(tx: Tx, owner: str) -> None:
    sessions.insert(tx, NewSession(id=new_id("se"), owner=owner), actor=owner)


def _insert_statement(tx: Tx, owner: str) -> None:
    [session] = tx.execute(text("SELECT id FROM sessions")).scalars().all()
    new = NewStatement(
        id=new_id("st"),
        session_id=session,
        owner=owner,
        spec=StatementSpec(text="SELECT 1"),
        is_query=True,
    )
    statements.insert(tx, new, actor=owner)


def _insert_stream(tx: Tx, owner: str) -> None:
    [session] = tx.execute(text("SELECT id FROM sessions")).scalars().all()
    new = NewStreamQuery(
        id=new_id("sq"),
        owner=owner,
        scope="adhoc",
        name=new_id("sq"),
        spec=QuerySpec(text="SAVE STREAM t TO noop", sink="noop"),
        checkpoint_place=None,
        session_id=session,
        statement_id=None,
    )
    stream_queries.insert_query(tx, new, actor=owner)


def _insert_connection(tx: Tx, owner: str) -> None:
    connections.insert_connection(tx, owner, "test", ConnectionSpec())


RESERVATIONS: dict[Counted, tuple[LimitName, Callable[[Tx, str], None]]] = {
    Counted.SESSIONS: (LimitName.SESSIONS, _insert_session),
    Counted.WAITING: (LimitName.WAITING, _insert_statement),
    Counted.STREAMS: (LimitName.STREAMS, _insert_stream),
    Counted.CONNECTIONS: (LimitName.CONNECTIONS, _insert_connection),
}


def _reserve(store: Database, counted: Counted, limit: Limit) -> bool:
    with store.write("test") as tx:
        if limits.find_excess(tx, limit, "ada") is not None:
            return False
        RESERVATIONS[counted][1](tx, "ada")
    return True


@pytest.fixture
def cluster(store: Database, request: pytest.FixtureRequest) -> Iterator[list[Database]]:
    """Return three nodes of one store. SQLite has one node: three times the same."""
    with ExitStack() as stack:
        if store.dialect == "sqlite":
            yield [store] * 3
            return
        url = request.getfixturevalue("postgres_url")
        others = [
            stack.enter_context(closing(Database.open(url, connect_timeout=60)))
            for _number in range(2)
        ]
        yield [store, *others]


@pytest.mark.parametrize("counted", RESERVATIONS)
def test_fifty_reservations_at_once_on_three_nodes_stop_exactly_at_the_limit(
    cluster: list[Database], counted: Counted
) -> None:
    if counted is not Counted.SESSIONS:
        new_session(cluster[0])
    limit = Limit(counted=counted, per_user=10, total=1000)

    with ThreadPoolExecutor(50) as threads:
        made = list(
            threads.map(lambda number: _reserve(cluster[number % 3], counted, limit), range(50))
        )

    assert made.count(True) == 10
    with cluster[0].read() as tx:
        used = limits.measure(tx, "ada", per_minute=None)
    assert used[RESERVATIONS[counted][0]] == 10


def test_fifty_submits_at_once_on_three_nodes_are_no_more_than_those_of_a_minute(
    cluster: list[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_clock(monkeypatch, *cluster)
    with ThreadPoolExecutor(50) as threads:
        waits = list(threads.map(lambda number: _submit(cluster[number % 3], "ada", 2), range(50)))
    assert waits.count(0) == 2


_KILLED = """
import sys, time
from headrace.store.database import Database
from headrace.store.statements import limits
from headrace.store.statements.limits import Counted, Limit
from headrace.store.sessions import sessions
from headrace.model.session import NewSession
store = Database.open(sys.argv[1])
with store.write("test") as tx:
    assert limits.find_excess(tx, Limit(counted=Counted.SESSIONS, per_user=1), "ada") is None
    assert limits.take_submit(tx, "ada", 1) == 0
    sessions.insert(tx, NewSession(id="se_" + "0" * 32, owner="ada"), actor="ada")
    print("reserved", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("fixture", ["sqlite_url", "postgres_url"])
def test_a_node_that_is_killed_after_a_reservation_leaves_nothing_behind(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(fixture)
    node = subprocess.Popen([sys.executable, "-c", _KILLED, url], stdout=subprocess.PIPE, text=True)
    with node:
        assert node.stdout is not None
        assert node.stdout.readline() == "reserved\n"
        node.send_signal(signal.SIGKILL)
    store = Database.open(url, connect_timeout=30)
    try:
        limit = Limit(counted=Counted.SESSIONS, per_user=1)
        with store.write("test") as tx:
            used = limits.measure(tx, "ada", per_minute=1)
            assert used == dict.fromkeys(LimitName, 0)
            assert limits.find_excess(tx, limit, "ada") is None
            assert limits.take_submit(tx, "ada", 1) == 0
    finally:
        store.close()


# Stored results.


def _store_result(
    store: Database, lease: DriverLease, size: int, *, owner: str = "ada", seconds: float = 60
) -> str:
    statement_id = new_statement(
        store, lease.session_id, StatementState.RUNNING, lease=lease, owner=owner
    )
    report = ResultReport(
        disposition=Disposition.STORED,
        spark_schema={"type": "struct", "fields": []},
        row_count=1,
        byte_count=size,
        truncated=False,
        chunks=1,
    )
    with store.write("test") as tx:
        statement_transitions.transition(
            tx,
            statement_id,
            StatementState.SUCCESS,
            actor="test",
            lease=lease,
            result=report,
            result_seconds=seconds,
        )
    return statement_id


@pytest.mark.usefixtures("stopped_clock")
def test_the_stored_bytes_of_an_owner_are_those_of_results_that_are_kept(store: Database) -> None:
    lease = running_session(store)
    with store.write("test") as tx:
        tx.execute(text("UPDATE sessions SET results_location = 'file:/results'"))
    # An inline result is no stored one, and expires earlier.
    new_statement(store, lease.session_id, StatementState.SUCCESS, lease=lease)
    with store.write("test") as tx:
        [inline] = tx.execute(text("SELECT id FROM statements")).scalars().all()
        large = INLINE.model_copy(update={"byte_count": 9_000_000_000})
        results.insert(tx, inline, large, 50, lease=lease)
    first = _store_result(store, lease, 3_000_000_000, seconds=100)
    _store_result(store, lease, 20, seconds=200)

    def read() -> tuple[int, list[float | None]]:
        with store.read() as tx:
            waits = [
                limits.seconds_until_stored(tx, "ada", excess=excess)
                for excess in (1, 3_000_000_001, 3_000_000_021)
            ]
            used = limits.measure(tx, "ada", per_minute=None)[LimitName.STORED_BYTES]
            assert used == limits.sum_stored_bytes(tx, "ada")
            assert limits.sum_stored_bytes(tx, "bob") == 0
            return used, waits

    used, waits = read()
    assert used == 3_000_000_020
    assert waits == [pytest.approx(100), pytest.approx(200), None]
    with store.write("test") as tx:
        results.mark_gone(tx, first)
    assert read()[0] == 20
