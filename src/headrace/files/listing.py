"""Lists of the files below a location: a local directory, or a prefix in S3.

A list reads at most as many entries as the caller allows. Directories whose names begin with `.` or
`_` are left out: writers have their temporary files there. Symbolic links are not followed, because
a link would lead to the files of others.
"""

from __future__ import annotations

import os
import stat
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from headrace.errors import ResultsUnavailable
from headrace.files.locations import filesystem
from headrace.files.places import join, local_path, lower_scheme, mask_password, to_hadoop_form
from headrace.text.readable import describe_duration

S3_SCHEMES = ("s3", "s3a", "s3n")
_HIDDEN = ("_", ".")
_UNQUOTED = "/;:@&=+$,_-!.~'()*"
"""Punctuation that java.net.URI leaves as it is in a path."""
_QUOTED_CATEGORIES = ("Zs", "Zl", "Zp", "Cc")
"""Categories of the letters beyond ASCII that it quotes: spaces and control characters."""


class ListedFile(NamedTuple):
    """A file below a location. A tuple, because long lists are compared."""

    path: str
    """Path below the location, with slashes."""
    size: int
    revision: str
    """ETag of an object, or modification time of a local file."""
    file_id: str | None = None
    """Text that a local file keeps when it is renamed; None: the file system has none."""


class TooManyFiles(Exception):
    """A location has more entries than a list may read."""


def list_files(location: str, *, limit: int, seconds: float) -> list[ListedFile]:
    """Return the files below a location, in no order.

    Args:
        limit: Largest number of entries to read, those that are left out included.
        seconds: Time after which the list is given up.

    Raises:
        FileNotFoundError: There is no such directory or bucket. A prefix without objects exists.
        TooManyFiles: The location has more entries.
        ResultsUnavailable: The file system refuses, or takes too long.
    """
    deadline = time.monotonic() + seconds
    path = local_path(location)
    entries = _list_s3(location) if path is None else _list_local(path)
    files = []
    try:
        for number, entry in enumerate(entries, 1):
            if number > limit:
                raise TooManyFiles
            if time.monotonic() > deadline:
                raise TimeoutError(f"the list has taken longer than {describe_duration(seconds)}")
            if entry is not None:
                files.append(entry)
    except (FileNotFoundError, TooManyFiles):
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        shown = mask_password(location)
        raise ResultsUnavailable(f"Cannot list {shown}: {reason}") from error
    return files


def to_file_uri(location: str, path: str) -> str:
    """Return the text that Spark's column `_metadata.file_path` has for a file of a location.

    It is that of java.net.URI, which quotes spaces and percent signs, and leaves letters of all
    languages.
    """
    start = to_hadoop_form(location)
    if local_path(location) is not None and start.startswith("/"):
        start = f"file:{start}"
    scheme, _colon, rest = join(start, path).partition(":")
    return f"{scheme}:{''.join(map(_quote, rest))}"


def is_hidden(name: str) -> bool:
    """Return whether the name of a file or directory is one that Spark does not read."""
    return name.startswith(_HIDDEN)


def _list_local(root: Path) -> Iterator[ListedFile | None]:
    """Yield the files below a directory, and None for each entry that does not count."""
    pending = [(str(root), "")]
    while pending:
        directory, prefix = pending.pop()
        try:
            entries = os.scandir(directory)
        except FileNotFoundError:
            if not prefix:
                raise
            # It has vanished meanwhile.
            continue
        with entries:
            for entry in entries:
                path = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False) and not is_hidden(entry.name):
                    pending.append((entry.path, f"{path}/"))
                yield _describe_local(entry, path)


def _describe_local(entry: os.DirEntry[str], path: str) -> ListedFile | None:
    """Return a regular file whose name is text, or None."""
    try:
        path.encode()
        facts = entry.stat(follow_symlinks=False)
    except (FileNotFoundError, UnicodeEncodeError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return ListedFile(path, facts.st_size, str(facts.st_mtime_ns), str(facts.st_ino))


def _list_s3(location: str) -> Iterator[ListedFile | None]:
    """Yield the objects below a prefix, page by page, and None for each that does not count."""
    rest = lower_scheme(location).partition("://")[2]
    system, inner = filesystem(f"s3://{rest}")
    bucket, _slash, key = inner.partition("/")
    prefix = f"{key.rstrip('/')}/" if key else ""
    following: dict[str, str] = {}
    while True:
        page = system.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **following)
        for entry in page.get("Contents", ()):
            path = entry["Key"].removeprefix(prefix)
            *directories, name = path.split("/")
            if not name or any(map(is_hidden, directories)):
                yield None
            else:
                yield ListedFile(path, entry["Size"], entry["ETag"].strip('"'))
        if not page.get("IsTruncated"):
            return
        following = {"ContinuationToken": page["NextContinuationToken"]}


def _quote(letter: str) -> str:
    if letter.isascii():
        is_plain = letter.isalnum() or letter in _UNQUOTED
    else:
        is_plain = unicodedata.category(letter) not in _QUOTED_CATEGORIES
    return letter if is_plain else quote(letter, safe="")
