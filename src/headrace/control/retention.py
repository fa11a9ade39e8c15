"""Dropping results whose time is over: rows go, schema and counts stay with the statement."""

from __future__ import annotations

import logging

from headrace.errors import ResultsUnavailable
from headrace.storage.locations import delete
from headrace.store import idempotency, results
from headrace.store.database import Database

_LOG = logging.getLogger("headrace.retention")
_BATCH = 100


class Retention:
    """Sweeps the results of the whole store; any number of nodes may do so at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def sweep(self) -> int:
        """Drops expired results and says how many. Files go first: a crash repeats, never leaks."""
        dropped = 0
        while True:
            with self._database.read() as tx:
                expired = results.expired(tx, _BATCH)
            done = [statement_id for statement_id, place in expired if _removed(place)]
            if done:
                with self._database.write() as tx:
                    for statement_id in done:
                        results.mark_gone(tx, statement_id)
            dropped += len(done)
            if len(done) < _BATCH:
                break
        with self._database.write() as tx:
            idempotency.forget_expired(tx)
        return dropped


def _removed(place: str | None) -> bool:
    if place is None:
        return True
    try:
        delete(place)
    except ResultsUnavailable as error:
        _LOG.error("an expired result stays: %s", error.message)
        return False
    return True
