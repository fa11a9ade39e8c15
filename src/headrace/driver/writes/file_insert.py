"""Spark's two commands that insert rows into a table of files, described in one way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.detect import plan_class_name
from headrace.driver.parameters import frame_of_plan
from headrace.driver.py4j_bridge import Py4JBridge

WriteMode = Literal["append", "overwrite", "overwrite partitions"]

# Class names of Spark's commands.
SPARK_FORMAT = "InsertIntoHadoopFsRelationCommand"
HIVE_FORMAT = "InsertIntoHiveTable"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInsert:
    """An INSERT into a table of files, which can write its rows to another directory."""

    mode: WriteMode
    static: dict[str, str]
    """Values in the PARTITION clause, by partition column."""
    static_folder: str
    """Path that all its partitions begin with, e.g. `k=1`; empty without such values."""
    keeps_existing: bool
    """Whether nothing is written if the partition exists."""
    drops_emptied: bool
    """Whether partitions that no new row replaces leave the catalog."""
    command: Any
    """Spark's InsertIntoHadoopFsRelationCommand."""
    folder: str
    """Path below the target directory that the command writes to."""

    def write_to(self, session: SparkSession, location: Any) -> DataFrame:
        """Append the rows to a directory that belongs to no table.

        Args:
            location: Hadoop's Path of the directory. Raises the errors of Spark.
        """
        jvm, command = Py4JBridge(session), self.command
        path = jvm.type("org.apache.hadoop.fs.Path")
        target = path(location, self.folder) if self.folder else location
        none, keeps_existing = jvm.none(), False
        staged = command.copy(
            target,
            command.staticPartitions(),
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
        return frame_of_plan(session, staged)


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
        static_folder=_static_folder(jvm, names, static),
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
    writes: Any = jvm.type(
        "org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand"
    )
    none, keeps_existing = jvm.none(), False
    folder = _static_folder(jvm, names, static)
    return FileInsert(
        mode=mode,
        static=static,
        static_folder=folder,
        keeps_existing=bool(command.ifPartitionNotExists()),
        drops_emptied=False,
        command=writes(
            jvm.type("org.apache.hadoop.fs.Path")("/"),
            jvm.mapping({}),
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
        ),
        # The query has no columns for the static values, and Hive's writer makes no directories
        # for them.
        folder=folder,
    )


def _static_folder(jvm: Py4JBridge, names: list[str], static: dict[str, str]) -> str:
    paths = jvm.singleton("org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils")
    parts = [
        str(paths.getPartitionPathString(name, static[name])) for name in names if name in static
    ]
    return "/".join(parts)
