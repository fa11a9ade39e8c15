"""`/_plugins/_async_query`: the wire format of OpenSearch's async query API.

docs/guides/opensearch.md describes it. Source of the format: opensearch-project/sql,
RestAsyncQueryManagementAction.java.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, JsonValue, StringConstraints
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from headrace import __version__
from headrace.config.settings import Settings
from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.control.worker_pool import Reads
from headrace.errors import (
    AlreadyEnded,
    InvalidRequest,
    NotFound,
    StatementNotFound,
    TooManyRows,
)
from headrace.frontends.http.api_route import json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.http.errors import RequestError
from headrace.frontends.http.strict_json import StrictRoute, UnsupportedMediaType
from headrace.frontends.rest.result_responses import stream_response
from headrace.frontends.rest.schemas import RequestModel, ResponseModel
from headrace.grammar.masking import mask_text
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import Statement, StatementSpec
from headrace.results.formats.json import write_rows
from headrace.results.json_encoding import NumberFormat
from headrace.results.reader import Rows

PREFIX = "/_plugins/_async_query"
INFO_PATH = "/"


class DatasourceNotFound(NotFound):
    """The datasource does not exist."""

    code = "datasource_not_found"


class OpenSearchErrorCause(ResponseModel):
    """Class and message of an error."""

    type: str
    """Name of the class of the error in OpenSearch, or in Headrace."""
    reason: str
    """`Invalid Request`, or `There was internal problem at backend`."""
    details: str
    """What happened."""


class OpenSearchError(ResponseModel):
    """An error response."""

    status: int
    """HTTP status."""
    error: OpenSearchErrorCause
    """The cause."""


class OpenSearchRefusal(ResponseModel):
    """An error that OpenSearch finds before it calls its plugin."""

    status: int
    """HTTP status."""
    error: str
    """What is wrong."""


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of these error responses for OpenAPI."""
    return {
        status: {
            "model": OpenSearchRefusal if status in _REFUSALS else OpenSearchError,
            "description": HTTPStatus(status).phrase,
        }
        for status in statuses
    }


def unreadable_result() -> dict[int | str, dict[str, Any]]:
    """Return the description of 406 for a result with a type that the node does not know."""
    status = HTTPStatus.NOT_ACCEPTABLE
    return {status.value: {"model": OpenSearchError, "description": status.phrase}}


_REFUSALS = {HTTPStatus.NOT_ACCEPTABLE}
_JAVA_CLASSES: dict[type[Exception], str] = {
    StatementNotFound: "AsyncQueryNotFoundException",
    DatasourceNotFound: "DataSourceNotFoundException",
    AlreadyEnded: "IllegalStateException",
    InvalidRequest: "IllegalArgumentException",
}


def render_opensearch_error(error: RequestError) -> Response:
    """Return the response for an error."""
    if error.error_class is HTTPException or error.error_class is UnsupportedMediaType:
        return _render_refusal(error)
    status, kind = error.status, error.error_class.__name__
    if error.error_class in _JAVA_CLASSES:
        status, kind = HTTPStatus.BAD_REQUEST, _JAVA_CLASSES[error.error_class]
    is_internal = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    reason = "There was internal problem at backend" if is_internal else "Invalid Request"
    details = error.detail if error.hint is None else f"{error.detail} {error.hint}"
    body = {"status": status, "error": {"type": kind, "reason": reason, "details": details}}
    return JSONResponse(body, status, error.headers)


def _render_refusal(error: RequestError) -> Response:
    """Return the response of OpenSearch to a request that no handler takes."""
    status, text = error.status, error.detail
    request = f"uri [{error.path}] and method [{error.method}]"
    if error.error_class is UnsupportedMediaType:
        status = HTTPStatus.NOT_ACCEPTABLE
    elif status == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = ", ".join(error.allowed_methods)
        text = f"Incorrect HTTP method for {request}, allowed: [{methods}]"
    elif status == HTTPStatus.NOT_FOUND:
        status, text = HTTPStatus.BAD_REQUEST, f"no handler found for {request}"
    return JSONResponse({"error": text, "status": status}, status, error.headers)


_MEDIA_TYPES = frozenset({"application/json", "application/x-ndjson"})


class OpenSearchRoute(StrictRoute):
    """A route that accepts the media types of JSON that OpenSearch accepts."""

    media_types = _MEDIA_TYPES

    def describe_media_type(self, content_type: str | None) -> UnsupportedMediaType:
        """Return the error for a body of another type, with the text of OpenSearch."""
        problem = "is missing" if content_type is None else f"[{content_type}] is not supported"
        return UnsupportedMediaType(f"Content-Type header {problem}")


QueryId = Annotated[str, Path(description="id of the statement")]

router = APIRouter(
    prefix=PREFIX,
    tags=["opensearch"],
    route_class=OpenSearchRoute,
)

_DEFAULT_CATALOG = "spark_catalog"

# OpenSearch's API writes SUCCESS and FAILED in capitals. It has no state between waiting and
# running, and none for a cancel that is in progress.
_STATUS: dict[str, str] = {
    **dict.fromkeys(STATEMENT.queued, "waiting"),
    StatementState.LAUNCHED: "waiting",
    StatementState.CANCELLING: "running",
    StatementState.SUCCESS: "SUCCESS",
    StatementState.FAILED: "FAILED",
}
"""States with another name in OpenSearch's API."""


class AsyncQueryRequest(RequestModel):
    """Body of the `POST`."""

    datasource: Annotated[str, StringConstraints(min_length=1)] = Field(examples=[_DEFAULT_CATALOG])
    """Name of a catalog; see the setting `opensearch.datasources`."""
    lang: Annotated[str, StringConstraints(pattern="^[sS][qQ][lL]$")] = Field(examples=["sql"])
    """`sql`, in any case."""
    query: str = Field(examples=["SELECT 1 AS x"])
    """The SQL text of one statement."""
    session_id: str | None = Field(default=None, alias="sessionId")
    """Session to use. A session that accepts no more statements is replaced by a new one."""


class AsyncQueryCreated(ResponseModel):
    """Ids of a query and of its session."""

    query_id: str = Field(serialization_alias="queryId")
    """Id of the query, which is the id of its statement."""
    session_id: str | None = Field(serialization_alias="sessionId")
    """Only for an interactive query."""


class AsyncQueryColumn(ResponseModel):
    """A column of a result."""

    name: str
    """Name of the column."""
    type: str
    """Type, with the name that Spark uses outside SQL, for example `integer`."""


class AsyncQueryResult(ResponseModel):
    """State of a query, with its rows once it has succeeded."""

    status: str
    """`waiting`, `running`, `SUCCESS`, `FAILED`, `timeout` or `cancelled`."""
    columns: list[AsyncQueryColumn] | None = Field(default=None, serialization_alias="schema")
    """The columns, once the query has succeeded."""
    datarows: list[list[JsonValue]] | None = None
    """The values of each row, once the query has succeeded."""
    total: int | None = None
    """Number of rows."""
    size: int | None = None
    """Number of rows."""
    error: str | None = None
    """Why the query failed: the error condition of Spark in brackets, the text and the position."""


@router.post(
    "", status_code=201, response_model=AsyncQueryCreated, responses=errors(404, 406, 409, 429)
)
def create_async_query(
    request: Request, caller: Authenticated, body: AsyncQueryRequest
) -> Response:
    """Submit a query. A `sessionId` that accepts no more statements is replaced by a new one."""
    node = node_of(request)
    catalog = _find_catalog(node.settings, body.datasource)
    statement = node.statements.submit_to_usable(
        caller, StatementSpec(text=body.query), session=body.session_id, catalog=catalog
    )
    is_shared = statement.spec.kind is SessionKind.INTERACTIVE
    created = AsyncQueryCreated(
        query_id=statement.id, session_id=statement.session_id if is_shared else None
    )
    content = created.model_dump_json(by_alias=True, exclude_none=True)
    return Response(content, 201, media_type="application/json")


@router.get(
    "/{query_id}", response_model=AsyncQueryResult, responses=errors(410, 502) | unreadable_result()
)
async def show_async_query(request: Request, caller: Authenticated, query_id: QueryId) -> Response:
    """Show the state of a query, with all its rows once it has succeeded."""
    node = node_of(request)
    statement = await run_in_threadpool(node.statements.get, caller, query_id)
    if statement.state is StatementState.SUCCESS:
        reads = node.async_statements.select_reads(statement)
        return await reads.run(_result_response, node, caller, statement, reads)
    result = {"status": _STATUS.get(statement.state, statement.state)}
    if statement.failure is not None:
        result["error"] = mask_text(statement.failure.describe())
    return Response(json.dumps(result), media_type="application/json")


@router.delete(
    "/{query_id}",
    status_code=204,
    response_description="The cancel is requested.",
    responses=errors(409),
)
def cancel_async_query(request: Request, caller: Authenticated, query_id: QueryId) -> Response:
    """Request a cancel."""
    node_of(request).statements.cancel(caller, query_id)
    return Response(status_code=204)


def _find_catalog(settings: Settings, datasource: str) -> str | None:
    """Return the catalog for a datasource; None for Spark's own. Raise DatasourceNotFound."""
    catalogs = {_DEFAULT_CATALOG: _DEFAULT_CATALOG, **settings.opensearch.datasources}
    if datasource not in catalogs and settings.opensearch.datasources:
        raise DatasourceNotFound(
            f"The datasource {datasource!r} does not exist. "
            f"Datasources: {', '.join(sorted(catalogs))}."
        )
    if datasource not in catalogs:
        is_declared = f"spark.sql.catalog.{datasource}" in settings.profile("default").conf
        return datasource if is_declared else None
    return None if catalogs[datasource] == _DEFAULT_CATALOG else catalogs[datasource]


def _result_response(node: Node, caller: Caller, statement: Statement, reads: Reads) -> Response:
    rows = node.statements.open_result(caller, statement)
    count, limit = rows.row_count, node.settings.opensearch.row_limit
    if count > limit:
        raise TooManyRows(
            f"The result has {count} rows, and a response here holds at most {limit} "
            f"(setting opensearch.row_limit). Read all rows from "
            f"/api/v1/statements/{statement.id}/result."
        )
    document = _write_document(rows, count)
    return stream_response(document, "application/json", reads=reads)


def _write_document(rows: Rows, count: int) -> Iterator[bytes]:
    columns = [{"name": column.name, "type": column.type.name} for column in rows.schema.columns]
    schema = json.dumps(columns, separators=(",", ":"))
    yield f'{{"status":"SUCCESS","schema":{schema},"datarows":'.encode()
    yield from write_rows(rows, None, numbers=NumberFormat.ALWAYS)
    yield f',"total":{count},"size":{count}}}'.encode()


SERVED_VERSION = "3.0.0"
"""Version of OpenSearch whose async query API a node serves."""

info_router = APIRouter(tags=["opensearch"])


class ClusterVersion(ResponseModel):
    """The version that clients of OpenSearch compare. Every field of OpenSearch is present."""

    distribution: str
    """Always `opensearch`."""
    number: str
    """Version of OpenSearch whose async query API the node serves."""
    build_type: str
    """Always `unknown`: this is not a build of OpenSearch."""
    build_hash: str
    """Always `unknown`."""
    build_date: str
    """Always `unknown`."""
    build_snapshot: bool
    """Always false."""
    lucene_version: str
    """Always `none`: there is no index."""
    minimum_wire_compatibility_version: str
    """Oldest version of OpenSearch whose clients the node serves."""
    minimum_index_compatibility_version: str
    """The same version: there is no index."""


class ClusterInfo(ResponseModel):
    """What a client of OpenSearch learns about the cluster."""

    name: str
    """Id of the node that answers."""
    cluster_name: str
    """Always `headrace`."""
    cluster_uuid: str
    """Always `_na_`, as for a cluster of OpenSearch without an id."""
    version: ClusterVersion
    """Version of OpenSearch that clients see."""
    tagline: str
    """Name and version of Headrace."""


@info_router.get(INFO_PATH, response_model=ClusterInfo)
async def show_cluster_info(request: Request) -> Response:
    """Answer `info()` of OpenSearch's clients."""
    return json_response(_describe(node_of(request).id))


@info_router.head(INFO_PATH, response_class=Response, response_description="The node answers.")
async def ping_cluster() -> Response:
    """Answer `ping()` of OpenSearch's clients: 200 without a body."""
    return Response(media_type="application/json")


def _describe(node_id: str) -> ClusterInfo:
    return ClusterInfo(
        name=node_id,
        cluster_name="headrace",
        cluster_uuid="_na_",
        version=ClusterVersion(
            distribution="opensearch",
            number=SERVED_VERSION,
            build_type="unknown",
            build_hash="unknown",
            build_date="unknown",
            build_snapshot=False,
            lucene_version="none",
            minimum_wire_compatibility_version="2.0.0",
            minimum_index_compatibility_version="2.0.0",
        ),
        tagline=f"Headrace {__version__}: SQL on Apache Spark",
    )
