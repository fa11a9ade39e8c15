"""The rows of Spark's two commands that insert into a table of files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.parameters import frame_of_plan
from headrace.driver.py4j_bridge import HADOOP_PATH, Py4JBridge, plan_class_name
from headrace.driver.writes.staged_rows import StagedRows, WriteMode, static_path

# Class names of Spark's commands.
SPARK_FORMAT = "InsertIntoHadoopFsRelationCommand"
HIVE_FORMAT = "InsertIntoHiveTable"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInsert(StagedRows):
    """The rows of an INSERT."""

    command: Any
    """Spark's InsertIntoHadoopFsRelationCommand or InsertIntoHiveTable."""
    folder: str
    """Path below the target directory that the command writes to."""

    def write_to(self, session: SparkSession, location: Any) -> tuple[DataFrame, int | None]:
        jvm, command = Py4JBridge(session), self.command
        path = jvm.type(HADOOP_PATH)
        none, keeps_existing = jvm.none(), False
        staged = jvm.type(f"org.apache.spark.sql.execution.datasources.{SPARK_FORMAT}")(
            path(location, self.folder) if self.folder else location,
            jvm.mapping({}) if self.folder else command.staticPartitions(),
            keeps_existing,
            command.partitionColumns(),
            command.bucketSpec(),
            command.fileFormat(),
            command.options(),
            command.query(),
            jvm.type("org.apache.spark.sql.SaveMode").Append,
            none,
            none,
            command.outputColumnNames(),
        )
        frame = frame_of_plan(session, staged)
        return frame, _read_row_count(frame)


def describe_file_insert(session: SparkSession, command: Any) -> FileInsert:
    """Describe one of Spark's two commands."""
    jvm = Py4JBridge(session)
    if plan_class_name(command) == HIVE_FORMAT:
        return _describe_hive(jvm, command)
    static = jvm.map_of(command.staticPartitions())
    mode: WriteMode = "append"
    if str(command.mode().toString()) == "Overwrite":
        mode = "overwrite partitions" if command.dynamicPartitionOverwrite() else "overwrite"
    names = [str(column.name()) for column in jvm.list_of(command.partitionColumns())]
    return FileInsert(
        mode=mode,
        static=static,
        static_folder=static_path(jvm, names, static),
        is_one_partition=bool(static) and len(static) == len(names),
        keeps_existing=bool(command.ifPartitionNotExists()),
        drops_emptied=True,
        command=command,
        folder="",
    )


def _describe_hive(jvm: Py4JBridge, command: Any) -> FileInsert:
    names = [str(name) for name in jvm.list_of(command.table().partitionColumnNames())]
    static = jvm.map_of(command.staticPartitions())
    is_dynamic = len(static) < len(names)
    mode: WriteMode = "append"
    if command.overwrite():
        # Hive replaces the partitions that get new rows.
        mode = "overwrite partitions" if is_dynamic else "overwrite"
    folder = static_path(jvm, names, static)
    return FileInsert(
        mode=mode,
        static=static,
        static_folder=folder,
        is_one_partition=bool(static) and not is_dynamic,
        keeps_existing=bool(command.ifPartitionNotExists()),
        command=command,
        # The query has no columns for the static values, and Hive's writer makes no directories
        # for them.
        folder=folder,
    )


def _read_row_count(frame: DataFrame) -> int | None:
    """Return the number of rows that the command of a DataFrame has written."""
    plan: Any = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001 - PySpark has no public access to a plan
    metric = plan.commandPhysicalPlan().metrics().get("numOutputRows")
    return int(metric.get().value()) if metric.isDefined() else None
