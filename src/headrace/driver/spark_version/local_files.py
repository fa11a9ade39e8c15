"""Faster local files: Hadoop otherwise starts a process for each new file and directory."""

from __future__ import annotations

import logging
import threading
from weakref import WeakSet

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, compile_java

_LOG = logging.getLogger("headrace.driver")
_lock = threading.Lock()
_prepared: WeakSet[SparkContext] = WeakSet()
"""Applications in which the installation was tried."""


def install_local_files(session: SparkSession) -> None:
    """Let the JVM of an application set the permissions of local files itself.

    Call this before each statement that may write. Only the first call of an application does
    something. If it fails, Hadoop's own class stays in use.
    """
    with _lock:
        if session.sparkContext in _prepared:
            return
        _prepared.add(session.sparkContext)
        jvm = Py4JBridge(session)
        try:
            installs = compile_java(jvm.root, "LocalFiles").install(
                jvm.context.hadoopConfiguration()
            )
            _LOG.debug("the JVM sets the permissions of local files: %s", installs)
        except Py4JError as error:
            _LOG.warning("writes to local files start a process for each file: %s", error)
