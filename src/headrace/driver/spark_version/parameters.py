"""Runs and parses statements with parameters, which Spark binds: the text is never changed."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.functions import from_json, lit

from headrace.driver.spark_version.bridge import (
    DATASET,
    SCRIPT,
    Py4JBridge,
    parse_plan,
    plan_class_name,
)
from headrace.errors import TimestampAmbiguous
from headrace.model.messages import Assignment
from headrace.model.statement import Parameter, array_type

Binding = Callable[[Any], Any]
"""A function that takes a parsed plan with open parameters and returns a plan with their values."""


def run_statement(spark: SparkSession, assignment: Assignment) -> DataFrame:
    """Execute a command, or analyse a query, and return its rows.

    Raises what Spark raises, and TimestampAmbiguous.
    """
    parameters = _find_named(assignment.text, assignment.parameters)
    if not parameters:
        # This is what `spark.sql` does, without four round trips for its empty parameters.
        return ClassicDataFrame(spark._jsparkSession.sql(assignment.text), spark)  # noqa: SLF001
    values = _Values(spark, parameters)
    plan = values.parse(assignment.text)
    if plan_class_name(plan) == SCRIPT:
        return spark.sql(assignment.text, values.arguments())
    return frame_of_plan(spark, values.bind(plan))


def parse_statement(spark: SparkSession, assignment: Assignment) -> tuple[Any, Binding]:
    """Parse a statement with Spark's parser, and return the JVM's plan and a function to bind it.

    Raises what Spark raises, and TimestampAmbiguous.
    """
    return parse_text(spark, assignment.text, assignment.parameters)


def parse_text(
    spark: SparkSession, text: str, parameters: Sequence[Parameter]
) -> tuple[Any, Binding]:
    """Parse a text with parameters, as `parse_statement` does."""
    named = _find_named(text, parameters)
    if not named:
        return parse_plan(spark, text), lambda plan: plan
    values = _Values(spark, named)
    return values.parse(text), values.bind


def frame_of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """Return a DataFrame of the JVM's plan. Spark runs the plan here if it is a command."""
    jvm = Py4JBridge(spark)
    dataset = jvm.singleton(DATASET).ofRows(jvm.session, plan)
    return ClassicDataFrame(dataset, spark)


def empty_frame(spark: SparkSession) -> DataFrame:
    """Return the result of a statement that returns nothing: no columns and no rows."""
    return spark.sql("SELECT 1 WHERE false").select()


def _find_named(text: str, parameters: Sequence[Parameter]) -> list[Parameter]:
    """Return the parameters that a text may name. A run has more values than its statements use."""
    return [each for each in parameters if each.name is None or each.name in text]


_ALIKE = frozenset({"BIGINT", "BINARY", "DATE", "TIMESTAMP_NTZ"})
"""Types whose literals all have the same form, so that one value of each is checked."""
_TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ"})


class _Values:
    """The values of a statement's parameters, as literals of the JVM.

    Spark 4.1 replaces a marker in the text by the SQL of its literal and parses the result
    (ParameterHandler). Some types do not survive that: `CAST('5' AS DECIMAL(10,2))` becomes
    `5.00BD`, a DECIMAL(3,2). A TIMESTAMP becomes a local time of the session's time zone, which
    Spark reads as the first of two equal hours when a clock change repeats an hour. With such a
    value, the markers are parsed as they are, and Spark's analyser binds the literals to them.
    """

    def __init__(self, spark: SparkSession, parameters: Sequence[Parameter]) -> None:
        self._jvm = Py4JBridge(spark)
        self._parser = self._jvm.state.sqlParser()
        self._is_positional = parameters[0].name is None
        self._names = [str(parameter.name) for parameter in parameters]
        self._columns = _literals(spark, parameters)
        # One value of each type that always or never survives is checked: a check takes long.
        checked = {
            name if (name := _type_of(parameter)) in _ALIKE else index: index
            for index, parameter in enumerate(parameters)
            if _is_folded(parameter)
        }
        changed = [index for index in checked.values() if not self._survives(self._columns[index])]
        self._survive_substitution = not changed
        self._ambiguous = [
            parameters[index] for index in changed if _type_of(parameters[index]) in _TIMESTAMPS
        ]
        """Timestamps that would become other ones by substitution."""

    def arguments(self) -> dict[str, Any] | list[Any]:
        """Return the arguments for `spark.sql`."""
        if self._is_positional:
            return list(self._columns)
        return dict(zip(self._names, self._columns, strict=True))

    def parse(self, text: str) -> Any:
        """Return the plan of a text, for `bind`.

        Spark substitutes the values if all types survive that, or where it cannot bind a value, for
        example in the body of a view and in scripts. Raises TimestampAmbiguous if the substitution
        would change a timestamp.
        """
        if not self._survive_substitution:
            with suppress(ParseException):
                plan = self._parser.parsePlan(text)
                if plan_class_name(plan) != SCRIPT:
                    return plan
        plan = self._parser.parsePlanWithParameters(text, self._parser_context())
        for parameter in self._ambiguous:
            if parameter.name is None or re.search(rf":\s*`?{parameter.name}\b", text):
                raise _refuse_timestamp(parameter, self._jvm)
        return plan

    def bind(self, plan: Any) -> Any:
        """Return a plan in which Spark's analyser binds the values to the remaining markers.

        The parsers of Iceberg and Delta substitute nothing, so that all markers remain.
        """
        if not self._has_markers(plan):
            return plan
        plans = self._jvm.root.org.apache.spark.sql.catalyst.analysis
        values = self._jvm.sequence(self._expressions())
        if self._is_positional:
            return plans.PosParameterizedQuery(plan, values)
        return plans.NameParameterizedQuery(plan, self._jvm.sequence(self._names), values)

    def _parser_context(self) -> Any:
        """Return Spark's ParameterContext, with which its parser substitutes the values."""
        contexts = self._jvm.root.org.apache.spark.sql.catalyst.parser
        values = self._expressions()
        if self._is_positional:
            return contexts.PositionalParameterContext(self._jvm.sequence(values))
        by_name = dict(zip(self._names, values, strict=True))
        return contexts.NamedParameterContext(self._jvm.mapping(by_name))

    def _has_markers(self, plan: Any) -> bool:
        patterns = self._jvm.singleton("org.apache.spark.sql.catalyst.trees.TreePattern")
        return bool(plan.containsPattern(patterns.PARAMETER()))

    def _expressions(self) -> list[Any]:
        return [self._jvm.session.expression(column._jc) for column in self._columns]  # noqa: SLF001 - not in PySpark's API

    def _survives(self, column: Column) -> bool:
        """Return whether a literal keeps its type and its value when Spark parses its SQL."""
        literal = self._jvm.session.expression(column._jc)  # noqa: SLF001 - not in PySpark's API
        # Spark writes and reads timestamps in the time zone of the thread's active session.
        self._jvm.activate()
        try:
            parsed = self._parser.parseExpression(literal.sql())
        except Py4JJavaError:
            # Spark writes the SQL of some nested values in another way.
            return False
        if not (parsed.resolved() and parsed.dataType().equals(literal.dataType())):
            return False
        return bool(parsed.eval(None) == literal.eval(None))


def _refuse_timestamp(parameter: Parameter, jvm: Py4JBridge) -> TimestampAmbiguous:
    zone = jvm.session.sessionState().conf().sessionLocalTimeZone()
    marker = "?" if parameter.name is None else f":{parameter.name}"
    return TimestampAmbiguous(
        f"The parameter {marker} is {parameter.value}, in the hour that the clocks of {zone}"
        " repeat. In a script, the query of a view, a column default and the values of a PARTITION"
        " clause, Spark writes a timestamp as a local time, which would be one hour earlier. Set"
        " spark.sql.session.timeZone to UTC, or pass the value as STRING with its offset and cast"
        " it."
    )


def _literals(spark: SparkSession, parameters: Sequence[Parameter]) -> list[Column]:
    """Return the values as literal columns of the parameters' types.

    `spark.sql` refuses a cast as an argument, so Spark's optimizer folds the casts first, all in
    one plan. Spark's own type parser reads the types: no text of a parameter becomes SQL.
    """
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
    parse_type = cache(parser.parseDataType)
    values = [_value(parameter) for parameter in parameters]
    folded = [index for index, parameter in enumerate(parameters) if _is_folded(parameter)]
    if not folded:
        return values
    for index in folded:
        if (type_name := _type_name(parameters[index])) is not None:
            values[index] = Column(values[index]._jc.cast(parse_type(type_name)))  # noqa: SLF001
    columns = [values[index].alias("value") for index in folded]
    plan = spark.range(1).select(*columns)._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark cannot make a column of a JVM literal
    utils, expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils, plan.expressions()
    for position, index in enumerate(folded):
        values[index] = Column(utils.column(expressions.apply(position).child()))
    return values


def _is_folded(parameter: Parameter) -> bool:
    """Return whether the value is an expression until Spark's optimizer has made it a literal."""
    return parameter.type is not None or isinstance(parameter.value, list)


def _type_of(parameter: Parameter) -> str:
    return str(parameter.type).strip().upper()


def _type_name(parameter: Parameter) -> str | None:
    if parameter.type is None and isinstance(parameter.value, list):
        return array_type(parameter.value)
    return parameter.type


def _value(parameter: Parameter) -> Column:
    """Return the value of a parameter, before its cast."""
    value = parameter.value
    if isinstance(value, dict):
        return lit(bytearray(base64.b64decode(str(value["base64"]))))
    if isinstance(value, list) and (texts := array_type(value, "STRING")) is not None:
        # One call of the JVM, however long the array is: `lit` has two for each value.
        return from_json(lit(json.dumps(value)), texts, {"mode": "FAILFAST"})
    return lit(value)
