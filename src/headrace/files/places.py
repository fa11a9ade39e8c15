"""Places: the identity of every location, and the form in which Hadoop reads it.

A *location* is text that a user, a setting or a catalog gives: a path, or a URI. Many locations can
name one place. `identify` returns the same text for all of them, and the store compares only this
text. `to_hadoop_form` returns the location as Spark is to read it.

A location is read as Hadoop's `Path` reads it: percent signs, `?` and `#` are ordinary characters,
repeated slashes count as one, and dot segments are removed before links are resolved.
"""

from __future__ import annotations

import hashlib
import math
import os
import posixpath
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import InvalidLocation

DEFAULT_FS = "spark.hadoop.fs.defaultFS"
"""Spark's configuration of the file system of locations without a scheme."""
MASK = "*********(redacted)"

_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL
)
_LOCAL_HOSTS = frozenset({"", "localhost"})
# Several clients of one object store. Hadoop's own client of S3 has the scheme s3a.
_SAME_STORE = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}
_DEFAULT_PORTS = {"hdfs": "8020", "webhdfs": "9870"}
# Schemes whose authority is the name of a host or of a bucket, in which case does not matter.
_CASELESS_AUTHORITY = frozenset(
    {"hdfs", "webhdfs", "swebhdfs", "s3a", "gs", "abfss", "wasb", "wasbs", "ftp", "sftp"}
)
_PORT = re.compile("[0-9]*/")
_FORBIDDEN = re.compile("[\0\ud800-\udfff]")
_MAX_IDENTITY_BYTES = 1000
"""PostgreSQL's index entries have at most 2,704 bytes, and an index may hold two such texts."""
_RESOLVE_SECONDS = 1.0
_MAX_THREADS = 8
_resolving: dict[threading.Thread, float] = {}
"""The threads that resolve links, with the times of their starts."""
_resolved = threading.Condition()
"""Guards `_resolving`."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """A location, as Hadoop's `Path` splits it."""

    scheme: str
    """In lower case; empty if the location has none."""
    authority: str
    path: str
    """Without dot segments and repeated slashes."""

    @property
    def is_local(self) -> bool:
        """Whether this is a path of a host, unless a default file system is configured."""
        return self.scheme in {"", "file"} and self.authority in _LOCAL_HOSTS

    @property
    def is_relative(self) -> bool:
        return not self.path.startswith("/") and not (self.scheme and self.authority)


def to_hadoop_form(location: str, *, base: str | None = None) -> str:
    """Return a location in the spelling that is kept and that Spark gets.

    A location without a scheme stays without one: Spark looks for it in its default file system.

    Args:
        base: Absolute path to which a relative path is joined. None: it stays relative.

    Raises:
        InvalidLocation: The location contains a password or a character that no path can have, or
            it is relative although it has a scheme.
    """
    check_has_no_password(location)
    parts = _split(location)
    if not location:
        raise InvalidLocation("The location is empty.", hint="Give a path or a URI.")
    if _FORBIDDEN.search(location):
        raise InvalidLocation(
            f"The location {location!r} contains a NUL or half of a surrogate pair, which no file"
            " name can have."
        )
    if parts.scheme and parts.is_relative:
        raise InvalidLocation(
            f"The location {location!r} is not absolute, although it has a scheme.",
            hint="Write a slash after the scheme, as in file:/data/state or s3a://bucket/state.",
        )
    if parts.is_relative and base is not None:
        parts = _Parts("", "", _clean(f"{base}/{parts.path}"))
    return _join(parts)


def identify(location: str, *, base: str | None = None, default_fs: str | None = None) -> str:
    """Return the identity of a place: equal for all locations of it, and different for others.

    Links in a path of this host are resolved. Aliases that only another host or a file system can
    see, for example mounts and the links of viewfs, stay different. The identity contains no
    password, and is not meant to be opened.

    Args:
        base: Absolute path to which a relative path is joined.
        default_fs: Spark's default file system, if it is configured: the value of DEFAULT_FS.
    """
    parts = _split(mask_password(location))
    if parts.is_relative and not parts.scheme and base is not None:
        parts = _Parts("", "", _clean(f"{base}/{parts.path}"))
    if default_fs:
        parts = _apply_default_fs(parts, _split(default_fs))
    if parts.is_local:
        path = parts.path if parts.is_relative else _resolve_links(parts.path)
        return _shorten(f"file:{path}")
    scheme = _SAME_STORE.get(parts.scheme, parts.scheme)
    authority = _identify_authority(scheme, parts.authority)
    return _shorten(f"{scheme}://{authority}{parts.path.rstrip('/')}")


def lower_scheme(location: str) -> str:
    """Return a location with its scheme in lower case, as file systems list their files."""
    match = _URI.fullmatch(location)
    return location if match is None else match["scheme"].lower() + location[match.end("scheme") :]


def is_relative(location: str) -> bool:
    """Return whether a location depends on the working directory of its reader."""
    return _split(location).is_relative


def join(location: str, *names: str) -> str:
    """Return the location of a path below a location, given by its names."""
    start = location.rstrip("/")
    # The root of a file system has no authority: hdfs:///.
    return "/".join([f"{start}//" if start.endswith(":") else start, *names])


def is_same(first: str | None, second: str | None) -> bool:
    """Return whether two locations name one place; None names no place and equals only None."""
    if first is None or second is None:
        return first is second
    return first == second or identify(first) == identify(second)


def is_below(location: str, parent: str) -> bool:
    """Return whether a location is a place, or below it, also after links are resolved."""
    own, above = identify(location), identify(parent).rstrip("/")
    return own == above or own.startswith(f"{above}/")


def local_path(location: str) -> Path | None:
    """Return the path of a location in this host's file systems, or None for any other URI."""
    match = _URI.fullmatch(location)
    if match is None:
        return Path(location)
    if match["scheme"].lower() != "file":
        return None if "://" in location else Path(location)
    return Path(match["path"]) if (match["authority"] or "") in _LOCAL_HOSTS else None


def check_has_no_password(location: str) -> None:
    """Raise InvalidLocation, without the password, if a location contains one.

    Locations are shown in messages, lists, events and logs.
    """
    shown = mask_password(location)
    if shown != location:
        raise InvalidLocation(
            f"The location {shown} contains a password. Locations are shown in lists and logs.",
            hint="Give the credentials in the configuration of the file system, for example"
            " spark.hadoop.fs.s3a.access.key and spark.hadoop.fs.s3a.secret.key of the profile.",
        )


def mask_password(location: str) -> str:
    """Return a location with the password of its authority replaced."""
    match = _URI.fullmatch(location)
    authority = None if match is None else match["authority"]
    if match is None or authority is None:
        return location
    # A slash in a password ends the authority for a parser, and not for the user who wrote it.
    before, _at, after = location[match.start("authority") :].rpartition("@")
    user, colon, password = before.partition(":")
    if not colon or "/" in user or _PORT.match(password):
        return location
    return f"{location[: match.start('authority')]}{user}:{MASK}@{after}"


def _split(location: str) -> _Parts:
    match = _URI.fullmatch(location)
    # Hadoop sees a scheme only before the first slash, which the pattern implies.
    if match is None:
        return _Parts("", "", _clean(location))
    scheme, authority = match["scheme"].lower(), match["authority"] or ""
    if scheme == "file" and authority in _LOCAL_HOSTS:
        # Hadoop's local file system refuses the host, which the standard of URIs allows.
        authority = ""
    return _Parts(scheme, authority, _clean(match["path"]))


def _clean(path: str) -> str:
    """Return a path without dot segments, repeated slashes and slashes at the end."""
    if not path:
        return ""
    clean = posixpath.normpath(path)
    # POSIX gives two slashes at the start a meaning of their own.
    return f"/{clean.lstrip('/')}" if path.startswith("/") else clean


def _join(parts: _Parts) -> str:
    if parts.scheme == "file" and not parts.authority:
        return f"file:{parts.path}"
    if not parts.scheme:
        return parts.path
    path = parts.path.rstrip("/")
    return (
        f"{parts.scheme}://{parts.authority}{path}"
        if parts.authority or path
        else (f"{parts.scheme}:///")
    )


def _apply_default_fs(parts: _Parts, default: _Parts) -> _Parts:
    """Return an absolute location as Spark resolves it with a default file system."""
    is_of_default = parts.scheme in {"", default.scheme} and not parts.authority
    if not is_of_default or parts.is_relative:
        return parts
    return _Parts(default.scheme, default.authority, parts.path)


def _identify_authority(scheme: str, authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if scheme in _CASELESS_AUTHORITY:
        host = host.lower()
    if (port := _DEFAULT_PORTS.get(scheme)) is not None:
        host = host.removesuffix(f":{port}")
    return f"{user.partition(':')[0]}{at}{host}"


def _resolve_links(path: str) -> str:
    """Return a path of this host without links.

    Return the path itself if the file system does not answer within a second, as a mount whose
    server is gone: callers may hold a transaction.
    """
    resolved: list[str] = []
    until = time.monotonic() + _RESOLVE_SECONDS

    def resolve() -> None:
        try:
            resolved.append(os.path.realpath(path))
        except (OSError, ValueError):
            resolved.append(path)
        finally:
            with _resolved:
                del _resolving[threading.current_thread()]
                _resolved.notify()

    with _resolved:
        if not _resolved.wait_for(lambda: len(_resolving) < _MAX_THREADS, _find_patience()):
            return path
        thread = threading.Thread(target=resolve, name="headrace-resolve-links", daemon=True)
        thread.start()
        _resolving[thread] = time.monotonic()
    thread.join(max(until - time.monotonic(), 0.0))
    return resolved[0] if resolved else path


def _find_patience() -> float:
    """Return the seconds until the oldest thread counts as one that hangs."""
    began_at = min(_resolving.values(), default=math.inf)
    return max(began_at + _RESOLVE_SECONDS - time.monotonic(), 0.0)


def _shorten(identity: str) -> str:
    """Return an identity that fits into an index of the store."""
    encoded = identity.encode(errors="surrogatepass")
    if len(encoded) <= _MAX_IDENTITY_BYTES:
        return identity
    digest = hashlib.sha256(encoded).hexdigest()
    start = encoded[: _MAX_IDENTITY_BYTES - len(digest) - 1].decode(errors="ignore")
    return f"{start}#{digest}"
