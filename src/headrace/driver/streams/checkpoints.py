"""Checks of the checkpoint of a query before a run."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.streams.batch_run import FINISHED
from headrace.driver.streams.invalid_stream import InvalidStream
from headrace.model.stream_query import DesiredQuery

_FIRST_FILES = ("metadata", FINISHED)
"""Every checkpoint has one of these files from the start of its first run."""


def check_checkpoint(session: SparkSession, desired: DesiredQuery) -> None:
    """Raise InvalidStream if a query has committed batches, and its checkpoint is gone.

    Spark would begin anew, and write every row again.
    """
    checkpoint = desired.spec.checkpoint
    if checkpoint is None or desired.last_batch is None:
        return
    files = HadoopFiles(session)
    if not any(files.exists(f"{checkpoint.rstrip('/')}/{name}") for name in _FIRST_FILES):
        raise InvalidStream(
            f"The query has committed batch {desired.last_batch}, and its checkpoint {checkpoint}"
            " does not exist any more. Start it as a new query with another checkpoint, or restore"
            " the directory."
        )
