"""`/quota`: the limits of an owner, and what it uses."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headrace.frontends.http.api_route import ApiRoute, json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import Json, ResponseModel, fill, has_examples

_LINE: Json = {
    "name": "sessions",
    "value": 100,
    "used": 3,
    "setting": "limits.sessions_per_user",
}


@has_examples(_LINE)
class QuotaLineBody(ResponseModel):
    """A limit of an owner."""

    name: str
    """What is limited: the key of the quota of a user or a group."""
    value: int | str | None
    """The limit: a number, or a duration such as `1h`; null: no limit."""
    used: int | None
    """The present use, over all nodes; null: nothing is counted."""
    setting: str | None
    """Setting by which an administrator changes the limit; null: the default, which no setting
    changes for this owner."""


@has_examples({"owner": "group:corp:etl", "limits": [_LINE]})
class QuotaBody(ResponseModel):
    """The limits of an owner."""

    owner: str
    """The user or the group."""
    limits: list[QuotaLineBody]
    """All limits, also those that are not set. `weight` is the share of the owner while statements
    or driver starts are scarce."""


router = APIRouter(tags=["quota"], route_class=ApiRoute)


@router.get("/quota", response_model=QuotaBody, responses=problems(404))
def show_quota(
    request: Request,
    caller: Authenticated,
    owner: Annotated[
        str | None,
        Query(
            pattern=r"^([a-z0-9._-]{1,80}|group:[^\x00]{1,300})$",
            description="`group:NAME`, a group of the caller; for operators, auditors and"
            " administrators, the id of any user, or `group:SOURCE:NAME`; default: the caller",
        ),
    ] = None,
) -> Response:
    """Show the limits of an owner, the setting of each, and the present use."""
    quota = node_of(request).quotas.show(caller, owner)
    lines = [fill(QuotaLineBody, line) for line in quota.limits]
    return json_response(QuotaBody(owner=quota.owner, limits=lines))
