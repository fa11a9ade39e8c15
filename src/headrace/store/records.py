"""Mapping between rows and the records of the model.

A record is a dataclass with one field per column, except for its `spec`: a pydantic model whose
fields are columns of the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from sqlalchemy import Column, ColumnElement, RowMapping, Select, Text, cast, func

from headrace.model.result import (
    Disposition,
    GoneReason,
    ResultHolder,
    ResultInfo,
    check_time_zone,
)
from headrace.model.session import Session, SessionSpec
from headrace.model.statement import Statement, StatementSpec
from headrace.store.database import Tx

_Spec = TypeVar("_Spec", bound=BaseModel)

RESULT_PREFIX = "result_info_"
"""Prefix of the columns of a result in a row of its statement."""


_TIME_ZONE = "headrace.time_zone"
"""Key beside Spark's own keys in the column `spark_schema`."""


def schema_to_column(spark_schema: Mapping[str, Any], time_zone: str | None) -> dict[str, Any]:
    """Return the value of the column `spark_schema`, which also holds the session's time zone."""
    zone = {} if time_zone is None else {_TIME_ZONE: time_zone}
    return {**spark_schema, **zone}


def spec_to_columns(spec: BaseModel) -> dict[str, Any]:
    """Return the fields of a spec by column name."""
    return {name: getattr(spec, name) for name in type(spec).model_fields}


def row_to_session(row: RowMapping) -> Session:
    """Build a session from a row of its table."""
    columns: dict[str, Any] = {**row}
    spec = _pop_spec(columns, SessionSpec)
    return Session(spec=spec, **columns)


def row_to_statement(row: RowMapping | Mapping[str, Any]) -> Statement:
    """Build a statement from its row, joined with the row of its result if there is one."""
    columns: dict[str, Any] = {**row}
    result = _pop_result(columns)
    spec = _pop_spec(columns, StatementSpec)
    return Statement(spec=spec, result=result, **columns)


def _pop_spec(columns: dict[str, Any], spec_type: type[_Spec]) -> _Spec:
    # The column types have validated the values already.
    return spec_type.model_construct(**{name: columns.pop(name) for name in spec_type.model_fields})


def _pop_result(columns: dict[str, Any]) -> ResultInfo | None:
    names = [name for name in columns if name.startswith(RESULT_PREFIX)]
    result = {name.removeprefix(RESULT_PREFIX): columns.pop(name) for name in names}
    # The columns of an outer join are all NULL if there is no result.
    if result.get("disposition") is None:
        return None
    session_id, epoch = result.pop("holder_session_id"), result.pop("holder_epoch")
    holder = (
        ResultHolder(session_id=session_id, epoch=epoch, endpoint=result.pop("endpoint"))
        if session_id is not None
        else None
    )
    if holder is not None:
        result["disposition"] = Disposition.MEMORY
    schema = dict(result.pop("spark_schema"))
    time_zone = check_time_zone(schema.pop(_TIME_ZONE, None))
    gone, reason = result.pop("gone_at") is not None, result.pop("gone_reason")
    # A newer node may have reasons that this one does not know.
    known = reason if reason in set(GoneReason) else None
    return ResultInfo(
        **result,
        spark_schema=schema,
        time_zone=time_zone,
        gone=gone,
        gone_reason=known,
        holder=holder,
    )


_PAGE_CHARACTERS = 4 * 1024 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """The rows of one page, and whether more rows follow."""

    items: list[T]
    more: bool


def starts_with(column: Column[Any], prefix: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions for ids that begin with a prefix of hex digits; none for None.

    They are a range, for which an index of the column is used on both databases.
    """
    return [] if prefix is None else [column >= prefix, column < prefix + "g"]


def length_of(column: Column[Any]) -> ColumnElement[int]:
    """Return the expression for the characters of a JSON column; 0 for NULL."""
    return func.coalesce(func.length(cast(column, Text)), 0)


def count_within_budget(tx: Tx, sizes: Select[tuple[int]], limit: int) -> tuple[int, bool]:
    """Return how many of the first rows fit on a page, and whether more rows follow.

    Args:
        sizes: Query for the characters of each row, in the order of the page.
    """
    counted = tx.execute(sizes.limit(limit + 1)).scalars().all()
    total = 0
    for number, size in enumerate(counted[:limit]):
        total += size
        if number and total > _PAGE_CHARACTERS:
            return number, True
    return min(len(counted), limit), len(counted) > limit
