"""The row of a `SELECT` without FROM, computed without a Spark job.

Spark's optimizer rule ConvertToLocalRelation computes projections over local rows at planning time,
but does not treat OneRowRelation as local rows. `SELECT 1` therefore needs a job, which takes
longer than the rest of the statement. This module applies the same rule to the same projection over
one local row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_CATALYST = "org.apache.spark.sql.catalyst"


def compute_constant_rows(jvm: Any, optimized: Any) -> Any:
    """Return the rows of an optimized plan as a JVM iterator, or None if they need a job.

    Non-deterministic projections (`rand()`, `reflect(…)`) get a job, because they may take long and
    only a job can be cancelled. Raises what Spark raises when it cannot compute a value.
    """
    if optimized.nodeName() != "Project" or optimized.child().nodeName() != "OneRowRelation":
        return None
    if not optimized.deterministic():
        return None
    one_row, project, rule = _load_jvm_objects(jvm)
    # The rule leaves projections that it cannot evaluate unchanged, for example Python functions.
    planned = rule.apply(project(optimized.projectList(), one_row))
    if planned.nodeName() != "LocalRelation":
        return None
    return planned.data().iterator()


@lru_cache(maxsize=1)
def _load_jvm_objects(jvm: Any) -> tuple[Any, Any, Any]:
    """Return a LocalRelation of one row, the class Project, and the rule.

    The objects are cached, because each segment of a class name is a round trip to the JVM.
    """

    def get_singleton(name: str) -> Any:
        return getattr(getattr(jvm, f"{name}$"), "MODULE$")

    nil = get_singleton("scala.collection.immutable.Nil")
    rows = getattr(nil, "$colon$colon")(get_singleton(f"{_CATALYST}.InternalRow").empty())
    logical = getattr(jvm, f"{_CATALYST}.plans.logical")
    one_row = logical.LocalRelation(nil, rows, False, get_singleton("scala.None"))
    rule = get_singleton(f"{_CATALYST}.optimizer.ConvertToLocalRelation")
    return one_row, logical.Project, rule
