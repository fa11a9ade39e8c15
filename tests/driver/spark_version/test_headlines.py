"""An error is shown by its cause, not by the stack trace or the general words around it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from tests.support.streams import read_rows

from headrace.driver.failures import describe_failure
from headrace.driver.spark_version.errors import find_headline
from headrace.model.failure import Failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROXY = "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
WORKER = "An exception was thrown from the Python worker. Please see the stack trace below.\n"
FRAMES = 'Traceback (most recent call last):\n  File "run.py", line 7, in write\n    fail()\n'
JAVA = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling o63.save.\n"
    ": {error}\n\tat java.base/java.net.URLClassLoader.findClass(Unknown Source)\n"
    "\tat org.apache.spark.sql.DataFrameWriter.save(DataFrameWriter.scala:1)\n"
)


@pytest.mark.parametrize("before", [PROXY, WORKER, f"PythonException: {WORKER}"])
@pytest.mark.parametrize(
    "error",
    ["KeyError: 'bad'", "RuntimeError: two\nlines", "acme.errors.Refused: no", "KeyboardInterrupt"],
)
def test_an_error_of_python_is_shown_without_its_traceback(before: str, error: str) -> None:
    assert find_headline(f"{before}{FRAMES}{error}\n") == error


def test_the_last_of_several_errors_of_python_is_shown() -> None:
    first = f"{FRAMES}ValueError: first\n\nThe above exception was the direct cause of the"
    text = f"{PROXY}{first} following exception:\n\n{FRAMES}RuntimeError: second\n"

    assert find_headline(text) == "RuntimeError: second"


@pytest.mark.parametrize("wrapper", ["", "org.apache.spark.SparkException: Job aborted"])
def test_an_error_of_java_below_python_is_shown_by_its_cause(wrapper: str) -> None:
    cause = "java.lang.ClassNotFoundException: org.postgresql.Driver"
    java = JAVA.format(error=wrapper or cause)
    if wrapper:
        java += f"Caused by: {cause}\n\t... 12 more\n"

    assert find_headline(f"{PROXY}{FRAMES}{java}") == cause


def test_an_error_of_a_database_is_shown_rather_than_that_of_its_socket() -> None:
    error = "org.postgresql.util.PSQLException: Connection to db:5432 refused."
    java = JAVA.format(error=error) + "Caused by: java.net.ConnectException: refused\n\t... 9 more"

    assert find_headline(f"{PROXY}{FRAMES}{java}") == error


def test_an_error_of_python_in_a_failed_job_is_shown_without_javas_stack_trace() -> None:
    text = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed:"
        f" org.apache.spark.api.python.PythonException: {FRAMES}KeyError: 'k'\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)\n\n"
        "Driver stacktrace:"
    )

    assert find_headline(text) == "KeyError: 'k'"


@pytest.mark.parametrize("message", ["Division by zero.", "a\n  b", FRAMES.strip(), ""])
def test_any_other_message_stays_as_it_is(message: str) -> None:
    assert find_headline(message) == message


def describe_end(spark: SparkSession, text: str) -> Failure:
    try:
        read_rows(spark.sql(text))
    except (PySparkException, Py4JError) as error:
        return describe_failure(error, text)
    raise AssertionError(f"it has not failed: {text}")


def test_a_file_that_cannot_be_read_is_shown_with_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "broken.json.gz").write_text("this is not compressed")
    failure = describe_end(spark, f"SELECT * FROM text.`{tmp_path}`")

    assert failure.condition == "FAILED_READ_FILE.NO_HINT"
    assert failure.message.startswith("Encountered error while reading file file:///")
    assert failure.message.endswith("broken.json.gz: java.io.IOException: not a gzip file")
