"""PySpark without Headrace, in a separate process: tests compare results with its results.

The process reads SQL texts from stdin, one JSON string per line. It answers each text with one JSON
object per line: `{"file": …}` with the path of an Arrow stream, or `{"condition": …, "sqlstate": …,
"message": …}`. It ends at the end of stdin.
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
    """The process that runs SQL texts, one after the other."""

    def __init__(self, folder: Path) -> None:
        """Start the process. It writes the warehouse, the rows and its log to an empty folder."""
        self._log = folder / "log"
        self._unread = 0
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
        """Start to run a text. Return a function that waits for its outcome."""
        # A test that failed meanwhile did not wait for its outcome.
        while self._unread:
            self._read_line()
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps(text) + "\n")
        stdin.flush()
        self._unread += 1

        def wait_for_outcome() -> Outcome:
            answer = json.loads(self._read_line())
            if file := answer.pop("file", None):
                return parse_arrow_outcome(Path(file).read_bytes())
            return Outcome(**answer)

        return wait_for_outcome

    def run(self, text: str) -> Outcome:
        """Run a text and return its outcome."""
        return self.start(text)()

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()[-4000:]
        self._unread -= 1
        return line

    def close(self) -> None:
        """End the process and its JVM."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(timeout=120)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise


def main(folder: Path) -> None:
    """Run the texts from stdin, in the process itself."""
    answers = os.fdopen(os.dup(1), "w")
    # Spark and its JVM print to stdout: redirect it to the log.
    os.dup2(2, 1)
    session = _start_session(folder)
    try:
        for number, line in enumerate(sys.stdin):
            print(
                json.dumps(_run_text(session, json.loads(line), folder / f"{number}.arrow")),
                file=answers,
            )
            answers.flush()
    finally:
        session.stop()


def _start_session(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[*]")
        .appName("plain-spark")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.scripting.enabled", "true")
        .getOrCreate()
    )


def _run_text(session: Any, text: str, file: Path) -> dict[str, str | None]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        frame = session.sql(text)
        table = frame.toArrow()
    except PySparkException as error:
        return _describe_error(error.getCondition(), error.getSqlState(), str(error))
    except Py4JJavaError as error:
        cause = _find_spark_error(session, error.java_exception)
        return _describe_error(cause.getCondition(), cause.getSqlState(), cause.getMessage())
    table = table.replace_schema_metadata({SPARK_SCHEMA: frame.schema.json()})
    with pa.ipc.new_stream(str(file), table.schema) as writer:
        writer.write_table(table)
    return {"file": str(file)}


def _describe_error(
    condition: str | None, sqlstate: str | None, message: str
) -> dict[str, str | None]:
    return {"condition": condition, "sqlstate": sqlstate, "message": message}


def _find_spark_error(session: Any, error: Any) -> Any:
    """Return the first SparkThrowable with a condition in a chain of causes.

    PySpark converts neither errors of jobs that `toArrow` runs nor those of the SQL interpreter.
    """
    throwable = session._jvm.java.lang.Class.forName("org.apache.spark.SparkThrowable")
    while not (throwable.isInstance(error) and error.getCondition() is not None):
        error = error.getCause()
        assert error is not None
    return error


if __name__ == "__main__":
    main(Path(sys.argv[1]))
