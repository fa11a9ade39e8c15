"""Files as Spark's Hadoop sees them: what a table's location holds, wherever that is."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class Files:
    """Paths are URIs, or paths of the default file system. Every call may raise Py4JError."""

    def __init__(self, session: SparkSession) -> None:
        self._jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no way to Hadoop's file systems
        self._conf = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001

    def full(self, place: str) -> str:
        """The URI of a place, with its scheme."""
        path, system = self._at(place)
        return str(system.makeQualified(path).toString())

    def exists(self, place: str) -> bool:
        path, system = self._at(place)
        return bool(system.exists(path))

    def is_empty(self, place: str) -> bool:
        """Whether there is nothing, or a directory with nothing in it."""
        path, system = self._at(place)
        return not system.exists(path) or (
            system.getFileStatus(path).isDirectory() and len(system.listStatus(path)) == 0
        )

    def remove(self, place: str) -> None:
        """A file, or a directory with all that it holds; nothing where there is nothing."""
        path, system = self._at(place)
        system.delete(path, True)

    def remove_if_empty(self, place: str) -> None:
        """An empty directory, and nothing else."""
        path, system = self._at(place)
        if self.is_empty(place) and system.exists(path):
            system.delete(path, False)

    def files_below(self, place: str) -> list[str]:
        """The files of a directory and those below it, relative to it.

        Last those whose names begin with `_`: what makes the others a table, where there is any.
        """
        path, system = self._at(place)
        if not system.exists(path):
            return []
        root = system.makeQualified(path).toString().rstrip("/") + "/"
        found, listed = [], system.listFiles(path, True)
        while listed.hasNext():
            found.append(str(listed.next().getPath().toString()).removeprefix(root))
        return sorted(found, key=lambda file: (file.startswith("_"), file))

    def move(self, source: str, target: str) -> bool:
        """One file to where there is none; returns whether it could."""
        from_path, system = self._at(source)
        to_path, _system = self._at(target)
        if system.exists(to_path):
            return False
        system.mkdirs(to_path.getParent())
        return bool(system.rename(from_path, to_path))

    def _at(self, place: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(place)
        return path, path.getFileSystem(self._conf)
