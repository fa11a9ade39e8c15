"""What makes a session, as its driver last told it: from this a new driver rebuilds it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class EntryForm(StrEnum):
    """How the body of a part is to be read."""

    SQL = "sql"  # the statement that makes it again
    FUNCTION = "function"  # Spark's own JSON of an SQL function
    JAVA = "java"  # base64 of what Spark holds of it, serialised by Java


class SnapshotEntry(BaseModel):
    """A view, a function or a variable of a session."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    form: EntryForm
    body: str
    default: str | None = None
    """Of a variable: the expression that DEFAULT stands for."""


class Snapshot(BaseModel):
    """Session state that outlives a driver. Tables are the catalog's; cached data is not kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    conf: dict[str, str] = {}
    """What was set since the driver started."""
    catalog: str
    namespace: list[str]
    variables: list[SnapshotEntry] = []
    """By value: a default such as `uuid()` would give another one."""
    functions: list[SnapshotEntry] = []
    views: list[SnapshotEntry] = []
    global_views: list[SnapshotEntry] = []
    jars: list[str] = []
    files: list[str] = []
    archives: list[str] = []
    unsaved: list[str] = []
    """What could not be taken: it will be lost with the driver. In words."""
