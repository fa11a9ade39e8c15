"""The state of a session, as its driver last reported it. A new driver restores this state."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class EntryForm(StrEnum):
    """Format of the body of a snapshot entry."""

    SQL = "sql"  # the statement that creates the entry
    FUNCTION = "function"  # Spark's JSON of a SQL function
    JAVA = "java"  # base64 of the Java-serialised object that Spark holds


class SnapshotEntry(BaseModel):
    """A view, a function or a variable of a session."""

    model_config = ConfigDict(frozen=True)

    name: str
    form: EntryForm
    body: str
    default: str | None = None
    """For a variable: the expression that DEFAULT stands for."""


class Snapshot(BaseModel):
    """Session state that outlives a driver. The catalog holds tables; cached data is not kept."""

    model_config = ConfigDict(frozen=True)

    conf: dict[str, str] = {}
    """Configuration that changed since the driver started."""
    catalog: str
    namespace: list[str]
    variables: list[SnapshotEntry] = []
    """Session variables by value: a default such as `uuid()` would give another value."""
    functions: list[SnapshotEntry] = []
    views: list[SnapshotEntry] = []
    global_views: list[SnapshotEntry] = []
    jars: list[str] = []
    files: list[str] = []
    archives: list[str] = []
    unsaved: list[str] = []
    """Descriptions of state that could not be captured, and that is lost with the driver."""
