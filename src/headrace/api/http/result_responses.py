"""Results as HTTP answers: which format is asked for, and the rows in it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import chain

import pyarrow as pa
from fastapi import Response
from fastapi.responses import StreamingResponse

from headrace.api.http.content_negotiation import preferred_media_type
from headrace.api.http.responses import json_response
from headrace.api.http.serializers import statement_body
from headrace.control.node import Node
from headrace.errors import NoResult, NotAcceptable, ResultGone, ResultNotReady
from headrace.model.lifecycle import STATEMENT
from headrace.model.result import Disposition
from headrace.model.statement import Statement
from headrace.results.formats import arrow, csv, json, parquet
from headrace.results.json_encoding import NumberFormat
from headrace.results.reader import Rows, open_rows
from headrace.store import results


class ResultFormat(StrEnum):
    JSON = "json"
    ARROW = "arrow"
    CSV = "csv"
    PARQUET = "parquet"


MEDIA_TYPES = {
    ResultFormat.JSON: "application/json",
    ResultFormat.ARROW: "application/vnd.apache.arrow.stream",
    ResultFormat.CSV: "text/csv",
    ResultFormat.PARQUET: "application/vnd.apache.parquet",
}
_BEGINNING = 256 * 1024
_ROWS_BYTES = 256 * 1024
"""Of record batches: up to here, rows come in the answer to their submit."""
_WRITERS = {
    ResultFormat.ARROW: arrow.write,
    ResultFormat.CSV: csv.write,
    ResultFormat.PARQUET: parquet.write,
}


def warm_up() -> None:
    """Loads what the first result would wait for: pyarrow imports pandas when it first converts."""
    pa.array([0])


def open_result(node: Node, statement: Statement) -> Rows:
    """The rows of a successful statement.

    Raises ResultNotReady before its end, NoResult when it did not succeed, ResultGone when its rows
    are no longer kept, ResultsUnavailable.
    """
    if statement.state not in STATEMENT.terminal:
        raise ResultNotReady(f"Statement {statement.id} is {statement.state}: no result yet.")
    if statement.result is None:
        raise NoResult(f"Statement {statement.id} ended as {statement.state}: it has no result.")
    inline = None
    if statement.result.disposition is Disposition.INLINE and not statement.result.gone:
        with node.database.read() as tx:
            inline = results.inline_data(tx, statement.id)
    return open_rows(statement.result, inline)


def result_response(
    node: Node,
    statement: Statement,
    *,
    wanted: ResultFormat | None,
    accept: str,
    chunk: int | None,
    numbers: NumberFormat,
) -> Response:
    """The rows in the wanted format. JSON is one chunk, the first unless told otherwise; the other
    formats stream the whole result unless one chunk is asked for."""
    chosen = wanted or _accepted(accept)
    rows = open_result(node, statement)
    if chosen is ResultFormat.JSON:
        content = json.write(rows, chunk or 0, numbers=numbers)
    else:
        content = _WRITERS[chosen](rows, chunk)
    truncated = {"X-Headrace-Truncated": "true" if _truncated(statement) else "false"}
    return stream_response(content, MEDIA_TYPES[chosen], truncated)


def statement_url(statement: Statement) -> str:
    """Where a statement is found."""
    return f"/api/v1/statements/{statement.id}"


def submit_response(node: Node, statement: Statement, *, numbers: NumberFormat) -> Response:
    """The answer to a submit: the statement as it is, with its rows when they are few.

    With more rows, `next_chunk` says where they begin.
    """
    body, headers = statement_body(statement), {"Location": statement_url(statement)}
    if statement.result is None or statement.result.gone:
        return json_response(body, 201, headers)
    if statement.result.byte_count > _ROWS_BYTES:
        return json_response(body.model_copy(update={"next_chunk": 0}), 201, headers)
    try:
        rows = open_result(node, statement)
    except ResultGone:
        return json_response(body, 201, headers)
    head = body.model_dump_json(by_alias=True, exclude={"rows", "next_chunk"}).encode()[:-1]
    values = b"".join(json.write_rows(rows, 0, numbers=numbers))
    following = b"1" if rows.chunks > 1 else b"null"
    content = head + b',"rows":' + values + b',"next_chunk":' + following + b"}"
    return Response(content, 201, headers, media_type="application/json")


def _truncated(statement: Statement) -> bool:
    return statement.result is not None and statement.result.truncated


def _accepted(accept: str) -> ResultFormat:
    """The format that an Accept header likes best. Raises NotAcceptable when it takes none."""
    chosen = preferred_media_type(accept, list(MEDIA_TYPES.values()))
    if chosen is None:
        raise NotAcceptable(
            f"No result can be given as {accept!r}; there are: {', '.join(MEDIA_TYPES.values())}."
        )
    return next(format_ for format_, kind in MEDIA_TYPES.items() if kind == chosen)


def stream_response(
    content: Iterator[bytes], media_type: str, headers: dict[str, str] | None = None
) -> Response:
    """A response of this content, its beginning made now: what cannot be read or written is then
    an error. Later, all that is left is to cut the connection."""
    pieces, size = [], 0
    for piece in content:
        pieces.append(piece)
        size += len(piece)
        if size >= _BEGINNING:
            whole = chain(pieces, content)
            return StreamingResponse(whole, headers=headers, media_type=media_type)
    return Response(b"".join(pieces), headers=headers, media_type=media_type)
