"""Reports the progress of statements: once a second while they run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from py4j.protocol import Py4JError

from headrace.driver.link import NodeLink
from headrace.driver.spark_version.metrics import ProgressReader
from headrace.errors import HeadraceError
from headrace.model.statement import Progress

_LOG = logging.getLogger("headrace.progress")
_INTERVAL_SECONDS = 1.0


class ProgressReporter:
    """A thread that reports changed progress. An error in this thread ends no statement."""

    def __init__(
        self, link: NodeLink, reader: ProgressReader, list_in_flight: Callable[[], list[str]]
    ) -> None:
        self._link = link
        self._reader = reader
        self._list_in_flight = list_in_flight
        self._reported: dict[str, Progress] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-progress", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Send no further report. Do not wait for a report that is being sent."""
        self._stopping.set()

    def _run(self) -> None:
        previous: set[str] = set()
        while not self._stopping.wait(_INTERVAL_SECONDS):
            in_flight = self._list_in_flight()
            # Skip statements younger than one interval: most of them end before the report arrives.
            lasting = [statement_id for statement_id in in_flight if statement_id in previous]
            previous = set(in_flight)
            try:
                self._report_changes(lasting)
            except (HeadraceError, Py4JError, OSError) as error:
                # The lease renewal detects a lost lease and a dead JVM, and ends the driver.
                _LOG.info("progress was not reported: %s", error)

    def _report_changes(self, statement_ids: list[str]) -> None:
        changed: dict[str, Progress] = {}
        for statement_id in statement_ids:
            progress = self._reader.read(statement_id)
            if progress is not None and progress != self._reported.get(statement_id):
                changed[statement_id] = progress
        self._reported = {
            statement_id: progress
            for statement_id, progress in self._reported.items()
            if statement_id in statement_ids
        } | changed
        if changed:
            self._link.report_progress(changed)
