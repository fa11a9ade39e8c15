"""A stream or a sink, as CREATE STREAM or CREATE SINK has defined it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class DefinitionKind(StrEnum):
    """What a definition describes."""

    STREAM = "stream"
    SINK = "sink"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A definition. Its name, in any case, is unique among the live ones of its kind and scope."""

    owner: str
    scope: str
    kind: DefinitionKind
    name: str
    text: str
    """The complete statement."""
    created_at: datetime | None = None
