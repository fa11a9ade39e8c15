"""Files and directories at a location: a plain path, or a URI that fsspec supports.

Plain paths and `file:` URIs are accessed directly, other URIs through fsspec. Functions that read,
list or delete raise ResultsUnavailable with the reason that the file system gives.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from typing import Any

import fsspec
import pyarrow as pa

from headrace.errors import ResultsUnavailable
from headrace.files.places import join, local_path, mask_password
from headrace.files.private_files import write_private


def filesystem(location: str) -> tuple[Any, str]:
    """Return fsspec's file system for a URI, and the path within it."""
    resolved: tuple[Any, str] = fsspec.core.url_to_fs(location)
    return resolved


def create_directory(location: str) -> None:
    """Create a local directory and its parents. Raises OSError.

    Object stores have no directories: for any other URI nothing is done.
    """
    if path := local_path(location):
        path.mkdir(parents=True, exist_ok=True)


def open_input_file(location: str) -> Any:
    """Open a file for random access in binary mode.

    Raises FileNotFoundError, and ResultsUnavailable if the file cannot be opened.
    """
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


def open_driver_file(directory: str, name: str) -> Any:
    """Open a file that a driver has written, for random access in binary mode.

    On this host, the directory and the file must not be links, and the file must be a regular
    file: a link would lead to files of others, and a pipe would block the reader.

    Raises FileNotFoundError, and ResultsUnavailable if the file cannot be opened.
    """
    path = local_path(directory)
    if path is None:
        return open_input_file(join(directory, name))
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.open(name, flags, dir_fd=folder)
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError("it is not a regular file")
        return os.fdopen(file, "rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unavailable("read", join(directory, name), error) from error


def read(location: str) -> bytes:
    """Return the content of a small file. Raises FileNotFoundError, ResultsUnavailable."""
    with open_input_file(location) as file:
        try:
            content: bytes = file.read()
        except FileNotFoundError:
            raise
        except Exception as error:
            raise _unavailable("read", location, error) from error
    return content


def write(location: str, content: bytes, *, private: bool = False) -> None:
    """Write a small file. Raises the file system's own errors.

    A `private` file on this host has mode 0600; object stores have no modes.
    """
    if path := local_path(location):
        if private:
            write_private(path, content)
        else:
            path.write_bytes(content)
        return
    system, inner = filesystem(location)
    system.pipe_file(inner, content)


def list_names(location: str) -> list[str]:
    """Return the names of the files and directories directly below a location.

    Returns an empty list if the location does not exist. Raises ResultsUnavailable.
    """
    try:
        if path := local_path(location):
            return [entry.name for entry in path.iterdir()]
        system, inner = filesystem(location)
        system.invalidate_cache()
        return [entry.rpartition("/")[2] for entry in system.ls(inner, detail=False)]
    except FileNotFoundError:
        return []
    except Exception as error:
        raise _unavailable("list", location, error) from error


def delete(location: str) -> None:
    """Delete a file, or a directory with all its content, if it exists.

    Raises ResultsUnavailable.
    """
    try:
        if path := local_path(location):
            # A link is removed, and not the directory to which it leads.
            is_directory = path.is_dir() and not path.is_symlink()
            shutil.rmtree(path) if is_directory else path.unlink()
        else:
            system, inner = filesystem(location)
            system.invalidate_cache()
            system.rm(inner, recursive=True)
    except FileNotFoundError:
        return
    except Exception as error:
        raise _unavailable("delete", location, error) from error


def delete_files_except(location: str, names: set[str]) -> None:
    """Delete the files directly below a location, except files with the given names.

    Raises ResultsUnavailable.
    """
    try:
        if path := local_path(location):
            for file in path.iterdir():
                if file.name not in names:
                    file.unlink(missing_ok=True)
            return
        system, inner = filesystem(location)
        for entry in system.ls(inner, detail=False):
            if entry.rpartition("/")[2] not in names:
                system.rm_file(entry)
    except Exception as error:
        raise _unavailable("clean up", location, error) from error


def _unavailable(action: str, location: str, error: Exception) -> ResultsUnavailable:
    reason = str(error) or type(error).__name__
    return ResultsUnavailable(f"Cannot {action} {mask_password(location)}: {reason}")


_FOLDER = "handoff"


def write_handoff(results: str, name: str, content: bytes) -> str:
    """Write an object and return its location. Raises the file system's own errors.

    Args:
        results: The results location.
        name: Prefix of the object's name, by which `delete_handoffs` finds it. It may be public.
        content: Bytes for the reader, for example a bootstrap with its token.
    """
    folder = join(results, _FOLDER)
    create_directory(folder)
    location = join(folder, f"{name}.{secrets.token_urlsafe(32)}")
    write(location, content, private=True)
    return location


def read_and_delete_handoff(location: str) -> bytes:
    """Return the content of an object and delete it, so that no other process can read it.

    Raises FileNotFoundError if the object has already been read, and ResultsUnavailable if it
    cannot be read or deleted.
    """
    content = read(location)
    delete(location)
    return content


def delete_handoffs(results: str, name: str) -> None:
    """Delete the unread objects of a name. Raises ResultsUnavailable."""
    folder = join(results, _FOLDER)
    for entry in list_names(folder):
        if entry.startswith(f"{name}."):
            delete(join(folder, entry))
