"""Runs and parses statements with parameters, which Spark binds: the text is never changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.functions import lit

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.model.messages import Assignment
from headrace.model.statement import Parameter

Binding = Callable[[Any], Any]
"""A function that takes a parsed plan with open parameters and returns a plan with their values."""


def run_statement(spark: SparkSession, assignment: Assignment) -> DataFrame:
    """Execute a command, or analyse a query, and return its rows. Raises what Spark raises."""
    parameters = assignment.parameters
    if not parameters:
        # This is what `spark.sql` does, without four round trips for its empty parameters.
        return ClassicDataFrame(spark._jsparkSession.sql(assignment.text), spark)  # noqa: SLF001
    args: dict[str, Any] | list[Any]
    if parameters[0].name is not None:
        args = {str(parameter.name): _literal(spark, parameter) for parameter in parameters}
    else:
        args = [_literal(spark, parameter) for parameter in parameters]
    return spark.sql(assignment.text, args)


def parse_statement(spark: SparkSession, assignment: Assignment) -> tuple[Any, Binding]:
    """Parse a statement with Spark's parser, and return the JVM's plan and a function to bind it.

    Raises what Spark raises.
    """
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - not in PySpark's API
    if not assignment.parameters:
        return parser.parsePlan(assignment.text), lambda plan: plan
    jvm = Py4JBridge(spark)
    values = [
        jvm.session.expression(_literal(spark, parameter)._jc)  # noqa: SLF001 - not in PySpark's API
        for parameter in assignment.parameters
    ]
    contexts = jvm.root.org.apache.spark.sql.catalyst.parser
    plans = jvm.root.org.apache.spark.sql.catalyst.analysis
    arguments = jvm.sequence(values)
    if assignment.parameters[0].name is None:
        context = contexts.PositionalParameterContext(arguments)

        def bind(plan: Any) -> Any:
            return plans.PosParameterizedQuery(plan, arguments)
    else:
        names = [str(parameter.name) for parameter in assignment.parameters]
        context = contexts.NamedParameterContext(jvm.mapping(dict(zip(names, values, strict=True))))

        def bind(plan: Any) -> Any:
            return plans.NameParameterizedQuery(plan, jvm.sequence(names), arguments)

    plan = parser.parsePlanWithParameters(assignment.text, context)
    # The parsers of Iceberg and Delta pass the text on without the parameters.
    pattern = jvm.singleton("org.apache.spark.sql.catalyst.trees.TreePattern").PARAMETER()
    return plan, bind if plan.containsPattern(pattern) else lambda plan: plan


def _literal(spark: SparkSession, parameter: Parameter) -> Column:
    """Return the value as a literal column of the parameter's type.

    `spark.sql` refuses a cast as an argument, so Spark's optimizer folds the cast first. Spark's
    own type parser reads the type: no text of the parameter becomes SQL.
    """
    if parameter.type is None:
        return lit(parameter.value)
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
    cast = Column(lit(parameter.value)._jc.cast(parser.parseDataType(parameter.type)))  # noqa: SLF001
    plan = spark.range(1).select(cast.alias("value"))._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    literal = plan.expressions().head().child()
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark cannot make a column of a JVM literal
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(literal))
