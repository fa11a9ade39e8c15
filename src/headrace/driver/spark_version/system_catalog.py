"""The catalog of system tables, which a session has for one statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, compile_java

_CLASS = "SystemCatalog"


def install_catalogs(
    session: SparkSession, names: Iterable[str], tables: Mapping[str, pa.Table]
) -> list[str]:
    """Give a session a catalog under several names. Return the names that it has got.

    A catalog of the user keeps its name. May raise Py4JError.

    Args:
        tables: Rows by name of the table.
    """
    jvm = Py4JBridge(session)
    frames = {
        name: session.createDataFrame(rows)._jdf  # noqa: SLF001 - not in PySpark's API
        for name, rows in tables.items()
    }
    catalog, java_frames = compile_java(jvm.root, _CLASS), jvm.hash_map(frames)
    return [name for name in names if catalog.install(jvm.session, name, java_frames)]


def remove_catalogs(session: SparkSession, names: Iterable[str]) -> None:
    """Take catalogs away from a session. May raise Py4JError."""
    jvm = Py4JBridge(session)
    for name in names:
        compile_java(jvm.root, _CLASS).remove(jvm.session, name)
