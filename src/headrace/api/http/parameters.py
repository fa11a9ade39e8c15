"""Parameters that several routes share, with their meaning for the reference."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Path, Query

from headrace.api.http.schemas import LONGEST_WAIT
from headrace.errors import InvalidRequest
from headrace.results.json_encoding import NumberFormat

SessionRef = Annotated[str, Path(description="id of the session, or its name while it is live")]
StatementIdPath = Annotated[str, Path(description="id of the statement")]

Numbers = Annotated[
    NumberFormat,
    Query(
        description="bigint and decimal in JSON: `text` sends strings, `plain` sends numbers where "
        "a double holds them exactly, `always` sends numbers"
    ),
]


def wait_seconds(wait: timedelta | None) -> float:
    """Return a `wait_timeout` in seconds. Raise InvalidRequest if it is too long."""
    if wait is None:
        return 0.0
    if wait > LONGEST_WAIT:
        raise InvalidRequest(
            f"wait_timeout: {wait.total_seconds():g}s is longer than the maximum, "
            f"{LONGEST_WAIT.total_seconds():g}s."
        )
    return wait.total_seconds()
