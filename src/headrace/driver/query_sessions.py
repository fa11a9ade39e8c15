"""The Spark sessions of queries that run beside each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.driver.conf_overrides import keep_private, set_conf
from headrace.driver.spark_version.session_state import RestorableState, restore_namespace


class QuerySessions:
    """The session of the statements for one query, and a clone for each query beside it.

    A query that runs alone saves the clone: nine calls of the JVM. Thread-safe.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._is_in_use = False
        """Whether a query runs in the session of the statements."""

    @contextmanager
    def borrow(self) -> Iterator[SparkSession]:
        """Yield a session that no other query uses until the end of the block.

        A query must not change the session of the statements, not even for a time: a clone that is
        made meanwhile would inherit the change.
        """
        with self._lock:
            takes_main = not self._is_in_use
            self._is_in_use = True
        if not takes_main:
            yield clone_session(self._session)
            return
        try:
            yield self._session
        finally:
            self._is_in_use = False


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
