"""Who calls: a bearer token where the node has one."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from headrace.api.context import node_of
from headrace.errors import Unauthorized

OWNER = "anonymous"


def bearer(request: Request) -> str:
    """The bearer token of a request. Raises Unauthorized."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("Send 'Authorization: Bearer <token>'.")
    return token.strip()


_SCHEME = HTTPBearer(
    auto_error=False, scheme_name="token", description="Needed where the node has a token."
)


async def authenticate(
    request: Request, _described: Annotated[HTTPAuthorizationCredentials | None, Security(_SCHEME)]
) -> str:
    """The owner that a request speaks for. Raises Unauthorized."""
    expected = node_of(request).token
    if expected is not None and not secrets.compare_digest(
        bearer(request).encode(), expected.encode()
    ):
        raise Unauthorized("The token is not valid.")
    return OWNER
