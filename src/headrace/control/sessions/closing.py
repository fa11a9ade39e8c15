"""The end of closed sessions that have long queues or no driver.

Each chunk of statements ends in a transaction of its own.
"""

from __future__ import annotations

from headrace.control.context import NodeContext
from headrace.control.periodic_tasks import isolate_errors
from headrace.control.sessions.ending import cancel_queue, finish_close
from headrace.store.sessions import takeovers

_BATCH = 100
_CHUNKS = 20
"""Largest number of chunks in one round, so that the other periodic tasks also run."""


class Closings:
    """Ends closing sessions and their queues. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._node_id = context.node_id

    def run(self) -> None:
        """Cancel the waiting statements of closing sessions, then end sessions without a driver."""
        with self._database.read() as tx:
            pending = takeovers.list_closing(tx, _BATCH)
        chunks = 0
        for session_id in pending:
            with isolate_errors(f"the closing session {session_id} could not be ended"):
                while chunks < _CHUNKS and not self._cancel_chunk(session_id):
                    chunks += 1

    def _cancel_chunk(self, session_id: str) -> bool:
        """Cancel one chunk of a queue; return whether nothing remains to be cancelled."""
        with self._database.write("session.cancel_queue") as tx:
            if not takeovers.lock_closing(tx, session_id):
                return True
            is_empty = cancel_queue(tx, session_id, actor=self._node_id)
            if is_empty and not takeovers.closing_has_driver(tx, session_id):
                finish_close(tx, session_id, actor=self._node_id)
            return is_empty
