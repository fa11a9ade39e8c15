"""Waits for the write lock of a statement that writes to tables of files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.driver.ctas.transaction import Cancelled
from headrace.driver.failures import find_condition
from headrace.driver.link import NodeLink
from headrace.driver.spark_version.errors import METASTORE_CONDITION, summarize_error
from headrace.errors import WriteTargetsUnknown
from headrace.model.messages import BeginWrite
from headrace.model.transaction import TableWrite

_LOG = logging.getLogger("headrace.driver")
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class PlannedWrites:
    """The tables that a statement writes to, and the identity of their catalog."""

    identity: str
    writes: list[TableWrite]


def wait_for_lock(
    link: NodeLink,
    statement_id: str,
    planned: PlannedWrites,
    cancelling: threading.Event,
    *,
    on_blocked: Callable[[], object] = lambda: None,
) -> None:
    """Request the write lock of a statement, and return when the node grants it.

    Args:
        on_blocked: Called from time to time while another statement holds the lock. The driver of
            that statement may be lost in its commit, which this driver can then complete.

    Raises Cancelled if the statement is cancelled first, and the errors of NodeLink.
    """
    message = BeginWrite(
        statement_id=statement_id, identity=planned.identity, writes=planned.writes
    )
    pause, logged = _FIRST_PAUSE, ""
    while True:
        lock = link.begin_write(message)
        if lock.granted:
            return
        if lock.waits_for is None or cancelling.is_set():
            raise Cancelled
        if lock.waits_for != logged:
            logged = lock.waits_for
            _LOG.info(
                "statement %s waits for %s, which writes to the same table", statement_id, logged
            )
        if pause == _LONGEST_PAUSE:
            on_blocked()
        cancelling.wait(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


_PAUSES = (0.2, 0.5, 1.0, 2.0)


def may_be_transient(error: Exception) -> bool:
    """Return whether a repetition of a call to the catalog may succeed.

    Spark's own errors, such as that of a missing table, have a condition and are final.
    """
    if not isinstance(error, PySparkException | Py4JJavaError):
        return False
    return find_condition(error) in {None, METASTORE_CONDITION}


def find_writes_patiently(
    find_writes: Callable[[], PlannedWrites | None], cancelling: threading.Event
) -> PlannedWrites | None:
    """Call a function, and repeat the call with growing pauses while its error may be transient.

    Raises:
        Cancelled: If the statement is cancelled during a pause.
        WriteTargetsUnknown: If the last call fails as well.
    """
    for pause in (*_PAUSES, None):
        try:
            return find_writes()
        except (PySparkException, Py4JJavaError) as error:
            if not may_be_transient(error):
                raise
            if pause is None:
                raise WriteTargetsUnknown(
                    "The statement was not run, because the catalog did not say which tables it"
                    f" writes to: {summarize_error(error)}",
                    hint="Check the metastore, then run the statement again.",
                ) from error
            _LOG.warning("the search for written tables is repeated: %s", summarize_error(error))
        if cancelling.wait(pause):
            raise Cancelled
    raise AssertionError("the last call returns or raises")
