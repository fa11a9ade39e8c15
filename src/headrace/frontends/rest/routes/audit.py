"""`/audit`: who did, read, or was refused what."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from headrace.frontends.http.api_route import (
    ApiRoute,
    Before,
    Limit,
    json_response,
    split_page,
)
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.examples import AT, NODE_ID, STATEMENT_ID
from headrace.frontends.rest.schemas import (
    Instant,
    Json,
    ResponseModel,
    fill,
    has_examples,
    page_of,
)
from headrace.model.audit import AuditAction

_RECORD: Json = {
    "id": "au_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
    "at": AT,
    "node_id": NODE_ID,
    "action": "result_read",
    "actor": "ada",
    "token_id": None,
    "address": "192.0.2.7",
    "target": STATEMENT_ID,
    "detail": {"owner": "group:corp:etl", "times": 1, "rows": 42},
}


@has_examples(_RECORD)
class AuditBody(ResponseModel):
    """A record of the audit."""

    id: str
    """Id of the record."""
    at: Instant
    """When the store received it: for reads and refusals, up to a second after the action."""
    node_id: str
    """Node that has written it."""
    action: AuditAction | str
    """What it is about."""
    actor: str | None
    """User who acted; null: not known."""
    token_id: str | None
    """Token with which the user acted; null: without one."""
    address: str | None
    """IP address of the client, or of the proxy before the node."""
    target: str | None
    """Id of the object: a statement, token, user or node."""
    detail: dict[str, Any]
    """For a read: `owner` of the statement, `rows` (null: not known) and `times`. For a refusal:
    `method`, `path`, `code` or `reason`, and `times`."""


@has_examples(page_of(_RECORD))
class AuditPage(ResponseModel):
    """A page of records."""

    items: list[AuditBody]
    """The records, newest first."""
    next: str | None
    """Value of `before` for the next page; null: the page is the last."""


router = APIRouter(prefix="/audit", tags=["audit"], route_class=ApiRoute)


@router.get("", response_model=AuditPage)
def list_audit(
    request: Request,
    caller: Authenticated,
    action: Annotated[
        AuditAction | None, Query(description="only records about this action")
    ] = None,
    actor: Annotated[
        str | None, Query(pattern=r"^[a-z0-9._-]{1,80}$", description="only records of this user")
    ] = None,
    target: Annotated[
        str | None, Query(pattern=r"^[a-z0-9._-]{1,80}$", description="only records of this object")
    ] = None,
    before: Before = None,
    limit: Limit = 100,
) -> Response:
    """List records of sign-ins that failed, refusals, reads of results and administration."""
    found = node_of(request).context.audit.page(
        caller, action=action, actor=actor, target=target, before=before, limit=limit + 1
    )
    page, next_ = split_page(found, limit)
    return json_response(AuditPage(items=[fill(AuditBody, item) for item in page], next=next_))
