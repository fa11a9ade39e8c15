"""The decision about a job, over all facts, against a table of its own."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from headrace.deploy.compatibility import Compatibility
from headrace.deploy.decision import JobFacts, decide
from headrace.model.job import JobDecision, OnQueryChange

ANY = None
YES, NO = True, False
CLEAN, SAVEPOINT = JobDecision.RESTART_CLEAN, JobDecision.RESTART_FROM_SAVEPOINT
RESET, KEEP, REFUSE = OnQueryChange.RESET, OnQueryChange.KEEP_COMPATIBLE, OnQueryChange.REFUSE

COMPATIBLE = Compatibility(True, "fine.")
INCOMPATIBLE = Compatibility(False, "the query reads other sources than before.")

# The graph of the seed, row by row; the first row that fits decides.
# new, running, configuration changed, query changed, state found, on-query-change, compatible
TABLE = [
    ((YES, ANY, ANY, ANY, ANY, ANY, ANY), JobDecision.START_CLEAN),
    # A changed query, as on-query-change has it.
    ((NO, ANY, ANY, YES, ANY, REFUSE, ANY), JobDecision.ERROR),
    ((NO, ANY, ANY, YES, ANY, RESET, ANY), CLEAN),
    ((NO, YES, ANY, YES, ANY, KEEP, YES), SAVEPOINT),
    ((NO, NO, ANY, YES, YES, KEEP, YES), SAVEPOINT),
    ((NO, ANY, ANY, YES, ANY, KEEP, ANY), CLEAN),
    # The query is the same.
    ((NO, YES, YES, NO, ANY, ANY, ANY), SAVEPOINT),
    ((NO, YES, NO, NO, ANY, ANY, ANY), JobDecision.NONE),
    ((NO, NO, YES, NO, YES, ANY, ANY), SAVEPOINT),
    ((NO, NO, NO, NO, YES, ANY, ANY), JobDecision.RESUME_LATEST),
    ((NO, NO, ANY, NO, NO, ANY, ANY), JobDecision.ERROR),
]

BOOLEANS = (YES, NO)
ALL_FACTS = list(
    itertools.product(
        BOOLEANS,
        BOOLEANS,
        BOOLEANS,
        BOOLEANS,
        (None, "savepoint", "checkpoint"),
        OnQueryChange,
        (None, COMPATIBLE, INCOMPATIBLE),
    )
)


def build_facts(values: tuple[Any, ...]) -> JobFacts:
    new, running, configuration, query, state, on_query_change, compatibility = values
    return JobFacts(
        name="clicks",
        is_new=new,
        is_running=running,
        configuration_changed=configuration,
        query_changed=query,
        found_state=state,
        on_query_change=on_query_change,
        compatibility=compatibility,
        changed_keys=["sql", "trigger"],
    )


def expected_decision(facts: JobFacts) -> JobDecision:
    is_compatible = facts.compatibility is not None and facts.compatibility.is_compatible
    values = (
        facts.is_new,
        facts.is_running,
        facts.configuration_changed,
        facts.query_changed,
        facts.found_state is not None,
        facts.on_query_change,
        is_compatible,
    )
    return next(
        decision
        for row, decision in TABLE
        if all(cell is ANY or cell == value for cell, value in zip(row, values, strict=True))
    )


def test_all_facts_lead_to_the_decision_of_the_table() -> None:
    assert len(ALL_FACTS) == 432
    for values in ALL_FACTS:
        facts = build_facts(values)
        assert decide(facts).decision is expected_decision(facts), facts


def test_every_row_of_the_table_decides_about_some_facts() -> None:
    rows = {id(row): row for row, _decision in TABLE}
    for values in ALL_FACTS:
        facts = build_facts(values)
        compatible = facts.compatibility is not None and facts.compatibility.is_compatible
        given = (*values[:4], values[4] is not None, values[5], compatible)
        fits = [
            row
            for row, _decision in TABLE
            if all(cell is ANY or cell == value for cell, value in zip(row, given, strict=True))
        ]
        rows.pop(id(fits[0]), None)

    assert list(rows.values()) == []


def test_every_decision_has_a_reason_and_every_error_a_way_out() -> None:
    for values in ALL_FACTS:
        facts = build_facts(values)
        decided = decide(facts)
        assert decided.reason.endswith(".")
        assert (decided.hint is not None) == (decided.decision is JobDecision.ERROR)
        if decided.decision in {CLEAN, SAVEPOINT}:
            assert "(sql, trigger)" in decided.reason


@pytest.mark.parametrize("configuration_changed", [True, False])
def test_a_job_without_state_has_three_ways_out(configuration_changed: bool) -> None:
    decided = decide(build_facts((NO, NO, configuration_changed, NO, None, RESET, None)))

    assert decided.hint is not None
    for command in (
        "`headrace job start clicks --clean`",
        "`headrace job rollback clicks`",
        "`headrace deploy PATH`",
    ):
        assert command in decided.hint


def test_a_changed_query_that_cannot_keep_its_state_says_why() -> None:
    decided = decide(build_facts((NO, YES, NO, YES, None, KEEP, INCOMPATIBLE)))
    assert decided.reason == (
        "The query has changed (sql, trigger). The job starts without state: the query reads other"
        " sources than before."
    )
    unknown = decide(build_facts((NO, YES, NO, YES, None, KEEP, None)))
    assert "not known" in unknown.reason
    without = decide(build_facts((NO, NO, NO, YES, None, KEEP, COMPATIBLE)))
    assert "neither a savepoint nor a checkpoint" in without.reason


def test_a_reason_names_the_state_from_which_a_job_continues() -> None:
    running = decide(build_facts((NO, YES, YES, NO, None, RESET, None)))
    assert "the savepoint with which it is stopped" in running.reason
    stopped = decide(build_facts((NO, NO, YES, NO, "checkpoint", RESET, None)))
    assert "a savepoint that is made of its latest checkpoint" in stopped.reason
    stopped = decide(build_facts((NO, NO, YES, NO, "savepoint", RESET, None)))
    assert "its latest savepoint" in stopped.reason
