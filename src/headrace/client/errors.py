"""Conversion of HTTP error responses into the exceptions of headrace.errors."""

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

_CLASS_OF_STATUS: dict[int, type[HeadraceError]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    502: NodeUnreachable,
    503: StoreUnavailable,
    504: NodeUnreachable,
}


def error_from_response(status: int, body: bytes) -> HeadraceError:
    """Return the exception for a response with status 400 or above.

    The class is the one whose `code` the response names. For a code that this client does not
    have, the class is derived from the HTTP status, so that the exit code is still right.
    """
    problem = _parse_problem(body)
    detail = problem.get("detail") or problem.get("title") or f"The node responded with {status}."
    line, column = problem.get("line"), problem.get("column")
    position = Position(line, column) if line is not None and column is not None else None
    error_class = _error_class(str(problem.get("code", f"http_{status}")), status)
    problems = problem.get("problems")
    error = error_class(
        str(detail),
        position=position,
        hint=problem.get("hint"),
        problems=problems if isinstance(problems, list) else (),
    )
    return error.with_condition(
        problem.get("condition", error.condition), problem.get("sqlstate", error.sqlstate)
    )


def _parse_problem(body: bytes) -> dict[str, Any]:
    """Return the problem document of a body; empty if the body is not a JSON object."""
    try:
        problem = json.loads(body)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def exit_code_of(code: str) -> int:
    """Return the exit code for the code of an error."""
    error_class = class_of(code)
    return HeadraceError.exit_code if error_class is None else error_class.exit_code


def class_of(code: str) -> type[HeadraceError] | None:
    """Return the class of a code; None if this client does not have it."""
    return next((each for each in _subclasses(HeadraceError) if each.code == code), None)


def _error_class(code: str, status: int) -> type[HeadraceError]:
    error_class = class_of(code)
    if error_class is not None:
        return error_class
    base = _CLASS_OF_STATUS.get(status, InvalidRequest if status < 500 else HeadraceError)
    return type("RemoteError", (base,), {"code": code, "status": status})


def _subclasses(parent: type[HeadraceError]) -> Iterator[type[HeadraceError]]:
    yield parent
    for child in parent.__subclasses__():
        if child.__name__ != "RemoteError":
            yield from _subclasses(child)
