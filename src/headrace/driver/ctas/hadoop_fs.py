"""Files as Spark's Hadoop sees them: what a table's location holds, wherever that is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.py4j_bridge import Py4JBridge


class HadoopFiles:
    """Paths are URIs, or paths of the default file system. Every call may raise Py4JError."""

    def __init__(self, session: SparkSession) -> None:
        self._jvm = Py4JBridge(session)

    def full(self, place: str) -> str:
        """The URI of a place, with its scheme."""
        path, system = self._at(place)
        return str(system.makeQualified(path).toString())

    def exists(self, place: str) -> bool:
        path, system = self._at(place)
        return bool(system.exists(path))

    def is_empty(self, place: str, *, but: str | None = None) -> bool:
        """Whether there is nothing, or a directory with nothing in it.

        What it holds under names that begin with `but` does not count.
        """
        path, system = self._at(place)
        return not system.exists(path) or _holds_nothing(path, system, but)

    def remove(self, place: str) -> None:
        """A file, or a directory with all that it holds; nothing where there is nothing."""
        path, system = self._at(place)
        system.delete(path, True)

    def remove_if_empty(self, place: str) -> bool:
        """An empty directory, and nothing else; returns whether nothing is there any more."""
        path, system = self._at(place)
        return not system.exists(path) or (
            _holds_nothing(path, system) and bool(system.delete(path, False))
        )

    def files_below(self, place: str) -> list[str]:
        """The files of a directory and those below it, relative to it.

        Last those whose names begin with `_`: what makes the others a table, where there is any.
        """
        return sorted(self._below(place), key=lambda file: (file.startswith("_"), file))

    def first_below(self, place: str) -> str | None:
        """One file of a directory or those below it, relative to it: of the table, if there is any.

        The names of others, or of directories above them, begin with `_` or `.`.
        """
        other = None
        for file in self._below(place):
            if not any(name.startswith(("_", ".")) for name in file.split("/")):
                return file
            other = other or file
        return other

    def move(self, source: str, target: str) -> bool:
        """A file or directory to where there is none; returns whether it could."""
        from_path, system = self._at(source)
        to_path, _system = self._at(target)
        if system.exists(to_path):
            return False
        system.mkdirs(to_path.getParent())
        return bool(system.rename(from_path, to_path))

    def _below(self, place: str) -> Iterator[str]:
        path, system = self._at(place)
        if not system.exists(path):
            return
        root = system.makeQualified(path).toString().rstrip("/") + "/"
        listed = system.listFiles(path, True)
        while listed.hasNext():
            yield str(listed.next().getPath().toString()).removeprefix(root)

    @cached_property
    def _conf(self) -> Any:
        return self._jvm.state.newHadoopConf()

    def _at(self, place: str) -> tuple[Any, Any]:
        path = self._jvm.type("org.apache.hadoop.fs.Path")(place)
        return path, path.getFileSystem(self._conf)


def _holds_nothing(path: Any, system: Any, but: str | None = None) -> bool:
    if not system.getFileStatus(path).isDirectory():
        return False
    names = (str(one.getPath().getName()) for one in system.listStatus(path))
    return all(but is not None and name.startswith(but) for name in names)
