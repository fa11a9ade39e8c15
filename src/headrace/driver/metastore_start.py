"""The start of the host's metastore, which waits until a driver wants it.

At the start of a driver, the metastore would compete with Spark for the processors, and with the
first statement. A statement such as `SELECT 1` needs no catalog: the metastore then starts when the
statement has ended.
"""

from __future__ import annotations

import contextlib
import re
import threading
from pathlib import Path

from headrace.model.messages import Assignment, Bootstrap

_LONGEST_DELAY_SECONDS = 1.0
_NAMES_TABLES = re.compile(r"\b(from|table)\b", re.IGNORECASE)


class MetastoreStart:
    """Tells the supervisor of the metastore when to start it. Thread-safe.

    The first use of the catalog waits for the metastore. Without a driver that wants it, the
    metastore starts by itself after some seconds.
    """

    def __init__(self, bootstrap: Bootstrap) -> None:
        self._file = None if bootstrap.wanted is None else Path(bootstrap.wanted)
        self._started = threading.Event()

    def start(self) -> None:
        """Let the metastore start now, unless this driver has called the method before."""
        if self._file is None or self._started.is_set():
            return
        self._started.set()
        with contextlib.suppress(OSError):
            self._file.touch(mode=0o600)

    def start_soon(self) -> None:
        """Let the metastore start within a second, whatever the first statement is."""
        if self._file is None:
            return
        timer = threading.Timer(_LONGEST_DELAY_SECONDS, self.start)
        timer.daemon = True
        timer.start()

    def start_for(self, assignment: Assignment) -> None:
        """Let the metastore start now if a statement may need it.

        A wrong guess only costs time: a query may call a function of the catalog without naming a
        table, and starts then when the second of `start_soon` is over.
        """
        if not assignment.is_query or _NAMES_TABLES.search(assignment.text):
            self.start()
