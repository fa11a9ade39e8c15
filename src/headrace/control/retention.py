"""Work with files: deletion of expired results and of leftovers, copies of logs.

The schema and the counts of an expired result stay with the statement.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from headrace.control.context import NodeContext
from headrace.control.leftovers import AbandonedFolders, AbandonedResults
from headrace.control.sessions.session_logs import KeptLogs
from headrace.control.worker_pool import WorkerPool
from headrace.errors import HeadraceError, StoreUnavailable
from headrace.files.locations import delete
from headrace.model.result import is_location_of
from headrace.store.statements import results

_LOG = logging.getLogger("headrace.retention")
_BATCH = 100
_EVERY_SECONDS = 5.0
"""Time between two searches for the files of ended drivers on this host."""
_ROUNDS_PER_DELETION = 12
_ROUNDS_PER_SEARCH = 120
"""A search for abandoned files lists all locations of results."""
_DELETE_SECONDS = 60.0
_DELETE_THREADS = 2
_STOP_SECONDS = 5.0


class Retention:
    """Deletes expired results of the whole store and files of killed drivers, and keeps logs.

    Several nodes may do so at the same time. The work has a thread of its own, because a results
    location may answer slowly or not at all.
    """

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._deletions = WorkerPool("deletions", threads=_DELETE_THREADS, seconds=_DELETE_SECONDS)
        self._abandoned_results = AbandonedResults(context, self._deletions)
        self._abandoned_folders = AbandonedFolders(context)
        self._kept_logs = KeptLogs(context, self._deletions)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="headrace-retention", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the current deletion."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def run(self, deadline: float = math.inf) -> int:
        """Delete expired results; return their number.

        Args:
            deadline: Value of the monotonic clock after which no batch begins.

        Files are deleted before the rows, so that a crash causes a repetition and never a leak. A
        result that cannot be deleted is skipped, and retried later.
        """
        count = 0
        while not self._stopping.is_set() and time.monotonic() < deadline:
            with self._database.read() as tx:
                expired = results.expired(tx, _BATCH)
            if not expired:
                break
            outcomes = [
                (statement_id, self._delete_files(statement_id, location))
                for statement_id, location in expired
            ]
            with self._database.write("retention.results") as tx:
                # A session that ends locks the rows of its results in the same order.
                for statement_id, deleted in sorted(outcomes):
                    if deleted:
                        results.mark_gone(tx, statement_id)
                    else:
                        results.postpone_deletion(tx, statement_id)
            count += sum(deleted for _statement_id, deleted in outcomes)
        return count

    def remove_logs(self, older_than: float) -> int:
        """Delete the logs of deleted sessions of this home that are older than so many seconds.

        Return their number. Raise as `KeptLogs.remove_deleted` does.
        """
        return self._kept_logs.remove_deleted(older_than)

    def _work(self) -> None:
        round_number = 0
        while not self._stopping.is_set():
            self._attempt(self._abandoned_folders.run, "files of drivers could not be deleted")
            if round_number % _ROUNDS_PER_DELETION == 0:
                self._attempt(self.run, "expired results could not be deleted")
                self._attempt(self._kept_logs.run, "logs of ended sessions could not be kept")
            if round_number % _ROUNDS_PER_SEARCH == 0:
                self._attempt(
                    self._kept_logs.remove_deleted, "logs of deleted sessions could not be deleted"
                )
                self._attempt(
                    self._abandoned_results.run, "abandoned result files could not be deleted"
                )
            round_number += 1
            self._stopping.wait(_EVERY_SECONDS)

    def _attempt(self, delete: Callable[[], object], summary: str) -> None:
        """Call `delete`, and log its error under this summary."""
        try:
            delete()
        except StoreUnavailable:
            pass  # The periodic tasks log the outage.
        except Exception:  # noqa: BLE001 - the other deletions and the next round must still run
            _LOG.exception("%s", summary)

    def _delete_files(self, statement_id: str, location: str | None) -> bool:
        """Delete the files of a result, given its location; return whether no file remains."""
        if location is None:
            return True
        if not is_location_of(location, statement_id):
            _LOG.error("result of %s: %s is not a location of it", statement_id, location)
            return False
        try:
            self._deletions.call(delete, location)
        except HeadraceError as error:
            _LOG.error("an expired result could not be deleted: %s", error.message)
            return False
        return True
