"""Deletion of old history: statements, sessions, streams, jobs, nodes, events, idempotency keys."""

from __future__ import annotations

from collections.abc import Callable

from headrace.control.context import NodeContext
from headrace.durations import seconds_of
from headrace.store import history, idempotency, job_history

_BATCH = 500
_BATCHES = 20
"""Largest number of batches of one kind in one run; the next run continues."""


class HistoryRetention:
    """Deletes the history of the whole store. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._seconds = seconds_of(context.settings.history.retention)

    def run(self) -> None:
        """Delete what is older than the setting `history.retention`, and expired keys."""
        _repeat(self._delete_idempotency_keys)
        if self._seconds is not None:
            _repeat(self._delete_statements, self._seconds)
            _repeat(self._delete_sessions, self._seconds)
            _repeat(self._delete_streams, self._seconds)
            _repeat(self._delete_jobs, self._seconds)
            _repeat(self._delete_node_history, self._seconds)

    def _delete_idempotency_keys(self) -> int:
        with self._database.write("retention.idempotency") as tx:
            return idempotency.delete_expired(tx, _BATCH)

    def _delete_statements(self, seconds: float) -> int:
        with self._database.write("retention.statements") as tx:
            return history.delete_statements(tx, seconds, _BATCH)

    def _delete_sessions(self, seconds: float) -> int:
        with self._database.write("retention.sessions") as tx:
            return history.delete_sessions(tx, seconds, _BATCH)

    def _delete_streams(self, seconds: float) -> int:
        with self._database.write("retention.streams") as tx:
            return history.delete_streams(tx, seconds, _BATCH)

    def _delete_jobs(self, seconds: float) -> int:
        with self._database.write("retention.jobs") as tx:
            return job_history.delete_jobs(tx, seconds, _BATCH)

    def _delete_node_history(self, seconds: float) -> int:
        with self._database.write("retention.node_events") as tx:
            return max(
                history.delete_registrations(tx, seconds, _BATCH),
                history.delete_node_events(tx, seconds, _BATCH),
            )


def _repeat(delete_batch: Callable[..., int], *arguments: float) -> None:
    """Delete batches until one is not full."""
    for _ in range(_BATCHES):
        if delete_batch(*arguments) < _BATCH:
            return
