"""Binding parameters: Spark puts the values in, the text stays as it is."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.functions import lit

from headrace.driver.state.jvm import Jvm
from headrace.model.messages import Work
from headrace.model.statement import Parameter


def asked(spark: SparkSession, work: Work) -> DataFrame:
    """What Spark makes of a statement: a command has run, a query has not. Raises as Spark does."""
    parameters = work.parameters
    if not parameters:
        # What `spark.sql` does, less four round trips for no parameters.
        return ClassicDataFrame(spark._jsparkSession.sql(work.text), spark)  # noqa: SLF001
    args: dict[str, Any] | list[Any]
    if parameters[0].name is not None:
        args = {str(one.name): _value(spark, one) for one in parameters}
    else:
        args = [_value(spark, one) for one in parameters]
    return spark.sql(work.text, args)


def parsed(spark: SparkSession, work: Work) -> Any:
    """What Spark's parser makes of a statement: a plan in the JVM. Raises as Spark does."""
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - PySpark has no way to it
    if not work.parameters:
        return parser.parsePlan(work.text)
    jvm = Jvm(spark)
    values = [jvm.session.expression(_value(spark, one)._jc) for one in work.parameters]  # noqa: SLF001 - as above
    contexts = jvm.root.org.apache.spark.sql.catalyst.parser
    if work.parameters[0].name is None:
        context = contexts.PositionalParameterContext(jvm.sequence(values))
    else:
        names = [str(one.name) for one in work.parameters]
        context = contexts.NamedParameterContext(jvm.mapping(dict(zip(names, values, strict=True))))
    return parser.parsePlanWithParameters(work.text, context)


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
