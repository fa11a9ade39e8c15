"""Places that results live in: plain paths, or URIs that fsspec knows.

Plain paths and `file:` URIs are used directly. Every failure is ResultsUnavailable (or
FileNotFoundError from the readers), with the reason that the file system gave.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import fsspec
import pyarrow as pa

from headrace.errors import ResultsUnavailable
from headrace.private_files import write_private


def join(location: str, name: str) -> str:
    """The place of `name` below `location`."""
    return f"{location.rstrip('/')}/{name}"


def local_path(location: str) -> Path | None:
    """The path of a location on this host's file systems; None for any other URI."""
    if "://" not in location and not location.startswith("file:"):
        return Path(location)
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path))
    return None


def filesystem(location: str) -> tuple[Any, str]:
    """fsspec's file system of a URI, and the path within it."""
    found: tuple[Any, str] = fsspec.core.url_to_fs(location)
    return found


def make(location: str) -> None:
    """Makes the directory, where there are such things. Raises the file system's own errors."""
    if path := local_path(location):
        path.mkdir(parents=True, exist_ok=True)


def open_to_read(location: str) -> Any:
    """A binary file, random access. Raises FileNotFoundError, ResultsUnavailable."""
    path = local_path(location)
    try:
        if path is not None:
            return pa.OSFile(str(path), "rb")
        system, inner = filesystem(location)
        return system.open(inner, "rb")
    except FileNotFoundError:
        raise
    except Exception as error:
        raise _unavailable("read", location, error) from error


def read(location: str) -> bytes:
    """The whole of a small file. Raises FileNotFoundError, ResultsUnavailable."""
    with open_to_read(location) as file:
        try:
            content: bytes = file.read()
        except FileNotFoundError:
            raise
        except Exception as error:
            raise _unavailable("read", location, error) from error
    return content


def write(location: str, content: bytes, *, private: bool = False) -> None:
    """A small file, whole; a `private` one has mode 0600 where there are modes.

    Raises the file system's own errors.
    """
    if path := local_path(location):
        if private:
            write_private(path, content)
        else:
            path.write_bytes(content)
        return
    system, inner = filesystem(location)
    system.pipe_file(inner, content)


def exists(location: str) -> bool:
    """Whether there is anything at a place. Raises ResultsUnavailable."""
    try:
        if path := local_path(location):
            return path.exists()
        system, inner = filesystem(location)
        return bool(system.exists(inner))
    except Exception as error:
        raise _unavailable("look at", location, error) from error


def names(location: str) -> list[str]:
    """What lies directly in a place; nothing when there is no such place.

    Raises ResultsUnavailable.
    """
    try:
        if path := local_path(location):
            return [found.name for found in path.iterdir()]
        system, inner = filesystem(location)
        system.invalidate_cache()
        return [found.rpartition("/")[2] for found in system.ls(inner, detail=False)]
    except FileNotFoundError:
        return []
    except Exception as error:
        raise _unavailable("list", location, error) from error


def delete(location: str) -> None:
    """Removes a place and all below it, if there is one. Raises ResultsUnavailable."""
    try:
        if path := local_path(location):
            path.unlink() if path.is_file() else shutil.rmtree(path)
        else:
            system, inner = filesystem(location)
            system.invalidate_cache()
            system.rm(inner, recursive=True)
    except FileNotFoundError:
        return
    except Exception as error:
        raise _unavailable("delete", location, error) from error


def keep_only(location: str, names: set[str]) -> None:
    """Removes the files directly in a place that are not named. Raises ResultsUnavailable."""
    try:
        if path := local_path(location):
            for file in path.iterdir():
                if file.name not in names:
                    file.unlink(missing_ok=True)
            return
        system, inner = filesystem(location)
        for found in system.ls(inner, detail=False):
            if found.rpartition("/")[2] not in names:
                system.rm_file(found)
    except Exception as error:
        raise _unavailable("clean up", location, error) from error


def _unavailable(what: str, location: str, error: Exception) -> ResultsUnavailable:
    return ResultsUnavailable(f"cannot {what} {location}: {str(error) or type(error).__name__}")
