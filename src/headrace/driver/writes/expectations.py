"""Expectations on the rows of a write: counted, and dropped, in the pass that writes them.

The conditions become columns of the query. Spark's CollectMetrics node counts them on the way to
the write, and a filter above it drops rows. Spark never removes that node: nothing above it is
known to be empty before the node has run.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession, functions
from pyspark.sql.types import BooleanType

from headrace.driver.spark_version.observed_rows import (
    find_query,
    read_observation,
    replace_query,
    uses_row_alone,
)
from headrace.driver.spark_version.parameters import Binding, frame_of_plan
from headrace.errors import ExpectationCountsWrong, ExpectationFailed, InvalidExpectation
from headrace.model.expectation import Expectation, ExpectationCounts, OnViolation, Violations
from headrace.text.readable import describe_count

_COLUMN = "__headrace_expectation_"
_ROWS, _KEPT, _VIOLATIONS, _NULLS = "rows", "kept", "violations_", "nulls_"
_RAISED = re.compile(r"headrace expectation (\d+)")
"""The error of a row that violates an expectation with `fail`, with its position."""
_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")


class CheckedColumns:
    """The conditions of expectations as columns of the rows, and what is counted of them."""

    def __init__(self, expectations: Sequence[Expectation]) -> None:
        self._expectations = expectations
        self._columns = [f"{_COLUMN}{index}" for index in range(len(expectations))]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self._columns

    def add_to(self, rows: DataFrame, *, raises: bool) -> DataFrame:
        """Return the rows with the columns.

        Args:
            raises: Whether a row that violates an expectation with `fail` raises an error.

        Raises:
            InvalidExpectation: A condition is not a boolean expression over the columns.
        """
        conditions = [self._check(rows, each) for each in self._expectations]
        columns = zip(conditions, self._columns, strict=True)
        checked = rows.select("*", *(condition.alias(name) for condition, name in columns))
        return checked.withColumns(self._make_guards()) if raises else checked

    def is_kept(self) -> Column:
        """Return the condition of the rows that are not dropped."""
        kept = functions.lit(True)
        for name, each in zip(self._columns, self._expectations, strict=True):
            if each.on_violation is OnViolation.DROP:
                kept = kept & functions.coalesce(functions.col(name), functions.lit(False))
        return kept

    def make_counts(self) -> list[Column]:
        """Return what is to be counted of the rows, for `read_counts`."""
        kept = self.is_kept()
        counts = [functions.count(functions.lit(1)).alias(_ROWS), _count_where(kept).alias(_KEPT)]
        for index, name in enumerate(self._columns):
            holds = functions.coalesce(functions.col(name), functions.lit(False))
            counts += [
                _count_where(~holds).alias(f"{_VIOLATIONS}{index}"),
                _count_where(functions.col(name).isNull()).alias(f"{_NULLS}{index}"),
            ]
        return counts

    def read_counts(self, values: Mapping[str, int]) -> ExpectationCounts:
        """Return the counts of rows that are written unless an expectation drops them."""
        return ExpectationCounts(
            rows_in=values[_ROWS],
            rows_dropped=values[_ROWS] - values[_KEPT],
            rows_written=values[_KEPT],
            expectations=[
                Violations(
                    name=each.name,
                    violations=values[f"{_VIOLATIONS}{index}"],
                    nulls=values[f"{_NULLS}{index}"],
                )
                for index, each in enumerate(self._expectations)
            ],
        )

    def find_raised(self, error: Exception) -> str | None:
        """Return the name of the expectation with `fail` whose row has raised an error, or None."""
        raised = _RAISED.search(str(error))
        if raised is None or int(raised[1]) >= len(self._expectations):
            return None
        return self._expectations[int(raised[1])].name

    def _check(self, rows: DataFrame, expectation: Expectation) -> Column:
        """Return the condition of an expectation. Raise InvalidExpectation."""
        subject = f"The condition of the expectation {expectation.name}"
        condition = functions.expr(expectation.condition)
        try:
            checked = rows.select("*", condition.alias(_COLUMN))
        except ParseException as error:
            raise InvalidExpectation(
                f"{subject} is not valid: {_describe_syntax(error)}"
            ) from error
        except PySparkException as error:
            # Spark's sentence, without the plan of the query.
            reason = str(error).partition(";")[0].partition("\n")[0]
            raise InvalidExpectation(f"{subject} is not valid: {reason}") from error
        found = checked.schema[-1].dataType
        if not isinstance(found, BooleanType):
            raise InvalidExpectation(f"{subject} is {found.simpleString()}, and not boolean.")
        if not uses_row_alone(checked, rows):
            raise InvalidExpectation(
                f"{subject} needs other rows: subqueries, aggregates and window functions are not"
                " possible in a condition."
            )
        return condition

    def _make_guards(self) -> dict[str, Column]:
        """Return the columns of the expectations with `fail`, which raise an error."""
        columns = zip(self._columns, self._expectations, strict=True)
        return {
            name: functions.when(functions.col(name), True).otherwise(
                functions.raise_error(functions.lit(f"headrace expectation {index}"))
            )
            for index, (name, each) in enumerate(columns)
            if each.on_violation is OnViolation.FAIL
        }


class RowChecks:
    """The expectations on the rows of one write."""

    def __init__(self, session: SparkSession, expectations: Sequence[Expectation]) -> None:
        self._session = session
        self._expectations = expectations
        self._columns = CheckedColumns(expectations)
        self._observation = Observation(_make_name())
        self.counts: ExpectationCounts | None = None
        """What `check` has counted; None before, and if the counts are not known."""

    @property
    def may_fail(self) -> bool:
        """Whether a row can fail the write."""
        return any(each.on_violation is OnViolation.FAIL for each in self._expectations)

    def add_to(self, parsed_plan: Any, bind: Binding, *, raises: bool = False) -> Any:
        """Return a parsed INSERT whose query also counts and drops rows.

        Args:
            raises: Whether the first row that violates an expectation with `fail` raises an error,
                because the catalog publishes the rows before they can be counted.

        Raises:
            InvalidExpectation: A condition is not a boolean expression over the columns.
            PySparkException: Spark rejects the query.
        """
        query = find_query(parsed_plan)
        if query is None:
            raise InvalidExpectation("Only an INSERT can have expectations.")
        rows = frame_of_plan(self._session, bind(query))
        return replace_query(parsed_plan, self.count_and_drop(rows, raises=raises))

    def count_and_drop(self, rows: DataFrame, *, raises: bool = False) -> DataFrame:
        """Return the rows that are not dropped. The query that writes them counts all rows.

        Args:
            raises: See `add_to`.

        Raises:
            InvalidExpectation: A condition is not a boolean expression over the columns.
        """
        checked = self._columns.add_to(rows, raises=raises)
        self._observation = Observation(_make_name())
        observed = checked.observe(self._observation, *self._columns.make_counts())
        return observed.where(self._columns.is_kept()).drop(*self._columns.names)

    def check(self, frame: DataFrame, rows_written: int | None, *, is_published: bool) -> None:
        """Read the counts of a write that has run, and check them.

        Args:
            frame: The DataFrame of the statement.
            rows_written: Number of rows that Spark has written; None: Spark does not count them.
            is_published: Whether readers may see the rows already. Counts that do not agree are
                then not known, and no error.

        Raises:
            ExpectationFailed: A row violates an expectation with `fail`.
            ExpectationCountsWrong: The rows written and dropped are not the rows read.
        """
        values = read_observation(frame, self._observation)
        kept = None if values is None else values[_KEPT]
        if values is None or (rows_written is not None and rows_written != kept):
            if is_published:
                return
            reason = "Spark has reported no counts"
            if values is not None:
                reason = (
                    f"{values[_ROWS]} rows were read and {values[_ROWS] - values[_KEPT]} dropped,"
                    f" but {rows_written} were written"
                )
            raise ExpectationCountsWrong(
                f"The expectations are not proven: {reason}. Nothing was published."
            )
        self.counts = self._columns.read_counts(values)
        self._raise_failures(self.counts)

    def _raise_failures(self, counts: ExpectationCounts) -> None:
        failed = [
            f"`{each.name}` by {each.violations:,} of {describe_count(counts.rows_in, 'row')}"
            + (f" ({each.nulls:,} of them NULL)" if each.nulls else "")
            for each, expectation in zip(counts.expectations, self._expectations, strict=True)
            if each.violations and expectation.on_violation is OnViolation.FAIL
        ]
        if failed:
            raise ExpectationFailed(
                f"Expectations were violated: {', '.join(failed)}. Nothing was published."
            )

    def explain(self, error: Exception) -> Exception:
        """Return the error of a row that violates an expectation for what it is; others as is."""
        name = self._columns.find_raised(error)
        if name is None:
            return error
        return ExpectationFailed(
            f"Expectations were violated: `{name}` by at least 1 row. Nothing was published."
        )


def _make_name() -> str:
    return f"headrace_{uuid.uuid4().hex}"


def _count_where(condition: Column) -> Column:
    return functions.count(functions.when(condition, functions.lit(1)))


def _describe_syntax(error: ParseException) -> str:
    text = str(error)
    place = _PLACE.search(text)
    sentence = text.strip().partition("\n")[0].partition(" SQLSTATE")[0]
    sentence = re.sub(r"^\[[A-Z_.]+\] ", "", sentence)
    if place is None:
        return sentence
    return f"{sentence} (line {place[1]}, column {int(place[2]) + 1})"
