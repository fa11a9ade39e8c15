"""Binding parameters: Spark puts the values in, the text stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.functions import lit

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.model.messages import Assignment
from headrace.model.statement import Parameter


def run_statement(spark: SparkSession, assignment: Assignment) -> DataFrame:
    """What Spark makes of a statement: a command has run, a query has not. Raises as Spark does."""
    parameters = assignment.parameters
    if not parameters:
        # What `spark.sql` does, less four round trips for no parameters.
        return ClassicDataFrame(spark._jsparkSession.sql(assignment.text), spark)  # noqa: SLF001
    args: dict[str, Any] | list[Any]
    if parameters[0].name is not None:
        args = {str(one.name): _value(spark, one) for one in parameters}
    else:
        args = [_value(spark, one) for one in parameters]
    return spark.sql(assignment.text, args)


Binding = Callable[[Any], Any]
"""Gives a plan the values of the parameters that are still open in it."""


def parse_statement(spark: SparkSession, assignment: Assignment) -> tuple[Any, Binding]:
    """What Spark's parser makes of a statement: a plan in the JVM, and how copies of it are bound.

    Raises as Spark does.
    """
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - PySpark has no way to it
    if not assignment.parameters:
        return parser.parsePlan(assignment.text), lambda plan: plan
    jvm = Py4JBridge(spark)
    values = [jvm.session.expression(_value(spark, one)._jc) for one in assignment.parameters]  # noqa: SLF001 - as above
    contexts = jvm.root.org.apache.spark.sql.catalyst.parser
    plans = jvm.root.org.apache.spark.sql.catalyst.analysis
    arguments = jvm.sequence(values)
    if assignment.parameters[0].name is None:
        context = contexts.PositionalParameterContext(arguments)

        def bind(plan: Any) -> Any:
            return plans.PosParameterizedQuery(plan, arguments)
    else:
        names = [str(one.name) for one in assignment.parameters]
        context = contexts.NamedParameterContext(jvm.mapping(dict(zip(names, values, strict=True))))

        def bind(plan: Any) -> Any:
            return plans.NameParameterizedQuery(plan, jvm.sequence(names), arguments)

    plan = parser.parsePlanWithParameters(assignment.text, context)
    # Iceberg's parser and Delta's hand on the text without its parameters.
    pattern = jvm.singleton("org.apache.spark.sql.catalyst.trees.TreePattern").PARAMETER()
    return plan, bind if plan.containsPattern(pattern) else lambda plan: plan


def _value(spark: SparkSession, parameter: Parameter) -> Any:
    """A typed value becomes a literal of its type: `sql()` takes no casts, so Spark folds it first.

    The type's text goes through Spark's own type parser; nothing is spliced into SQL.
    """
    if parameter.type is None:
        return lit(parameter.value)
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
    cast = Column(lit(parameter.value)._jc.cast(parser.parseDataType(parameter.type)))  # noqa: SLF001
    plan = spark.range(1).select(cast.alias("value"))._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    literal = plan.expressions().head().child()
    jvm: Any = spark._jvm  # noqa: SLF001 - no public way leads from a literal to a column
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(literal))
