"""The plan and the stages of a statement: what a driver can report, and what is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.executions import make_execution, make_stage

from headrace.model.execution import (
    MAX_METRICS,
    MAX_OPERATORS,
    MAX_STAGES,
    SparkStage,
    StatementExecution,
)
from headrace.model.text import MAX_BIGINT, MAX_MESSAGE, MAX_SUMMARY

# st.text() leaves out surrogates unless it is told otherwise.
_TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=50)
_COUNTS = sorted(
    name for name, field in SparkStage.model_fields.items() if name.startswith(("rows", "bytes"))
)
_INSTANTS = ("started_at", "ended_at")
_SECONDS = ("run_seconds", "median_task_seconds", "longest_task_seconds")


def parse(execution: StatementExecution, **changes: Any) -> StatementExecution:
    content = json.loads(execution.model_dump_json()) | changes
    return StatementExecution.model_validate_json(json.dumps(content))


@given(_TEXTS, _TEXTS, _TEXTS)
def test_every_text_can_be_stored(plan: str, name: str, value: str) -> None:
    """PostgreSQL takes neither NUL nor unpaired surrogates."""
    operator = {"depth": 0, "name": name, "metrics": {name: value}}
    stage = json.loads(make_stage().model_dump_json()) | {"name": name, "failure": value}
    execution = parse(make_execution(), plan=plan, operators=[operator], stages=[stage])
    text = execution.model_dump_json()
    assert "\\u0000" not in text
    text.encode()
    assert parse(execution) == execution


@given(st.integers(MAX_MESSAGE - 5, MAX_MESSAGE + 20), st.integers(MAX_SUMMARY - 5, 10_000))
def test_long_texts_are_cut_and_end_with_a_mark(plan_size: int, name_size: int) -> None:
    stage = make_stage(name="n" * name_size, failure="f" * name_size)
    execution = make_execution("p" * plan_size, stages=[stage])
    assert execution.plan is not None
    for text, size, limit in (
        (execution.plan, plan_size, MAX_MESSAGE),
        (execution.stages[0].name, name_size, MAX_SUMMARY),
    ):
        assert len(text) == min(size, limit)
        assert text.endswith("… [cut]") == (size > limit)


@pytest.mark.parametrize("name", _COUNTS)
@given(value=st.integers() | st.floats() | st.booleans() | st.text(max_size=5))
def test_a_count_of_a_stage_is_a_number_that_the_store_can_hold(name: str, value: Any) -> None:
    content = json.loads(make_stage().model_dump_json()) | {name: value}
    if type(value) is int and 0 <= value <= MAX_BIGINT:
        assert getattr(SparkStage.model_validate(content), name) == value
    else:
        with pytest.raises(ValidationError):
            SparkStage.model_validate(content)


@pytest.mark.parametrize("name", _SECONDS)
@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "-1", "1e10", '"x"'])
def test_a_duration_is_a_finite_number(name: str, value: str) -> None:
    text = json.dumps(json.loads(make_stage().model_dump_json()) | {name: "here"})
    with pytest.raises(ValidationError):
        SparkStage.model_validate_json(text.replace('"here"', value))


@pytest.mark.parametrize("name", _INSTANTS)
@pytest.mark.parametrize(
    "value", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00", ""]
)
def test_an_instant_has_a_zone_and_can_be_shown_in_every_other(name: str, value: str) -> None:
    content = json.loads(make_stage().model_dump_json()) | {name: value}
    with pytest.raises(ValidationError):
        SparkStage.model_validate(content)


@pytest.mark.parametrize(
    "changes",
    [
        {"stages": [make_stage(number) for number in range(MAX_STAGES + 1)]},
        {"operators": make_execution().operators * (MAX_OPERATORS + 1)},
        {"operators": [{"depth": 0, "name": "x", "metrics": {str(n): "" for n in range(65)}}]},
        {"operators": [{"depth": 10_001, "name": "x", "metrics": {}}]},
        {"stages_omitted": -1},
    ],
    ids=["stages", "operators", "metrics", "depth", "omitted"],
)
def test_an_execution_has_bounds(changes: dict[str, Any]) -> None:
    assert MAX_METRICS == 64
    with pytest.raises(ValidationError):
        make_execution(**changes)
