"""Contract of the budgets of backends: the pace of all nodes of a store together."""

from __future__ import annotations

import threading

import pytest

from headrace.store.database import Database
from headrace.store.nodes import take_backend_slot

pytestmark = pytest.mark.usefixtures("stopped_clock")


def take(store: Database, backend: str, per_second: float) -> float:
    with store.write("test") as tx:
        return take_backend_slot(tx, backend, per_second)


def test_calls_after_a_burst_are_spread_over_time(store: Database) -> None:
    waits = [take(store, "yarn", 10.0) for _number in range(30)]

    assert waits[:10] == [0.0] * 10
    # A second is free, which has ten slots.
    assert waits[10:] == pytest.approx([number / 10 - 1 for number in range(10, 30)], abs=1e-4)


def test_backends_have_budgets_of_their_own(store: Database) -> None:
    busy = [take(store, "yarn", 1.0) for _number in range(3)]

    assert busy == pytest.approx([0.0, 0.0, 1.0], abs=1e-4)
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
    slots = [max(0.0, number / 5 - 1) for number in range(30)]
    assert sorted(waits) == pytest.approx(slots, abs=1e-4)
