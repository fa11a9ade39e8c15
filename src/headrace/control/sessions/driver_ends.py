"""The end of drivers together with their node, or with everything on their host."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.control.context import NodeContext
from headrace.control.sessions.ending import close_session
from headrace.control.sessions.takeover import Takeovers
from headrace.model.session import DriverLease, Session
from headrace.store.sessions import sessions

_CLOSE_SECONDS = 15.0


class DriverEnds:
    """Ends drivers, with their unnamed sessions. Named sessions can be recovered later."""

    def __init__(self, context: NodeContext, driver_takeovers: Takeovers) -> None:
        self._database = context.database
        self._node_id = context.node_id
        self._lease_seconds = context.lease_seconds
        self._takeovers = driver_takeovers

    def end_own(self) -> None:
        """End the drivers that this node has launched, for at most 15 s. Raises StoreUnavailable.

        The only node of a store also has the sessions that no node has launched.
        """
        is_only_node = not self._database.is_shared
        launched_by = None if is_only_node else self._node_id
        with self._database.read() as tx:
            own = sessions.live(tx, launched_by=launched_by)
        self._end(own, "its node has stopped", seconds=_CLOSE_SECONDS)

    def end_where(self, is_here: Callable[[Session], bool]) -> tuple[list[Session], list[Session]]:
        """End the drivers of the sessions of the store for which `is_here` is true.

        Return these sessions, and those of them whose drivers may still run. A takeover that
        another node has begun is awaited until its lease expires. Raises StoreUnavailable.
        """
        with self._database.read() as tx:
            leased = [each for each in sessions.live(tx) if each.lease_until is not None]
        chosen = [session for session in leased if is_here(session)]
        seconds = _CLOSE_SECONDS + self._lease_seconds
        return chosen, self._end(chosen, "headrace stop has ended it", seconds=seconds)

    def _end(self, chosen: list[Session], reason: str, *, seconds: float) -> list[Session]:
        """End the drivers of these sessions; return the sessions whose drivers may still run."""
        with self._database.write("node.close_sessions") as tx:
            for session in chosen:
                if session.name is None or not _can_be_recovered(session):
                    close_session(tx, session.id, actor=self._node_id)
        for session in chosen:
            # The server has stopped, so that no driver can learn of the end by itself.
            self._takeovers.declare_lost(DriverLease(session.id, session.epoch), reason)
        deadline = time.monotonic() + seconds
        while (remaining := self._list_leased(chosen)) and time.monotonic() < deadline:
            self._takeovers.run()
            time.sleep(0.1)
        return remaining

    def _list_leased(self, chosen: list[Session]) -> list[Session]:
        """Return those of the sessions whose driver runs or starts, or is being ended."""
        with self._database.read() as tx:
            current = [sessions.get(tx, session.id) for session in chosen]
        return [each for each in current if each is not None and each.lease_until is not None]


def _can_be_recovered(session: Session) -> bool:
    """Return whether another driver can restore the session with its tables."""
    return session.driver is None or bool(session.driver.get("keeps_tables"))
