"""`/connections`: open, list, show, close."""

from __future__ import annotations

from typing import Annotated

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
    Conf,
    Instant,
    Json,
    RequestModel,
    ResponseModel,
    has_examples,
)
from headrace.model.connection import Connection, ConnectionSpec

_CONNECTION: Json = {
    "id": "cn_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
    "owner": "ada",
    "protocol": "rest",
    "catalog": None,
    "database": "sales",
    "created_at": AT,
    "last_used_at": AT,
}


@has_examples({"database": "sales"})
class ConnectionRequest(RequestModel):
    """Body of `POST /connections`."""

    catalog: str | None = None
    """Current catalog at the start; default: Spark's own."""
    database: str | None = None
    """Current database at the start; default: that of the catalog."""
    conf: Conf = Field(default={})
    """Spark configuration of the connection."""
    owner: str | None = None
    """Owner of the connection: the caller, or `group:NAME` for a group of the caller. Default: the
    caller."""


@has_examples(_CONNECTION)
class ConnectionBody(ResponseModel):
    """A connection."""

    id: str
    """Id of the connection."""
    owner: str
    """Owner, for whom its statements run."""
    protocol: str
    """Front end by which the client has connected."""
    catalog: str | None
    """Current catalog at the start; null: Spark's own."""
    database: str | None
    """Current database at the start; null: that of the catalog."""
    created_at: Instant
    """When it was opened."""
    last_used_at: Instant
    """When its last statement was submitted, or has ended."""


@has_examples({"items": [_CONNECTION], "next": None})
class ConnectionPage(ResponseModel):
    """A page of connections."""

    items: list[ConnectionBody]
    """Open connections, newest first."""
    next: str | None
    """Value of `before` for the next page; null on the last page."""


router = APIRouter(prefix="/connections", tags=["connections"], route_class=ApiRoute)

ConnectionRef = Annotated[str, Path(max_length=100, description="Id of the connection.")]


@router.post("", status_code=201, response_model=ConnectionBody, responses=problems(415, 429, 503))
def open_connection(request: Request, caller: Authenticated, body: ConnectionRequest) -> Response:
    """Open a connection. No driver starts before its first statement."""
    spec = ConnectionSpec(catalog=body.catalog, database=body.database, conf=body.conf)
    opened = node_of(request).connections.open(caller, spec, protocol="rest", owner=body.owner)
    return json_response(_body(opened), 201)


@router.get("", response_model=ConnectionPage)
def list_connections(
    request: Request,
    caller: Authenticated,
    before: Before = None,
    limit: Limit = 100,
    all_owners: AllOwners = False,
) -> Response:
    """List open connections, newest first."""
    found = node_of(request).connections.page(
        caller, before=before, limit=limit + 1, all_owners=all_owners
    )
    page, next_ = split_page(found, limit)
    return json_response(ConnectionPage(items=[_body(each) for each in page], next=next_))


@router.get("/{connection}", response_model=ConnectionBody, responses=problems(404))
def show_connection(request: Request, caller: Authenticated, connection: ConnectionRef) -> Response:
    """Show an open connection."""
    return json_response(_body(node_of(request).connections.get(caller, connection)))


@router.delete(
    "/{connection}",
    status_code=204,
    response_description="The connection is closed.",
    responses=problems(404),
)
def close_connection(
    request: Request, caller: Authenticated, connection: ConnectionRef
) -> Response:
    """Close a connection. Its statements run on."""
    node_of(request).connections.close(caller, connection)
    return Response(status_code=204)


def _body(connection: Connection) -> ConnectionBody:
    return ConnectionBody(
        id=connection.id,
        owner=connection.owner,
        protocol=connection.protocol,
        catalog=connection.spec.catalog,
        database=connection.spec.database,
        created_at=connection.created_at,
        last_used_at=connection.last_used_at,
    )
