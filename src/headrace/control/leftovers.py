"""Deletion of what killed drivers leave: result files without a row, and temporary folders.

The thread of `Retention` runs both, because file systems may answer slowly or not at all.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import suppress

from headrace.control.context import NodeContext
from headrace.control.launchers import process_group
from headrace.control.launchers.bootstrap_files import BootstrapFiles, TemporaryFolders
from headrace.control.sessions.driver_owner import OWNERS
from headrace.control.worker_pool import WorkerPool
from headrace.errors import ResultsUnavailable
from headrace.files import locations
from headrace.files.places import identify, join, local_path
from headrace.model.result import ResultAttempt
from headrace.model.session import DriverLease
from headrace.store.sessions import takeovers
from headrace.store.statements.results import find_abandoned

_LOG = logging.getLogger("headrace.leftovers")
_BATCH = 500
_LAUNCH_NAME = re.compile(r"headrace-(se_[0-9a-f]{32})-([0-9]{1,9})")


class AbandonedResults:
    """Deletes the files of killed attempts in the results location and the allowed locations.

    Only attempts directly in one of these locations are found. A statement may name any folder
    below an allowed location, but a search of the whole tree could list a bucket with all its data.
    """

    def __init__(self, context: NodeContext, calls: WorkerPool) -> None:
        """Use a pool for the calls to the locations, which may hang."""
        self._database = context.database
        settings = context.settings
        searched = [settings.results_location, *settings.results.allowed]
        self._locations = {identify(location): location for location in searched}.values()
        self._owners = join(settings.results_location, OWNERS)
        # A driver on a lost host writes until it has not reached a node for this time.
        self._grace_seconds = context.settings.lease.orphan.total_seconds()
        self._calls = calls

    def run(self) -> int:
        """Delete the files of attempts without a row; return the number of attempts.

        A location that cannot be read is logged and skipped. Raises StoreUnavailable.
        """
        count = 0
        for location in [*self._locations, *self._list_owners()]:
            try:
                count += self._delete_abandoned(location)
            except ResultsUnavailable as error:
                _LOG.error("files of killed attempts could not be searched for: %s", error.message)
        if count:
            _LOG.info("deleted the result files of %d killed attempts", count)
        return count

    def _list_owners(self) -> list[str]:
        """Return the locations of the owners as whom drivers run on this host."""
        if local_path(self._owners) is None:
            return []
        return [join(self._owners, name) for name in locations.list_names(self._owners)]

    def _delete_abandoned(self, location: str) -> int:
        """Delete the abandoned attempts directly in a location; return their number."""
        names = self._calls.call(locations.list_names, location)
        parsed = (ResultAttempt.parse(name) for name in names)
        attempts = [attempt for attempt in parsed if attempt is not None]
        count = 0
        for start in range(0, len(attempts), _BATCH):
            with self._database.read() as tx:
                abandoned = find_abandoned(
                    tx, attempts[start : start + _BATCH], grace_seconds=self._grace_seconds
                )
            for attempt in abandoned:
                count += self._delete(location, attempt)
        return count

    def _delete(self, location: str, attempt: ResultAttempt) -> bool:
        try:
            self._calls.call(locations.delete, join(location, attempt.name))
        except ResultsUnavailable as error:
            _LOG.error("the files of a killed attempt could not be deleted: %s", error.message)
            return False
        return True


class AbandonedFolders:
    """Deletes the files of ended drivers that no launcher of this node has killed.

    Such a driver has ended by itself, or a node of another host has taken over its session, which
    cannot reach the files of this host. The files are the temporary folder, the bootstrap file and
    the properties file.
    """

    def __init__(self, context: NodeContext) -> None:
        layout = context.settings.layout
        self._database = context.database
        self._temporary = TemporaryFolders(layout.temporary)
        self._bootstraps = [BootstrapFiles(layout.drivers), BootstrapFiles(layout.submitted)]
        self._orphan_seconds = context.settings.lease.orphan.total_seconds()

    def run(self) -> None:
        """Delete the files of each driver that has ended. Raises StoreUnavailable."""
        names = {
            *self._temporary.names(),
            *(name for bootstraps in self._bootstraps for name in bootstraps.names()),
        }
        launches = {
            name: DriverLease(launch[1], int(launch[2]))
            for name in sorted(names)
            if (launch := _LAUNCH_NAME.fullmatch(name)) is not None
        }
        if not launches:
            return
        with self._database.read() as tx:
            ended, unknown = takeovers.find_ended_launches(tx, launches.values())
        for name, lease in launches.items():
            has_ended = lease in ended or (lease in unknown and self._is_old(name))
            if has_ended and not self._runs(name):
                _LOG.info("deleting the files of %s", name)
                self._temporary.remove(name)
                for bootstraps in self._bootstraps:
                    bootstraps.remove(name)

    def _runs(self, name: str) -> bool:
        """Return whether a process of the launch still exits."""
        arguments = {
            argument for bootstraps in self._bootstraps for argument in bootstraps.arguments(name)
        }
        return process_group.find(arguments) is not None

    def _is_old(self, name: str) -> bool:
        """Return whether the driver of an unknown session must have ended itself.

        The node of an early launch died before it stored the session.
        """
        paths = [self._temporary.path(name), *(each.path(name) for each in self._bootstraps)]
        changes = []
        for path in paths:
            with suppress(OSError):
                changes.append(path.stat().st_mtime)
        return time.time() - max(changes, default=0.0) > self._orphan_seconds
