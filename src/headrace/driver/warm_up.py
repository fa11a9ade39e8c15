"""Warms up a driver of the warm pool, so that the first statement of a user runs fast."""

from __future__ import annotations

import logging
import time
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from headrace.driver.output import OutputOptions, write_result
from headrace.driver.spark import Spark
from headrace.driver.spark_version.lineage import compile_lineage
from headrace.errors import HeadraceError
from headrace.model.messages import Bootstrap
from headrace.model.result import Disposition

_LOG = logging.getLogger("headrace.driver")
_AGGREGATION = """
SELECT k, sum(id) AS s, max(t) AS t
FROM (SELECT id % 3 AS k, id, CAST(id AS STRING) AS t FROM range(0, 100, 1, 2))
GROUP BY k ORDER BY k
"""
_MANY_ROWS = "SELECT CAST(id AS STRING) AS t FROM range(0, 2000, 1, 2)"
_STATEMENTS = ("SELECT 1", "SHOW TABLES", _AGGREGATION, _MANY_ROWS)
"""A constant, the catalog, a shuffle with compiled code, and rows that Python workers encode."""


def warm_up(spark: Spark, bootstrap: Bootstrap) -> None:
    """Run a few small statements, which load classes, compile code and start Python workers.

    The statements run in a Spark session of their own, so that they do not change the session that
    a user gets later. An error is only logged: a statement that needs the same part reports it.
    """
    start = time.monotonic()
    options = OutputOptions(
        disposition=Disposition.INLINE,
        row_limit=None,
        byte_limit=None,
        location=f"{bootstrap.results.rstrip('/')}/warm-up-{uuid4().hex}",
        inline_limit=bootstrap.inline_limit,
        chunk_limit=bootstrap.chunk_limit,
    )
    try:
        session = spark.session.newSession()
        for text in _STATEMENTS:
            write_result(session.sql(text), options)
        spark.prepare_changes()
        spark.track_state()
        spark.progress.compile()
        spark.executions.compile()
        compile_lineage(session)
    except (PySparkException, Py4JError, HeadraceError, OSError) as error:
        _LOG.warning("warm-up failed: %s", error)
    else:
        _LOG.info("warmed up in %.1f s", time.monotonic() - start)
