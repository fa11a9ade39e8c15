"""Warming up: a spare driver runs what the first statements of a JVM would otherwise wait for."""

from __future__ import annotations

import logging
import time
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from headrace.driver.output import OutputOptions, write_result
from headrace.driver.spark import Spark
from headrace.errors import HeadraceError
from headrace.model.messages import Bootstrap
from headrace.model.result import Disposition

_LOG = logging.getLogger("headrace.driver")
_GROUPED = """
SELECT k, sum(id) AS s, max(t) AS t
FROM (SELECT id % 3 AS k, id, CAST(id AS STRING) AS t FROM range(0, 100, 1, 2))
GROUP BY k ORDER BY k
"""
_MANY = "SELECT CAST(id AS STRING) AS t FROM range(0, 2000, 1, 2)"
_TEXTS = ("SELECT 1", "SHOW TABLES", _GROUPED, _MANY)
"""A constant, the catalog, a shuffle with compiled code, and rows that Python workers take."""


def warm_up(spark: Spark, bootstrap: Bootstrap) -> None:
    """Loads classes, connects to the catalog, compiles code and starts Python workers.

    In a session of its own, so that the one which is somebody's later is as new as ever. What does
    not work is left for a statement to fail by.
    """
    began = time.monotonic()
    spec = OutputOptions(
        disposition=Disposition.INLINE,
        row_limit=None,
        byte_limit=None,
        location=f"{bootstrap.results.rstrip('/')}/warm-up-{uuid4().hex}",
        inline_limit=bootstrap.inline_limit,
        chunk_limit=bootstrap.chunk_limit,
    )
    try:
        session = spark.session.newSession()
        for text in _TEXTS:
            write_result(session.sql(text), spec)
    except (PySparkException, Py4JError, HeadraceError, OSError) as error:
        _LOG.warning("not warmed up: %s", error)
    else:
        _LOG.info("warmed up in %.1f s", time.monotonic() - began)
