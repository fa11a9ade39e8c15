"""Expectations on the rows that a statement writes, and what was counted of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from headrace.model.text import Count

MAX_EXPECTATIONS = 50
"""Largest number of expectations on the rows of one statement."""

ExpectationName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,89}$")]
"""Name of an expectation, which is unique in its job or materialized view."""


Condition = Annotated[str, StringConstraints(max_length=4096)]
"""A boolean expression of SQL over the columns of a row."""


class OnViolation(StrEnum):
    """What happens to a row that violates an expectation."""

    WARN = "warn"
    DROP = "drop"
    FAIL = "fail"


class Expectation(BaseModel):
    """A condition on each row that a statement writes."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )

    name: ExpectationName
    """Name in results and messages."""
    condition: Condition
    """A boolean expression of SQL over the columns of a row. NULL violates it."""
    on_violation: OnViolation = OnViolation.WARN
    """`warn` counts a row that violates it, `drop` also leaves the row out, and `fail` fails the
    statement, which then publishes nothing."""


class Violations(BaseModel):
    """How many rows have violated an expectation."""

    model_config = ConfigDict(frozen=True)

    name: ExpectationName
    violations: Count
    """Rows for which the condition is FALSE or NULL."""
    nulls: Count
    """Rows for which it is NULL."""

    @model_validator(mode="after")
    def _check_nulls(self) -> Self:
        if self.nulls > self.violations:
            raise ValueError("more rows are NULL than violate the expectation")
        return self


class ExpectationCounts(BaseModel):
    """What the write of a statement has counted. Every expectation is counted on every row."""

    model_config = ConfigDict(frozen=True)

    rows_in: Count
    """Rows of the query."""
    rows_dropped: Count
    """Rows that violate an expectation with `drop`."""
    rows_written: Count | None
    """Rows that the statement has written; None: it has failed and has published nothing."""
    expectations: Annotated[list[Violations], Field(max_length=MAX_EXPECTATIONS, fail_fast=True)]
    """In the order of the manifest, or of the constraints of the view."""

    @property
    def is_published(self) -> bool:
        """Whether readers see the rows that were not dropped."""
        return self.rows_written is not None

    @model_validator(mode="after")
    def _check_sums(self) -> Self:
        if self.rows_dropped > self.rows_in:
            raise ValueError("more rows are dropped than read")
        if self.rows_written is not None and self.rows_written + self.rows_dropped != self.rows_in:
            raise ValueError("the rows written and dropped are not the rows read")
        if any(each.violations > self.rows_in for each in self.expectations):
            raise ValueError("more rows violate an expectation than were read")
        return self


class ExpectationResult(StrEnum):
    """What the counts say of an expectation."""

    PASSED = "passed"
    VIOLATED = "violated"
    NO_ROWS = "no_rows"
    """The query had no rows, so that nothing was checked."""
    UNKNOWN = "unknown"
    """No counts were reported: the write has not ended, or has failed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRows:
    """Expectations, and what was counted for them."""

    expectations: list[Expectation]
    counts: ExpectationCounts | None
    """None: not known."""

    def list_counted(self) -> list[tuple[Expectation, Violations]]:
        """Return the expectations with what was counted; none, if nothing is known."""
        counted = [] if self.counts is None else self.counts.expectations
        return list(zip(self.expectations, counted, strict=False))

    def find_result(self, index: int) -> ExpectationResult:
        """Return the result of the expectation at a position."""
        if self.counts is None:
            return ExpectationResult.UNKNOWN
        if self.counts.rows_in == 0:
            return ExpectationResult.NO_ROWS
        is_violated = self.counts.expectations[index].violations > 0
        return ExpectationResult.VIOLATED if is_violated else ExpectationResult.PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementChecks(CheckedRows):
    """The expectations of a statement of a run, and what was counted for them."""

    statement_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChecks(CheckedRows):
    """The expectations of a materialized view, and what its last refresh has counted."""

    statement_id: str | None
    """The statement that has counted. None: the query of the view has, or no counts are stored."""
