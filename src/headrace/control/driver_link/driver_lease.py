"""The check that a driver still owns its session."""

from __future__ import annotations

from headrace.errors import LeaseLost
from headrace.model.lifecycle import SESSION
from headrace.model.session import DriverLease
from headrace.store.database import Tx
from headrace.store.sessions.lease_renewals import DriverView, load_driver_view


def load_owned_view(tx: Tx, lease: DriverLease) -> DriverView:
    """Return the view of a session for its driver.

    Raise LeaseLost if the session has ended or another epoch owns it.
    """
    view = load_driver_view(tx, lease.session_id)
    if view is None or view.epoch != lease.epoch or view.state in SESSION.terminal:
        raise LeaseLost(f"Epoch {lease.epoch} of session {lease.session_id} is superseded.")
    return view
