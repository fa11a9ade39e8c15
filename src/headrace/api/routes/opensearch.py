"""`/_plugins/_async_query`: the wire format of OpenSearch's async query API.

As docs/opensearch.md has it, after opensearch-project/sql, RestAsyncQueryManagementAction.java.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, JsonValue, StringConstraints

from headrace.api.auth import OWNER
from headrace.api.context import node_of
from headrace.api.http.opensearch_errors import DatasourceNotFound, TooManyRows, errors
from headrace.api.http.result_responses import open_result, stream_response
from headrace.api.http.schemas import RequestModel
from headrace.api.http.strict_json import StrictRoute
from headrace.control.node import Node
from headrace.control.statements import cancel as cancelling
from headrace.control.statements.lookup import find
from headrace.control.statements.submission import Submit
from headrace.errors import SessionEnded, SessionNotFound
from headrace.model.lifecycle import SESSION, SessionState, StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import Statement
from headrace.results.formats.json import write_rows
from headrace.results.json_encoding import NumberFormat
from headrace.results.reader import Rows
from headrace.results.schema import SparkType, TypeKind
from headrace.settings import Settings

PREFIX = "/_plugins/_async_query"

router = APIRouter(
    prefix=PREFIX, tags=["opensearch"], responses=errors(400, 401, 503), route_class=StrictRoute
)

_DEFAULT_CATALOG = "spark_catalog"
_TAKING = SESSION.live - {SessionState.CLOSING}

# Finished queries speak in capitals there, unfinished ones do not; it has no state between waiting
# and running, and none for a cancel that is not through.
_STATUS = {
    StatementState.WAITING: "waiting",
    StatementState.LAUNCHED: "waiting",
    StatementState.RUNNING: "running",
    StatementState.CANCELLING: "running",
    StatementState.SUCCESS: "SUCCESS",
    StatementState.FAILED: "FAILED",
    StatementState.TIMEOUT: "timeout",
    StatementState.CANCELLED: "cancelled",
}

# Spark's own names of types, where they are not those of its SQL.
_TYPES = {
    TypeKind.BYTE: "byte",
    TypeKind.SHORT: "short",
    TypeKind.INTEGER: "integer",
    TypeKind.LONG: "long",
    TypeKind.STRING: "string",
    TypeKind.ARRAY: "array",
    TypeKind.MAP: "map",
    TypeKind.STRUCT: "struct",
}


class AsyncQueryRequest(RequestModel):
    """`POST`."""

    datasource: Annotated[str, StringConstraints(min_length=1)] = Field(examples=[_DEFAULT_CATALOG])
    lang: Annotated[str, StringConstraints(pattern="^[sS][qQ][lL]$")] = Field(examples=["sql"])
    query: str = Field(examples=["SELECT 1 AS x"])
    session_id: str | None = Field(default=None, alias="sessionId")


class AsyncQueryCreated(BaseModel):
    """What a query and its session are asked for by."""

    query_id: str = Field(serialization_alias="queryId")
    session_id: str | None = Field(serialization_alias="sessionId")


class AsyncQueryColumn(BaseModel):
    name: str
    type: str


class AsyncQueryResult(BaseModel):
    """How a query stands; with its rows once it has succeeded."""

    status: str
    columns: list[AsyncQueryColumn] | None = Field(default=None, serialization_alias="schema")
    datarows: list[list[JsonValue]] | None = None
    total: int | None = None
    size: int | None = None
    error: str | None = None


@router.post("", status_code=201, response_model=AsyncQueryCreated, responses=errors(413, 415))
def create_async_query(request: Request, body: AsyncQueryRequest) -> Response:
    """Submits a query. A `sessionId` that no longer takes any is silently replaced by a new one."""
    node = node_of(request)
    catalog = _catalog(node.settings, body.datasource)
    session = _usable(node, body.session_id, catalog)
    asked = Submit(text=body.query, owner=OWNER, session=session, catalog=catalog)
    try:
        statement = node.submissions.submit(asked)
    except (SessionNotFound, SessionEnded):
        asked = Submit(text=body.query, owner=OWNER, catalog=catalog)
        statement = node.submissions.submit(asked)
    shared = statement.kind is SessionKind.INTERACTIVE
    created = AsyncQueryCreated(
        query_id=statement.id, session_id=statement.session_id if shared else None
    )
    content = created.model_dump_json(by_alias=True, exclude_none=True)
    return Response(content, 201, media_type="application/json")


@router.get("/{query_id}", response_model=AsyncQueryResult, responses=errors(410))
def show_async_query(request: Request, query_id: str) -> Response:
    """How a query stands, or all its rows."""
    node = node_of(request)
    with node.database.read() as tx:
        statement = find(tx, OWNER, query_id)
    if statement.state is StatementState.SUCCESS:
        return _rows(node, statement)
    result = {"status": _STATUS[statement.state]}
    if statement.failure is not None:
        result["error"] = statement.failure.message
    return Response(json.dumps(result), media_type="application/json")


@router.delete("/{query_id}", status_code=204)
def cancel_async_query(request: Request, query_id: str) -> Response:
    """Asks for a query's end."""
    cancelling.cancel(node_of(request).database, OWNER, query_id)
    return Response(status_code=204)


def _catalog(settings: Settings, datasource: str) -> str | None:
    """The catalog that a datasource stands for; None is Spark's own. Raises DatasourceNotFound."""
    known = {_DEFAULT_CATALOG: _DEFAULT_CATALOG, **settings.opensearch.datasources}
    if datasource not in known and settings.opensearch.datasources:
        raise DatasourceNotFound(
            f"There is no datasource {datasource!r}; there are: {', '.join(sorted(known))}."
        )
    if datasource not in known:
        declared = f"spark.sql.catalog.{datasource}" in settings.profile("default").conf
        return datasource if declared else None
    return None if known[datasource] == _DEFAULT_CATALOG else known[datasource]


def _usable(node: Node, session_id: str | None, catalog: str | None) -> str | None:
    """The session's id when it takes statements and is this catalog's; None asks for a new one."""
    if session_id is None:
        return None
    try:
        session = node.sessions.get(OWNER, session_id)
    except SessionNotFound:
        return None
    return session.id if session.state in _TAKING and session.catalog == catalog else None


def _rows(node: Node, statement: Statement) -> Response:
    rows = open_result(node, statement)
    assert statement.result is not None
    count, limit = statement.result.row_count, node.settings.opensearch.row_limit
    if count > limit:
        raise TooManyRows(
            f"The result has {count} rows and an answer here holds {limit} "
            f"(the node's setting opensearch.row_limit). All of them are at "
            f"/api/v1/statements/{statement.id}/result."
        )
    return stream_response(_document(rows, count), "application/json")


def _document(rows: Rows, count: int) -> Iterator[bytes]:
    columns = [{"name": one.name, "type": _type_name(one.type)} for one in rows.schema.columns]
    schema = json.dumps(columns, separators=(",", ":"))
    yield f'{{"status":"SUCCESS","schema":{schema},"datarows":'.encode()
    yield from write_rows(rows, None, numbers=NumberFormat.ALWAYS)
    yield f',"total":{count},"size":{count}}}'.encode()


def _type_name(kind: SparkType) -> str:
    return _TYPES.get(kind.kind, kind.sql)
