"""The state of a session, as its driver last reported it. A new driver restores this state."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headrace.model.text import MAX_REPORT, Descriptions

MAX_PARTS = 10_000
"""Largest number of settings, of entries of one kind, and of files of one kind."""

# A NUL is allowed: the value of a setting and the text of a view may contain it.
_Text = Annotated[str, Field(max_length=MAX_REPORT)]
_Texts = Annotated[list[_Text], Field(max_length=MAX_PARTS, fail_fast=True)]


class EntryForm(StrEnum):
    """Format of the body of a snapshot entry."""

    SQL = "sql"  # the statement that creates the entry
    FUNCTION = "function"  # Spark's JSON of a SQL function
    JAVA = "java"  # base64 of the Java-serialised object that Spark holds


class SessionView(BaseModel):
    """A temporary view of a session, with all that another session needs to create it again."""

    model_config = ConfigDict(frozen=True)

    name: _Text
    query: _Text
    columns: _Texts = []
    """Names of its columns, if they are not those of the query."""
    catalog: _Text
    namespace: _Texts
    """Catalog and namespace in which its query resolves names."""
    conf: Annotated[dict[_Text, _Text], Field(max_length=MAX_PARTS)] = {}
    """Configuration with which Spark analyses its query."""
    reads: _Texts = []
    """Names of the temporary views that its query reads, streams included."""


class SnapshotEntry(BaseModel):
    """A view, a function or a variable of a session."""

    model_config = ConfigDict(frozen=True)

    name: _Text
    form: EntryForm
    body: _Text
    default: _Text | None = None
    """For a variable: the expression that DEFAULT stands for."""
    view: SessionView | None = None
    """For a temporary view with a query: what a streaming query over the view needs."""


_Entries = Annotated[list[SnapshotEntry], Field(max_length=MAX_PARTS, fail_fast=True)]


class Snapshot(BaseModel):
    """Session state that outlives a driver. The catalog holds tables; cached data is not kept."""

    model_config = ConfigDict(frozen=True)

    conf: Annotated[dict[_Text, _Text], Field(max_length=MAX_PARTS)] = {}
    """Configuration that changed since the driver started."""
    catalog: _Text
    namespace: _Texts
    variables: _Entries = []
    """Session variables by value: a default such as `uuid()` would give another value."""
    functions: _Entries = []
    views: _Entries = []
    global_views: _Entries = []
    jars: _Texts = []
    files: _Texts = []
    archives: _Texts = []
    unsaved: Descriptions = []
    """Descriptions of state that could not be captured, and that is lost with the driver."""
