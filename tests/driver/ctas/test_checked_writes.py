"""Expectations on an INSERT in every catalog: exact counts, and nothing published on `fail`."""

from __future__ import annotations

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_implementations
from tests.support.ctas import CtasRun, fetch_rows
from tests.support.journal import JournalLink

from headrace.errors import AtomicityRequired, ExpectationFailed
from headrace.model.expectation import Expectation, OnViolation

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]
WARN, DROP, FAIL = OnViolation
CREATED = "SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM range(10)"
ADDED = "SELECT id, nullif(CAST(id AS STRING), '104') AS s, id % 3 AS k FROM range(100, 110, 1, 3)"
SMALL = Expectation(name="small", condition="id < 108", on_violation=DROP)
NAMED = Expectation(name="named", condition="s <> '101'", on_violation=WARN)


def count(namespace: LakeNamespace) -> int:
    namespace.spark.sql(f"REFRESH TABLE {namespace.table}")
    return int(fetch_rows(namespace.spark, f"SELECT count(*) FROM {namespace.table}")[0][0])


@for_implementations()
def test_the_rows_of_an_insert_are_checked_in_every_catalog(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    namespace.spark.sql(namespace.ctas(CREATED))
    text = f"INSERT INTO {namespace.table} BY NAME {ADDED}"
    run = CtasRun(namespace.spark, text, link, expectations=[SMALL, NAMED])
    counts = run.plan.expectation_counts
    assert counts is not None
    assert (counts.rows_in, counts.rows_dropped, counts.rows_written) == (10, 2, 8)
    assert [(each.violations, each.nulls) for each in counts.expectations] == [(2, 0), (2, 1)]
    assert count(namespace) == 18
    # Nothing of a write that violates `fail` is visible, whichever catalog publishes it.
    failing = [SMALL, NAMED.model_copy(update={"on_violation": FAIL})]
    with pytest.raises((ExpectationFailed, AtomicityRequired), match=r"`named`|not atomic"):
        CtasRun(namespace.spark, text, JournalLink(), expectations=failing)
    assert count(namespace) == 18
    holding = [SMALL, SMALL.model_copy(update={"name": "big", "condition": "id >= 100"})]
    holding[1] = holding[1].model_copy(update={"on_violation": FAIL})
    if namespace.lake.name == "jdbc":
        return
    passed = CtasRun(namespace.spark, text, JournalLink(), expectations=holding)
    assert passed.plan.expectation_counts is not None
    assert passed.plan.expectation_counts.rows_written == 8
    assert count(namespace) == 26
