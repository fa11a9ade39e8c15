"""`/tokens`: create, list, revoke."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from headrace.frontends.http.api_route import (
    AllOwners,
    ApiRoute,
    Before,
    Limit,
    json_response,
    split_page,
)
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.examples import AT
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import (
    Instant,
    Json,
    RequestModel,
    ResponseModel,
    fill,
    has_examples,
    page_of,
)
from headrace.model.identity import LONGEST_TOKEN, SHORTEST_TOKEN, Scope
from headrace.model.lifecycle import TokenState
from headrace.text.durations import limit_duration

if TYPE_CHECKING:
    Lifetime = timedelta
else:
    Lifetime = limit_duration(LONGEST_TOKEN, shortest=SHORTEST_TOKEN)

_TOKEN_ID = "tk_0193f4a8c2d17b3e9f60a1b2c3d4e5f6"  # noqa: S105 - an id in an example
_TOKEN: Json = {
    "id": _TOKEN_ID,
    "owner": "ada",
    "name": "dashboard",
    "scope": "read",
    "state": "live",
    "created_by": "ada",
    "created_at": AT,
    "expires_at": "2027-02-22T10:00:00.000000Z",
    "last_used_at": None,
    "ended_at": None,
}
_TEXT = "hr_0193f4a8c2d17b3e9f60a1b2c3d4e5f6_…"


@has_examples({"name": "dashboard", "expires": "90d", "scope": "read"})
class TokenRequest(RequestModel):
    """Body of `POST /tokens`."""

    name: str = Field(json_schema_extra={"pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"})
    """Name, unique among the owner's tokens that are not revoked."""
    expires: Lifetime
    """Time after which the token expires."""
    scope: Scope = Scope.SUBMIT
    """What the token allows at most. `read`: to read; `submit`: to create and change objects too;
    `admin`: all that the roles of its owner allow."""
    owner: str | None = None
    """Owner for whom the token acts: the caller, or `group:NAME` for a group of the caller.
    Default: the caller."""


@has_examples(_TOKEN)
class TokenBody(ResponseModel):
    """A token, without its text."""

    id: str
    """Id of the token."""
    owner: str
    """Owner for whom it acts."""
    name: str
    """Name of the token."""
    scope: Scope | str
    """What it allows at most."""
    state: TokenState | str
    """`live` or `revoked`. A live token may have expired."""
    created_by: str
    """User who has created it."""
    created_at: Instant
    """When it was created."""
    expires_at: Instant
    """When it expires."""
    last_used_at: Instant | None
    """When it was last used, to a minute; null: never."""
    ended_at: Instant | None
    """When it was revoked; null: it was not."""


@has_examples({**_TOKEN, "token": _TEXT})
class CreatedTokenBody(TokenBody):
    """A new token."""

    token: str
    """Text of the token, for `Authorization: Bearer`. It is shown only here."""


@has_examples(page_of(_TOKEN))
class TokenPage(ResponseModel):
    """A page of tokens."""

    items: list[TokenBody]
    """The tokens."""
    next: str | None
    """Value of `before` for the next page; null: the page is the last."""


router = APIRouter(prefix="/tokens", tags=["tokens"], route_class=ApiRoute)

TokenRef = Annotated[str, Path(max_length=100, description="Id or name of the token.")]


@router.post("", status_code=201, response_model=CreatedTokenBody, responses=problems(409, 415))
def create_token(request: Request, caller: Authenticated, body: TokenRequest) -> Response:
    """Create a token. Only this response has its text."""
    created = node_of(request).tokens.create(
        caller, name=body.name, expires=body.expires, scope=body.scope, owner=body.owner
    )
    return json_response(fill(CreatedTokenBody, created.token, token=created.text), 201)


@router.get("", response_model=TokenPage)
def list_tokens(
    request: Request,
    caller: Authenticated,
    before: Before = None,
    limit: Limit = 100,
    all_owners: AllOwners = False,
) -> Response:
    """List the tokens of the caller and of its groups, newest first."""
    found = node_of(request).tokens.page(
        caller, before=before, limit=limit + 1, all_owners=all_owners
    )
    page, next_ = split_page(found, limit)
    return json_response(TokenPage(items=[fill(TokenBody, item) for item in page], next=next_))


@router.delete("/{token}", response_model=TokenBody, responses=problems(404, 409))
def revoke_token(request: Request, caller: Authenticated, token: TokenRef) -> Response:
    """Revoke a token, by id or name. All nodes refuse it within two seconds."""
    return json_response(fill(TokenBody, node_of(request).tokens.revoke(caller, token)))
