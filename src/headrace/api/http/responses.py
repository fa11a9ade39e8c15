"""Answers as they go out: serialised once, without a second validation."""

from __future__ import annotations

from fastapi import Response
from pydantic import BaseModel


def json_response(
    body: BaseModel, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A JSON response of a body."""
    return Response(
        body.model_dump_json(by_alias=True), status, headers, media_type="application/json"
    )
