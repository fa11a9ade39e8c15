"""A statement beside the earlier runs of its text, in words."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from headrace.model.execution import StatementExecution
from headrace.text.readable import describe_bytes, describe_count, describe_duration

RUNS = 20
"""Earlier runs with which a statement is compared."""
_FEWEST = 3
_SKEW = 3.0


def compare_runs(
    seconds: float, former: Sequence[float], execution: StatementExecution | None
) -> str | None:
    """Return how long a statement took beside earlier runs, and what may have slowed it down.

    Args:
        seconds: How long it has run.
        former: The same of earlier runs. Fewer than three are no measure.
        execution: Its stages, if they are known.
    """
    if len(former) < _FEWEST:
        return None
    middle = median(former)
    if middle <= 0:
        return None
    runs = describe_count(len(former), "run")
    text = f"{seconds / middle:.1f} times its median of {runs} ({describe_duration(middle)})"
    causes = [] if execution is None else _find_causes(execution)
    return "; ".join([text, *causes]) + "."


def _find_causes(execution: StatementExecution) -> list[str]:
    causes = []
    spilled = max(execution.stages, key=lambda stage: stage.disk_bytes_spilled, default=None)
    if spilled is not None and spilled.disk_bytes_spilled:
        causes.append(f"stage {spilled.id} spilled {describe_bytes(spilled.disk_bytes_spilled)}")
    skewed = [
        stage
        for stage in execution.stages
        if stage.median_task_seconds
        and stage.longest_task_seconds is not None
        and stage.longest_task_seconds > max(1.0, _SKEW * stage.median_task_seconds)
    ]
    if skewed:
        worst = max(skewed, key=lambda stage: stage.longest_task_seconds or 0.0)
        longest = describe_duration(worst.longest_task_seconds or 0.0)
        usual = describe_duration(worst.median_task_seconds or 0.0)
        causes.append(f"in stage {worst.id}, a task took {longest} and the median {usual}")
    return causes
