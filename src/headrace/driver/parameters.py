"""Binding parameters: Spark puts the values in, the text stays as it is."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import lit

from headrace.model.messages import Work
from headrace.model.statement import Parameter


def bind(spark: SparkSession, work: Work) -> dict[str, Any] | list[Any] | None:
    """The `args` of `spark.sql`: by name, by position, or None without parameters."""
    if not work.parameters:
        return None
    if work.parameters[0].name is not None:
        return {str(one.name): _value(spark, one) for one in work.parameters}
    return [_value(spark, one) for one in work.parameters]


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
