"""CTAS that Spark runs by itself, as part of another statement: nobody can stage those."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.ctas.detect import kind_of_plan
from headrace.driver.parameters import parse_statement
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.model.messages import Assignment

_CREATES = {"CreateTableAsSelect", "ReplaceTableAsSelect", "PlanWithUnresolvedIdentifier"}
_BY_TEXT = "UnresolvedExecuteImmediate"
_SCRIPT = "CompoundBody"


def may_create_table(session: SparkSession, assignment: Assignment) -> bool:
    """Whether a script, or an EXECUTE IMMEDIATE, may create a table from a query.

    The text that EXECUTE IMMEDIATE gets from a variable is not known before it runs: it may.
    """
    plan, _bind = parse_statement(session, assignment)
    if kind_of_plan(plan) not in {_SCRIPT, _BY_TEXT}:
        return False
    return any(_may_create(session, part) for part in _parts(plan))


def _may_create(session: SparkSession, plan: Any) -> bool:
    if kind_of_plan(plan) != _BY_TEXT:
        return kind_of_plan(plan) in _CREATES
    text = plan.sqlStmtStr()
    if text.getClass().getSimpleName() != "Literal":
        return True
    try:
        inner = Py4JBridge(session).state.sqlParser().parsePlan(str(text.value().toString()))
    except PySparkException:
        # Spark says where the mistake is when it comes to it.
        return False
    return any(_may_create(session, part) for part in _parts(inner))


def _parts(plan: Any) -> Iterator[Any]:
    """A plan and all it is made of, with the bodies of a script's handlers, which are no children.

    Of one statement in a script there is only the plan that was parsed.
    """
    if kind_of_plan(plan) == "SingleStatement":
        yield plan.parsedPlan()
        return
    yield plan
    inner = [plan.children()]
    if kind_of_plan(plan) == _SCRIPT:
        inner.append(plan.handlers())
    for group in inner:
        for at in range(group.size()):
            yield from _parts(group.apply(at))
