"""Savepoints: verified copies of the checkpoints of a job that does not run.

`_metadata` names every file with its size and checksum, and is written last. A directory without it
is not a savepoint. A repeated copy completes the first one.

Files are copied inside the JVM, so that no byte passes through Python.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pyspark.sql import SparkSession

from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.streams.batch_run import FINISHED
from headrace.errors import SavepointBroken
from headrace.model.job import SavepointContent
from headrace.model.job_messages import RestoreSavepoint, TakeSavepoint

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


METADATA = "_metadata"
_FORMAT = 1
_SHOWN_FILES = 5


class SavepointMetadata(BaseModel):
    """The content of `_metadata`."""

    format: int = _FORMAT
    files: list[CopiedFile]
    logs: dict[str, CheckpointLog]
    """The write-ahead log of each query, by its directory."""
    content: SavepointContent


def take_savepoint(session: SparkSession, task: TakeSavepoint) -> SavepointContent:
    """Copy the checkpoints of a job, read every copy back, and write `_metadata`.

    Return a content without files if the job has no checkpoint. Raises SavepointBroken.
    """
    files = StateFiles(session)
    complete = read_metadata(files, task.savepoint)
    if complete is not None:
        return complete.content
    names = files.list_files(task.checkpoint)
    copied = files.map(lambda name: files.copy(task.checkpoint, task.savepoint, name), names)
    _check_all(files, task.savepoint, copied)
    logs = {query: _read_log(files, task.checkpoint, query, names) for query in task.queries}
    content = SavepointContent(
        files=len(copied),
        bytes=sum(file.size for file in copied),
        checksum=_checksum_of(copied),
        spark_version=session.version,
        is_clean=all(log.is_clean for log in logs.values()),
        last_batches={
            query: log.last_commit for query, log in logs.items() if log.last_commit is not None
        },
        planned_batches={
            query: log.last_offsets for query, log in logs.items() if log.last_offsets is not None
        },
    )
    if copied:
        metadata = SavepointMetadata(files=copied, logs=logs, content=content)
        files.write_text(f"{task.savepoint}/{METADATA}", metadata.model_dump_json())
    return content


def restore_savepoint(session: SparkSession, task: RestoreSavepoint) -> None:
    """Copy a savepoint to a new checkpoint directory, and verify every file.

    Raises SavepointBroken if a file is missing or altered.
    """
    files = StateFiles(session)
    metadata = read_metadata(files, task.savepoint)
    if metadata is None:
        raise SavepointBroken(f"The savepoint {task.savepoint} has no valid {METADATA}.")
    _check_sizes(files, task.savepoint, metadata.files)
    names = [file.path for file in metadata.files]
    copied = files.map(lambda name: files.copy(task.savepoint, task.checkpoint, name), names)
    if copied != metadata.files:
        altered = [
            after.path
            for before, after in zip(metadata.files, copied, strict=True)
            if before != after
        ]
        raise _broken(task.savepoint, altered)
    _check_all(files, task.checkpoint, copied)


def read_metadata(files: StateFiles, savepoint: str) -> SavepointMetadata | None:
    """Return the metadata of a savepoint; None if it is missing or not valid."""
    text = files.read_text(f"{savepoint}/{METADATA}")
    if text is None:
        return None
    try:
        return SavepointMetadata.model_validate_json(text)
    except ValidationError:
        return None


def is_complete(files: StateFiles, savepoint: str) -> bool:
    """Return whether a savepoint has its metadata and all files in their sizes."""
    metadata = read_metadata(files, savepoint)
    if metadata is None:
        return False
    return all(files.size_of(f"{savepoint}/{file.path}") == file.size for file in metadata.files)


def has_checkpoint(files: StateFiles, checkpoint: str, queries: Iterable[str]) -> bool:
    """Return whether every query can continue from its checkpoint, or has written its rows."""
    names = files.list_files(checkpoint)
    return all(
        _within(names, query, FINISHED)
        or (_within(names, query, "metadata") and _within(names, query, "offsets/"))
        for query in queries
    )


def _within(names: list[str], query: str, start: str) -> list[str]:
    prefix = f"{query}/{start}" if query else start
    return [name for name in names if name.startswith(prefix)]


def _read_log(files: StateFiles, checkpoint: str, query: str, names: list[str]) -> CheckpointLog:
    prefix = f"{query}/" if query else ""
    own = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    directory = f"{checkpoint}/{query}" if query else checkpoint
    return read_log(files, directory, own)


def _check_sizes(files: StateFiles, directory: str, expected: list[CopiedFile]) -> None:
    sizes = files.map(lambda file: files.size_of(f"{directory}/{file.path}"), expected)
    wrong = [file.path for file, size in zip(expected, sizes, strict=True) if size != file.size]
    if wrong:
        raise _broken(directory, wrong)


def _check_all(files: StateFiles, directory: str, expected: list[CopiedFile]) -> None:
    """Raise SavepointBroken unless every file of a directory is as expected."""
    results = files.map(lambda file: files.verify(directory, file), expected)
    wrong = [file.path for file, is_right in zip(expected, results, strict=True) if not is_right]
    if wrong:
        raise _broken(directory, wrong)


def _broken(directory: str, names: list[str]) -> SavepointBroken:
    shown = ", ".join(names[:_SHOWN_FILES])
    more = f" and {len(names) - _SHOWN_FILES} more" if len(names) > _SHOWN_FILES else ""
    return SavepointBroken(f"Files of {directory} are missing or altered: {shown}{more}.")


def _checksum_of(copied: list[CopiedFile]) -> str:
    listed = [[file.path, file.size, file.checksum] for file in copied]
    return hashlib.sha256(to_canonical_json(listed).encode()).hexdigest()
