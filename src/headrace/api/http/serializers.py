"""From what the store holds to what the API gives."""

from __future__ import annotations

from headrace.api.http.schemas import (
    ColumnModel,
    ErrorBody,
    EventBody,
    NodeBody,
    ResultBody,
    SessionBody,
    StatementBody,
)
from headrace.model.event import Event
from headrace.model.failure import Failure
from headrace.model.node import NodeRecord
from headrace.model.result import ResultInfo
from headrace.model.session import Session
from headrace.model.statement import Statement
from headrace.results.schema import parse_schema


def statement_body(statement: Statement, *, trace: bool = False) -> StatementBody:
    """A statement without rows; the stack trace on request only."""
    return StatementBody(
        id=statement.id,
        session_id=statement.session_id,
        ordinal=statement.ordinal,
        kind=statement.kind,
        state=statement.state,
        statement=statement.text,
        owner=statement.owner,
        created_at=statement.created_at,
        launched_at=statement.launched_at,
        started_at=statement.started_at,
        cancel_requested_at=statement.cancel_requested_at,
        cancel_reason=statement.cancel_reason,
        cancel_note=statement.cancel_note,
        ended_at=statement.ended_at,
        attempts=statement.attempts,
        atomic=statement.atomic,
        note=statement.note,
        progress=statement.progress,
        error=error_body(statement.failure, trace=trace),
        result=_result_body(statement.result),
    )


def session_body(session: Session) -> SessionBody:
    """A session; whether it is busy follows from its statements."""
    return SessionBody(
        id=session.id,
        number=session.number,
        name=session.name,
        owner=session.owner,
        kind=session.kind,
        state=session.state,
        busy=session.active > 0,
        profile=session.profile,
        conf=session.conf,
        catalog=session.catalog,
        database=session.database,
        jars=session.jars,
        files=session.files,
        py_files=session.py_files,
        idle_seconds=session.idle_seconds,
        ttl_seconds=session.ttl_seconds,
        parallelism=session.parallelism,
        streams=session.streams,
        epoch=session.epoch,
        lost=session.lost,
        driver=session.driver,
        created_at=session.created_at,
        started_at=session.started_at,
        ended_at=session.ended_at,
        last_update_time=session.last_update_time,
        error=error_body(session.failure, trace=False),
    )


def node_body(node: NodeRecord) -> NodeBody:
    """A node."""
    return NodeBody(
        id=node.id,
        address=node.address,
        version=node.version,
        state=node.state,
        started_at=node.started_at,
        ended_at=node.ended_at,
    )


def event_body(event: Event) -> EventBody:
    """An event."""
    return EventBody(
        cursor=event.cursor,
        entity=event.entity,
        entity_id=event.entity_id,
        source=event.source,
        target=event.target,
        at=event.at,
        actor=event.actor,
        detail=event.detail,
    )


def error_body(failure: Failure | None, *, trace: bool) -> ErrorBody | None:
    """An error, without its stack trace unless asked for."""
    if failure is None:
        return None
    known = failure.model_dump()
    return ErrorBody(**known if trace else known | {"trace": None})


def _result_body(result: ResultInfo | None) -> ResultBody | None:
    if result is None:
        return None
    return ResultBody(
        columns=[ColumnModel(**one) for one in parse_schema(result.spark_schema).describe()],
        row_count=result.row_count,
        byte_count=result.byte_count,
        chunks=result.chunks,
        truncated=result.truncated,
        disposition=result.disposition,
        expires_at=result.expires_at,
        gone=result.gone,
    )
