"""Errors of materialized views."""

from __future__ import annotations

from headrace.errors.refusals import Conflict, NotFound
from headrace.errors.statements import StatementFailed


class MaterializedViewNotFound(NotFound):
    """The materialized view does not exist, or its name is ambiguous."""

    code = "materialized_view_not_found"


class MaterializedViewExists(Conflict):
    """A materialized view with this name already exists in the catalog."""

    code = "materialized_view_exists"


class MaterializedViewBusy(Conflict):
    """Another statement creates or refreshes the materialized view."""

    code = "materialized_view_busy"


class InvalidMaterializedView(StatementFailed):
    """The query or the catalog does not allow this materialized view."""

    code = "invalid_materialized_view"
