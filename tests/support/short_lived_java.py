"""Options that make the short-lived JVMs of the tests start faster.

Such a JVM spends its time on loading Spark's classes and on compiling code that hardly runs again.
The options select a simple compiler and collector, and an archive of the classes that Spark loads
(JEP 350: dynamic class data sharing). `python -m tests.support.short_lived_java` creates the
archive. A JVM with other jars or of another version ignores the archive.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

from headrace.control.host.java import find_java

_VARIABLE = "JDK_JAVA_OPTIONS"
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# A script reads the output of Spark's launcher: warnings of the JVM must not go to stdout.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
_FOLDER = Path(__file__).parents[2] / ".tools" / "classes"


def apply() -> None:
    """Set the options for all JVMs of this process and its children, unless options are set."""
    archive = _archive_path()
    shared = f" {_QUIET} -XX:SharedArchiveFile={archive}" if archive.exists() else ""
    os.environ.setdefault(_VARIABLE, _OPTIONS + shared)


def main() -> int:
    """Create the archive unless it exists."""
    archive = _archive_path()
    if not archive.exists():
        sys.stderr.write("==> archiving Spark's classes for the tests\n")
        archive.parent.mkdir(parents=True, exist_ok=True)
        os.environ[_VARIABLE] = _OPTIONS
        os.environ["JAVA_HOME"] = str(find_java().path)
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            new_archive = Path(folder) / archive.name
            _run_spark(Path(folder), new_archive)
            if new_archive.exists():
                new_archive.rename(archive)
            else:
                sys.stderr.write(
                    "This Java cannot archive classes. The tests run without an archive.\n"
                )
    return 0


def _archive_path() -> Path:
    """Return the path of the archive for this Java and this PySpark.

    The JVM ignores an archive of other jars by itself.
    """
    import pyspark

    java = find_java()
    key = f"{java.path} {java.version} {pyspark.__file__} {pyspark.__version__}"
    return _FOLDER / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def _run_spark(folder: Path, archive: Path) -> None:
    """Run typical statements in a JVM that archives its loaded classes when it ends."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    metastore = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
    options = (
        f"-XX:ArchiveClassesAtExit={archive}",
        "-Xlog:disable",
        f"-Dderby.stream.error.file={folder / 'derby.log'}",
    )
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", " ".join(options))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.hadoop.javax.jdo.option.ConnectionURL", metastore)
        .enableHiveSupport()
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    rows = "SELECT id, id % 3 AS k FROM range(10)"
    spark.sql(f"CREATE TABLE t USING parquet PARTITIONED BY (k) AS {rows}")
    spark.sql(f"CREATE TABLE u USING json AS {rows}")
    spark.sql("SELECT k, count(*) FROM t JOIN u USING (id, k) GROUP BY k ORDER BY k").toArrow()
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    # The JVM ends with its standard input, and writes the archive then.
    process.stdin.close()
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
