"""Who a driver is to the store: the holder of one epoch of one session."""

from __future__ import annotations

from headrace.errors import LeaseLost
from headrace.model.lifecycle import SESSION
from headrace.store import driver_view
from headrace.store.database import Tx
from headrace.store.driver_view import DriverView


def load_owned_view(tx: Tx, session_id: str, epoch: int) -> DriverView:
    """What the driver of an epoch has to do. Raises LeaseLost when the session is not its."""
    duty = driver_view.load_driver_view(tx, session_id)
    if duty is None or duty.epoch != epoch or duty.state in SESSION.terminal:
        raise LeaseLost(f"Epoch {epoch} of session {session_id} is over.")
    return duty


def driver_actor(session_id: str, epoch: int) -> str:
    """The driver as events name it."""
    return f"driver:{session_id}:{epoch}"
