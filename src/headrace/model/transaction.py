"""A table transaction: the journal's row of one table that a CTAS creates whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from headrace.model.lifecycle import TransactionState


class Staged(BaseModel):
    """What another process needs to finish a two-phase table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    """The name of the catalog implementation that wrote the record and can read it."""
    catalog: str
    """The name of the catalog in the session."""
    identity: str
    """Which catalog that is, wherever it is configured: who has the same one can finish it."""
    target: str
    """The name of the table within it, in lower case."""
    location: str | None = None
    """The URI of a LOCATION that its files are published in."""
    record: dict[str, Any]
    """That implementation's own."""
    commits_natively: bool = False
    """Whether the table may be visible from `begun` on: only its catalog knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A table transaction as the store holds it."""

    id: str
    statement_id: str
    session_id: str
    """Whose driver holds it."""
    epoch: int
    state: TransactionState
    staged: Staged
    created_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether its table may be visible already, whatever becomes of its statement."""
        begun = self.staged.commits_natively and self.state is TransactionState.BEGUN
        return begun or self.state is TransactionState.COMMITTING
