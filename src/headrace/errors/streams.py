"""Errors of streams, sinks and streaming queries."""

from __future__ import annotations

from headrace.errors.base import EXIT_CONFLICT, HeadraceError
from headrace.errors.refusals import Conflict, NotFound
from headrace.errors.statements import StatementFailed


class StreamNotFound(NotFound):
    """The streaming query does not exist."""

    code = "stream_not_found"


class DefinitionNotFound(NotFound):
    """The stream or sink is not defined."""

    code = "definition_not_found"


class DefinitionExists(Conflict):
    """A stream or sink with this name is already defined."""

    code = "definition_exists"


class StreamNameExists(Conflict):
    """A live streaming query already has this name."""

    code = "stream_name_exists"


class CheckpointInUse(Conflict):
    """A live streaming query already uses this checkpoint."""

    code = "checkpoint_in_use"


class CheckpointTakenOver(Conflict):
    """Another query has started with the checkpoint of this one, so that Spark stopped this one."""

    code = "checkpoint_taken_over"


class CheckpointMarkerInvalid(Conflict):
    """The file that names the query of a checkpoint is damaged, or of a newer version."""

    code = "checkpoint_marker_invalid"


class CheckpointOfOtherSink(Conflict):
    """The checkpoint belongs to a query that wrote to another place."""

    code = "checkpoint_of_other_sink"


class TooManyStreams(HeadraceError):
    """Too many streaming queries are live in the session, or of the owner."""

    code = "too_many_streams"
    status = 429
    exit_code = EXIT_CONFLICT


class StreamStateConflict(Conflict):
    """The state of the streaming query does not allow this request."""

    code = "stream_state_conflict"


class MaterializedViewNotFound(NotFound):
    """The materialized view does not exist, or its name is ambiguous."""

    code = "materialized_view_not_found"
    condition = "TABLE_OR_VIEW_NOT_FOUND"
    sqlstate = "42P01"


class MaterializedViewExists(Conflict):
    """A materialized view with this name already exists in the catalog."""

    code = "materialized_view_exists"
    condition = "TABLE_OR_VIEW_ALREADY_EXISTS"
    sqlstate = "42P07"


class MaterializedViewBusy(Conflict):
    """Another statement creates or refreshes the materialized view."""

    code = "materialized_view_busy"


class InvalidMaterializedView(StatementFailed):
    """The query or the catalog does not allow this materialized view."""

    code = "invalid_materialized_view"
