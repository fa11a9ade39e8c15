"""Contract of idempotency keys: a repeated submit finds the statement of the first, for a day."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.statements import idempotency
from headrace.store.tables import idempotency as table


def _backdate(store: Database, hours: float) -> None:
    with store.write("test") as tx:
        tx.execute(update(table).values(created_at=clock(-hours * 3600)))


def test_each_owner_has_their_own_keys(store: Database) -> None:
    with store.write("test") as tx:
        assert idempotency.find(tx, "ada", "k") is None
        idempotency.remember(tx, "ada", "k", "hash", "st_1")
        idempotency.remember(tx, "bob", "k", "other", "st_2")
    with store.read() as tx:
        assert idempotency.find(tx, "ada", "k") == ("hash", "st_1")
        assert idempotency.find(tx, "bob", "k") == ("other", "st_2")
        assert idempotency.find(tx, "ada", "l") is None


def test_a_key_expires_after_a_day(store: Database) -> None:
    with store.write("test") as tx:
        idempotency.remember(tx, "ada", "k", "hash", "st_1")
    _backdate(store, 23.9)
    with store.read() as tx:
        assert idempotency.find(tx, "ada", "k") == ("hash", "st_1")
    _backdate(store, 24.1)
    with store.read() as tx:
        assert idempotency.find(tx, "ada", "k") is None
    with store.write("test") as tx:
        idempotency.remember(tx, "ada", "k", "new", "st_2")
        assert idempotency.find(tx, "ada", "k") == ("new", "st_2")
        assert idempotency.delete_expired(tx, 10) == 0
    _backdate(store, 24.1)
    with store.write("test") as tx:
        assert idempotency.delete_expired(tx, 10) == 1


def test_a_key_that_exists_rolls_the_transaction_back(store: Database) -> None:
    with store.write("test") as tx:
        idempotency.remember(tx, "ada", "k", "hash", "st_1")
    with pytest.raises(idempotency.IdempotencyKeyUsed, match="k"), store.write("test") as tx:
        idempotency.remember(tx, "ada", "other", "hash", "st_2")
        idempotency.remember(tx, "ada", "k", "hash", "st_2")
    with store.read() as tx:
        assert idempotency.find(tx, "ada", "k") == ("hash", "st_1")
        assert idempotency.find(tx, "ada", "other") is None


def test_concurrent_submits_with_the_same_key_get_the_same_statement(store: Database) -> None:
    ready = threading.Barrier(8)

    def submit(number: int) -> str:
        ready.wait()
        with store.write("test") as tx:
            earlier = idempotency.find(tx, "ada", "k")
            if earlier is not None:
                return earlier[1]
            idempotency.remember(tx, "ada", "k", "hash", f"st_{number}")
            return f"st_{number}"

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(submit, range(8)))) == 1


def test_one_of_many_concurrent_writers_stores_a_key(store: Database) -> None:
    ready = threading.Barrier(8)

    def submit(number: int) -> bool:
        ready.wait()
        try:
            with store.write("test") as tx:
                idempotency.remember(tx, "ada", "k", "hash", f"st_{number}")
        except idempotency.IdempotencyKeyUsed:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(submit, range(8))) == 1
