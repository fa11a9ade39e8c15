"""`/sign-in`: where users sign in. `/me`: who calls."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace.config.auth import Role
from headrace.frontends.http.api_route import ApiRoute, json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.schemas import Json, ResponseModel, fill, has_examples
from headrace.model.identity import Scope

_ISSUER: Json = {
    "name": "corp",
    "issuer": "https://login.example.com/realms/corp",
    "client_id": "headrace",
    "scopes": ["openid", "profile", "groups", "offline_access"],
    "parameters": {},
}


@has_examples(_ISSUER)
class IssuerBody(ResponseModel):
    """An issuer at which `headrace login` signs in, by the device flow (RFC 8628)."""

    name: str
    """Name of the issuer in the settings."""
    issuer: str
    """URL of the issuer."""
    client_id: str
    """Client with which to ask."""
    scopes: list[str]
    """Scopes for which to ask."""
    parameters: dict[str, str]
    """Further parameters with which to ask."""


@has_examples({"issuers": [_ISSUER]})
class SignInBody(ResponseModel):
    """Where users sign in."""

    issuers: list[IssuerBody]
    """The issuers, in the order of the settings; those without a client for it are left out."""


@has_examples(
    {
        "owner": "ada",
        "groups": ["group:corp:etl"],
        "roles": ["user"],
        "scope": "admin",
        "token_id": None,
    }
)
class CallerBody(ResponseModel):
    """Who calls."""

    owner: str
    """Owner of the objects that the caller creates: a user, or the group of a token."""
    groups: list[str]
    """Groups of the caller, as owners."""
    roles: list[Role | str]
    """Roles of the caller."""
    scope: Scope | str
    """What the credentials allow at most."""
    token_id: str | None
    """Id of the token that the caller has sent; null: it has signed in otherwise."""


router = APIRouter(tags=["sign-in"], route_class=ApiRoute)


@router.get("/sign-in", response_model=SignInBody)
def list_issuers(request: Request) -> Response:
    """List where users sign in."""
    issuers = [
        IssuerBody(
            name=name,
            issuer=each.issuer,
            client_id=each.client_id,
            scopes=each.scopes,
            parameters=each.login_parameters,
        )
        for name, each in node_of(request).settings.auth.oidc.items()
        if each.client_id is not None
    ]
    return json_response(SignInBody(issuers=issuers))


@router.get("/me", response_model=CallerBody)
def show_caller(caller: Authenticated) -> Response:
    """Show who calls, and what the caller may do."""
    body = fill(CallerBody, caller, groups=sorted(caller.groups), roles=sorted(caller.roles))
    return json_response(body)
