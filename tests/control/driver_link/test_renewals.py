"""Renewals of many drivers: one transaction, and an answer for each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.waiting import wait_until

from headrace.frontends.driver_link import BatchedRenewals
from headrace.model.messages import Renew, Renewed
from headrace.model.session import DriverLease
from headrace.store.database import Precedence


def _count_renewals(node: InProcessNode) -> int:
    counts = node.database.write_counts
    return sum(counts.get(name, 0) for name in ("link.renew", "link.renew_all"))


def test_drivers_that_renew_together_share_transactions(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start_node(lease={"sweep": "1h"}, store={"connect_timeout": "100s"})
    drivers = [node.start_session()[1] for _ in range(20)]
    before = _count_renewals(node)
    arrived: list[DriverLease] = []
    renew = BatchedRenewals.renew

    async def note_and_renew(self: BatchedRenewals, lease: DriverLease, message: Renew) -> Renewed:
        arrived.append(lease)
        return await renew(self, lease, message)

    monkeypatch.setattr(BatchedRenewals, "renew", note_and_renew)
    with ThreadPoolExecutor(len(drivers)) as pool:
        # No transaction of the node begins before all renewals have arrived.
        with node.database.write("test", precedence=Precedence.LEASES):
            answers = [pool.submit(driver.renew) for driver in drivers]
            wait_until(lambda: len(arrived) == len(drivers), seconds=60, what="all renewals")
        renewed = [answer.result() for answer in answers]

    assert all(answer.applied and answer.nodes == [node.address] for answer in renewed)
    assert _count_renewals(node) - before <= 2


def test_a_lost_lease_does_not_harm_the_renewals_that_arrive_with_it(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "1h"})
    _session_id, driver = node.start_session()
    failed_id, failed = node.start_session()
    node.fail_session(failed_id, failed)

    with ThreadPoolExecutor(4) as pool:
        # Some of them arrive while the first one is in its transaction.
        lost = [pool.submit(failed.renew) for _ in range(2)]
        kept = [pool.submit(driver.renew) for _ in range(2)]
        assert all(answer.result().applied for answer in kept)
        for answer in lost:
            with pytest.raises(httpx.HTTPStatusError) as refused:
                answer.result()
            assert refused.value.response.json()["code"] == "lease_lost"


def test_a_renewal_goes_before_submits_that_wait(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "1h", "renew": "1h", "duration": "4h"})
    session_id, driver = node.start_session()
    queue = node.database._queue
    with ThreadPoolExecutor(6) as pool:
        with node.database.write("test", precedence=Precedence.LEASES):
            submits = [pool.submit(node.submit, session=session_id) for _ in range(5)]
            wait_until(lambda: len(queue._gates[Precedence.OTHERS]) >= 5, what="the submits wait")
            renewal = pool.submit(driver.renew)
            wait_until(lambda: queue._gates[Precedence.LEASES], what="the renewal waits")
        assert renewal.result().applied
        created = [submit.result()["created_at"] for submit in submits]
    session = node.http.get(f"/api/v1/sessions/{session_id}").json()
    assert session["last_update_time"] < min(created)
