"""`/statements/{id}/result`: read the rows of a statement."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.errors import InvalidRequest
from headrace.frontends.http.api_route import ApiRoute, Numbers, StatementIdPath, wait_seconds
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.early_read import EarlyRead
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.result_responses import (
    MEDIA_TYPES,
    ResultFormat,
    choose_format,
    result_response,
)
from headrace.frontends.rest.schemas import MAX_INTEGER, RowsBody, WaitTimeout
from headrace.results.json_encoding import NumberFormat
from headrace.results.reader import MAX_PAGE_ROWS, RowRange, Selection

router = APIRouter(prefix="/statements", tags=["statements"], route_class=ApiRoute)

_PAGE_ROWS = 1000
"""Largest number of rows of a response to a request with an `offset` alone."""


@router.get(
    "/{statement_id}/result",
    response_model=RowsBody,
    responses={
        200: {
            "content": {
                media_type: {}
                for format_, media_type in MEDIA_TYPES.items()
                if format_ is not ResultFormat.JSON
            },
            "description": "The rows: a chunk, a range of rows, or all of them.",
        },
        **problems(404, 406, 409, 410, 502),
    },
)
async def read_result(
    request: Request,
    caller: Authenticated,
    statement_id: StatementIdPath,
    format: Annotated[  # noqa: A002 - the parameter's public name
        ResultFormat | None,
        Query(
            description="format of the rows; takes precedence over `Accept`. `arrow` is an Arrow "
            "IPC stream, `arrow_file` an Arrow IPC file"
        ),
    ] = None,
    chunk: Annotated[
        int | None,
        Query(
            ge=0,
            le=2**31,
            description="number of a chunk. Without it, JSON has the first chunk, and the other "
            "formats have all rows",
        ),
    ] = None,
    offset: Annotated[
        int | None,
        Query(
            ge=0,
            le=MAX_INTEGER,
            description="position of the first row, from 0; default with `limit`: 0",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        Query(
            ge=1,
            le=MAX_PAGE_ROWS,
            description=f"largest number of rows; default with `offset`: {_PAGE_ROWS}",
        ),
    ] = None,
    wait_timeout: Annotated[
        WaitTimeout | None,
        Query(
            description="how long to wait for the rows: for those of the first finished tasks, if "
            "they can be sent, or for the end of the statement"
        ),
    ] = None,
    numbers: Numbers = NumberFormat.TEXT,
    forward: Annotated[
        bool,
        Query(description="whether another node is asked for rows that a driver of its host holds"),
    ] = True,
) -> Response:
    """Read the rows of a successful statement, in the format that `format` or `Accept` names.

    `chunk` reads a chunk of up to 8 MiB. `offset` and `limit` read a range of rows, without the
    rows before it: the JSON has `next_offset`, which the header `X-Headrace-Next-Offset` repeats
    for all formats. Without any of them, JSON has the first chunk, and the other formats have all
    rows.

    With `wait_timeout`, the response waits for the rows. Without it, a statement that has not ended
    gets 409.

    An Arrow stream of all rows can begin while a query runs, when its first tasks have ended: the
    header `X-Headrace-Early` is then `true`. The last record batch has no rows, and says in
    custom metadata how the result ends. If the statement does not succeed, the connection is cut.
    """
    selection, seconds = _select(chunk, offset, limit), wait_seconds(wait_timeout)
    accept = request.headers.get("accept", "")
    node = node_of(request)
    statement = await run_in_threadpool(node.statements.get, caller, statement_id)
    accepts_part = selection is None and choose_format(format, accept) is ResultFormat.ARROW
    early = EarlyRead(node.async_statements, caller, statement, accepts_part=accepts_part)
    if await early.begin(seconds):
        return early.respond()
    statement = early.statement
    reads = node.async_statements.select_reads(statement)
    return await reads.run(
        result_response,
        node.statements,
        caller,
        statement,
        reads=reads,
        format_=format,
        accept=accept,
        selection=selection,
        numbers=numbers,
        forward=forward,
    )


def _select(chunk: int | None, offset: int | None, limit: int | None) -> Selection:
    """Return the rows to read. Raise InvalidRequest for a chunk together with a range."""
    if offset is None and limit is None:
        return chunk
    if chunk is not None:
        raise InvalidRequest(
            "chunk: A request reads a chunk or a range of rows, not both.",
            hint="Leave out chunk, or offset and limit.",
        )
    return RowRange(offset or 0, limit or _PAGE_ROWS)
