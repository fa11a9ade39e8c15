"""Drivers that poll another process than before, which then needs their wake-ups."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.messages import Orders
from headrace.model.session import DriverLease
from headrace.store.database import Database
from headrace.store.sessions import sessions
from headrace.store.sessions.lease_renewals import DriverView


@dataclass(frozen=True, slots=True)
class Polled:
    """The orders for a driver, and whether it polled another process before."""

    orders: Orders
    link_moved: bool


def move_link(database: Database, lease: DriverLease, view: DriverView) -> bool:
    """Ask for the wake-ups of a driver that polled another process. Return whether it did."""
    if not database.is_shared or view.link_process == database.process:
        return False
    with database.write("link.move") as tx:
        sessions.move_link(tx, lease, database.process)
    return True
