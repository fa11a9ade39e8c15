"""The files of a driver as objects in the results location, for backends that take no local files.

All drivers of one version share the objects with their code. Each driver has its own bootstrap
object, which it reads once (`files/locations.py`).
"""

from __future__ import annotations

import functools
import hashlib
import io
import logging
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import headrace
from headrace.control.worker_pool import WorkerPool
from headrace.errors import LaunchFailed, ResultsUnavailable
from headrace.files import locations
from headrace.files.locations import filesystem
from headrace.files.places import join
from headrace.files.private_files import write_private
from headrace.model.messages import Bootstrap

_ENTRY = """\
import sys

from headrace.driver.__main__ import main

sys.exit(main(sys.argv[1:]))
"""
_ZIP_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
"""Time of all entries in the zip, so that equal packages give equal bytes."""


@dataclass(frozen=True, slots=True)
class DriverPackage:
    """Paths of the files that Spark copies to the host of the driver."""

    entry: Path
    """Python program that starts the driver."""
    package: Path
    """Zip of the package `headrace`."""


def build_driver_package(folder: Path) -> DriverPackage:
    """Write the files below a folder, unless they exist, and return their paths. Raises OSError."""
    content = _zip_installed_package()
    version_folder = folder / hashlib.sha256(content).hexdigest()[:16]
    files = DriverPackage(
        entry=version_folder / "entry.py", package=version_folder / "headrace.zip"
    )
    for file, file_content in ((files.entry, _ENTRY.encode()), (files.package, content)):
        if not file.exists():
            write_private(file, file_content)
    return files


@functools.cache
def _zip_installed_package() -> bytes:
    package = Path(headrace.__file__).parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted([*package.rglob("*.py"), *package.rglob("*.java")]):
            entry = zipfile.ZipInfo(file.relative_to(package.parent).as_posix(), _ZIP_TIMESTAMP)
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteArtifacts:
    """URIs of the objects that a driver is started with."""

    entry: str
    package: str
    bootstrap: str
    """Object that the driver reads once and deletes."""


def upload_artifacts(
    driver_package: DriverPackage, bootstrap: Bootstrap, name: str
) -> RemoteArtifacts:
    """Write the code and the bootstrap of a driver below the results location, which is a URI.

    The code is written at every launch, because a lifecycle rule of the bucket may have deleted it.
    Its folder is named after its content, so nodes of different versions do not overwrite each
    other's code. Raises LaunchFailed.
    """
    results = bootstrap.results
    folder = join(results, f"drivers/{driver_package.package.parent.name}")
    with _report_write_errors(results):
        system, folder_path = filesystem(folder)
        for file in (driver_package.entry, driver_package.package):
            system.pipe_file(join(folder_path, file.name), file.read_bytes())
        bootstrap_uri = locations.write_handoff(results, name, bootstrap.model_dump_json().encode())
    return RemoteArtifacts(
        entry=join(folder, driver_package.entry.name),
        package=join(folder, driver_package.package.name),
        bootstrap=bootstrap_uri,
    )


@contextmanager
def _report_write_errors(results: str) -> Iterator[None]:
    """Raise LaunchFailed for every error of the block: each file system has its own classes."""
    try:
        yield
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise LaunchFailed(
            f"The files of the driver could not be written to the results location {results}:"
            f" {reason}"
        ) from error


_LOG = logging.getLogger("headrace.launch")
_SECONDS = 10.0
_THREADS = 4


class HandoffDeletion:
    """Deletes in threads of its own, because the results location may answer slowly or never."""

    def __init__(self) -> None:
        self._pool = WorkerPool("handoffs", threads=_THREADS, seconds=_SECONDS)

    def run(self, delete: Callable[..., None], *arguments: str) -> None:
        """Call `delete` and wait at most 10 s for its end. An error is logged."""
        try:
            self._pool.call(delete, *arguments)
        except ResultsUnavailable as error:
            # The object does no harm: its token is valid only for an epoch that has ended.
            _LOG.warning("the bootstrap of a driver could not be deleted: %s", error.message)
