"""The statements of streams and sinks, from CREATE STREAM to DROP SINK.

Each statement is a value. `to_sql` returns a text that parses to the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from headrace.grammar.clauses import (
    DeclaredColumn,
    Options,
    columns_to_sql,
    qualified_name_to_sql,
    read_columns,
    read_options,
)
from headrace.grammar.lexer import Token
from headrace.grammar.quoting import quote_name
from headrace.grammar.stream_clauses import (
    OutputMode,
    StreamClauses,
    StreamTrigger,
    join_clauses,
    write_options,
    write_partitions,
)
from headrace.grammar.token_reader import TokenReader
from headrace.model.lifecycle import StreamAction

_STREAM, _SINK, _QUERY = "the name of a stream", "the name of a sink", "the name of a query"
_SHOW = "SHOW"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream:
    """`CREATE STREAM name [(columns)] FROM provider [OPTIONS (…)]`."""

    kind: ClassVar[str] = "interactive"

    qualifier: tuple[str, ...] = ()
    """Parts of the name before the last. Only table definitions of jobs can have some."""
    name: str
    replace: bool = False
    columns: tuple[DeclaredColumn, ...] | None = None
    provider: str
    options: Options = ()

    def to_sql(self) -> str:
        columns = f" {columns_to_sql(self.columns)}" if self.columns else ""
        text = f"{_create(self.replace)} STREAM {_name_to_sql(self)}{columns}"
        return join_clauses(f"{text} FROM {quote_name(self.provider)}", write_options(self.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStreamAs:
    """`CREATE STREAM name AS SELECT …`."""

    kind: ClassVar[str] = "interactive"

    qualifier: tuple[str, ...] = ()
    """As in `CreateStream`."""
    name: str
    replace: bool = False
    query: str
    """The query as written."""

    def to_sql(self) -> str:
        return f"{_create(self.replace)} STREAM {_name_to_sql(self)} AS {self.query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSink:
    """`CREATE SINK name [(columns)] TO provider [PARTITIONED ON (…)] [OPTIONS (…)]`."""

    kind: ClassVar[str] = "interactive"

    qualifier: tuple[str, ...] = ()
    """As in `CreateStream`."""
    name: str
    replace: bool = False
    columns: tuple[DeclaredColumn, ...] | None = None
    provider: str
    partitioned_on: tuple[str, ...] = ()
    options: Options = ()

    def to_sql(self) -> str:
        columns = f" {columns_to_sql(self.columns)}" if self.columns else ""
        text = f"{_create(self.replace)} SINK {_name_to_sql(self)}{columns}"
        return join_clauses(
            f"{text} TO {quote_name(self.provider)}",
            write_partitions(self.partitioned_on),
            write_options(self.options),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveStream:
    """`SAVE STREAM table TO target …`: start a supervised query."""

    kind: ClassVar[str] = "streaming"

    source: tuple[str, ...]
    """Name of the stream, table or view that provides the rows, in one to three parts."""
    columns: tuple[DeclaredColumn, ...] | None = None
    """Columns that the source must have."""
    target: tuple[str, ...]
    """Name of a provider or sink, or of a table if `to_table` is set. The name of a provider that
    is a class can have several parts."""
    to_table: bool = False
    query_name: str | None = None
    """Name in IDENTIFIED BY; None: the last part of `source`."""
    trigger: StreamTrigger | None = None
    output_mode: OutputMode | None = None
    partitioned_on: tuple[str, ...] = ()
    options: Options = ()

    @property
    def name(self) -> str:
        """Name of the query within its scope."""
        return self.source[-1] if self.query_name is None else self.query_name

    def to_sql(self) -> str:
        columns = f" {columns_to_sql(self.columns)}" if self.columns else ""
        table = "TABLE " if self.to_table else ""
        return join_clauses(
            f"SAVE STREAM {qualified_name_to_sql(self.source)}{columns}",
            f"TO {table}{qualified_name_to_sql(self.target)}",
            None if self.query_name is None else f"IDENTIFIED BY {quote_name(self.query_name)}",
            None if self.trigger is None else self.trigger.to_sql(),
            None if self.output_mode is None else f"OUTPUT MODE {self.output_mode}",
            write_partitions(self.partitioned_on),
            write_options(self.options),
        )


@dataclass(frozen=True, slots=True)
class QueryStatement:
    """`STOP STREAM query`, the other actions on one query, and `SHOW STREAM query`."""

    kind: ClassVar[str] = "local"

    action: StreamAction | None
    """None: show the query."""
    query: tuple[str, ...]
    """`name` or `scope.name`."""

    def to_sql(self) -> str:
        return f"{(self.action or _SHOW).upper()} STREAM {qualified_name_to_sql(self.query)}"


class ListedEntity(StrEnum):
    """What a SHOW statement lists."""

    STREAMS = "STREAMS"
    SINKS = "SINKS"


@dataclass(frozen=True, slots=True)
class ShowDefinitions:
    """`SHOW STREAMS` (the queries) or `SHOW SINKS`."""

    kind: ClassVar[str] = "local"

    entity: ListedEntity

    def to_sql(self) -> str:
        return f"SHOW {self.entity}"


class DefinedKind(StrEnum):
    """What a definition describes."""

    STREAM = "STREAM"
    SINK = "SINK"


@dataclass(frozen=True, slots=True)
class DropDefinition:
    """`DROP STREAM name` or `DROP SINK name`."""

    kind: ClassVar[str] = "local"

    definition: DefinedKind
    name: str

    def to_sql(self) -> str:
        return f"DROP {self.definition} {quote_name(self.name)}"


StreamStatement = (
    CreateStream
    | CreateStreamAs
    | CreateSink
    | SaveStream
    | QueryStatement
    | ShowDefinitions
    | DropDefinition
)


def parse_create_stream(text: str, tokens: Sequence[Token]) -> CreateStream | CreateStreamAs:
    """Parse a text that begins with `CREATE [OR REPLACE] STREAM`. Raise InvalidStatement."""
    reader = TokenReader(text, tokens)
    replace = _read_create(reader, "STREAM")
    *qualifier, name = reader.read_qualified_name(_STREAM)
    if reader.accept("AS"):
        query = reader.read_rest("a query")
        return CreateStreamAs(qualifier=tuple(qualifier), name=name, replace=replace, query=query)
    columns = read_columns(reader) if reader.comes("(") else None
    reader.expect("FROM")
    provider = _read_provider(reader, "a provider, such as kafka")
    options = read_options(reader) if reader.accept("OPTIONS") else ()
    reader.expect_end()
    return CreateStream(
        qualifier=tuple(qualifier),
        name=name,
        replace=replace,
        columns=columns,
        provider=provider,
        options=options,
    )


def parse_create_sink(text: str, tokens: Sequence[Token]) -> CreateSink:
    """Parse a text that begins with `CREATE [OR REPLACE] SINK`. Raise InvalidStatement."""
    reader = TokenReader(text, tokens)
    replace = _read_create(reader, "SINK")
    *qualifier, name = reader.read_qualified_name(_SINK)
    columns = read_columns(reader) if reader.comes("(") else None
    reader.expect("TO")
    provider = _read_provider(reader, "a provider, such as parquet")
    clauses = StreamClauses(reader)
    clauses.read(StreamClauses.read_partitioned_on, StreamClauses.read_options)
    return CreateSink(
        qualifier=tuple(qualifier),
        name=name,
        replace=replace,
        columns=columns,
        provider=provider,
        partitioned_on=clauses.partitioned_on or (),
        options=clauses.options or (),
    )


def parse_save_stream(text: str, tokens: Sequence[Token]) -> SaveStream:
    """Parse a text that begins with `SAVE STREAM`. Raise InvalidStatement.

    The clauses after TO may have any order.
    """
    reader = TokenReader(text, tokens)
    reader.expect("SAVE", "STREAM")
    source = reader.read_qualified_name("the name of a stream or table")
    columns = read_columns(reader) if reader.comes("(") else None
    reader.expect("TO")
    to_table = reader.accept("TABLE")
    if to_table:
        target = reader.read_qualified_name("the name of a table")
    else:
        target = _read_provider_parts(reader, "a provider or a sink")
    clauses = StreamClauses(reader)
    clauses.read(
        StreamClauses.read_query_name,
        StreamClauses.read_trigger,
        StreamClauses.read_output_mode,
        StreamClauses.read_partitioned_on,
        StreamClauses.read_options,
    )
    return SaveStream(
        source=source,
        columns=columns,
        target=target,
        to_table=to_table,
        query_name=clauses.query_name,
        trigger=clauses.trigger,
        output_mode=clauses.output_mode,
        partitioned_on=clauses.partitioned_on or (),
        options=clauses.options or (),
    )


def parse_query_statement(text: str, tokens: Sequence[Token]) -> QueryStatement:
    """Parse `STOP STREAM query` and the like. Raise InvalidStatement."""
    reader = TokenReader(text, tokens)
    words = {action.upper(): action for action in StreamAction}
    action = words.get(reader.read_word("an action", [*words, _SHOW]))
    reader.expect("STREAM")
    query = reader.read_qualified_name(_QUERY)
    reader.expect_end()
    return QueryStatement(action, query)


def parse_show_definitions(text: str, tokens: Sequence[Token]) -> ShowDefinitions:
    """Parse `SHOW STREAMS` or `SHOW SINKS`. Raise InvalidStatement."""
    reader = TokenReader(text, tokens)
    reader.expect("SHOW")
    entity = ListedEntity(reader.read_word("a list", list(ListedEntity)))
    reader.expect_end()
    return ShowDefinitions(entity)


def parse_drop_definition(text: str, tokens: Sequence[Token]) -> DropDefinition:
    """Parse `DROP STREAM name` or `DROP SINK name`. Raise InvalidStatement."""
    reader = TokenReader(text, tokens)
    reader.expect("DROP")
    definition = DefinedKind(reader.read_word("a kind", list(DefinedKind)))
    name = reader.read_identifier(_STREAM if definition is DefinedKind.STREAM else _SINK)
    reader.expect_end()
    return DropDefinition(definition, name)


def _read_create(reader: TokenReader, entity: str) -> bool:
    """Read `CREATE [OR REPLACE] entity`; return whether it replaces."""
    reader.expect("CREATE")
    replace = reader.accept("OR", "REPLACE")
    reader.expect(entity)
    return replace


def _read_provider(reader: TokenReader, meaning: str) -> str:
    """Read the short name or the class of a provider: `com.acme.Provider`, plain or in quotes."""
    return ".".join(_read_provider_parts(reader, meaning))


def _read_provider_parts(reader: TokenReader, meaning: str) -> tuple[str, ...]:
    """Read the name of a provider like `_read_provider`, and return its parts."""
    if not reader.comes_string():
        return reader.read_qualified_name(meaning)
    start = reader.offset
    name = reader.read_string(meaning)
    if not name.strip():
        raise reader.error("The name of the provider is empty.", offset=start)
    return (name,)


def _name_to_sql(statement: CreateStream | CreateStreamAs | CreateSink) -> str:
    return qualified_name_to_sql((*statement.qualifier, statement.name))


def _create(replace: bool) -> str:
    return "CREATE OR REPLACE" if replace else "CREATE"
