"""The process that forks the Python workers of a local driver: PySpark's own, with a shorter path.

Spark puts zip files of PySpark and Py4J on the path, also where both are installed. A worker reads
the directory of each zip again at every task (`importlib.invalidate_caches` in PySpark's
`setup_spark_files`), which takes 30 ms.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

DAEMON_MODULE = "spark.python.daemon.module"
_PYTHON = "spark.pyspark.python"


def with_daemon(conf: dict[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of a driver whose workers, if they can, use this module.

    They can on this host, with the Python of the driver, in which Headrace is installed.
    """
    is_local = conf.get("spark.master", "").startswith("local")
    python = conf.get(_PYTHON, environment.get("PYSPARK_PYTHON", sys.executable))
    # Spark-submit ships Headrace in a zip file, which only the driver has on its path.
    is_installed = Path(__file__).exists()
    if not (is_local and python == sys.executable and is_installed):
        return conf
    return {DAEMON_MODULE: __name__} | conf


def remove_zips() -> None:
    """Remove the zip files of PySpark and Py4J from the path, if both are installed."""
    path = list(sys.path)
    sys.path[:] = [entry for entry in path if not _is_zip_of_spark(entry)]
    if find_spec("pyspark") is None or find_spec("py4j") is None:
        sys.path[:] = path


def _is_zip_of_spark(entry: str) -> bool:
    name = Path(entry).name
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith(".zip"))


if __name__ == "__main__":
    remove_zips()
    for cached in filter(_is_zip_of_spark, list(sys.path_importer_cache)):
        del sys.path_importer_cache[cached]
    # The workers are children of this process: what it sets is theirs.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        entry
        for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if not _is_zip_of_spark(entry)
    )
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]
