"""The Spark sessions of queries that run beside each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.driver.conf_overrides import keep_private, set_conf
from headrace.driver.spark_version.session_state import RestorableState, restore_namespace


class QuerySessions:
    """The session of the statements for one query, and clones for the queries beside it.

    Spark needs 50 ms and more for a clone and its first plan. A query leaves its clone as it was,
    so that a later query gets it. Thread-safe.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._is_in_use = False
        """Whether a query runs in the session of the statements."""
        self._idle: list[SparkSession] = []
        self._generation = 0

    @contextmanager
    def borrow(self, *, may_be_main: bool) -> Iterator[SparkSession]:
        """Yield a session that no other query uses until the end of the block.

        The query must change nothing in it, not even for a time: a clone that is made meanwhile
        would inherit the change.

        Args:
            may_be_main: Whether the query may get the session of the statements, which keeps what
                Spark loads for the query: catalogs and permanent functions.
        """
        with self._lock:
            takes_main = may_be_main and not self._is_in_use
            self._is_in_use |= takes_main
            clone = self._idle.pop() if self._idle and not takes_main else None
            generation = self._generation
        if takes_main:
            try:
                yield self._session
            finally:
                self._is_in_use = False
            return
        clone = clone or clone_session(self._session)
        yield clone
        # Another session may replace a function before the next query.
        RestorableState(clone).forget_permanent_functions()
        with self._lock:
            if generation == self._generation:
                self._idle.append(clone)

    def discard_clones(self) -> None:
        """Forget the clones, because what they were made from may have changed."""
        with self._lock:
            self._generation += 1
            self._idle.clear()


def clone_session(session: SparkSession) -> SparkSession:
    """Return a session with the same state and its own settings, for a concurrent query.

    Spark's `cloneSession` copies neither variables nor the current catalog. Raises Py4JError.
    """
    original = RestorableState(session)
    with keep_private(session) as earlier_conf:
        clone = original.clone()
        set_conf(clone, earlier_conf)
    state = RestorableState(clone)
    state.copy_variables(original)
    current = original.capture_namespace()
    if state.capture_namespace() != current:
        restore_namespace(clone, *current)
    return clone
