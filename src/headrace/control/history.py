"""Deletion of old history: statements, sessions, streams, jobs, nodes, events, idempotency keys.

The periodic task deletes what is older than `history.retention`. An operator can also purge what is
older than another time. Both delete the same rows in the same batches.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from headrace.control.context import NodeContext
from headrace.control.policy import Action, Caller, Shared, require
from headrace.control.retention import Retention
from headrace.errors import HeadraceError, InvalidRequest
from headrace.model.audit import AuditAction
from headrace.store import audit, deliveries, editor_drafts, history
from headrace.store.database import Database
from headrace.store.identity import sign_in_failures
from headrace.store.sessions import connections
from headrace.store.statements import idempotency, results
from headrace.store.streams import stream_minutes
from headrace.text.durations import seconds_of

_LOG = logging.getLogger("headrace.history")
_BATCH = 500
_BATCHES = 20
"""Largest number of batches of one kind in one run; the next run continues."""
_PURGE_SECONDS = 5.0
"""Time after which a purge begins no further batch; the next request continues."""
_YOUNGEST_LOG_SECONDS = 24 * 3600.0


class HistoryRetention:
    """Deletes the history of the whole store. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._seconds = seconds_of(context.settings.history.retention)
        self._idle_seconds = context.settings.sessions.connection_idle_timeout.total_seconds()
        self._audit_seconds = seconds_of(context.settings.audit.retention)
        self._outbox_seconds = context.settings.outbox.retention.total_seconds()

    def run(self) -> None:
        """Delete what is older than the retention of history and audit, and what has expired."""
        for delete_expired in _EXPIRIES:
            _repeat_full(partial(delete_expired, self._database))
        _repeat_full(partial(_close_connections, self._database, self._idle_seconds))
        _repeat_full(partial(_delete_deliveries, self._database, self._outbox_seconds))
        if self._audit_seconds is not None:
            _repeat_full(partial(_delete_audit, self._database, self._audit_seconds))
        if self._seconds is not None:
            for delete_batch in _DELETIONS:
                for _number in range(_BATCHES):
                    if not _is_full(delete_batch(self._database, self._seconds)):
                        break


@dataclass(frozen=True, slots=True)
class Purge:
    """What a purge has deleted, or would delete."""

    counts: dict[str, int]
    """Numbers of rows by kind."""
    more: bool
    """Whether the purge is to be repeated, because its time was over."""


class HistoryPurge:
    """Deletes the history that is older than a time, when an operator asks for it."""

    def __init__(self, context: NodeContext, retention: Retention) -> None:
        self._database = context.database
        self._audit = context.audit
        self._retention = retention

    def count(self, caller: Caller, older_than: timedelta) -> Purge:
        """Return what a purge would delete. Raise NotPermitted and InvalidRequest as `purge`."""
        require(caller, Action.READ, Shared.HISTORY)
        with self._database.read() as tx:
            return Purge(history.count_old(tx, _seconds_of_age(older_than)), more=False)

    def purge(self, caller: Caller, older_than: timedelta) -> Purge:
        """Delete what ended longer ago than a time, with its results, in batches.

        Live objects stay, and what they need. So do statements whose results cannot be deleted.

        Raises:
            NotPermitted: The caller is no administrator.
            InvalidRequest: The time is 0.
            StoreUnavailable: The store does not answer.
        """
        require(caller, Action.CHANGE, Shared.HISTORY)
        seconds = _seconds_of_age(older_than)
        with self._database.write("purge.audit") as tx:
            detail = {"older_than_seconds": seconds}
            self._audit.record_in(tx, AuditAction.HISTORY_PURGED, caller, detail=detail)
        _LOG.info("%s purges what ended more than %s ago", caller.owner, older_than)
        deadline = time.monotonic() + _PURGE_SECONDS
        counts: Counter[str] = Counter()
        more = not _repeat(lambda: self._expire(seconds) == _BATCH, deadline)
        counts["results"] = self._retention.run(deadline)
        for delete_batch in _DELETIONS:

            def run_batch(delete_batch: _Deletion = delete_batch) -> bool:
                deleted = delete_batch(self._database, seconds)
                counts.update(deleted)
                return _is_full(deleted)

            more = not _repeat(run_batch, deadline) or more
        if counts["sessions"]:
            try:
                # Younger logs can be those of another store that has the same home.
                self._retention.remove_logs(max(seconds, _YOUNGEST_LOG_SECONDS))
            except HeadraceError as error:
                _LOG.error("logs of deleted sessions could not be deleted: %s", error.message)
        return Purge(dict(counts), more)

    def _expire(self, seconds: float) -> int:
        with self._database.write("purge.results") as tx:
            return results.expire_old(tx, seconds, _BATCH)


def _seconds_of_age(older_than: timedelta) -> float:
    if not older_than:
        raise InvalidRequest(
            "older_than: 0s would delete all history. Write an age above 0, for example 30d."
        )
    return older_than.total_seconds()


def _delete_statements(database: Database, seconds: float) -> dict[str, int]:
    with database.write("retention.statements") as tx:
        return history.delete_statements(tx, seconds, _BATCH)


def _delete_sessions(database: Database, seconds: float) -> dict[str, int]:
    with database.write("retention.sessions") as tx:
        return history.delete_sessions(tx, seconds, _BATCH)


def _delete_streams(database: Database, seconds: float) -> dict[str, int]:
    with database.write("retention.streams") as tx:
        return history.delete_streams(tx, seconds, _BATCH)


def _delete_jobs(database: Database, seconds: float) -> dict[str, int]:
    with database.write("retention.jobs") as tx:
        return history.delete_jobs(tx, seconds, _BATCH)


def _delete_node_history(database: Database, seconds: float) -> dict[str, int]:
    with database.write("retention.node_events") as tx:
        return history.delete_of_nodes(tx, seconds, _BATCH)


def _delete_tokens(database: Database, seconds: float) -> dict[str, int]:
    with database.write("retention.tokens") as tx:
        return history.delete_tokens(tx, seconds, _BATCH)


def _delete_minutes(database: Database) -> int:
    with database.write("retention.stream_minutes") as tx:
        return stream_minutes.delete_ended(tx, _BATCH)


def _delete_keys(database: Database) -> int:
    with database.write("retention.idempotency") as tx:
        return idempotency.delete_expired(tx, _BATCH)


def _delete_failures(database: Database) -> int:
    with database.write("retention.sign_in_failures") as tx:
        return sign_in_failures.delete_forgotten(tx, _BATCH)


def _forget_connections(database: Database) -> int:
    with database.write("retention.closed_connections") as tx:
        return connections.forget_closed(tx, _BATCH)


def _close_connections(database: Database, idle_seconds: float) -> int:
    with database.write("retention.idle_connections") as tx:
        return connections.close_idle(tx, idle_seconds, _BATCH)


def _delete_connections(database: Database, seconds: float) -> dict[str, int]:
    with database.write("retention.connections") as tx:
        return connections.delete_ended(tx, seconds, _BATCH)


def _delete_drafts(database: Database, seconds: float) -> dict[str, int]:
    with database.write("retention.drafts") as tx:
        return editor_drafts.delete_unused(tx, seconds, _BATCH)


def _delete_deliveries(database: Database, seconds: float) -> int:
    with database.write("retention.deliveries") as tx:
        return deliveries.delete_old(tx, seconds, _BATCH)


def _delete_audit(database: Database, seconds: float) -> int:
    with database.write("retention.audit") as tx:
        return audit.delete_old(tx, seconds, _BATCH)


def _repeat_full(delete_batch: Callable[[], int]) -> None:
    for _number in range(_BATCHES):
        if delete_batch() < _BATCH:
            return


_EXPIRIES: tuple[Callable[[Database], int], ...] = (
    _delete_keys,
    _delete_failures,
    _forget_connections,
    _delete_minutes,
)
"""Deletions of what has a time of its own, whatever the settings say."""
_Deletion = Callable[[Database, float], dict[str, int]]
_DELETIONS: tuple[_Deletion, ...] = (
    _delete_statements,
    _delete_sessions,
    _delete_streams,
    _delete_jobs,
    _delete_node_history,
    _delete_tokens,
    _delete_connections,
    _delete_drafts,
)
"""The deletion of one batch of each kind. Sessions wait for their statements."""


def _is_full(deleted: dict[str, int]) -> bool:
    return max(deleted.values()) >= _BATCH


def _repeat(run_batch: Callable[[], bool], deadline: float) -> bool:
    """Run batches until one is not full. Return False if the time was over before."""
    while time.monotonic() < deadline:
        if not run_batch():
            return True
    return False
