"""Authentication: the caller of a request, by its bearer token."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from headrace.api.context import node_of
from headrace.control.caller import ANONYMOUS, Caller, Role
from headrace.errors import Unauthorized

_SCHEME = HTTPBearer(
    auto_error=False, scheme_name="token", description="Needed if the node has a token."
)


def bearer_token(request: Request) -> str:
    """Return the bearer token of a request. Raise Unauthorized if it has none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("Send 'Authorization: Bearer <token>'.")
    return token.strip()


async def authenticate(
    request: Request, _scheme: Annotated[HTTPAuthorizationCredentials | None, Security(_SCHEME)]
) -> Caller:
    """Return the caller of a request. Raise Unauthorized if the token is missing or wrong."""
    expected = node_of(request).token
    if expected is not None and not secrets.compare_digest(
        bearer_token(request).encode(), expected.encode()
    ):
        raise Unauthorized("The token is not valid.")
    return Caller(owner=ANONYMOUS, roles=frozenset({Role.ADMIN, Role.USER}))


Authenticated = Annotated[Caller, Depends(authenticate)]
"""Parameter of a handler: the caller of the request."""
