"""The model explorer finds no violation, and finds known bugs when their fixes are switched off."""

from __future__ import annotations

from unittest import mock

import pytest
from sqlalchemy import ColumnElement, true, update
from tests.model_explorer.explore import explore
from tests.model_explorer.scenarios import (
    DRIVER_RECEIVES_SIGTERM,
    FAST,
    NODE_FREEZES,
    NODE_RESTARTS,
    REPORTS,
    Scenario,
)
from tests.model_explorer.seeded_bugs import SEEDED_BUGS, SeededBug, seed

from headrace.driver.loop import Loop
from headrace.store import nodes
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import sessions


@pytest.mark.parametrize("scenario", [*FAST, *REPORTS], ids=lambda scenario: scenario.name)
def test_no_order_of_steps_violates_an_invariant(scenario: Scenario) -> None:
    report = explore(scenario)
    assert report.violation is None, str(report)
    assert report.complete


@pytest.mark.parametrize("bug", SEEDED_BUGS, ids=lambda bug: bug.name)
def test_the_explorer_finds_a_guard_of_the_store_that_is_taken_out(bug: SeededBug) -> None:
    with seed(bug):
        report = explore(bug.scenario)
    assert bug.is_found_by(report.violation), str(report)
    assert report.trace[-1] in str(report)


@pytest.mark.finding("B1")
def test_the_explorer_finds_a_healthy_driver_that_is_lost_after_a_freeze_of_its_node() -> None:
    with mock.patch.object(nodes, "may_judge", _judge_at_once):
        report = explore(NODE_FREEZES)
    assert report.violation == "the healthy driver of epoch 1 is fenced", str(report)


@pytest.mark.finding("B6")
def test_the_explorer_finds_a_query_that_fails_because_its_driver_received_sigterm() -> None:
    with mock.patch.object(Loop, "terminate", _stop_in_order):
        report = explore(DRIVER_RECEIVES_SIGTERM)
    assert report.violation is not None
    assert report.violation.startswith("a pure query failed after attempt 1"), str(report)


@pytest.mark.finding("B7")
def test_the_explorer_finds_a_takeover_that_a_restarting_node_prevents() -> None:
    mark_return = nodes.mark_return

    def extend_all_leases(tx: Tx, node_id: str, seconds: float) -> None:
        mark_return(tx, node_id, seconds)
        ending = sessions.c.lease_until < clock(seconds)
        tx.execute(update(sessions).where(ending).values(lease_until=clock(seconds)))

    with mock.patch.object(nodes, "mark_return", extend_all_leases):
        report = explore(NODE_RESTARTS)
    assert report.violation is not None
    assert report.violation.endswith("and no takeover has begun"), str(report)


def _judge_at_once(*_values: object, **_options: object) -> ColumnElement[bool]:
    """Let a node judge drivers even if it has just returned, as version 0.1-dev did."""
    return true()


def _stop_in_order(loop: Loop) -> None:
    """Cancel the statements in flight and report their ends, as version 0.1-dev did."""
    loop._stopping.set()
