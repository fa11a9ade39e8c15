"""Statements on streams that a node executes itself, and what a driver's success changes."""

from __future__ import annotations

from headrace.config.settings import Settings
from headrace.control.policy import Caller
from headrace.control.streams.service import act, find_query
from headrace.errors import DefinitionNotFound, HeadraceError
from headrace.grammar.masking import mask_statement
from headrace.grammar.materialized_views import CreateMaterializedView
from headrace.grammar.parse import Command, parse
from headrace.grammar.stream_statements import (
    CreateSink,
    CreateStream,
    CreateStreamAs,
    DefinedKind,
    DropDefinition,
    ListedEntity,
    QueryStatement,
    SaveStream,
    ShowDefinitions,
)
from headrace.model.failure import Failure
from headrace.model.result import ResultReport
from headrace.model.statement import Statement
from headrace.model.stream_query import ADHOC_SCOPE, Definition, DefinitionKind, StreamQuery
from headrace.results.node_result import make_text_result
from headrace.store.database import Tx
from headrace.store.streams import definitions, stream_queries
from headrace.text.readable import format_utc

_MAX_SHOWN = 1000
"""Largest number of queries that SHOW STREAMS lists."""


def execute(
    tx: Tx, settings: Settings, caller: Caller, statement: Statement, command: Command
) -> ResultReport:
    """Execute a statement of kind `local` for its caller, and return its rows.

    Names of streams and sinks are those of the owner of the statement.

    A HeadraceError becomes the failure of the statement.
    """
    if isinstance(command, QueryStatement):
        return _execute_on_query(tx, settings, caller, command)
    if isinstance(command, DropDefinition):
        return _drop(tx, statement.owner, command, actor=caller.actor)
    assert isinstance(command, ShowDefinitions)
    is_sinks = command.entity is ListedEntity.SINKS
    return _show_sinks(tx, statement.owner) if is_sinks else _show(tx, statement.owner)


def define(tx: Tx, statement: Statement) -> Failure | None:
    """Store what a CREATE STREAM or CREATE SINK defines, after a driver has checked it.

    Return the failure of the statement if it cannot be stored: another statement was quicker.
    """
    command = parse(statement.spec.text).command
    assert isinstance(command, CreateStream | CreateStreamAs | CreateSink)
    kind = DefinitionKind.SINK if isinstance(command, CreateSink) else DefinitionKind.STREAM
    definition = Definition(
        owner=statement.owner,
        scope=ADHOC_SCOPE,
        kind=kind,
        name=command.name,
        text=statement.spec.text,
    )
    try:
        definitions.define(tx, definition, replace=command.replace, actor=statement.owner)
    except HeadraceError as error:
        return Failure.of(error)
    return None


def _execute_on_query(
    tx: Tx, settings: Settings, caller: Caller, command: QueryStatement
) -> ResultReport:
    name = ".".join(command.query)
    if command.action is None:
        return _show_query(find_query(tx, caller, name))
    query = act(tx, settings, caller, name, command.action)
    return make_text_result(["query", "id", "state"], [[query.name, query.id, query.state]])


def _drop(tx: Tx, owner: str, command: DropDefinition, *, actor: str) -> ResultReport:
    is_stream = command.definition is DefinedKind.STREAM
    kind = DefinitionKind.STREAM if is_stream else DefinitionKind.SINK
    dropped = definitions.drop(tx, owner, ADHOC_SCOPE, kind, command.name, actor=actor)
    if dropped is None:
        raise DefinitionNotFound(f"A {kind} named {command.name!r} does not exist.")
    return make_text_result([str(kind)], [[dropped]])


def _show(tx: Tx, owner: str) -> ResultReport:
    """List the streams, each with its live queries, then the queries over tables."""
    queries = stream_queries.page(tx, owners=[owner], live=True, limit=_MAX_SHOWN)
    by_source: dict[str, list[StreamQuery]] = {}
    for query in queries:
        by_source.setdefault(_source_of(query).casefold(), []).append(query)
    rows: list[list[str | None]] = []
    for definition in definitions.list_live(tx, owner, ADHOC_SCOPE, DefinitionKind.STREAM):
        own = by_source.pop(definition.name.casefold(), [])
        rows += [_row(definition.name, query) for query in own] or [_row(definition.name)]
    rows += [_row(_source_of(query), query) for own in by_source.values() for query in own]
    return make_text_result(
        ["stream", "query", "state", "sink", "guarantee", "last_batch", "failures", "last_error"],
        rows,
    )


def _source_of(query: StreamQuery) -> str:
    command = parse(query.spec.text).command
    if isinstance(command, CreateMaterializedView):
        return ".".join(command.name)
    assert isinstance(command, SaveStream)
    return ".".join(command.source)


def _row(stream: str, query: StreamQuery | None = None) -> list[str | None]:
    if query is None:
        return [stream, *[None] * 7]
    error = query.last_error
    return [
        stream,
        query.name,
        query.state,
        query.spec.sink,
        query.spec.guarantee,
        None if query.last_batch is None else str(query.last_batch),
        str(query.failures),
        None if error is None else error.summarize().message,
    ]


def _show_sinks(tx: Tx, owner: str) -> ResultReport:
    rows = [
        [definition.name, mask_statement(definition.text)]
        for definition in definitions.list_live(tx, owner, ADHOC_SCOPE, DefinitionKind.SINK)
    ]
    return make_text_result(["sink", "statement"], rows)


def _show_query(query: StreamQuery) -> ResultReport:
    error = query.last_error
    values = {
        "query": query.qualified_name,
        "id": query.id,
        "state": query.state,
        "attempt": str(query.attempt),
        "session": query.session_id,
        "sink": query.spec.sink,
        "guarantee": query.spec.guarantee,
        "path": query.spec.path,
        "checkpoint": query.spec.checkpoint,
        "last_batch": None if query.last_batch is None else str(query.last_batch),
        "failures": str(query.failures),
        "retry_at": None if query.retry_at is None else format_utc(query.retry_at),
        "last_error": None if error is None else error.message,
        "statement": mask_statement(query.spec.text),
    }
    return make_text_result(
        ["property", "value"], [[name, value] for name, value in values.items()]
    )
