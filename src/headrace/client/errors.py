"""Answers that are errors, as the classes of headrace.errors that they were at the node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headrace.errors import (
    Conflict,
    HeadraceError,
    InvalidRequest,
    NodeUnreachable,
    NotFound,
    Position,
    StoreUnavailable,
    Unauthorized,
)

_BY_STATUS: dict[int, type[HeadraceError]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    502: NodeUnreachable,
    503: StoreUnavailable,
    504: NodeUnreachable,
}


def from_answer(status: int, body: bytes) -> HeadraceError:
    """The error that an answer of status 400 or above tells.

    The class is the one with the answer's `code`; for a code that this client does not know, one
    derived from what the status means, so that the exit code still fits.
    """
    problem = _problem(body)
    detail = problem.get("detail") or problem.get("title") or f"The node answered {status}."
    line, column = problem.get("line"), problem.get("column")
    position = Position(line, column) if line is not None and column is not None else None
    kind = _class(str(problem.get("code", f"http_{status}")), status)
    return kind(str(detail), position=position, hint=problem.get("hint"))


def _problem(body: bytes) -> dict[str, Any]:
    try:
        problem = json.loads(body)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _class(code: str, status: int) -> type[HeadraceError]:
    for known in _subclasses(HeadraceError):
        if known.code == code:
            return known
    base = _BY_STATUS.get(status, InvalidRequest if status < 500 else HeadraceError)
    return type("RemoteError", (base,), {"code": code, "status": status})


def _subclasses(parent: type[HeadraceError]) -> Iterator[type[HeadraceError]]:
    yield parent
    for child in parent.__subclasses__():
        if child.__name__ != "RemoteError":
            yield from _subclasses(child)
