"""Changes of a query that keep its state, and those that do not: Spark's table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.deploy.compatibility import SinkSummary, judge
from headrace.model.job import PlanSummary

PLAN = PlanSummary(
    is_streaming=True,
    sources=["kafka subscribe=t", "rate"],
    operators=["Aggregate keys=a functions=count(1)"],
    columns=[("a", "int"), ("n", "bigint")],
)
KAFKA = SinkSummary(provider="kafka", output_mode="UPDATE")
FILES = SinkSummary(provider="parquet", path="/a", output_mode="APPEND")
TABLE = SinkSummary(provider="table", table="db.t", output_mode="APPEND")
NOOP = SinkSummary(provider="noop", output_mode="APPEND")
OTHER_COLUMNS = {"columns": [("b", "int")]}


def judge_one(
    changes: dict[str, Any], old_sink: SinkSummary = KAFKA, new_sink: SinkSummary | None = None
) -> str | None:
    """Return why one query cannot keep its state, or None if it can."""
    new = PLAN.model_copy(update=changes)
    compatibility = judge({"": PLAN}, {"": new}, {"": old_sink}, {"": new_sink or old_sink})
    return None if compatibility.is_compatible else compatibility.reason


def test_filters_and_projections_with_the_same_columns_keep_the_state() -> None:
    # They are not a part of the summary.
    for sink in (KAFKA, FILES, TABLE, NOOP):
        assert judge_one({}, sink) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sources": ["rate"]}, "reads 1 sources, and 2 before"),
        ({"sources": ["kafka subscribe=u", "rate"]}, "reads other sources"),
        ({"operators": []}, "stateful operators"),
        ({"operators": [*PLAN.operators, "Deduplicate a"]}, "stateful operators"),
        ({"operators": ["Aggregate keys=b functions=count(1)"]}, "stateful operators"),
        ({"is_complete": False}, "not known"),
        ({"is_streaming": False}, "batch"),
    ],
)
def test_changed_sources_and_state_are_incompatible(changes: dict[str, Any], reason: str) -> None:
    obstacle = judge_one(changes)

    assert obstacle is not None
    assert reason in obstacle
    assert obstacle.startswith("the query ")


def test_a_plan_that_was_incomplete_before_is_incompatible() -> None:
    old = PLAN.model_copy(update={"is_complete": False})

    assert not judge({"": old}, {"": PLAN}, {"": KAFKA}, {"": KAFKA}).is_compatible


@pytest.mark.parametrize(
    ("sink", "is_taken"), [(KAFKA, True), (NOOP, True), (FILES, False), (TABLE, False)]
)
def test_other_columns_need_a_sink_that_takes_them(sink: SinkSummary, is_taken: bool) -> None:
    assert (judge_one(OTHER_COLUMNS, sink) is None) == is_taken


@pytest.mark.parametrize(
    ("old", "new", "is_compatible"),
    [
        (KAFKA, replace(KAFKA, table="u"), True),
        (FILES, replace(KAFKA, output_mode="APPEND"), True),
        (replace(KAFKA, output_mode="APPEND"), FILES, False),
        (FILES, replace(FILES, path="/b"), False),
        (FILES, replace(FILES, provider="json"), False),
        (TABLE, replace(TABLE, table="db.u"), False),
        (TABLE, FILES, False),
        (NOOP, replace(NOOP, provider="console"), False),
        (KAFKA, replace(KAFKA, output_mode="APPEND"), False),
        (NOOP, replace(NOOP, output_mode="COMPLETE"), False),
        (
            replace(TABLE, provider="delta", path="/a"),
            replace(TABLE, provider="delta", path="/b"),
            False,
        ),
    ],
)
def test_a_change_of_the_sink_is_judged_as_spark_documents_it(
    old: SinkSummary, new: SinkSummary, is_compatible: bool
) -> None:
    assert (judge_one({}, old, new) is None) == is_compatible


def test_other_columns_into_kafka_instead_of_files_are_compatible() -> None:
    assert judge_one(OTHER_COLUMNS, FILES, replace(KAFKA, output_mode="APPEND")) is None


def test_all_queries_of_a_script_must_be_compatible_and_the_same() -> None:
    sinks = {"a": KAFKA, "b": KAFKA}
    changed = PLAN.model_copy(update={"operators": []})

    assert judge({"a": PLAN, "b": PLAN}, {"b": PLAN, "a": PLAN}, sinks, sinks).is_compatible
    one = judge({"a": PLAN, "b": PLAN}, {"a": PLAN, "b": changed}, sinks, sinks)
    assert not one.is_compatible
    assert one.reason.startswith("the query b ")
    assert not judge({"a": PLAN}, {"a": PLAN, "b": PLAN}, sinks, sinks).is_compatible
    assert not judge({"a": PLAN}, {"b": PLAN}, sinks, sinks).is_compatible
    assert not judge({}, {}, {}, {}).is_compatible


def test_a_query_without_a_known_sink_is_incompatible() -> None:
    assert not judge({"": PLAN}, {"": PLAN}, {}, {"": KAFKA}).is_compatible
    assert not judge({"": PLAN}, {"": PLAN}, {"": KAFKA}, {}).is_compatible
