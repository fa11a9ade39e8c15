"""What makes JVMs cheap that live for seconds, as most of the tests' do.

Their time goes into loading Spark's classes and into compiling what is hardly run again. So all of
them get a simple compiler and collector, and, once `python -m tests.support.short_lived_java` has
made it, an archive of the classes that Spark loads (JEP 350: dynamic class data sharing). A JVM
with other jars or of another version goes without it.
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
# That of Spark's launcher is read by a script: what the JVM has to say goes elsewhere.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
_FOLDER = Path(__file__).parents[2] / ".tools" / "classes"


def apply() -> None:
    """To all JVMs that this process and its children start, unless the caller has options."""
    archive = _archive()
    shared = f" {_QUIET} -XX:SharedArchiveFile={archive}" if archive.exists() else ""
    os.environ.setdefault(_VARIABLE, _OPTIONS + shared)


def main() -> int:
    """Create the archive unless it exists."""
    archive = _archive()
    if not archive.exists():
        sys.stderr.write("==> archiving Spark's classes for the tests\n")
        archive.parent.mkdir(parents=True, exist_ok=True)
        os.environ[_VARIABLE] = _OPTIONS
        os.environ["JAVA_HOME"] = str(find_java().path)
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            made = Path(folder) / archive.name
            _run_spark(Path(folder), made)
            if made.exists():
                made.rename(archive)
            else:
                sys.stderr.write("This Java keeps no archives: the tests go without one.\n")
    return 0


def _archive() -> Path:
    """Of this Java and this PySpark: the JVM itself refuses one of other jars."""
    import pyspark

    java = find_java()
    key = f"{java.path} {java.version} {pyspark.__file__} {pyspark.__version__}"
    return _FOLDER / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def _run_spark(folder: Path, archive: Path) -> None:
    """Load the classes that a statement needs in a JVM that lists them when it ends."""
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
    # It is written when the JVM ends, which it does after its standard input.
    process.stdin.close()
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
