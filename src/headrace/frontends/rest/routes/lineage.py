"""`/lineage`: the tables before and after a table, and what is between them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headrace.control.lineage import MAX_DEPTH, LineageSide
from headrace.frontends.http.api_route import AllOwners, ApiRoute, json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.examples import AT
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import Instant, Json, ResponseModel, has_examples

router = APIRouter(route_class=ApiRoute, tags=["lineage"])

_EDGE: Json = {
    "source": "spark_catalog.default.flights",
    "target": "spark_catalog.default.late_flights",
    "side": "upstream",
    "depth": 1,
    "job": "late",
    "statements": 31,
    "last_statement": "st_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
    "last_run": "rn_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
    "last_at": AT,
}


class LineageEdgeBody(ResponseModel):
    """The statements and streaming queries that have read one table and written another one."""

    source: str
    """Table that they have read: its name in lower case, or the location of files."""
    target: str
    """Table that they have written."""
    side: LineageSide
    """On which side of the table of the graph."""
    depth: int
    """Number of steps from the table of the graph, from 1."""
    job: str | None
    """Name of the job that has run them; null: no job."""
    statements: int
    """How many of the newest 500 statements, and 500 streaming queries, of the table."""
    last_statement: str
    """Id of the newest of them: a statement, or a streaming query."""
    last_run: str | None
    """Id of the run of the newest of them."""
    last_at: Instant
    """When the newest of them ended; of a streaming query, when it started."""


@has_examples({"table": _EDGE["target"], "edges": [_EDGE], "truncated": False})
class LineageBody(ResponseModel):
    """The tables around a table, by edges."""

    table: str
    """Full name of the table in lower case, or location of files."""
    edges: list[LineageEdgeBody]
    """The edges, those near the table first."""
    truncated: bool
    """Whether the graph has more edges."""


@router.get("/lineage", response_model=LineageBody, responses=problems(404))
def show_lineage(
    request: Request,
    caller: Authenticated,
    table: Annotated[
        str, Query(min_length=1, max_length=2000, description="name of a table, or a location")
    ],
    direction: Annotated[
        LineageSide | None, Query(description="only this side; default: both")
    ] = None,
    depth: Annotated[int, Query(ge=1, le=MAX_DEPTH, description="number of steps")] = 3,
    all_owners: AllOwners = False,
) -> Response:
    """Show which tables a table was written from, and which tables were written from it."""
    graph = node_of(request).lineage.show(
        caller,
        table,
        sides=list(LineageSide) if direction is None else [direction],
        depth=depth,
        all_owners=all_owners,
    )
    edges = [LineageEdgeBody(**asdict(edge)) for edge in graph.edges]
    body = LineageBody(table=graph.table, edges=edges, truncated=graph.truncated)
    return json_response(body)
