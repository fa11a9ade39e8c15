"""The row of a `SELECT` without FROM, without a Spark job.

Spark has a rule that computes a projection over local rows while it plans, but takes no
`OneRowRelation` for one, and runs a job for `SELECT 1` that takes longer than everything else
together. Here the same rule is given the same projection over one local row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_CATALYST = "org.apache.spark.sql.catalyst"


def constant_rows(jvm: Any, optimized: Any) -> Any:
    """The rows of an optimized plan as an iterator in the JVM; None when they need a job.

    Only what gives the same value at each evaluation: the rest (`rand()`, `reflect(…)`) may take
    its time, and only a job can be cancelled. Raises what Spark raises when a value cannot be
    computed.
    """
    if optimized.nodeName() != "Project" or optimized.child().nodeName() != "OneRowRelation":
        return None
    if not optimized.deterministic():
        return None
    one_row, project, rule = _jvm_parts(jvm)
    # Left as it is where Spark holds that its values cannot be computed so, e.g. a Python function.
    planned = rule.apply(project(optimized.projectList(), one_row))
    if planned.nodeName() != "LocalRelation":
        return None
    return planned.data().iterator()


@lru_cache(maxsize=1)
def _jvm_parts(jvm: Any) -> tuple[Any, Any, Any]:
    """Found once: each step to a class is a round trip to the JVM."""

    def only(name: str) -> Any:
        return getattr(getattr(jvm, f"{name}$"), "MODULE$")

    nothing = only("scala.collection.immutable.Nil")
    one = getattr(nothing, "$colon$colon")(only(f"{_CATALYST}.InternalRow").empty())
    logical = getattr(jvm, f"{_CATALYST}.plans.logical")
    one_row = logical.LocalRelation(nothing, one, False, only("scala.None"))
    return one_row, logical.Project, only(f"{_CATALYST}.optimizer.ConvertToLocalRelation")
