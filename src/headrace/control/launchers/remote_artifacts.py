"""The files of a driver as objects in the results location, for backends that take no local files.

All drivers of one version share the objects with their code. Each driver has its own bootstrap
object, which it reads once (`files/handoff.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.control.launchers.driver_package import DriverPackage
from headrace.errors import LaunchFailed
from headrace.files import handoff
from headrace.files.locations import filesystem
from headrace.files.places import join
from headrace.model.messages import Bootstrap


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
        bootstrap_uri = handoff.write_handoff(results, name, bootstrap.model_dump_json().encode())
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
