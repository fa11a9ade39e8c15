"""Checks of a query that writes to files, before the query starts.

Spark's file sink checks the columns of each batch, when the query is already running.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.failures import InvalidStream
from headrace.driver.spark_version.connectors import check_file_types
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.streams.sink_writer import SinkWriter
from headrace.model.stream_providers import find_sink
from headrace.model.stream_query import QuerySpec

_LOG = "_spark_metadata"


class FileSinkWriter(SinkWriter):
    """Writes files with Spark's file sink."""

    def check(self, rows: DataFrame) -> None:
        _check_columns(rows, self.target.provider, self.target.partitioned_on)


def _check_columns(rows: DataFrame, provider: str, partitioned_on: tuple[str, ...]) -> None:
    """Check that files of a format can hold these rows.

    Raises:
        InvalidStream: No column stays in the files, or text would need several columns.
        AnalysisException: The format has no such type.
    """
    partitions = {name.casefold() for name in partitioned_on}
    columns = [name for name in rows.columns if name.casefold() not in partitions]
    if not columns:
        raise InvalidStream(
            "PARTITIONED ON names every column of the query. At least one must stay in the files."
        ).with_condition("ALL_PARTITION_COLUMNS_NOT_ALLOWED", "KD005")
    if provider == "text" and len(columns) > 1:
        raise InvalidStream(
            "The sink text writes one column of strings, besides those in PARTITIONED ON. The"
            f" query has {len(columns)}: {', '.join(columns)}. Define a stream of one column, for"
            " example with to_json(struct(*))."
        )
    check_file_types(rows.drop(*partitioned_on), provider)


def has_file_log(session: SparkSession, spec: QuerySpec) -> bool:
    """Return whether a sink of files has a log already.

    A run without state counts its batches from 0, and Spark skips the batches that the log has.
    """
    if spec.path is None or not find_sink(spec.sink).is_file:
        return False
    return not HadoopFiles(session).is_empty(f"{spec.path.rstrip('/')}/{_LOG}")


def check_file_log(session: SparkSession, spec: QuerySpec) -> None:
    """Raise InvalidStream if the log of a sink of files has batches that the checkpoint lacks.

    Spark would skip these batches silently, whatever rows they have now.
    """
    if spec.checkpoint is None or spec.path is None or not find_sink(spec.sink).is_file:
        return
    files = HadoopFiles(session)
    written = _find_last_number(files, f"{spec.path.rstrip('/')}/{_LOG}")
    if written is None:
        return
    begun = find_last_planned(session, spec)
    if begun is None:
        raise InvalidStream(
            f"The directory {spec.path} has the log of an earlier run, and this run begins without"
            " state. Spark would drop its first batches silently. Choose another `path`."
        )
    if written > begun:
        raise InvalidStream(
            f"The directory {spec.path} has batches up to {written}, and the checkpoint"
            f" {spec.checkpoint} up to {begun}. Spark would drop the batches in between silently."
            " Choose another `path`, or begin without state."
        )


def find_last_planned(session: SparkSession, spec: QuerySpec) -> int | None:
    """Return the last batch for which the checkpoint has offsets, or None if there is none."""
    if spec.checkpoint is None:
        return None
    return _find_last_number(HadoopFiles(session), f"{spec.checkpoint.rstrip('/')}/offsets")


def _find_last_number(files: HadoopFiles, directory: str) -> int | None:
    """Return the largest number of a batch in a log of Spark: `7`, or `9.compact`."""
    names = (name.partition(".")[0] for name in files.list_files(directory))
    return max((int(name) for name in names if name.isdecimal()), default=None)
