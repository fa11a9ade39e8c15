"""The rows of a statement: as a table on its page, one value as text, and files to download."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import pyarrow.compute as pc
from fastapi import Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.policy import Action, Caller, may
from headrace.control.worker_pool import Reads
from headrace.errors import FormatCannotHold, InvalidRequest, InvalidResult, NotFound
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.result_responses import stream_response
from headrace.frontends.rest.schemas import MAX_INTEGER
from headrace.frontends.web.rendering import PAGE_HEADERS, make_router
from headrace.model.result import Disposition, ResultInfo
from headrace.model.statement import Statement
from headrace.results.formats import arrow, csv, parquet
from headrace.results.formats.csv import show_column
from headrace.results.json_encoding import check_field_names
from headrace.results.reader import RowRange, Rows, Selection
from headrace.results.schema import Column, parse_schema
from headrace.text.readable import describe_bytes

ROWS = 200
"""Rows of a result on one page."""
COLUMNS = 100
"""Columns of a result on one page."""
CELL_CHARACTERS = 1000
"""What a page shows of one value."""
_NAME_CHARACTERS = 200
"""Of names and types of columns. A type may have thousands of fields."""
_NAMES_CHARACTERS = 1024 * 1024
"""Of the names of struct fields, which the text of each value repeats."""

Position = Annotated[int, Query(ge=0, le=MAX_INTEGER)]

router = make_router()


@dataclass(frozen=True, slots=True)
class Grid:
    """Some rows of a result, as text; None is NULL."""

    columns: Sequence[tuple[str, str]]
    """Names and types."""
    rows: Sequence[Sequence[str | None]]
    """A value that is longer than `CELL_CHARACTERS` is cut, with a mark at its end."""
    result: ResultInfo
    offset: int
    """Position of the first row, from 0."""
    first_column: int
    """Position of the first column, from 0."""
    column_count: int
    """Number of columns of the result."""

    @property
    def end(self) -> int:
        """Position behind the last row."""
        return self.offset + len(self.rows)

    @property
    def column_end(self) -> int:
        """Position behind the last column."""
        return self.first_column + len(self.columns)


@dataclass(frozen=True, slots=True)
class GridStart:
    """The part of a result that a page shows: positions of its first row and column, from 0."""

    row: int = 0
    column: int = 0

    @property
    def chosen(self) -> dict[str, str]:
        """What the address names of it."""
        return {name: str(at) for name, at in (("row", self.row), ("column", self.column)) if at}


def read_start(row: Position = 0, column: Position = 0) -> GridStart:
    """Return the part of a result that a request asks for."""
    return GridStart(row, column)


ShownPart = Annotated[GridStart, Depends(read_start)]


def read_grid(
    request: Request, caller: Caller, statement: Statement, start: GridStart
) -> Grid | None:
    """Return rows and columns of a result from a position on; None: the page shows none.

    A page does not wait for a driver: it leaves out rows that only a driver holds.
    """
    result = statement.result
    if (
        result is None
        or result.gone
        or result.disposition is Disposition.MEMORY
        or not may(caller, Action.READ_CONTENT, statement)
    ):
        return None
    selection = RowRange(start.row, ROWS)
    rows = node_of(request).statements.open_result(caller, statement, selection=selection)
    count = len(rows.schema.columns)
    first = start.column if start.column < count else 0
    shown = range(count)[first : first + COLUMNS]
    columns = [_name_column(rows.schema.columns[index]) for index in shown]
    cells = _read_cells(rows, selection, shown)
    return Grid(columns, cells, result, start.row, first, count)


def list_columns(result: ResultInfo) -> list[tuple[str, str]]:
    """Return names and types of the first columns of a result, which stay when its rows are gone.

    The list is empty if the types are those of a newer version of Spark.
    """
    with suppress(InvalidResult, FormatCannotHold):
        return [_name_column(each) for each in parse_schema(result.spark_schema).columns[:COLUMNS]]
    return []


def _name_column(column: Column) -> tuple[str, str]:
    return _cut(column.name, _NAME_CHARACTERS), _cut(column.type.sql, _NAME_CHARACTERS)


def _read_cells(rows: Rows, selection: RowRange, shown: Sequence[int]) -> list[list[str | None]]:
    types = [rows.schema.columns[index].type for index in shown]
    cells: list[list[str | None]] = []
    for batch in rows.select(selection):
        part = batch.select(shown)
        check_field_names(part, types, limit=_NAMES_CHARACTERS)
        texts = [
            # Before they are objects of Python: a value may have megabytes.
            pc.utf8_slice_codeunits(show_column(array, kind), 0, CELL_CHARACTERS + 1).to_pylist()
            for array, kind in zip(part.columns, types, strict=True)
        ]
        cells.extend(
            [None if each is None else _cut(each, CELL_CHARACTERS) for each in values]
            for values in zip(*texts, strict=True)
        )
    return cells


@router.get("/statements/{statement_id}/cell")
async def render_cell(
    request: Request,
    caller: Authenticated,
    statement_id: str,
    start: ShownPart,
) -> Response:
    """Send one value of a result as text, whole: a page shows the begin of a long one."""
    node = node_of(request)
    statement = await run_in_threadpool(node.statements.get, caller, statement_id)
    reads = node.async_statements.select_reads(statement)
    text = await reads.run(_read_value, request, caller, statement, start)
    return Response(text, media_type="text/plain; charset=utf-8", headers=PAGE_HEADERS)


_MOST_BYTES = 16 * 2**20
"""Largest value that a page shows as text."""


def _read_value(request: Request, caller: Caller, statement: Statement, start: GridStart) -> str:
    selection = RowRange(start.row, 1)
    rows = node_of(request).statements.open_result(caller, statement, selection=selection)
    columns = rows.schema.columns
    if start.column < len(columns):
        kind = columns[start.column].type
        for batch in rows.select(selection):
            part = batch.select([start.column])
            if part.nbytes > _MOST_BYTES:
                raise InvalidRequest(
                    f"The value is larger than {describe_bytes(_MOST_BYTES)}.",
                    hint="Download the rows: Parquet and Arrow have each value whole.",
                )
            check_field_names(part, [kind], limit=_NAMES_CHARACTERS)
            for value in show_column(part.column(0), kind).to_pylist():
                return "" if value is None else str(value)
    raise NotFound("The result has no such row or column.")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


class DownloadFormat(StrEnum):
    """Files that a page offers for a result."""

    CSV = "csv"
    EXCEL = "excel.csv"  # with what Excel needs, and without formulas
    PARQUET = "parquet"
    ARROW = "arrow"


_Write = Callable[[Rows, Selection], Iterator[bytes]]
_DOWNLOADS: dict[DownloadFormat, tuple[_Write, str]] = {
    DownloadFormat.CSV: (csv.write, "text/csv; charset=utf-8"),
    DownloadFormat.EXCEL: (csv.write_for_excel, "text/csv; charset=utf-8"),
    DownloadFormat.PARQUET: (parquet.write, "application/vnd.apache.parquet"),
    DownloadFormat.ARROW: (arrow.write_file, "application/vnd.apache.arrow.file"),
}


@router.get("/statements/{statement_id}/rows.{ending}")
async def download_rows(
    request: Request, caller: Authenticated, statement_id: str, ending: DownloadFormat
) -> Response:
    """Send all stored rows of a statement as a file."""
    node = node_of(request)
    statement = await run_in_threadpool(node.statements.get, caller, statement_id)
    reads = node.async_statements.select_reads(statement)
    return await reads.run(_open_file, request, caller, statement, ending, reads=reads)


def _open_file(
    request: Request, caller: Caller, statement: Statement, ending: DownloadFormat, *, reads: Reads
) -> Response:
    rows = node_of(request).statements.open_result(caller, statement)
    write, media_type = _DOWNLOADS[ending]
    # A reader of the file must see that rows are missing.
    is_cut = statement.result is not None and statement.result.truncated
    name = f"{statement.id}{'-truncated' if is_cut else ''}.{ending}"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return stream_response(write(rows, None), media_type, headers, reads=reads)
