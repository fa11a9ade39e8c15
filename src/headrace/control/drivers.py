"""Who a driver is to the store: the holder of one epoch of one session."""

from __future__ import annotations

from headrace.errors import LeaseLost
from headrace.model.lifecycle import SESSION
from headrace.store import duties
from headrace.store.database import Tx
from headrace.store.duties import Duty


def duty_of(tx: Tx, session_id: str, epoch: int) -> Duty:
    """What the driver of an epoch has to do. Raises LeaseLost when the session is not its."""
    duty = duties.duty(tx, session_id)
    if duty is None or duty.epoch != epoch or duty.state in SESSION.terminal:
        raise LeaseLost(f"Epoch {epoch} of session {session_id} is over.")
    return duty


def name_of(session_id: str, epoch: int) -> str:
    """The driver as events name it."""
    return f"driver:{session_id}:{epoch}"
