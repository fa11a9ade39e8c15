"""Deletion of bootstraps in the results location that no driver has read."""

from __future__ import annotations

import logging
from collections.abc import Callable

from headrace.control.worker_pool import WorkerPool
from headrace.errors import ResultsUnavailable

_LOG = logging.getLogger("headrace.launch")
_SECONDS = 10.0
_THREADS = 4


class HandoffDeletion:
    """Deletes in threads of its own, because the results location may answer slowly or never."""

    def __init__(self) -> None:
        self._pool = WorkerPool("handoffs", threads=_THREADS, seconds=_SECONDS)

    def run(self, delete: Callable[..., None], *arguments: str) -> None:
        """Call `delete` and wait at most 10 s for its end. An error is logged."""
        try:
            self._pool.call(delete, *arguments)
        except ResultsUnavailable as error:
            # The object does no harm: its token is valid only for an epoch that has ended.
            _LOG.warning("the bootstrap of a driver could not be deleted: %s", error.message)
