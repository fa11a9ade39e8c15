"""`/users`: list, disable, enable."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from headrace.frontends.http.api_route import ApiRoute, Limit, json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.examples import AT
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import (
    Instant,
    Json,
    ResponseModel,
    fill,
    has_examples,
    page_of,
)

_USER: Json = {
    "id": "ada",
    "source": "https://login.example.com",
    "subject": "00u1a2b3c4",
    "name": "Ada",
    "groups": ["etl"],
    "created_at": AT,
    "seen_at": AT,
    "disabled_at": None,
}


@has_examples(_USER)
class UserBody(ResponseModel):
    """A person or program that has signed in."""

    id: str
    """Owner of the user's objects. It never changes."""
    source: str
    """Where the user comes from: `os` for who runs the node, or the URL of an issuer."""
    subject: str
    """Identifier of the user in the source."""
    name: str
    """Name in the source."""
    groups: list[str]
    """Groups in the source at the last sign-in."""
    created_at: Instant
    """First sign-in."""
    seen_at: Instant
    """Last sign-in, to a minute."""
    disabled_at: Instant | None
    """Since when the user may not sign in; null: the user may."""


@has_examples(page_of(_USER))
class UserPage(ResponseModel):
    """A page of users."""

    items: list[UserBody]
    """The users, by id."""
    next: str | None
    """Value of `after` for the next page; null: the page is the last."""


router = APIRouter(prefix="/users", tags=["users"], route_class=ApiRoute)

UserRef = Annotated[str, Path(max_length=100, description="Id of the user.")]
After = Annotated[
    str | None, Query(pattern=r"^[a-z0-9._-]{1,80}$", description="the `next` of the previous page")
]


@router.get("", response_model=UserPage)
def list_users(
    request: Request, caller: Authenticated, after: After = None, limit: Limit = 100
) -> Response:
    """List the users who have signed in, by id."""
    found = node_of(request).accounts.page(caller, after=after, limit=limit + 1)
    page = [fill(UserBody, user, groups=sorted(user.groups)) for user in found[:limit]]
    return json_response(UserPage(items=page, next=page[-1].id if len(found) > limit else None))


@router.post("/{user}/disable", response_model=UserBody, responses=problems(404))
def disable_user(request: Request, caller: Authenticated, user: UserRef) -> Response:
    """Refuse a user and its tokens, at all nodes within two seconds. What it owns goes on."""
    return _set_disabled(request, caller, user, is_disabled=True)


@router.post("/{user}/enable", response_model=UserBody, responses=problems(404))
def enable_user(request: Request, caller: Authenticated, user: UserRef) -> Response:
    """Let a disabled user sign in again. Its tokens that have not expired are valid again."""
    return _set_disabled(request, caller, user, is_disabled=False)


def _set_disabled(
    request: Request, caller: Authenticated, user_id: str, *, is_disabled: bool
) -> Response:
    user = node_of(request).accounts.set_disabled(caller, user_id, is_disabled=is_disabled)
    return json_response(fill(UserBody, user, groups=sorted(user.groups)))
