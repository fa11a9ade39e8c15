"""Creates an archive of the classes that drivers load: `python -m headrace.driver.class_archive F`.

A JVM that starts with the archive F neither reads nor verifies these classes again, which takes a
third off the start of a driver (dynamic archives of class data, JEP 350). The program starts Spark
as a driver does, runs typical statements, and makes the JVM write the archive when it ends.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from pathlib import Path

from headrace.driver.jvm_start import JvmStart
from headrace.driver.spark import Spark
from headrace.driver.warm_up import warm_up
from headrace.errors import HeadraceError
from headrace.files.file_locks import lock_file
from headrace.files.private_files import create_private_folder
from headrace.model.messages import Bootstrap

_LOG = logging.getLogger("headrace.driver")
_JVM_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
"""Variables from which every JVM takes options."""
_READ_ARCHIVE = "-XX:SharedArchiveFile"
_ROWS = "SELECT id, id % 3 AS k FROM range(10)"
_STATEMENTS = (
    f"CREATE TABLE t USING parquet PARTITIONED BY (k) AS {_ROWS}",
    f"CREATE TABLE u USING json AS {_ROWS}",
    "INSERT INTO t SELECT id + 10, k FROM t",
    "SELECT k, count(*) FROM t JOIN u USING (id, k) GROUP BY k ORDER BY k",
)


def main(arguments: list[str]) -> int:
    """Create the archive unless it exists or another process creates it. Returns the exit code."""
    # Py4J logs, as information of the root logger too, that calls end with the JVM at its exit.
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    _LOG.setLevel(logging.INFO)
    archive = Path(arguments[0])
    create_private_folder(archive.parent)
    lock = lock_file(archive.with_suffix(".lock"))
    if lock is None or archive.exists():
        return 0
    folder = archive.with_suffix(".tmp")
    # A process that was killed leaves the folder.
    shutil.rmtree(folder, ignore_errors=True)
    create_private_folder(folder)
    try:
        _archive_classes(folder / archive.name, folder)
        (folder / archive.name).replace(archive)
    except (HeadraceError, OSError) as error:
        _LOG.error("the archive of classes was not created: %s", error)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _archive_classes(archive: Path, folder: Path) -> None:
    """Run typical statements in a JVM that archives its loaded classes when it ends."""
    os.environ |= {"TMPDIR": str(folder), "PYSPARK_PYTHON": sys.executable}
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    for variable in _JVM_VARIABLES:
        words = os.environ.pop(variable, "").split()
        # A JVM cannot read one archive and create another.
        os.environ[variable] = " ".join(w for w in words if not w.startswith(_READ_ARCHIVE))
    options = (
        f"-XX:ArchiveClassesAtExit={archive}",
        f"-Djava.io.tmpdir={folder}",
        f"-Dderby.stream.error.file={folder / 'derby.log'}",
        "-Xlog:cds*=off",
    )
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(options)
    bootstrap = _bootstrap(folder)
    jvm = JvmStart(bootstrap.conf, folder / "bootstrap.json")
    spark = Spark(bootstrap, jvm)
    for text in _STATEMENTS:
        spark.session.sql(text).collect()
    warm_up(spark, bootstrap)
    spark.stop()
    # The JVM ends with its standard input, and writes the archive then.
    jvm.process.communicate()


def _bootstrap(folder: Path) -> Bootstrap:
    """Return the bootstrap of a driver that serves no session, with a metastore of its own."""
    metastore = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
    return Bootstrap(
        session_id="archive",
        epoch=0,
        token=None,
        nodes=[],
        conf={
            "spark.master": "local[2]",
            "spark.ui.port": "0",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(folder),
            "spark.sql.scripting.enabled": "true",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
        },
        results=str(folder / "results"),
        inline_limit=1 << 20,
        chunk_limit=16 << 20,
        lease_seconds=60,
        renew_seconds=10,
        orphan_seconds=60,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
