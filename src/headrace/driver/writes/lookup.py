"""Retries the search for the tables that a statement writes to.

A statement that ran without its write lock could lose the rows of another session. If the catalog
fails for a moment, the search is therefore repeated, and in the end the statement fails.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.driver.ctas.transaction import Cancelled
from headrace.driver.failures import find_condition
from headrace.driver.writes.locks import PlannedWrites
from headrace.errors import WriteTargetsUnknown

_LOG = logging.getLogger("headrace.driver")
_PAUSES = (0.2, 0.5, 1.0, 2.0)
METASTORE_CONDITION = "_LEGACY_ERROR_TEMP_3065"
"""With this condition, HiveExternalCatalog.withClient reports all errors of the metastore."""


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
                    f" writes to: {_summarize(error)}",
                    hint="Check the metastore, then run the statement again.",
                ) from error
            _LOG.warning("the search for written tables is repeated: %s", _summarize(error))
        if cancelling.wait(pause):
            raise Cancelled
    raise AssertionError("the last call returns or raises")


def _summarize(error: Exception) -> str:
    java_error = error.java_exception if isinstance(error, Py4JJavaError) else error
    return str(java_error).strip().partition("\n")[0]
