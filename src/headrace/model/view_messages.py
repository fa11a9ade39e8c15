"""The messages of the link that concern materialized views. See messages.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.model.failure import Failure
from headrace.model.materialized_view import (
    CatalogIntent,
    IntentId,
    MaterializedViewId,
    ViewRows,
)
from headrace.model.messages import MAX_CATALOGS, CatalogIdentity, Message
from headrace.model.stream_query import QuerySpec
from headrace.model.text import IndexedText, MessageText, SmallCount, StatementId

_MAX_REPORTED = 100
"""Largest number of intents whose outcome one message reports."""


class NewView(Message):
    """The materialized view that a CREATE MATERIALIZED VIEW creates, as its driver resolves it."""

    identity: IndexedText
    """Identity of the catalog."""
    rows: ViewRows


class BeginGeneration(Message):
    """`begin_generation`: begin the next generation of the view that a statement writes."""

    statement_id: StatementId
    new: NewView | None = None
    """The view, if the statement creates it."""


class Generation(Message):
    """Answer to `begin_generation`."""

    view: MaterializedViewId | None = None
    """None: the generation was not begun."""
    number: int = 0
    busy: bool = False
    """Whether the table of an earlier generation may still be published: ask again."""
    failure: Failure | None = None
    """Why the statement fails. None without a view: the statement is being cancelled."""


class IntentError(Message):
    """Why an intent could not be carried out."""

    id: IntentId
    message: MessageText
    attempt: SmallCount | None = None
    """Number of the claim. None: a driver of the version before does not name it."""


class CarryOut(Message):
    """`carry_out`: report the outcome of intents, and claim others of the driver's catalogs."""

    identities: Annotated[list[CatalogIdentity], Field(max_length=MAX_CATALOGS, fail_fast=True)]
    clears_sinks: bool = False
    """Whether the driver also removes the staging tables of ended queries."""
    done: Annotated[list[IntentId], Field(max_length=_MAX_REPORTED, fail_fast=True)] = []  # noqa: RUF012 - pydantic copies it
    failed: Annotated[list[IntentError], Field(max_length=_MAX_REPORTED, fail_fast=True)] = []  # noqa: RUF012 - pydantic copies it


class SinkIntent(Message):
    """Remove the staging tables that the lost drivers of an ended query have left in its sink."""

    id: IntentId
    query_id: str
    spec: QuerySpec
    attempt: SmallCount
    """See `CatalogIntent`."""


class Intents(Message):
    """Answer to `carry_out`: the intents that the driver must carry out now."""

    intents: list[CatalogIntent]
    sinks: list[SinkIntent] = []  # noqa: RUF012 - pydantic copies it
