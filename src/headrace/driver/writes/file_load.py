"""The files of a LOAD DATA statement, which become files of a table in a Hive format."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.parameters import empty_frame
from headrace.driver.py4j_bridge import HADOOP_PATH, Py4JBridge
from headrace.driver.writes.staged_files import StagedFiles
from headrace.driver.writes.staged_rows import StagedRows, static_path

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

    def write_to(self, session: SparkSession, location: Any) -> tuple[DataFrame, int | None]:
        target = "/".join(filter(None, [str(location.toString()), self.static_folder]))
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


def describe_file_load(session: SparkSession, command: Any) -> FileLoad | None:
    """Describe a LOAD DATA.

    Return None if Spark or Hive will refuse it, so that Spark reports the error. Raises Py4JError.
    """
    jvm = Py4JBridge(session)
    metadata = jvm.state.catalog().getTableMetadata(command.table())
    provider = metadata.provider()
    if provider.isDefined() and str(provider.get()).lower() != "hive":
        return None
    names = [str(name) for name in jvm.list_of(metadata.partitionColumnNames())]
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
