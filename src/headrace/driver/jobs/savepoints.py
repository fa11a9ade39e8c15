"""Savepoints: verified copies of the checkpoints of a job that does not run.

`_metadata` names every file with its size and checksum, and is written last. A directory without it
is not a savepoint. A repeated copy completes the first one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pydantic import BaseModel, ValidationError
from pyspark.sql import SparkSession

from headrace.driver.jobs.state_files import (
    CheckpointLog,
    CopiedFile,
    StateFiles,
    read_log,
    to_canonical_json,
)
from headrace.driver.streams.batch_run import FINISHED
from headrace.errors import SavepointBroken
from headrace.model.job import SavepointContent
from headrace.model.job_messages import RestoreSavepoint, TakeSavepoint

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
