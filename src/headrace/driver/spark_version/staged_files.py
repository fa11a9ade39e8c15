"""Files of two-phase writes: many operations in one call of the JVM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, compile_java


class StagedFiles:
    """Lists, moves and removes files, and lists partitions. Every call may raise Py4JError.

    All locations are URIs.
    """

    def __init__(self, session: SparkSession) -> None:
        self._jvm = Py4JBridge(session)

    def list_files(self, location: str) -> list[str]:
        """Return the paths of the files that readers see below a directory, relative to it."""
        return _lines(self._helper.list(self._conf, location))

    def read(self, location: str) -> str | None:
        """Return the text of a file, or None if it does not exist."""
        text = self._helper.read(self._conf, location)
        return None if text is None else str(text)

    def move(self, moves: Sequence[tuple[str, str]]) -> None:
        """Move files from sources to targets. Moves that were made before are skipped."""
        if moves:
            text = "\n".join(f"{source}\t{target}" for source, target in moves)
            self._helper.move(self._conf, text)

    def move_if_exists(self, source: str, target: str) -> None:
        """Move a file that may be missing. A file at the target may stay."""
        self._helper.moveIfExists(self._conf, source, target)

    def find_sources(self, pattern: str) -> list[str]:
        """Return the files that a pattern matches, and those in the directories that it matches.

        The list is empty if such a directory contains a directory.
        """
        return _lines(self._helper.findSources(self._conf, pattern))

    def copy(self, sources: Sequence[str], target: str) -> None:
        """Copy files to a directory. Files of the same name get different names there."""
        self._helper.copy(self._conf, "\n".join(sources), target)

    def remove(self, locations: Sequence[str], *, root: str | None) -> None:
        """Remove files that may exist, and the directories below `root` that become empty.

        Args:
            root: None: keep all directories.
        """
        if locations:
            self._helper.remove(self._conf, "\n".join(locations), root)

    def partitions(self, partitions: Any, schema: Any) -> dict[str, str]:
        """Return the location of each partition of Spark's catalog, by its path, e.g. `k=1/j=2`.

        Args:
            partitions: Scala sequence of CatalogTablePartition.
            schema: The StructType of the partition columns.
        """
        lines = _lines(self._helper.partitions(partitions, schema))
        return dict(line.split("\t", 1) for line in lines)

    @cached_property
    def _conf(self) -> Any:
        return self._jvm.state.newHadoopConf()

    @cached_property
    def _helper(self) -> Any:
        return compile_java(self._jvm.root, "StagedFiles")


def _lines(text: str) -> list[str]:
    # Not `splitlines`: names may contain other separators, for example U+2028.
    return text.split("\n")[:-1]
