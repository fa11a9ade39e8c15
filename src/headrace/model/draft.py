"""A draft: the text of an editor, which the store keeps for its user."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

MAX_DRAFT = 1024 * 1024
"""Largest number of bytes of a draft."""
MAX_TITLE = 200


@dataclass(frozen=True, slots=True)
class EditorDraft:
    """A draft as the store holds it."""

    id: str
    owner: str
    """The user who writes it. No other user can read it."""
    title: str
    """Begin of the text, without secrets, in one line."""
    text: str
    """The text; in a list of drafts, empty."""
    connection_id: str | None
    """Connection in which its statements have run. It may be closed."""
    revision: int
    """Raised by each save, from 1."""
    updated_at: datetime
