"""Deletion of expired results. The schema and the counts stay with the statement."""

from __future__ import annotations

import logging

from headrace.control.context import NodeContext
from headrace.errors import ResultsUnavailable
from headrace.storage.locations import delete
from headrace.store import results

_LOG = logging.getLogger("headrace.retention")
_BATCH = 100


class Retention:
    """Deletes expired results of the whole store. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def run(self) -> int:
        """Delete expired results; return their number.

        Files are deleted before the rows, so that a crash causes a repetition and never a leak.
        """
        count = 0
        while True:
            with self._database.read() as tx:
                expired = results.expired(tx, _BATCH)
            deleted = [
                statement_id for statement_id, location in expired if _delete_files(location)
            ]
            if deleted:
                with self._database.write("retention.results") as tx:
                    for statement_id in deleted:
                        results.mark_gone(tx, statement_id)
            count += len(deleted)
            if len(deleted) < _BATCH:
                break
        return count


def _delete_files(location: str | None) -> bool:
    """Delete the files of a result, given its location; return whether no file remains."""
    if location is None:
        return True
    try:
        delete(location)
    except ResultsUnavailable as error:
        _LOG.error("an expired result could not be deleted: %s", error.message)
        return False
    return True
