"""Contract of the budgets of backends: the pace of all nodes of a store together."""

from __future__ import annotations

import threading

import pytest

from headrace.store.database import Database
from headrace.store.nodes import take_backend_slot


def take(store: Database, backend: str, per_second: float) -> float:
    with store.write("test") as tx:
        return take_backend_slot(tx, backend, per_second)


def test_calls_after_a_burst_are_spread_over_time(store: Database) -> None:
    waits = [take(store, "yarn", 10.0) for _number in range(30)]

    assert waits[:10] == [0.0] * 10
    # Slot 30 begins two seconds after slot 10, less the time that the test itself takes.
    assert waits == sorted(waits)
    assert 1.0 < waits[-1] <= 2.0


def test_backends_have_budgets_of_their_own(store: Database) -> None:
    busy = [take(store, "yarn", 1.0) for _number in range(3)]

    assert busy[-1] > 0.5
    assert take(store, "emr-serverless", 1.0) == 0.0


def test_concurrent_callers_share_a_budget(store: Database) -> None:
    waits: list[float] = []

    def take_ten() -> None:
        waits.extend(take(store, "yarn", 5.0) for _number in range(10))

    threads = [threading.Thread(target=take_ten) for _number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # Thirty slots of 0.2 s, of which a second is free.
    assert max(waits) == pytest.approx(4.8, abs=2.0)
    assert len([wait for wait in waits if wait == 0.0]) < 20
