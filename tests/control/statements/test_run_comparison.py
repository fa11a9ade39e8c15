"""A statement beside its earlier runs."""

from __future__ import annotations

import pytest
from tests.support.executions import make_execution, make_stage

from headrace.control.statements.run_comparison import compare_runs
from headrace.model.execution import StatementExecution

GIB = 1024**3
SPILLED = make_execution(
    stages=[make_stage(2, disk_bytes_spilled=7), make_stage(4, disk_bytes_spilled=9 * GIB)]
)
SKEWED = make_execution(
    stages=[
        make_stage(1, median_task_seconds=0.1, longest_task_seconds=0.9),
        make_stage(3, median_task_seconds=2.0, longest_task_seconds=9.0),
        make_stage(5, median_task_seconds=None, longest_task_seconds=None),
    ]
)
SKEW = "in stage 3, a task took 9 s and the median 2 s."
EVEN = make_execution()
NO_STAGES = make_execution(stages=[])


@pytest.mark.parametrize(
    ("former", "execution", "text"),
    [
        ([12.0] * 20, None, "3.1 times its median of 20 runs (12 s)."),
        ([1.0, 60.0, 12.0], EVEN, "3.1 times its median of 3 runs (12 s)."),
        ([12.0] * 3, NO_STAGES, "3.1 times its median of 3 runs (12 s)."),
        ([12.0] * 3, SPILLED, "3.1 times its median of 3 runs (12 s); stage 4 spilled 9.0 GiB."),
        (
            [120.0] * 3,
            SKEWED,
            "0.3 times its median of 3 runs (2 min); " + SKEW,
        ),
        ([12.0, 12.0], SPILLED, None),
        ([], None, None),
        ([0.0] * 3, None, None),
    ],
    ids=["many", "few", "no stages", "spilled", "skewed", "too few", "none", "no time"],
)
def test_a_run_is_compared_with_the_median(
    former: list[float], execution: StatementExecution | None, text: str | None
) -> None:
    assert compare_runs(37.2, former, execution) == text
