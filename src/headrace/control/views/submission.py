"""The submission of statements on materialized views, and the query of a view."""

from __future__ import annotations

import re

from headrace.config.settings import Settings
from headrace.control.policy import Caller
from headrace.control.streams.closure import DefinedNames
from headrace.control.streams.submission import QueryPlaces
from headrace.control.views.lookup import lock_view
from headrace.errors import CheckpointOfOtherSink, InvalidStatement
from headrace.grammar.materialized_views import (
    CreateMaterializedView,
    MaterializedViewStatement,
    ViewAction,
)
from headrace.grammar.parse import Command
from headrace.grammar.text import find_position
from headrace.model.ids import new_id
from headrace.model.materialized_view import AUTO_REFRESH_SINK, MaterializedView
from headrace.model.statement import Statement
from headrace.model.stream_query import ADHOC_SCOPE, NewStreamQuery, QuerySpec, RefreshedView
from headrace.store.database import Tx
from headrace.store.streams import stream_queries, views
from headrace.text.durations import parse_duration

_MAX_TEXT = 64 * 1024
"""Largest statement whose text a driver needs again and again."""
_LONG_UNITS = {"millisecond": "ms", "second": "s", "minute": "m", "hour": "h", "day": "d"}
_LONG_INTERVAL = re.compile(r"\s*([0-9]+)\s*([a-z]+?)s?\s*", re.IGNORECASE)
_SHORTEST_SECONDS = 1.0


def check_statement(text: str, command: Command | None) -> None:
    """Raise InvalidStatement if the text alone shows that a view cannot be created."""
    if not isinstance(command, CreateMaterializedView):
        return
    if len(text) > _MAX_TEXT:
        raise InvalidStatement(
            f"A materialized view has at most {_MAX_TEXT:,} characters. This one has {len(text):,}."
        )
    if not command.is_auto_refreshed:
        for name in ("refresh_interval", "checkpoint_location"):
            if any(key == name for key, _value in command.properties):
                raise InvalidStatement(
                    f"{name} needs auto_refresh = true.", position=find_position(text, name)
                )
    read_interval(text, command)


def read_interval(text: str, command: CreateMaterializedView) -> float | None:
    """Return the seconds between two refreshes, or None if the view has no interval.

    Raise InvalidStatement if the property is not a duration of at least one second.
    """
    written = command.refresh_interval
    if written is None:
        return None
    position = find_position(text, written)
    match = _LONG_INTERVAL.fullmatch(written)
    unit = None if match is None else _LONG_UNITS.get(match[2].lower())
    try:
        interval = parse_duration(written if match is None or unit is None else match[1] + unit)
    except ValueError as error:
        raise InvalidStatement(f"refresh_interval: {error}.", position=position) from error
    if interval.total_seconds() < _SHORTEST_SECONDS:
        raise InvalidStatement(
            f"refresh_interval is {written!r}. The shortest interval is 1 second.",
            position=position,
        )
    return interval.total_seconds()


def prepare(
    tx: Tx, caller: Caller, settings: Settings, statement: Statement, command: Command | None
) -> None:
    """Check a statement that was just stored, and reserve the view that it refreshes.

    Raises:
        MaterializedViewNotFound, MaterializedViewBusy: For a REFRESH.
        InvalidStatement: For a REFRESH of a view that a query refreshes.
        StreamNameExists, CheckpointInUse, CheckpointOfOtherSink: The query of a view that refreshes
            itself could not start.
    """
    if isinstance(command, MaterializedViewStatement) and command.action is ViewAction.REFRESH:
        view = lock_view(tx, caller, command.name)
        if view.query_id is not None:
            raise InvalidStatement(
                f"The materialized view {view.qualified_name} refreshes itself by the streaming"
                f" query {view.name}.",
                hint=f"SHOW STREAM `{view.name}` shows its state.",
            )
        views.assign(tx, view.id, statement.id)
    elif isinstance(command, CreateMaterializedView) and command.is_auto_refreshed:
        stream_queries.check_new(tx, _make_query(tx, settings, statement, command, None))


def insert_query(
    tx: Tx,
    settings: Settings,
    statement: Statement,
    command: CreateMaterializedView,
    *,
    view: MaterializedView,
    actor: str,
) -> None:
    """Insert the query of a view that refreshes itself. It starts when the statement has succeeded.

    Raise as `prepare` does.
    """
    new = _make_query(tx, settings, statement, command, view)
    stream_queries.insert_query(tx, new, actor=actor)
    views.attach_query(tx, view.id, new.id)


def list_streams(tx: Tx, owner: str, command: CreateMaterializedView) -> list[str]:
    """Return the statements that define the streams that the query of a view reads, in order."""
    defined = DefinedNames(tx, owner, ADHOC_SCOPE)
    return defined.list_needed_by_query(command.query, defining=command.name[-1])


def _make_query(
    tx: Tx,
    settings: Settings,
    statement: Statement,
    command: CreateMaterializedView,
    view: MaterializedView | None,
) -> NewStreamQuery:
    """Return the query of a view; the view is None before the driver has resolved its name."""
    places = QueryPlaces(tx, settings, statement)
    places.check_retry_policy()
    name = command.name[-1]
    given = command.checkpoint_location
    checkpoint = None if given is None else places.of_session.to_hadoop_form(given)
    if checkpoint is None and view is not None:
        # A view that is created again must not continue the batches of the dropped one.
        checkpoint = places.join_checkpoint(name, view.id)
    checkpoint_place = places.identify_checkpoint(checkpoint)
    used = (
        None
        if checkpoint_place is None
        else stream_queries.find_last_of_checkpoint(tx, statement.owner, checkpoint_place)
    )
    if used is not None and used.last_batch is not None:
        raise CheckpointOfOtherSink(
            f"The checkpoint {checkpoint} belongs to the query {used.qualified_name} ({used.id}).",
            hint="Choose another checkpoint_location.",
        )
    target = None
    if view is not None:
        interval = read_interval(statement.spec.text, command)
        target = RefreshedView(
            id=view.id,
            rows=view.rows,
            interval_seconds=interval,
            grace_seconds=settings.materialized_views.grace.total_seconds(),
            expectations=command.expectations,
        )
    spec = QuerySpec(
        text=statement.spec.text,
        definitions=list_streams(tx, statement.owner, command),
        sink=AUTO_REFRESH_SINK,
        checkpoint=checkpoint,
        conf=statement.spec.conf,
        view=target,
    )
    return NewStreamQuery(
        id=new_id("sq"),
        owner=statement.owner,
        scope=ADHOC_SCOPE,
        name=name,
        spec=spec,
        checkpoint_place=checkpoint_place,
        session_id=statement.session_id,
        statement_id=statement.id,
    )
