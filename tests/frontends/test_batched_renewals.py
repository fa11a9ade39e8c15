"""Renewals that share a transaction: how long they wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest
from anyio import CapacityLimiter

from headrace.control.driver_link.renewals import Renewals
from headrace.frontends.driver_link import BatchedRenewals
from headrace.model.messages import Renew, Renewed
from headrace.model.session import DriverLease

FULL = 100


class _Store:
    """Renews every lease, and notes the number of leases of each transaction."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def renew_all(self, messages: Mapping[DriverLease, Renew]) -> dict[DriverLease, Renewed]:
        self.sizes.append(len(messages))
        return {lease: Renewed(applied=True, nodes=[]) for lease in messages}


def _renew(drivers: int, *, renew_seconds: float, turns: int = 1) -> tuple[list[int], float]:
    """Renew the leases of drivers at once, in turns; return the transactions and the seconds."""
    store = _Store()

    async def run() -> float:
        limit = CapacityLimiter(2)
        renewals = BatchedRenewals(
            cast("Renewals", store), lambda: limit, renew_seconds=renew_seconds
        )
        start = asyncio.get_running_loop().time()
        async with asyncio.timeout(30):
            for _turn in range(turns):
                leases = [DriverLease(f"se_{number:032x}", 1) for number in range(drivers)]
                await asyncio.gather(*(renewals.renew(lease, Renew()) for lease in leases))
        return asyncio.get_running_loop().time() - start

    seconds = asyncio.run(run())
    return store.sizes, seconds


def test_few_renewals_wait_for_others() -> None:
    sizes, seconds = _renew(2, renew_seconds=5, turns=3)

    assert sizes == [2, 2, 2]
    # Two pauses, each of 0.3 s.
    assert seconds >= 0.6


@pytest.mark.parametrize("renew_seconds", [5, 3600])
def test_full_transactions_follow_each_other_without_a_pause(renew_seconds: float) -> None:
    sizes, seconds = _renew(20 * FULL, renew_seconds=renew_seconds)

    assert sizes == [FULL] * 20
    # With pauses, 19 of 0.3 s would pass.
    assert seconds < 19 * 0.3


def test_the_wait_is_a_small_part_of_a_short_lease() -> None:
    _sizes, seconds = _renew(2, renew_seconds=0.2, turns=41)

    # Forty pauses of 12.5 ms each. Pauses of 0.3 s would take longer than 12 s.
    assert seconds < 12
