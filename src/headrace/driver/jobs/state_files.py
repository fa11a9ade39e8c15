"""Files of savepoints and checkpoints, copied inside the JVM: no byte passes through Python."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from pydantic import BaseModel
from pyspark.sql import SparkSession

from headrace.driver.spark_version.hadoop_files import HadoopFiles

T = TypeVar("T")
R = TypeVar("R")
_THREADS = 8
_MAX_OFFSETS = 64 * 1024
"""Characters of the offsets of a batch that a savepoint records."""


class CopiedFile(BaseModel):
    """A file of a savepoint."""

    path: str
    """Relative to the directory of the savepoint."""
    size: int
    checksum: int
    """CRC-32."""


class StateFiles:
    """Copies files and computes their checksums. Every call may raise Py4JError."""

    def __init__(self, session: SparkSession) -> None:
        self._files = HadoopFiles(session)

    def map(self, function: Callable[[T], R], values: Sequence[T]) -> list[R]:
        """Return the results of a function for these values, computed by a few threads."""
        size = max(1, -(-len(values) // _THREADS))
        parts = [values[start : start + size] for start in range(0, len(values), size)]
        futures = [Future[list[R]]() for _part in parts]
        # Not a pool: a thread that has closed its connection must not work for another part.
        for part, future in zip(parts, futures, strict=True):
            threading.Thread(target=self._work, args=(function, part, future), daemon=True).start()
        return [result for future in futures for result in future.result()]

    def _work(
        self, function: Callable[[T], R], values: Sequence[T], future: Future[list[R]]
    ) -> None:
        try:
            results = [function(value) for value in values]
        except Exception as error:  # noqa: BLE001 - the caller's thread raises it
            future.set_exception(error)
        else:
            future.set_result(results)
        finally:
            self._files.close_thread_connection()

    def list_files(self, directory: str) -> list[str]:
        """Return the paths of the complete files below a directory, relative to it."""
        files = self._files.list_files(directory)
        return [file for file in files if not _is_temporary(file)]

    def exists(self, location: str) -> bool:
        return self._files.exists(location)

    def remove(self, location: str) -> None:
        """Remove a file or directory. Do nothing if it does not exist."""
        self._files.remove(location)

    def size_of(self, location: str) -> int:
        """Return the size of a file in bytes; -1 if it does not exist."""
        return self._files.size_of(location)

    def copy(self, source: str, target: str, relative: str) -> CopiedFile:
        """Copy a file between two directories. Return it with the checksum of what was read."""
        size, checksum = self._files.copy(f"{source}/{relative}", f"{target}/{relative}")
        return CopiedFile(path=relative, size=size, checksum=checksum)

    def verify(self, directory: str, expected: CopiedFile) -> bool:
        """Return whether a file has the size and the checksum that are expected of it."""
        location = f"{directory}/{expected.path}"
        if self.size_of(location) != expected.size:
            return False
        return self._files.checksum(location) == expected.checksum

    def read_text(self, location: str) -> str | None:
        """Return the text of a file; None if it does not exist."""
        return self._files.read_text(location)

    def write_text(self, location: str, text: str) -> None:
        """Write a file in one step: readers see the old text or the new one."""
        self._files.replace(location, text)


class CheckpointLog(BaseModel):
    """What the write-ahead log of a query says."""

    last_offsets: int | None
    last_commit: int | None
    offsets: str = ""
    """Offsets of the last batch, as Spark writes them."""

    @property
    def is_clean(self) -> bool:
        """Whether every batch with offsets has its commit."""
        return self.last_offsets == self.last_commit


def read_log(files: StateFiles, directory: str, names: list[str]) -> CheckpointLog:
    """Return what a checkpoint says, given the names of its files."""
    last_offsets = max(_batches(names, "offsets"), default=None)
    offsets = ""
    if last_offsets is not None:
        offsets = (files.read_text(f"{directory}/offsets/{last_offsets}") or "")[:_MAX_OFFSETS]
    return CheckpointLog(
        last_offsets=last_offsets,
        last_commit=max(_batches(names, "commits"), default=None),
        offsets=offsets,
    )


def to_canonical_json(value: Any) -> str:
    """Return a value as JSON with sorted keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _batches(names: list[str], folder: str) -> Iterator[int]:
    for name in names:
        parts = name.split("/")
        if len(parts) == 2 and parts[0] == folder and parts[1].isdigit():
            yield int(parts[1])


def _is_temporary(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".") or name.endswith((".tmp", ".crc"))
