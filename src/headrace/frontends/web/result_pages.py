"""The rows of a statement: as a table on its page, and as files to download."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.policy import Action, Caller, may
from headrace.control.worker_pool import Reads
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.result_responses import stream_response
from headrace.frontends.web.rendering import make_router
from headrace.model.result import Disposition, ResultInfo
from headrace.model.statement import Statement
from headrace.results.formats import arrow, csv, parquet
from headrace.results.formats.csv import show_column
from headrace.results.json_encoding import check_field_names
from headrace.results.reader import RowRange, Rows, Selection

ROWS = 200
"""Rows of a result on one page."""
_COLUMNS, _CELL_CHARACTERS = 100, 1000
_NAME_CHARACTERS = 200
"""Of names and types of columns. A type may have thousands of fields."""
_NAMES_CHARACTERS = 1024 * 1024
"""Of the names of struct fields, which the text of each value repeats."""

router = make_router()


@dataclass(frozen=True, slots=True)
class Grid:
    """Some rows of a result, as text; None is NULL."""

    columns: Sequence[tuple[str, str]]
    """Names and types."""
    rows: Sequence[Sequence[str | None]]
    result: ResultInfo
    offset: int
    """Position of the first row, from 0."""
    hidden_columns: int
    """Number of columns that the page leaves out."""

    @property
    def end(self) -> int:
        """Position behind the last row."""
        return self.offset + len(self.rows)


def read_grid(request: Request, caller: Caller, statement: Statement, offset: int) -> Grid | None:
    """Return rows of a result from a position on; None: the page shows none.

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
    selection = RowRange(offset, ROWS)
    rows = node_of(request).statements.open_result(caller, statement, selection=selection)
    columns = [
        (_cut(column.name, _NAME_CHARACTERS), _cut(column.type.sql, _NAME_CHARACTERS))
        for column in rows.schema.columns[:_COLUMNS]
    ]
    hidden = max(0, len(rows.schema.columns) - _COLUMNS)
    return Grid(columns, _read_cells(rows, selection), result, offset, hidden)


def _read_cells(rows: Rows, selection: RowRange) -> list[list[str | None]]:
    columns = rows.schema.columns[:_COLUMNS]
    types = [column.type for column in rows.schema.columns]
    cells: list[list[str | None]] = []
    for batch in rows.select(selection):
        check_field_names(batch, types, limit=_NAMES_CHARACTERS)
        texts = [
            show_column(array, column.type).to_pylist()
            for array, column in zip(batch.columns, columns, strict=False)
        ]
        cells.extend(
            [None if each is None else _cut(each, _CELL_CHARACTERS) for each in values]
            for values in zip(*texts, strict=True)
        )
    return cells


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
