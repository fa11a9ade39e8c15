"""The rows of a batch job with `code`: a view that the statement of a run reads."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from headrace.driver.failures import InvalidStream, KnownFailure
from headrace.driver.spark_version.bridge import activate
from headrace.driver.streams.job_rows import run_code
from headrace.driver.streams.supervised_query import RunFailed
from headrace.model.job_messages import ROWS_VIEW
from headrace.model.run import INPUT_FILES
from headrace.model.statement import Parameter


def bind_rows(session: SparkSession, code: str, parameters: Iterable[Parameter]) -> None:
    """Run the code of a job, and make its rows a temporary view.

    Args:
        parameters: Those of the run, which are variables of the code.

    Raises:
        KnownFailure: The code raised an error.
        InvalidStream: The code did not bind a DataFrame, or bound that of a stream.
    """
    activate(session)
    try:
        frame = run_code(session, code, {str(each.name): _read_value(each) for each in parameters})
    except RunFailed as error:
        raise KnownFailure(error.failure) from error
    if frame.isStreaming:
        raise InvalidStream(
            "The code of the batch job bound `execution_output` to the rows of a stream. Read them"
            " with `spark.read`, or delete `schedule` to run the job as a stream."
        )
    frame.createOrReplaceTempView(ROWS_VIEW)


def _read_value(parameter: Parameter) -> Any:
    if parameter.type == "TIMESTAMP":
        return datetime.fromisoformat(str(parameter.value))
    if parameter.name == INPUT_FILES and isinstance(parameter.value, list):
        # `spark.read` takes paths, in which a percent sign is an ordinary character.
        return [unquote(str(uri)) for uri in parameter.value]
    return parameter.value
