"""Responses with the rows of a result: the format is negotiated, and large results are streamed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from enum import StrEnum

from fastapi import Response
from fastapi.responses import StreamingResponse

from headrace.control.policy import Caller
from headrace.control.statements.service import Statements
from headrace.control.worker_pool import Reads
from headrace.errors import NotAcceptable, ResultGone
from headrace.frontends.http.api_route import json_response
from headrace.frontends.rest.serializers import statement_body
from headrace.model.result import Disposition
from headrace.model.statement import Statement
from headrace.results.formats import arrow, csv, json, parquet
from headrace.results.json_encoding import NumberFormat
from headrace.results.reader import RowRange, Selection, find_next_offset


def preferred_media_type(accept: str, offered: Sequence[str]) -> str | None:
    """Return the offered media type with the highest quality; None if none is accepted.

    Among equals, the order of the header decides, then the order of the offer. An empty header
    accepts anything.
    """
    ranges = [_parse_range(part) for part in accept.split(",") if part.strip()]
    if not ranges:
        return offered[0]
    ranked = [
        (-quality, range_index, index)
        for index, media_type in enumerate(offered)
        for quality, range_index in [_match(media_type, ranges)]
        if quality > 0
    ]
    return offered[min(ranked)[2]] if ranked else None


def _parse_range(part: str) -> tuple[str, float]:
    """Return a media range and its quality; other parameters are ignored."""
    name, *parameters = (item.strip().lower() for item in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            return name, _parse_quality(value.strip())
    return name, 1.0


def _parse_quality(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0


def _match(media_type: str, ranges: Iterable[tuple[str, float]]) -> tuple[float, int]:
    """Return the quality and the index of the most specific range that matches a media type."""
    group = media_type.partition("/")[0]
    best = (-1, 0.0, 0)
    for index, (name, quality) in enumerate(ranges):
        specificity = {media_type: 2, f"{group}/*": 1, "*/*": 0}.get(name, -1)
        if specificity > best[0]:
            best = (specificity, quality, index)
    return best[1], best[2]


_LOG = logging.getLogger("headrace.api")


class ResultFormat(StrEnum):
    """Formats in which rows can be read."""

    JSON = "json"
    ARROW = "arrow"  # an IPC stream
    ARROW_FILE = "arrow_file"
    CSV = "csv"
    PARQUET = "parquet"


MEDIA_TYPES = {
    ResultFormat.JSON: "application/json",
    ResultFormat.ARROW: "application/vnd.apache.arrow.stream",
    ResultFormat.ARROW_FILE: "application/vnd.apache.arrow.file",
    ResultFormat.CSV: "text/csv",
    ResultFormat.PARQUET: "application/vnd.apache.parquet",
}
_WRITERS = {
    ResultFormat.ARROW: arrow.write,
    ResultFormat.ARROW_FILE: arrow.write_file,
    ResultFormat.CSV: csv.write,
    ResultFormat.PARQUET: parquet.write,
}
_BUFFERED_BYTES = 256 * 1024
"""Bytes that are produced before a response begins, so that an early error has its own status."""
_READ_BYTES = 1024 * 1024
"""Bytes that a thread reads before they are sent."""
SUBMIT_ROWS_BYTES = 256 * 1024
"""Largest result, in bytes of record batches, whose rows are in the response to a submit."""


def statement_url(statement: Statement) -> str:
    """Return the path of a statement."""
    return f"/api/v1/statements/{statement.id}"


def result_response(
    statements: Statements,
    caller: Caller,
    statement: Statement,
    *,
    reads: Reads,
    format_: ResultFormat | None,
    accept: str,
    selection: Selection,
    numbers: NumberFormat,
    forward: bool = True,
) -> Response:
    """Return the rows of a statement in the requested format.

    Args:
        reads: Threads that read the rows of a large result after the response has begun.
        format_: The format; None negotiates it by the header `accept`.
        selection: The rows. None: the first chunk as JSON, all rows in the other formats.
        forward: Whether another node may be asked for rows that a driver of its host holds.

    Raises:
        NotAcceptable: If no format fits the header `accept`.
    """
    result_format = choose_format(format_, accept)
    if result_format is ResultFormat.JSON and selection is None:
        selection = 0
    rows = statements.open_result(caller, statement, selection=selection, forward=forward)
    if result_format is ResultFormat.JSON:
        content = json.write(rows, selection, numbers=numbers)
    else:
        content = _WRITERS[result_format](rows, selection)
    truncated = statement.result is not None and statement.result.truncated
    headers = {"X-Headrace-Truncated": "true" if truncated else "false"}
    following = find_next_offset(rows, selection) if isinstance(selection, RowRange) else None
    if following is not None:
        headers["X-Headrace-Next-Offset"] = str(following)
    return stream_response(content, MEDIA_TYPES[result_format], headers, reads=reads)


def submit_response(
    statements: Statements,
    caller: Caller,
    statement: Statement,
    data: bytes | None,
    *,
    numbers: NumberFormat,
) -> Response:
    """Return the response to a submit: the statement, with the rows of a small inline result.

    For any other result, `next_chunk` is the chunk with which the rows begin. To read the files of
    a stored result here could block the answers to other submits.

    A result that cannot be read has no rows either: the error is in the response to the read of
    this chunk. An error response here would hide the id of a statement that was accepted.

    Args:
        data: The rows of an inline result, if they are read already; else None.
    """
    body, headers = statement_body(statement), {"Location": statement_url(statement)}
    if statement.result is None or statement.result.gone:
        return json_response(body, 201, headers)
    is_inline = statement.result.disposition is Disposition.INLINE
    if not is_inline or statement.result.byte_count > SUBMIT_ROWS_BYTES:
        return json_response(body.model_copy(update={"next_chunk": 0}), 201, headers)
    try:
        rows = statements.open_result(caller, statement, data=data)
        values = b"".join(json.write_rows(rows, 0, numbers=numbers))
    except ResultGone:
        return json_response(body, 201, headers)
    except Exception:  # noqa: BLE001 - the statement runs, whatever its result is
        _LOG.exception("Cannot read the result of statement %s.", statement.id)
        return json_response(body.model_copy(update={"next_chunk": 0}), 201, headers)
    head = body.model_dump_json(by_alias=True, exclude={"rows", "next_chunk"}).encode()[:-1]
    next_chunk = b"1" if rows.chunks > 1 else b"null"
    content = head + b',"rows":' + values + b',"next_chunk":' + next_chunk + b"}"
    return Response(content, 201, headers, media_type="application/json")


def stream_response(
    content: Iterator[bytes],
    media_type: str,
    headers: dict[str, str] | None = None,
    *,
    reads: Reads,
) -> Response:
    """Return a response with this content, streamed if it is large.

    The first bytes are produced before the response begins, so that a result that cannot be read
    becomes an error response. A later failure can only cut the connection.
    """
    blocks, size = [], 0
    for block in content:
        blocks.append(block)
        size += len(block)
        if size >= _BUFFERED_BYTES:
            remainder = _stream(b"".join(blocks), content, reads)
            return StreamingResponse(remainder, headers=headers, media_type=media_type)
    return Response(b"".join(blocks), headers=headers, media_type=media_type)


async def _stream(start: bytes, content: Iterator[bytes], reads: Reads) -> AsyncIterator[bytes]:
    """Yield the first bytes, then each block as a thread of the pool produces it."""
    yield start
    while blocks := await reads.run(read_blocks, content):
        for block in blocks:
            yield block


def read_blocks(content: Iterator[bytes]) -> list[bytes]:
    """Return the next blocks: some, since each call is a change of threads; none at the end."""
    blocks, size = [], 0
    for block in content:
        blocks.append(block)
        size += len(block)
        if size >= _READ_BYTES:
            break
    return blocks


def choose_format(format_: ResultFormat | None, accept: str) -> ResultFormat:
    """Return the format that a request names, or else the one that fits the header `accept`.

    Raises NotAcceptable.
    """
    if format_ is not None:
        return format_
    media_type = preferred_media_type(accept, list(MEDIA_TYPES.values()))
    if media_type is None:
        raise NotAcceptable(
            f"A result cannot be sent as {accept!r}. "
            f"Media types: {', '.join(MEDIA_TYPES.values())}."
        )
    return next(format_ for format_, offered in MEDIA_TYPES.items() if offered == media_type)
