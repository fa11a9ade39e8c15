"""Java classes that the driver compiles in its JVM, with Spark's own compiler."""

from __future__ import annotations

import threading
from functools import lru_cache
from importlib.resources import files
from typing import Any

_LOCK = threading.Lock()


def compile_java(root: Any, package: str, name: str) -> Any:
    """Return an object of the class `headrace.<name>`, compiled once for each JVM.

    Args:
        root: The JVM, as PySpark returns it.
        package: Python package with the file `<name>.java`. Raises Py4JError.
    """
    # Py4J finds methods by the name of a class. It mixes up two classes of one name.
    with _LOCK:
        return _compile(root, package, name)


@lru_cache
def _compile(root: Any, package: str, name: str) -> Any:
    compiler = root.org.codehaus.janino.SimpleCompiler()
    # The loader of the application also has the jars of catalogs.
    compiler.setParentClassLoader(root.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(files(package).joinpath(f"{name}.java").read_text())
    return compiler.getClassLoader().loadClass(f"headrace.{name}").newInstance()
