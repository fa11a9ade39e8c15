"""A materialized view: the stored rows of a query, under the name of a view.

Each refresh writes a new generation of the rows. In Spark's own catalog, a generation is a table of
its own, such as `__mv_daily_7`, and a catalog view with the name of the materialized view selects
from it. In a catalog that replaces tables atomically, the rows are a table with that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from headrace.model.lifecycle import MaterializedViewState
from headrace.model.text import Name

AUTO_REFRESH_SINK = "materialized_view"
"""Name of the sink of a query that refreshes a view."""
MATERIALIZED_VIEW_PROPERTY = "headrace.materialized_view"
"""Property of catalog views and tables: the id of the materialized view that they belong to."""
REPLACED_AT_PROPERTY = "headrace.replaced_at"
"""Property of the table of an old generation: when its query found it replaced, in Unix seconds."""

MaterializedViewId = Annotated[str, StringConstraints(pattern=r"^mv_[0-9a-f]{32}$")]
IntentId = Annotated[str, StringConstraints(pattern=r"^ci_[0-9a-f]{32}$")]
ViewPath = Annotated[list[Name], Field(min_length=2, max_length=20)]
"""Catalog, namespace and name."""


class RowStorage(StrEnum):
    """How a materialized view gets its next generation of rows."""

    GENERATIONS = "generations"  # a catalog view switches to the table of the next generation
    REPLACEMENT = "replacement"  # the catalog replaces the table


class NameScope(BaseModel):
    """The catalog and namespace in which names of a query are resolved."""

    model_config = ConfigDict(frozen=True)

    catalog: Name
    namespace: Annotated[list[Name], Field(max_length=20)]


class ViewRows(BaseModel):
    """Where the rows of a materialized view are, and how its query is resolved."""

    model_config = ConfigDict(frozen=True)

    path: ViewPath
    storage: RowStorage
    scope: NameScope


class SwitchedView(BaseModel):
    """The materialized view whose next generation a table transaction publishes."""

    model_config = ConfigDict(frozen=True)

    id: MaterializedViewId
    path: ViewPath


class ViewToRefresh(BaseModel):
    """A materialized view whose next generation a driver writes."""

    model_config = ConfigDict(frozen=True)

    id: MaterializedViewId
    text: str
    """The CREATE MATERIALIZED VIEW statement."""
    identity: str
    """Identity of the catalog that has the view."""
    rows: ViewRows


class IntentAction(StrEnum):
    """What an intent asks the next driver with the catalog to do."""

    DROP_VIEW = "drop_view"  # with all its rows
    DROP_GENERATION = "drop_generation"
    DROP_STAGING = "drop_staging"  # the staging tables of an ended query


class CatalogIntent(BaseModel):
    """A change of a catalog that a driver must still make. Repeating it is harmless."""

    model_config = ConfigDict(frozen=True)

    id: IntentId
    action: IntentAction
    identity: str
    """Identity of the catalog."""
    view: MaterializedViewId
    path: ViewPath
    """Path of the view."""
    generation: int | None = None
    """Generation to drop."""
    attempt: int | None = None
    """Number of the claim, which the report of a failure names. None: from an older node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedView:
    """A materialized view as the store holds it."""

    id: str
    owner: str
    name: str
    identity: str
    """Identity of the catalog."""
    target: str
    """Lock key of the name in the catalog."""
    text: str
    """The CREATE MATERIALIZED VIEW statement."""
    rows: ViewRows
    statement_id: str
    """The last statement that was to write a generation."""
    writer_id: str
    """The statement that began the generation `generation`."""
    writer_attempt: int | None
    """Attempt of that statement. None: a node of an earlier version has written the row."""
    generation: int
    """Number of the last generation that was begun."""
    began_at: datetime
    """When that generation was begun."""
    current_generation: int | None
    """Generation that readers see; None while the view is being created."""
    fresh_as_of: datetime | None
    """Time before which all changes of the sources are in the current generation."""
    query_id: str | None
    """The query that refreshes the view, or its first attempt; None: only statements refresh it."""
    created_at: datetime
    ended_at: datetime | None

    @property
    def qualified_name(self) -> str:
        return ".".join(self.rows.path)

    @property
    def state(self) -> MaterializedViewState:
        is_complete = self.current_generation is not None
        if self.ended_at is None:
            return MaterializedViewState.ACTIVE if is_complete else MaterializedViewState.CREATING
        return MaterializedViewState.DROPPED if is_complete else MaterializedViewState.FAILED


def generation_name(view: str, generation: int) -> str:
    """Return the name of the table of a generation."""
    return f"__mv_{view}_{generation}"
