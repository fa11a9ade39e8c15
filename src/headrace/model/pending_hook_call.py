"""A hook call that is pending because the driver that ran the statement was lost."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState


class PendingHookCall(BaseModel):
    """A statement that ended without a driver; the hooks of the next driver are notified of it."""

    model_config = ConfigDict(frozen=True)

    statement_id: str
    text: str
    attempt: int
    state: StatementState
    failure: Failure | None
