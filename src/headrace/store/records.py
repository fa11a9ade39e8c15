"""Mapping between rows and the records of the model.

A record is a dataclass with one field per column, except for its `spec`, whose fields are columns
of the same table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RESULT_PREFIX = "result_info_"
"""Prefix of the columns of a result in a row of its statement."""


_TIME_ZONE = "headrace.time_zone"
"""Key beside Spark's own keys in the column `spark_schema`."""


def schema_to_column(spark_schema: Mapping[str, Any], time_zone: str | None) -> dict[str, Any]:
    """Return the value of the column `spark_schema`, which also holds the session's time zone."""
    zone = {} if time_zone is None else {_TIME_ZONE: time_zone}
    return {**spark_schema, **zone}


def record_to_columns(
    record: DataclassInstance, *, without: Collection[str] = ()
) -> dict[str, Any]:
    """Return the fields of a record, and those of its spec, by column name.

    Args:
        without: Names of fields that are no columns.
    """
    columns = {
        each.name: getattr(record, each.name) for each in fields(record) if each.name not in without
    }
    spec = columns.pop("spec", None)
    if spec is not None:
        columns |= {name: getattr(spec, name) for name in _names_of(type(spec))}
    return columns


def _names_of(spec: type[SessionSpec | StatementSpec]) -> Iterable[str]:
    if issubclass(spec, BaseModel):
        return spec.model_fields
    return [each.name for each in fields(spec)]


def row_to_session(row: RowMapping) -> Session:
    """Build a session from a row of its table."""
    columns: dict[str, Any] = {**row}
    # The column types have validated the values already.
    spec = SessionSpec.model_construct(**_pop(columns, SessionSpec))
    return Session(spec=spec, **columns)


def row_to_statement(row: RowMapping | Mapping[str, Any]) -> Statement:
    """Build a statement from its row, joined with the row of its result if there is one."""
    columns: dict[str, Any] = {**row}
    columns.pop("text_digest", None)
    result = _pop_result(columns)
    spec = StatementSpec(**_pop(columns, StatementSpec))
    return Statement(spec=spec, result=result, **columns)


def _pop(columns: dict[str, Any], spec: type[SessionSpec | StatementSpec]) -> dict[str, Any]:
    return {name: columns.pop(name) for name in _names_of(spec)}


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
