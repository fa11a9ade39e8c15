"""Java classes of Headrace that run in Spark's tasks, compiled once for each application.

Janino, which Spark uses to compile queries, compiles them to one jar when the first statement needs
them. The driver's own class loader and all executors get the jar.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge

_LOG = logging.getLogger("headrace.driver")
JAR_NAME = "headrace-classes.jar"
_SOURCES = ("SharedTableCommitProtocol", "ResultTask")
_LOADER_CLASS = "org.apache.spark.util.MutableURLClassLoader"
_ISOLATION = "spark.sql.artifact.isolation.enabled"

_lock = threading.Lock()
_loaded: WeakKeyDictionary[SparkContext, bool] = WeakKeyDictionary()
"""Whether the classes are available to an application."""


def load_shipped_classes(session: SparkSession) -> bool:
    """Make the classes available to the tasks of a session. Return False if that is impossible."""
    if _has_own_loaders(session):
        return False
    with _lock:
        context = session.sparkContext
        if context not in _loaded:
            start = time.monotonic()
            _loaded[context] = _load(session)
            _LOG.info("loaded the classes of tasks in %.1f s", time.monotonic() - start)
        return _loaded[context]


def _has_own_loaders(session: SparkSession) -> bool:
    """Return whether executors load classes for this session alone, without those of Headrace."""
    if re.match(r"local(\[|$)", str(session.sparkContext.master)):
        return False
    return str(session.conf.get(_ISOLATION, "false")).strip().lower() == "true"


def _load(session: SparkSession) -> bool:
    jvm = Py4JBridge(session)
    try:
        loader = _find_application_loader(jvm)
        is_loaded = all(
            loader.getResource(f"headrace/{name}.class") is not None for name in _SOURCES
        )
        is_local = jvm.context.isLocal()
        # The executors of each application need the jar, also of a second one in this process.
        if is_loaded and is_local:
            return True
        folder = Path(jvm.type("org.apache.spark.SparkFiles").getRootDirectory())
        jar = _compile(jvm, loader, folder / JAR_NAME)
        if not is_loaded:
            loader.addURL(jvm.type("java.io.File")(str(jar)).toURI().toURL())
        if not is_local:
            jvm.context.addJar(str(jar))
    except (Py4JError, OSError):
        _LOG.exception(
            "the classes of tasks are not available: each write needs an exclusive lock, and Python"
            " workers write the results"
        )
        return False
    return True


def _find_application_loader(jvm: Py4JBridge) -> Any:
    """Return the class loader of the whole application.

    After ADD JAR, the context class loader belongs to one session: tasks do not use it. The loader
    that spark-submit has created is its outermost ancestor with Spark's class.
    """
    loader = application = jvm.type("java.lang.Thread").currentThread().getContextClassLoader()
    mutable = loader.loadClass(_LOADER_CLASS)
    while loader is not None:
        if mutable.isInstance(loader):
            application = loader
        loader = loader.getParent()
    return application


def _compile(jvm: Py4JBridge, loader: object, jar: Path) -> Path:
    """Compile the sources into a jar. Raises Py4JError and OSError."""
    with zipfile.ZipFile(jar, "w") as archive:
        for source in _SOURCES:
            compiler = jvm.type("org.codehaus.janino.SimpleCompiler")()
            compiler.setParentClassLoader(loader)
            compiler.cook(files(__package__).joinpath(f"{source}.java").read_text())
            for name, code in compiler.getBytecodes().items():
                archive.writestr(f"{name.replace('.', '/')}.class", bytes(code))
    return jar
