"""The file of a batch. The driver reads it as Spark reads data: with the rights of its owner."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.driver.failures import KnownFailure, describe_failure
from headrace.driver.spark_version.bridge import activate
from headrace.driver.spark_version.errors import is_lost_jvm
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.streams.job_rows import describe_code_error
from headrace.errors import BatchFileUnreadable
from headrace.grammar.script import split_script
from headrace.model.job_messages import (
    MAX_FILE_BYTES,
    MAX_FILE_STATEMENTS,
    FileLanguage,
    FileRead,
    FileStatement,
    RunFile,
    TaskDone,
)

_LOG = logging.getLogger("headrace.driver")


def run_file(session: SparkSession, task: RunFile) -> FileRead | TaskDone:
    """Run a Python file, or return the statements of a SQL file.

    Raises:
        BatchFileUnreadable: There is no such file, or it is too large or not a text.
        KnownFailure: The Python file has failed.
        Py4JError: The JVM does not answer.
    """
    text = _read(session, task.location)
    if task.language is FileLanguage.PYTHON:
        _run_python(session, text, task)
        return TaskDone()
    statements = split_script(text)
    if len(statements) > MAX_FILE_STATEMENTS:
        raise BatchFileUnreadable(
            f"The file {task.location} has {len(statements)} statements. At most"
            f" {MAX_FILE_STATEMENTS} are allowed.",
            hint="Split the file into several batches.",
        )
    return FileRead(
        statements=[FileStatement(text=each.text, line=each.line) for each in statements]
    )


def _read(session: SparkSession, location: str) -> str:
    files = HadoopFiles(session)
    try:
        path, system = files.resolve(location)
        if not system.exists(path):
            raise BatchFileUnreadable(
                f"The file {location} does not exist, or not where the driver runs.",
                hint="Use a location that every host can read, such as s3://bucket/report.sql.",
            )
        status = system.getFileStatus(path)
        if not status.isFile():
            raise BatchFileUnreadable(f"{location} is not a file.")
        size = int(status.getLen())
        text = files.read_text(location, max_bytes=MAX_FILE_BYTES) or ""
    except Py4JJavaError as error:
        reason = describe_failure(error, "").message
        raise BatchFileUnreadable(f"The file {location} cannot be read: {reason}") from error
    if size > MAX_FILE_BYTES:
        raise BatchFileUnreadable(
            f"The file {location} has {size} bytes. At most {MAX_FILE_BYTES} are allowed."
        )
    if "\0" in text or "\N{REPLACEMENT CHARACTER}" in text:
        raise BatchFileUnreadable(f"The file {location} is not a text in UTF-8.")
    return text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")


def _run_python(session: SparkSession, code: str, task: RunFile) -> None:
    """Run code as `spark-submit` would, with the session as `spark`. Its output is in the log."""
    activate(session)
    # cloudpickle sends functions of `__main__` to the executors by value.
    names: dict[str, Any] = {"__name__": "__main__", "__file__": task.location, "spark": session}
    try:
        with _as_program([task.location, *task.arguments]):
            exec(compile(code, task.location, "exec"), names)  # noqa: S102 - the user's own file
    except SystemExit as error:
        if error.code not in {None, 0}:
            raise _fail(error, code, task) from error
    except Exception as error:
        if is_lost_jvm(error):
            raise
        raise _fail(error, code, task) from error


def _fail(error: BaseException, code: str, task: RunFile) -> KnownFailure:
    name = task.location.rpartition("/")[2]
    return KnownFailure(describe_code_error(error, code, task.location, name).failure)


@contextmanager
def _as_program(arguments: Sequence[str]) -> Iterator[None]:
    """Give a program its arguments, and keep Spark alive if it stops its session at its end."""
    earlier, stop_session, stop_context = sys.argv, SparkSession.stop, SparkContext.stop

    def ignore(_self: object) -> None:
        _LOG.info("the file stops Spark: it stops when the batch has ended")

    if isinstance(sys.stdout, io.TextIOWrapper):
        # Readers of the log see each line at once.
        sys.stdout.reconfigure(line_buffering=True)
    sys.argv = list(arguments)
    SparkSession.stop = ignore  # type: ignore[method-assign, assignment]
    SparkContext.stop = ignore  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        SparkSession.stop = stop_session  # type: ignore[method-assign]
        SparkContext.stop = stop_context  # type: ignore[method-assign]
        sys.argv = earlier
