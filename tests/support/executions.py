"""Executions of statements, as a driver could report them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headrace.model.execution import SparkOperator, SparkStage, SparkStageState, StatementExecution

_COUNTS = {
    name: 0
    for name, field in SparkStage.model_fields.items()
    if field.annotation is int and name not in {"id", "attempt"}
}


def make_stage(id_: int = 0, **changes: Any) -> SparkStage:
    """Return a complete stage of two tasks, with some fields changed."""
    return SparkStage(
        **_COUNTS
        | {
            "id": id_,
            "attempt": 0,
            "name": "collect at Main.scala:1",
            "state": SparkStageState.COMPLETE,
            "started_at": datetime(2026, 11, 25, 10, tzinfo=UTC),
            "ended_at": datetime(2026, 11, 25, 10, 0, 3, tzinfo=UTC),
            "tasks_total": 2,
            "tasks_done": 2,
            "run_seconds": 4.5,
            "median_task_seconds": 1.5,
            "longest_task_seconds": 3.0,
            "failure": None,
        }
        | changes
    )


def make_execution(
    plan: str | None = "== Physical Plan ==\nScan", **changes: Any
) -> StatementExecution:
    """Return an execution with one operator and one stage, with some fields changed."""
    operator = SparkOperator(depth=0, name="Scan", metrics={"number of output rows": "7"})
    fields = {"operators": [operator], "stages": [make_stage()]}
    omitted = {"operators_omitted": 0, "stages_omitted": 0}
    return StatementExecution(**{"plan": plan, **fields, **omitted, **changes})
