"""Parameters that several routes share, with their meaning for the reference."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Path, Query

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
    """Return a `wait_timeout` in seconds."""
    return 0.0 if wait is None else wait.total_seconds()
