"""The log of a driver, as a page: its end, older parts, and the lines that name errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.errors import HeadraceError, SessionNotFound
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.web.rendering import make_router, render
from headrace.frontends.web.session_pages import SessionPath

PART = 64 * 1024
"""Bytes of a log on one page."""
SEARCHED = 1024 * 1024
"""Bytes of a log in which errors are searched."""
MAX_LINE = 2000
"""Characters of a line on the page."""
_ERRORS = 500
"""Lines that name errors on one page."""
_MAX_TAIL = 16 * 1024 * 1024
"""Bytes that are kept of a log."""
_NAMES_ERROR = re.compile(
    r"\b(ERROR|FATAL|SEVERE)\b|\w(Exception|Error)\b|^\s*Caused by:|^Traceback "
)

router = make_router()


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log."""

    text: str
    omitted: int
    """Number of characters that are left out at its end."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """A part of a log."""

    lines: list[LogLine]
    searched: int
    """Number of bytes of the part."""
    older: int | None
    """Bytes of the log behind its older part; None: there is none."""
    omitted: int = 0
    """Number of earlier lines with errors that the page leaves out."""


@router.get("/sessions/{session}/log")
async def render_log(
    request: Request,
    caller: Authenticated,
    session: SessionPath,
    before: Annotated[int, Query(ge=0, le=_MAX_TAIL - PART)] = 0,
    errors: bool = False,
) -> Response:
    """Show the end of the driver's log, the part before its last bytes, or its errors."""
    node = node_of(request)
    found = await run_in_threadpool(node.sessions.get, caller, session)
    page, error = LogPage([], 0, None), None
    tail = SEARCHED if errors else before + PART
    try:
        end = await node.session_logs.read_async(caller, found.id, tail)
        if errors:
            page = await run_in_threadpool(find_errors, end.text)
        else:
            page = await run_in_threadpool(cut_part, end.text, before, is_cut=end.is_cut)
    except SessionNotFound:
        raise
    except HeadraceError as raised:
        error = raised
    return await run_in_threadpool(
        render,
        request,
        "log.html",
        caller=caller,
        now=await run_in_threadpool(node.read_clock),
        session=found,
        page=page,
        error=error,
        before=before,
        errors=errors,
    )


def cut_part(text: str, before: int, *, is_cut: bool) -> LogPage:
    """Return the part of a log before its last bytes.

    Args:
        text: The end of the log, with at most `before + PART` bytes.
        before: Number of bytes behind the part.
        is_cut: Whether the log has more before the text. The size of the text does not say so,
            because secrets are redacted in it.
    """
    content = text.encode()
    size = len(content)
    part = content[: max(0, size - before)]
    lines = part.decode(errors="replace").removesuffix("\n").split("\n") if part else []
    # Redacted secrets can make a part shorter than others: the older one ends where it begins.
    behind = before + len(part)
    older = behind if is_cut and part and behind + PART <= _MAX_TAIL else None
    return LogPage([cut_line(line) for line in lines], len(part), older)


def find_errors(text: str) -> LogPage:
    """Return the lines of a log that name errors, the last ones if there are many."""
    found = [cut_line(line) for line in text.split("\n") if _NAMES_ERROR.search(line[:MAX_LINE])]
    omitted = max(0, len(found) - _ERRORS)
    return LogPage(found[omitted:], len(text.encode()), None, omitted)


def cut_line(line: str) -> LogLine:
    """Return a line that a page can show."""
    return LogLine(line[:MAX_LINE], max(0, len(line) - MAX_LINE))
