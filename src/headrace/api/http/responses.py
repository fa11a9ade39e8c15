"""JSON responses from bodies that are already validated."""

from __future__ import annotations

from fastapi import Response
from pydantic import BaseModel


def json_response(
    body: BaseModel, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a JSON response. The body is serialised once, without FastAPI's second validation."""
    return Response(
        body.model_dump_json(by_alias=True), status, headers, media_type="application/json"
    )
