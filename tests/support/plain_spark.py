"""PySpark without Headrace, in a process of its own: what results are held against.

The process reads SQL texts from stdin, one JSON string a line, and answers each by one JSON object
a line: `{"file": …}`, where the rows are as an Arrow stream, or `{"condition": …, "sqlstate": …,
"message": …}`. It ends when stdin does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.support.outcome import SPARK_SCHEMA, Outcome, parse_arrow_outcome

ROOT = Path(__file__).parents[2]


class PlainSpark:
    """A process that runs statements one after another, in the order of the calls."""

    def __init__(self, folder: Path) -> None:
        """Start the process. `folder` is empty and receives warehouse, results and log."""
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.plain_spark", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
            )

    def start(self, text: str) -> Callable[[], Outcome]:
        """Start a statement and return a function that waits for its outcome."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        stdin.write(json.dumps(text) + "\n")
        stdin.flush()

        def wait() -> Outcome:
            assert stdout is not None
            line = stdout.readline()
            assert line, self._log.read_text()[-4000:]
            fields = json.loads(line)
            if file := fields.pop("file", None):
                return parse_arrow_outcome(Path(file).read_bytes())
            return Outcome(**fields)

        return wait

    def run(self, text: str) -> Outcome:
        """Run a statement."""
        return self.start(text)()

    def close(self) -> None:
        """End the process and its JVM."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise


def main(folder: Path) -> None:
    """Answer requests from standard input until it closes."""
    output = os.fdopen(os.dup(1), "w")
    # What Spark and its JVM print goes to the log.
    os.dup2(2, 1)
    session = _session(folder)
    try:
        for number, line in enumerate(sys.stdin):
            print(
                json.dumps(_run_statement(session, json.loads(line), folder / f"{number}.arrow")),
                file=output,
            )
            output.flush()
    finally:
        session.stop()


def _session(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[*]")
        .appName("plain-spark")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.scripting.enabled", "true")
        .getOrCreate()
    )


def _run_statement(session: Any, text: str, file: Path) -> dict[str, str | None]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        frame = session.sql(text)
        table = frame.toArrow()
    except PySparkException as error:
        return _error(error.getCondition(), error.getSqlState(), str(error))
    except Py4JJavaError as error:
        spark_error = _spark_error(session, error.java_exception)
        return _error(
            spark_error.getCondition(), spark_error.getSqlState(), spark_error.getMessage()
        )
    table = table.replace_schema_metadata({SPARK_SCHEMA: frame.schema.json()})
    with pa.ipc.new_stream(str(file), table.schema) as writer:
        writer.write_table(table)
    return {"file": str(file)}


def _error(condition: str | None, sqlstate: str | None, message: str) -> dict[str, str | None]:
    return {"condition": condition, "sqlstate": sqlstate, "message": message}


def _spark_error(session: Any, error: Any) -> Any:
    """Return the first cause that is Spark's own error.

    PySpark converts neither errors of jobs that `toArrow` runs nor those of SQL scripts.
    """
    throwable = session._jvm.java.lang.Class.forName("org.apache.spark.SparkThrowable")
    while not (throwable.isInstance(error) and error.getCondition() is not None):
        error = error.getCause()
        assert error is not None
    return error


if __name__ == "__main__":
    main(Path(sys.argv[1]))
