"""The rows of Spark's two commands that insert into a table of files."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from headrace.driver.spark_version.bridge import (
    HADOOP_PATH,
    Py4JBridge,
    compile_java,
    list_of,
    plan_class_name,
)
from headrace.driver.spark_version.parameters import empty_frame
from headrace.driver.spark_version.written_table import StagedFiles

WriteMode = Literal["append", "overwrite", "overwrite partitions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows(ABC):
    """The rows of one statement, which can be written to any directory."""

    mode: WriteMode
    static: dict[str, str]
    """Values in the PARTITION clause, by partition column."""
    static_folder: str
    """Path that all its partitions begin with, e.g. `k=1`; empty without such values."""
    is_one_partition: bool
    """Whether the PARTITION clause has a value for every partition column."""
    keeps_existing: bool = False
    """Whether nothing is written if the partition exists."""
    drops_emptied: bool = False
    """Whether partitions that no new row replaces leave the catalog."""

    @abstractmethod
    def write_to(self, session: SparkSession, location: str) -> tuple[DataFrame, int | None]:
        """Add the rows to a directory that belongs to no table. Raises the errors of Spark.

        Args:
            location: URI of the directory.

        Returns:
            The rows that the statement returns, and the number of rows written, if it is known.
        """

    def finish(self, session: SparkSession) -> None:  # noqa: B027 - most have nothing to do
        """Clean up after the commit. A driver that completes the commit of another does not."""


def static_path(jvm: Py4JBridge, names: list[str], static: dict[str, str]) -> str:
    """Return the path that all partitions with these values begin with, e.g. `k=1`.

    Args:
        names: Partition columns of the table, in order.
    """
    paths = jvm.singleton("org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils")
    parts = [
        str(paths.getPartitionPathString(name, static[name])) for name in names if name in static
    ]
    return "/".join(parts)


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

    def write_to(self, session: SparkSession, location: str) -> tuple[DataFrame, int | None]:
        jvm = Py4JBridge(session)
        runner = compile_java(jvm.root, "FileInsert")
        answer = runner.run(jvm.session, self.command, location, self.folder)
        count = str(answer[1])
        return ClassicDataFrame(answer[0], session), int(count) if count else None


def _describe_file_insert(session: SparkSession, command: Any) -> FileInsert:
    """Describe one of Spark's two commands."""
    jvm = Py4JBridge(session)
    if plan_class_name(command) == HIVE_FORMAT:
        return _describe_hive(jvm, command)
    static = jvm.map_of(command.staticPartitions())
    mode: WriteMode = "append"
    if str(command.mode().toString()) == "Overwrite":
        mode = "overwrite partitions" if command.dynamicPartitionOverwrite() else "overwrite"
    names = [str(column.name()) for column in list_of(command.partitionColumns())]
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
    names = [str(name) for name in list_of(command.table().partitionColumnNames())]
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


_LOG = logging.getLogger("headrace.driver")
LOAD = "LoadDataCommand"
"""Class name of Spark's command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoad(StagedRows):
    """The files that a LOAD DATA adds to a table."""

    sources: list[str]
    """URIs of the files."""
    is_local: bool
    """Whether the files stay: LOAD DATA LOCAL copies them, and LOAD DATA moves them."""

    def write_to(self, session: SparkSession, location: str) -> tuple[DataFrame, int | None]:
        target = "/".join(filter(None, [location, self.static_folder]))
        StagedFiles(session).copy(self.sources, target)
        return empty_frame(session), None

    def finish(self, session: SparkSession) -> None:
        # Only now: before the commit, the staged copy may be removed again.
        if self.is_local:
            return
        try:
            StagedFiles(session).remove(self.sources, root=None)
        except Py4JError as error:
            _LOG.warning("the source files of a LOAD DATA were not removed: %s", error)


def _describe_file_load(session: SparkSession, command: Any) -> FileLoad | None:
    """Describe a LOAD DATA.

    Return None if Spark or Hive will refuse it, so that Spark reports the error. Raises Py4JError.
    """
    jvm = Py4JBridge(session)
    metadata = jvm.state.catalog().getTableMetadata(command.table())
    provider = metadata.provider()
    if provider.isDefined() and str(provider.get()).lower() != "hive":
        return None
    names = [str(name) for name in list_of(metadata.partitionColumnNames())]
    values = jvm.map_of(command.partition().get()) if command.partition().isDefined() else {}
    by_lower_case = {key.lower(): value for key, value in values.items()}
    static = {name: by_lower_case[name.lower()] for name in names if name.lower() in by_lower_case}
    is_local = bool(command.isLocal())
    sources = StagedFiles(session).find_sources(_qualify(jvm, str(command.path()), is_local))
    if len(static) < len(names) or len(values) > len(names) or not sources:
        return None
    return FileLoad(
        mode="overwrite" if command.isOverwrite() else "append",
        static=static,
        static_folder=static_path(jvm, names, static),
        is_one_partition=bool(static),
        sources=sources,
        is_local=is_local,
    )


def _qualify(jvm: Py4JBridge, path: str, is_local: bool) -> str:
    """Return the URI of a path, as Spark's LoadDataCommand resolves it."""
    command = jvm.singleton("org.apache.spark.sql.execution.command.LoadDataCommand")
    hadoop_path, uri = jvm.type(HADOOP_PATH), jvm.type("java.net.URI")
    system = jvm.type("java.lang.System")
    if is_local:
        root, folder = "file:///", str(system.getProperty("user.dir"))
    else:
        root = str(jvm.state.newHadoopConf().get("fs.defaultFS", "file:///"))
        folder = f"/user/{system.getProperty('user.name')}"
    qualified = command.makeQualified(uri(root), hadoop_path(folder), hadoop_path(path))
    return str(qualified.toString())


def describe_rows(session: SparkSession, command: Any) -> StagedRows | None:
    """Describe the rows of an analysed INSERT or LOAD DATA.

    Return None if Spark or Hive will refuse it, so that Spark reports the error. Raises Py4JError.
    """
    if plan_class_name(command) == LOAD:
        return _describe_file_load(session, command)
    return _describe_file_insert(session, command)
