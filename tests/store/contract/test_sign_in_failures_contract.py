"""Failed sign-ins: which attempts are allowed, on both stores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, update

from headrace.errors import TooManyFailures
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.identity import sign_in_failures
from headrace.store.tables import sign_in_failures as table

pytestmark = pytest.mark.usefixtures("stopped_clock")

HERE, THERE = "192.0.2.1", "192.0.2.2"


def attempt(store: Database, name: str = "ada", address: str = HERE) -> float | None:
    """Begin an attempt. Return the seconds of the pause that refuses it; None: it is allowed."""
    try:
        with store.write("test.begin") as tx:
            sign_in_failures.begin(tx, name, address)
    except TooManyFailures as error:
        return error.retry_seconds
    return None


def attempts(store: Database, *names: str, address: str = HERE) -> list[bool]:
    """Begin an attempt with each name, and return which ones are allowed."""
    return [attempt(store, name, address) is None for name in names]


def end_pauses(store: Database, seconds: float = 0.0) -> None:
    """Let all pauses have ended some seconds ago."""
    with store.write("test.end_pauses") as tx:
        tx.execute(update(table).values(free_at=clock(-seconds)))


def longest_pause(store: Database) -> float:
    """Return the longest pause that an attempt has begun, when the others have ended."""
    pauses = []
    for _number in range(60):
        end_pauses(store)
        assert attempt(store) is None
        pauses.append(round(attempt(store) or 0.0))
    assert pauses == sorted(pauses)
    return pauses[-1]


def test_after_five_failures_each_attempt_begins_a_longer_pause(store: Database) -> None:
    assert attempts(store, *["ada"] * 7) == [True] * 6 + [False]
    assert longest_pause(store) == 900


def test_behind_a_proxy_failures_with_one_name_do_not_refuse_the_others(store: Database) -> None:
    allowed = attempts(store, *["ada"] * 52, address="")
    assert allowed == [True] * 51 + [False]
    assert attempts(store, *(f"user-{number}" for number in range(120)), address="") == [True] * 120
    end_pauses(store)
    assert attempts(store, "ada", address="") == [True]
    assert (attempt(store, address="") or 0.0) <= 5.0


def test_a_pause_is_that_of_a_name_and_an_address(store: Database) -> None:
    attempts(store, *["ada"] * 7)
    assert attempts(store, "ada", "bob") == [False, True]
    assert attempts(store, "ada", address=THERE) == [True]


def test_a_refused_attempt_counts_for_nothing(store: Database) -> None:
    attempts(store, *["ada"] * 20)
    with store.read() as tx:
        assert set(tx.execute(select(table.c.failures)).scalars()) == {6}


@pytest.mark.parametrize("variant", ["ADA", " ada ", "a d a", "ａｄａ", "ádà"])  # noqa: RUF001
def test_names_that_a_directory_may_take_for_one_have_one_count(
    store: Database, variant: str
) -> None:
    attempts(store, *["ada"] * 6)
    assert attempts(store, variant) == [False]


def test_addresses_of_one_customer_have_one_count(store: Database) -> None:
    attempts(store, *["ada"] * 6, address="2001:db8::1")
    assert attempts(store, "ada", address="2001:db8::ffff:1") == [False]
    assert attempts(store, "ada", address="2001:db8:0:1::1") == [True]
    # A socket of both versions shows addresses of version 4 in this form.
    attempts(store, *["bob"] * 6, address=HERE)
    assert attempts(store, "bob", address=f"::ffff:{HERE}") == [False]


def test_an_address_that_tries_many_names_slows_down_and_is_not_locked_out(
    store: Database,
) -> None:
    names = [f"user-{number}" for number in range(110)]
    allowed = attempts(store, *names)
    assert allowed[:101] == [True] * 101
    assert allowed[101] is False
    assert 0 < (attempt(store, "one-more") or 0) <= 1.0
    assert attempts(store, "user-0", address=THERE) == [True]


def test_a_name_that_many_addresses_try_slows_down(store: Database) -> None:
    addresses = [f"192.0.2.{number}" for number in range(60)]
    allowed = [attempt(store, "ada", address) is None for address in addresses]
    assert allowed[:51] == [True] * 51
    assert allowed[51] is False
    for address in addresses[:10]:
        end_pauses(store)
        attempt(store, "ada", address)
    assert 0 < (attempt(store, "ada", "198.51.100.1") or 0) <= 5.0


def test_of_many_attempts_at_once_the_free_ones_are_allowed(store: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        allowed = list(pool.map(lambda _number: attempt(store) is None, range(40)))
    assert sum(allowed) == 6


def test_a_success_forgets_the_failures_of_the_name_and_not_those_of_the_address(
    store: Database,
) -> None:
    attempts(store, "eve", "eve", *["ada"] * 5)
    with store.write("test.clear") as tx:
        sign_in_failures.clear(tx, "ada", HERE)
    assert attempts(store, *["ada"] * 7) == [True] * 6 + [False]
    with store.read() as tx:
        of_address = select(table.c.failures).where(table.c.name == "")
        assert tx.execute(of_address).scalar_one() == 2 + 5 - 1 + 6


def test_an_attempt_that_is_taken_back_leaves_no_trace(store: Database) -> None:
    for _number in range(20):
        assert attempt(store) is None
        with store.write("test.take_back") as tx:
            sign_in_failures.take_back(tx, "ada", HERE)
    with store.read() as tx:
        assert tx.execute(select(table)).all() == []


def test_failures_are_forgotten_after_an_hour_without_a_pause(store: Database) -> None:
    attempts(store, *["ada"] * 7)
    end_pauses(store, seconds=3500)
    assert attempts(store, "ada", "ada") == [True, False]
    end_pauses(store, seconds=3700)
    assert attempts(store, *["ada"] * 7) == [True] * 6 + [False]


def test_forgotten_failures_are_deleted_in_batches(store: Database) -> None:
    attempts(store, "ada", "bob")
    end_pauses(store, seconds=3700)
    attempts(store, "eve", address=THERE)
    with store.write("test.delete") as tx:
        assert sign_in_failures.delete_forgotten(tx, 3) == 3
    with store.write("test.delete") as tx:
        assert sign_in_failures.delete_forgotten(tx, 100) == 2
    with store.read() as tx:
        assert len(tx.execute(select(table)).all()) == 3


def test_the_store_does_not_have_the_names_that_were_tried(store: Database) -> None:
    attempts(store, "my-password-by-mistake", "\0", "x" * 10_000)
    with store.read() as tx:
        rows = [str(row) for row in tx.execute(select(table))]
    assert rows
    assert all("mistake" not in row and len(row) < 300 for row in rows)
