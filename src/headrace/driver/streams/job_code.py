"""The rows of a job whose manifest has `code`: Python that binds `execution_output`."""

from __future__ import annotations

import traceback
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.failures import describe_failure
from headrace.driver.streams.classify import is_lost_jvm, is_permanent
from headrace.driver.streams.invalid_stream import InvalidStream
from headrace.driver.streams.supervised_query import RunFailed
from headrace.model.failure import Failure

OUTPUT = "execution_output"
_FILE = "<code of the job>"


def run_code(session: SparkSession, code: str) -> DataFrame:
    """Run the code of a job, and return the DataFrame that it binds.

    Raises:
        RunFailed: The code raised an error.
        InvalidStream: The code did not bind a DataFrame.
        Py4JError: The JVM does not answer.
    """
    # cloudpickle sends functions of `__main__` to the executors by value.
    names: dict[str, Any] = {"__name__": "__main__", "spark": session}
    try:
        exec(compile(code, _FILE, "exec"), names)  # noqa: S102 - the code is the user's own job
    except (Exception, SystemExit) as error:
        if isinstance(error, Exception) and is_lost_jvm(error):
            raise
        raise _describe(error, code) from error
    if OUTPUT not in names:
        raise InvalidStream(
            f"The code of the job did not bind `{OUTPUT}`. Assign the DataFrame whose rows the job"
            f" writes: {OUTPUT} = spark.readStream.table('t')"
        )
    output = names[OUTPUT]
    if not isinstance(output, DataFrame):
        raise InvalidStream(
            f"The code of the job bound `{OUTPUT}` to a value of the type"
            f" {type(output).__name__}. It must be a DataFrame, streaming or batch."
        )
    return output


def _describe(error: BaseException, code: str) -> RunFailed:
    """Return the failure of code, whose message begins with the line that failed."""
    is_of_spark = isinstance(error, Exception) and _is_of_spark(error)
    if is_of_spark:
        assert isinstance(error, Exception)
        failure = describe_failure(error, code)
        reason = failure.message
    else:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        trace = "".join(traceback.format_exception(error))
        failure = Failure(code="execution_error", message=reason, trace=trace)
    line = _find_line(error)
    message = f"`code` failed: {reason}" if line is None else f"line {line} of `code`: {reason}"
    # Errors of Spark's jobs may be transient, for example while a file system does not answer.
    permanent = not is_of_spark or (isinstance(error, Exception) and is_permanent(error))
    return RunFailed(
        failure.model_copy(update={"message": message, "line": line, "column": None}),
        is_permanent=permanent,
    )


def _is_of_spark(error: Exception) -> bool:
    return isinstance(error, PySparkException) or hasattr(error, "java_exception")


def _find_line(error: BaseException) -> int | None:
    """Return the line of the code that raised an error, or that called what raised it."""
    if isinstance(error, SyntaxError) and error.filename == _FILE:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == _FILE]
    return lines[-1] if lines else None
