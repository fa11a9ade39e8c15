"""The end of a statement that hooks have not heard of, because their driver was lost."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState


class PendingHookCall(BaseModel):
    """A statement, and how it ended: neither as a success nor by its driver."""

    model_config = ConfigDict(frozen=True)

    statement_id: str
    text: str
    attempt: int
    state: StatementState
    failure: Failure | None
