"""Bodies of the request and of the response of a purge."""

from __future__ import annotations

from pydantic import StrictBool

from headrace.api.http.schemas import RequestModel, ResponseModel
from headrace.text.durations import Duration


class PurgeRequest(RequestModel):
    """Body of `POST /history/purge`."""

    older_than: Duration
    """What ended longer ago than this is deleted. More than 0."""
    dry_run: StrictBool = False
    """Only count what would be deleted."""


class PurgeBody(ResponseModel):
    """What a purge has deleted, or would delete."""

    statements: int
    """Ended statements, with their events and table transactions."""
    results: int
    """Results whose rows were deleted, also results that had expired anyway."""
    sessions: int
    """Ended sessions."""
    streams: int
    """Ended streaming queries."""
    jobs: int
    """Deleted jobs, with their versions."""
    deployments: int
    """Ended deployments."""
    more: bool
    """Whether the call is to be repeated, because its time was over."""
