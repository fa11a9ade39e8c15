"""The logs of ended sessions: copies in the results location, and the end of logs and copies.

Every node can read a copy.

Other accounts may read that location, so that a copy contains no secret that its line names.

The results location of a single host is in the home, as the logs are: nothing is copied there.
"""

from __future__ import annotations

import logging
import re
import time

from headrace.control.context import NodeContext
from headrace.control.sessions.log_files import read_log
from headrace.control.worker_pool import WorkerPool
from headrace.errors import HeadraceError
from headrace.files import locations
from headrace.files.places import join
from headrace.store.sessions import sessions
from headrace.text.durations import seconds_of

_LOG = logging.getLogger("headrace.logs")
_BATCH = 200
_LIMIT = 16 * 1024 * 1024
"""Largest number of bytes that are kept of a log: its end."""
_NAME = re.compile(r"(se_[0-9a-f]{32})\.log")


def kept_log_name(session_id: str) -> str:
    """Return the name of a kept log in the results location."""
    return f"{session_id}.log"


class KeptLogs:
    """Copies the logs of this node's home. The thread of `Retention` runs it."""

    def __init__(self, context: NodeContext, calls: WorkerPool) -> None:
        """Use a pool for the calls to the results location, which may hang."""
        self._database = context.database
        self._folder = context.settings.layout.session_logs
        self._location = context.settings.results.location
        self._calls = calls
        self._retention_seconds = seconds_of(context.settings.history.retention)
        self._kept: set[str] | None = None

    def run(self) -> int:
        """Copy the logs of sessions that have ended; return their number.

        Raises:
            ResultsUnavailable: The results location cannot be listed.
            StoreUnavailable: The store does not answer.
        """
        if self._location is None:
            return 0
        if self._kept is None:
            self._kept = _session_ids(self._calls.call(locations.list_names, self._location))
        missing = sorted(_session_ids(locations.list_names(str(self._folder))) - self._kept)
        count = 0
        for start in range(0, len(missing), _BATCH):
            with self._database.read() as tx:
                ended = sessions.find_ended(tx, missing[start : start + _BATCH])
            copied = {session_id for session_id in ended if self._copy(self._location, session_id)}
            self._kept |= copied
            count += len(copied)
        return count

    def remove_deleted(self, older_than: float | None = None) -> int:
        """Delete the logs of this home whose sessions the store has deleted, and their copies.

        Another store can have sessions of the same home or results location: only logs of this home
        are deleted, and only when they are older than `history.retention`. Return their number.

        Args:
            older_than: Age in seconds instead of `history.retention`.

        Raises:
            ResultsUnavailable: The logs cannot be listed.
            StoreUnavailable: The store does not answer.
        """
        seconds = self._retention_seconds if older_than is None else older_than
        if seconds is None:
            return 0
        oldest = time.time() - seconds
        old = sorted(
            session_id
            for session_id in _session_ids(locations.list_names(str(self._folder)))
            if self._changed_at(session_id) < oldest
        )
        count = 0
        for start in range(0, len(old), _BATCH):
            batch = old[start : start + _BATCH]
            with self._database.read() as tx:
                existing = set(sessions.find_existing(tx, batch))
            count += sum(self._remove(each) for each in batch if each not in existing)
        return count

    def _changed_at(self, session_id: str) -> float:
        try:
            return (self._folder / kept_log_name(session_id)).stat().st_mtime
        except OSError:
            return time.time()

    def _remove(self, session_id: str) -> bool:
        name = kept_log_name(session_id)
        try:
            if self._location is not None:
                # The copy first: without the log, no node would find the copy again.
                self._calls.call(locations.delete, join(self._location, name))
            (self._folder / name).unlink(missing_ok=True)
        except (HeadraceError, OSError) as error:
            _LOG.error("session %s: its log could not be deleted: %s", session_id, error)
            return False
        if self._kept is not None:
            self._kept.discard(session_id)
        return True

    def _copy(self, location: str, session_id: str) -> bool:
        name = kept_log_name(session_id)
        try:
            content = read_log(str(self._folder), name, _LIMIT) or b""
            place = join(location, name)
            self._calls.call(lambda: locations.write(place, content, private=True))
        except (HeadraceError, OSError) as error:
            _LOG.error("session %s: its log could not be kept: %s", session_id, error)
            return False
        return True


def _session_ids(names: list[str]) -> set[str]:
    return {match[1] for name in names if (match := _NAME.fullmatch(name))}
