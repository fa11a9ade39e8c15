"""`headrace init`: write a small project of jobs."""

from __future__ import annotations

import os
import shlex
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from headrace.cli.support import options
from headrace.cli.support.command import command_context
from headrace.errors import InvalidRequest
from headrace.text.readable import describe_count

_IGNORED = frozenset({".git", ".headrace"})
"""Folders that a project may have before its first file."""
_MAX_NAMED = 5
"""Largest number of files that an error names."""


@click.command()
@click.argument("directory", default=".", metavar="[DIRECTORY]")
@options.debug
def init(*, directory: str, debug: bool) -> None:
    """Write a small project of jobs into an empty folder.

    DIRECTORY is the folder, which is created if it does not exist; the default is the current one.
    It gets a manifest of each kind, a template, table definitions and a workflow for CI. A file
    that exists is never changed.
    """
    with command_context(debug=debug) as context:
        folder = Path(directory)
        written = write_project(folder)
        for path in written:
            context.terminal.info(f"  {folder / path}")
        count = describe_count(len(written), "file")
        context.terminal.notice(
            f"{count} written. Next: headrace deploy {shlex.quote(directory)} --plan"
        )


def write_project(folder: Path) -> list[str]:
    """Write the files that a folder lacks. Return their paths.

    Raise InvalidRequest if the folder has any other file, or if a file cannot be written.
    """
    wanted = dict(sorted(_list_files(files("headrace.cli") / "project")))
    try:
        _refuse_others(folder, wanted)
        missing = [path for path in wanted if not (folder / path).exists()]
        for path in missing:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                file.write(wanted[path])
    except OSError as error:
        name = error.filename or folder
        raise InvalidRequest(f"{name} cannot be written: {error.strerror}.") from error
    return missing


def _list_files(folder: Traversable, above: str = "") -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        path = f"{above}{entry.name}"
        if entry.is_dir():
            found += _list_files(entry, f"{path}/")
        else:
            found.append((path, entry.read_bytes()))
    return found


def _refuse_others(folder: Path, wanted: dict[str, bytes]) -> None:
    """Raise InvalidRequest if a folder has files other than those of the project."""
    others = []
    for root, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(set(folders) - _IGNORED)
        for name in sorted(names):
            file = Path(root, name)
            path = file.relative_to(folder).as_posix()
            if path not in wanted or file.read_bytes() != wanted[path]:
                others.append(path)
        if len(others) > _MAX_NAMED:
            break
    if others:
        more = ", …" if len(others) > _MAX_NAMED else ""
        raise InvalidRequest(
            f"{folder} is not empty: it has {', '.join(others[:_MAX_NAMED])}{more}.",
            hint="Name an empty folder: headrace init DIRECTORY. No file is overwritten.",
        )


def _raise(error: OSError) -> None:
    """Raise an error of `os.walk`, which is silent otherwise. A missing folder is created."""
    if not isinstance(error, FileNotFoundError):
        raise error
