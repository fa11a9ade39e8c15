"""The marker of a checkpoint, and the messages of the link about it. See messages.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from headrace.model.messages import Message
from headrace.model.stream_query import QueryId
from headrace.model.text import Name

MARKER_FORMAT = 1


class CheckpointMarker(BaseModel):
    """The content of the file in a checkpoint that names the query that works on it.

    A reader ignores fields that it does not know, and refuses a higher `format`.
    """

    model_config = ConfigDict(frozen=True)

    format: int = MARKER_FORMAT
    query: QueryId
    session: Annotated[str, StringConstraints(pattern=r"^se_[0-9a-f]{32}$")]
    epoch: Annotated[int, Field(ge=0)]


class FindMarked(Message):
    """`find_marked`: ask whether the query that has marked a checkpoint is still live."""

    query_id: QueryId
    """The query of the driver that is to work on the checkpoint."""
    marked_id: QueryId
    """The query that the marker names."""


class MarkedQuery(Message):
    """Answer to `find_marked`. A query that the store does not know is not live."""

    is_live: bool
    name: Name | None = None
    """Qualified name, if the query belongs to the owner of the session and is live."""
