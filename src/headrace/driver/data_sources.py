"""Data sources in Python, which packages in the drivers' environment provide."""

from __future__ import annotations

import logging
from importlib.metadata import entry_points

from pyspark.sql import SparkSession

GROUP = "headrace.data_sources"
"""Group of entry points in the drivers' environment. Each one is a `DataSource` of PySpark."""
_LOG = logging.getLogger("headrace.driver")


def register_data_sources(session: SparkSession) -> None:
    """Register the installed data sources, so that the session and its clones know their names.

    A class that cannot be loaded or registered is logged. A statement that uses it fails.
    """
    for entry in entry_points(group=GROUP):
        try:
            session.dataSource.register(entry.load())
        except Exception:  # noqa: BLE001 - the code of a package can raise anything
            _LOG.exception("the data source %s (%s) is not registered", entry.name, entry.value)
