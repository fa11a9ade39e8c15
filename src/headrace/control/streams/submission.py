"""The submission of statements on streams: checks, and the row of a query that is to start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.config.settings import Settings
from headrace.control.places import SessionPlaces, to_file_name
from headrace.control.streams.checks import (
    ChosenSink,
    check_create_sink,
    check_create_stream,
    check_is_unqualified,
    check_partition_columns,
    check_retry_options,
    check_source_trigger,
    choose_sink,
)
from headrace.control.streams.closure import DefinedNames
from headrace.errors import CheckpointOfOtherSink, InvalidSetting, InvalidStatement
from headrace.files.places import join
from headrace.grammar.clauses import Options
from headrace.grammar.parse import Command
from headrace.grammar.stream_statements import (
    CreateSink,
    CreateStream,
    CreateStreamAs,
    SaveStream,
)
from headrace.model.ids import new_id
from headrace.model.session import Session, SessionView, Snapshot
from headrace.model.statement import Statement
from headrace.model.stream_providers import CHECKPOINT_OPTION
from headrace.model.stream_query import ADHOC_SCOPE, DefinitionKind, NewStreamQuery, QuerySpec
from headrace.store.database import Tx
from headrace.store.sessions import sessions
from headrace.store.streams import definitions, stream_queries


def order_views(snapshot: Snapshot, names: Iterable[str]) -> list[SessionView]:
    """Return the views of a session with these names, each after the views that it reads.

    A name of something else is skipped. So is a view without a query in the snapshot.
    """
    by_name = {
        entry.name.casefold(): entry.view for entry in snapshot.views if entry.view is not None
    }
    ordered: dict[str, SessionView] = {}
    begun = set[str]()
    # A driver may claim that its views form a long chain.
    stack = [(name.casefold(), False) for name in names]
    while stack:
        name, is_done = stack.pop()
        view = by_name.get(name)
        if view is None:
            continue
        if is_done:
            ordered[name] = view
        elif name not in begun:
            begun.add(name)
            stack.append((name, True))
            stack += [(read.casefold(), False) for read in view.reads]
    return list(ordered.values())


def list_streams_read(views: Iterable[SessionView]) -> list[str]:
    """Return the names that these views read and that are none of these views."""
    own, names = set[str](), dict[str, None]()
    for view in views:
        own.add(view.name.casefold())
        names |= dict.fromkeys(read.casefold() for read in view.reads)
    return [name for name in names if name not in own]


_KEPT = (CreateStream, CreateStreamAs, CreateSink, SaveStream)
_MAX_TEXT = 64 * 1024
"""Largest statement whose text a driver needs again and again."""
_MAX_VIEWS = 1024 * 1024
"""Largest number of characters of the queries of the temporary views that a query reads."""
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"


def check_statement(text: str, command: Command | None) -> None:
    """Raise InvalidStatement if the text alone shows that a statement on streams cannot work."""
    if isinstance(command, _KEPT) and len(text) > _MAX_TEXT:
        raise InvalidStatement(
            f"A statement on streams has at most {_MAX_TEXT:,} characters. This one has"
            f" {len(text):,}."
        )
    if isinstance(command, CreateStream | CreateStreamAs | CreateSink):
        check_is_unqualified(text, command)
    if isinstance(command, CreateStream):
        check_create_stream(text, command)
    elif isinstance(command, CreateSink):
        check_create_sink(text, command)


def prepare(
    tx: Tx,
    settings: Settings,
    statement: Statement,
    command: Command | None,
    *,
    state: Snapshot | None,
) -> None:
    """Check a statement that was just stored against the definitions of its owner.

    For a SAVE STREAM, insert the query that it starts.

    Args:
        state: State of the session or the connection that the request names. A SAVE STREAM reads
            its temporary views, also if the query runs in a session of its own.

    Raises:
        InvalidStatement: With the position, if the query cannot start.
        InvalidSetting: An option of the retry policy has a wrong value.
        InvalidLocation: A path or a checkpoint contains a password, or Spark cannot read it.
        DefinitionExists: The stream or sink to create exists.
        StreamNameExists, CheckpointInUse: Another live query has the name or the checkpoint.
    """
    if isinstance(command, SaveStream):
        _insert_query(tx, settings, statement, command, state)
    elif isinstance(command, CreateStream | CreateStreamAs):
        _check_is_new(tx, statement.owner, DefinitionKind.STREAM, command.name, command.replace)
    elif isinstance(command, CreateSink):
        _check_is_new(tx, statement.owner, DefinitionKind.SINK, command.name, command.replace)
        check_retry_options(command.options, {})


def _check_is_new(tx: Tx, owner: str, kind: DefinitionKind, name: str, replace: bool) -> None:
    """Raise DefinitionExists if the name is taken. The definition itself is checked once more."""
    existing = [] if replace else definitions.find(tx, owner, ADHOC_SCOPE, kind, [name])
    if existing:
        raise definitions.build_exists_error(kind, existing[0].name)


class QueryPlaces:
    """Where the query of a statement keeps its state, and the configuration that decides it.

    Locations raise InvalidLocation if Spark cannot read them, or if they contain a password.
    """

    def __init__(self, tx: Tx, settings: Settings, statement: Statement) -> None:
        session = sessions.get(tx, statement.session_id)
        assert session is not None
        self._settings = settings
        self.conf = _read_conf(tx, settings, session) | statement.spec.conf
        self.of_session = SessionPlaces(settings, session.spec.profile, self.conf)
        self.job_id = stream_queries.job_id(statement.owner, ADHOC_SCOPE)

    def check_retry_policy(self, options: Options = ()) -> None:
        """Raise InvalidSetting unless the retry policy of the query is valid."""
        check_retry_options(options, self.conf)

    def join_checkpoint(self, *parts: str) -> str:
        """Return the location of a write-ahead log without a location of its own."""
        return self._join(self.conf.get(_CHECKPOINTS) or self._settings.checkpoints, *parts)

    def join_path(self, name: str) -> str:
        """Return the location of the rows of a sink without a path."""
        return self._join(self._settings.streams_location, name)

    def identify_checkpoint(self, checkpoint: str | None) -> str | None:
        """Return the identity of the place of a checkpoint, by which the store compares it."""
        return None if checkpoint is None else self.of_session.identify(checkpoint)

    def _join(self, location: str, *names: str) -> str:
        start = self.of_session.to_hadoop_form(location)
        return join(start, *map(to_file_name, (self.job_id, *names)))


def _insert_query(
    tx: Tx, settings: Settings, statement: Statement, command: SaveStream, state: Snapshot | None
) -> None:
    text, owner = statement.spec.text, statement.owner
    defined = DefinedNames(tx, owner, ADHOC_SCOPE)
    named_sink = _find_sink(command, defined)
    sinks = {} if named_sink is None else {named_sink.name.casefold(): named_sink}
    sink = choose_sink(text, command, sinks)
    views = _find_views(command, state)
    if not views:
        _check_source(text, command, sink, defined)
    streams = list_streams_read(views) if views else _source_names(command)
    places = QueryPlaces(tx, settings, statement)
    places.check_retry_policy(sink.options)
    spec = QuerySpec(
        text=text,
        definitions=[
            *defined.list_needed(streams),
            *([] if named_sink is None else [named_sink.to_sql()]),
        ],
        views=views,
        sink=sink.provider.name,
        path=_choose_path(places, sink, command.name),
        checkpoint=_choose_checkpoint(places, sink, command.name),
        conf=statement.spec.conf,
    )
    checkpoint_place = places.identify_checkpoint(spec.checkpoint)
    _check_place(tx, owner, spec, sink, places.of_session, checkpoint_place)
    new = NewStreamQuery(
        id=new_id("sq"),
        owner=owner,
        scope=ADHOC_SCOPE,
        name=command.name,
        spec=spec,
        checkpoint_place=checkpoint_place,
        session_id=statement.session_id,
        statement_id=statement.id,
    )
    stream_queries.insert_query(tx, new, actor=owner)


def list_needed_definitions(tx: Tx, owner: str, command: CreateStreamAs) -> list[str]:
    """Return the statements that define the streams that a new stream reads, in order."""
    defined = DefinedNames(tx, owner, ADHOC_SCOPE)
    return defined.list_needed_by_query(command.query, defining=command.name)


def _find_sink(command: SaveStream, defined: DefinedNames) -> CreateSink | None:
    """Return the defined sink to which a query writes, or None."""
    if command.to_table or len(command.target) > 1:
        return None
    return defined.find_sink(command.target[0])


def _source_names(command: SaveStream) -> list[str]:
    return [command.source[0]] if len(command.source) == 1 else []


def _find_views(command: SaveStream, state: Snapshot | None) -> list[SessionView]:
    """Return the temporary view that a query reads, after the temporary views that this one reads.

    A temporary view comes before a stream with the same name, as in the statements of its session.
    """
    if state is None:
        return []
    views = order_views(state, _source_names(command))
    if sum(len(view.query) for view in views) > _MAX_VIEWS:
        raise InvalidStatement(
            f"The temporary view {command.source[0]} and those that it reads are larger than"
            f" {_MAX_VIEWS:,} characters.",
            hint="Define it as a stream: CREATE STREAM … AS SELECT …",
        )
    return views


def _check_source(text: str, command: SaveStream, sink: ChosenSink, defined: DefinedNames) -> None:
    """Check TRIGGER and PARTITIONED ON against the source, as far as its definition tells.

    The driver checks them for every other source.
    """
    stream = defined.find_stream(command.source[0]) if len(command.source) == 1 else None
    columns = command.columns
    if isinstance(stream, CreateStream):
        check_source_trigger(text, command, stream)
        columns = stream.columns if columns is None else columns
    if columns is not None:
        check_partition_columns(text, sink.partitioned_on, [column.name for column in columns])


def _check_place(
    tx: Tx,
    owner: str,
    spec: QuerySpec,
    sink: ChosenSink,
    places: SessionPlaces,
    checkpoint_place: str | None,
) -> None:
    """Raise CheckpointOfOtherSink if a sink of files would continue the batches of another place.

    The log of the files in the sink would lack the batches before, and Spark would fail when it
    compacts the log.
    """
    if not sink.provider.has_default_path or checkpoint_place is None:
        return
    last = stream_queries.find_last_of_checkpoint(tx, owner, checkpoint_place)
    if last is None or last.last_batch is None:
        return
    if last.spec.sink != spec.sink or not places.is_same(last.spec.path, spec.path):
        raise CheckpointOfOtherSink(
            f"The checkpoint {spec.checkpoint} belongs to the query {last.qualified_name}"
            f" ({last.id}), which has written to {last.spec.sink}"
            f"{f' at {last.spec.path}' if last.spec.path else ''}.",
            hint="Choose another name with IDENTIFIED BY, or another checkpointLocation.",
        )


def _read_conf(tx: Tx, settings: Settings, session: Session) -> dict[str, str]:
    """Return the configuration that the session of a query has, as far as the store knows it."""
    try:
        profile_conf: Mapping[str, str] = settings.profile(session.spec.profile).conf
    except InvalidSetting:
        # Only other nodes have the profile.
        profile_conf = {}
    snapshot = sessions.get_snapshot(tx, session.id)
    changed = {} if snapshot is None else snapshot.conf
    return {**profile_conf, **session.spec.conf, **changed}


def _choose_path(places: QueryPlaces, sink: ChosenSink, name: str) -> str | None:
    if not sink.provider.has_default_path:
        return None
    chosen = sink.by_key.get("path")
    return places.of_session.to_hadoop_form(chosen) if chosen else places.join_path(name)


def _choose_checkpoint(places: QueryPlaces, sink: ChosenSink, name: str) -> str | None:
    if not sink.provider.write_ahead_log:
        return None
    chosen = sink.by_key.get(CHECKPOINT_OPTION.lower())
    if chosen is not None:
        return places.of_session.to_hadoop_form(chosen)
    return places.join_checkpoint(name)
