"""What a driver needs, as objects in the results location, where a backend takes no local file.

All drivers of one version share their code; each has a bootstrap to be read once (one_use.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.control.launchers.driver_package import DriverPackage
from headrace.errors import LaunchFailed
from headrace.model.messages import Bootstrap
from headrace.storage import handoff
from headrace.storage.locations import filesystem, join


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteArtifacts:
    """The URIs of what a driver needs."""

    entry: str
    package: str
    bootstrap: str
    """To be read once."""


def upload_artifacts(parcel: DriverPackage, bootstrap: Bootstrap, name: str) -> RemoteArtifacts:
    """Puts all of it below the results location, which is a URI. Raises LaunchFailed.

    The code is written each time, as nobody knows what clears the location out. Nodes of different
    versions do not meet: the parcel's folder is named after its content.
    """
    results = bootstrap.results
    place = join(results, f"drivers/{parcel.package.parent.name}")
    with _writing(results):
        system, inner = filesystem(place)
        for file in (parcel.entry, parcel.package):
            system.pipe_file(join(inner, file.name), file.read_bytes())
        left = handoff.write_handoff(results, name, bootstrap.model_dump_json().encode())
    return RemoteArtifacts(
        entry=join(place, parcel.entry.name),
        package=join(place, parcel.package.name),
        bootstrap=left,
    )


@contextmanager
def _writing(results: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        words = str(error) or type(error).__name__
        raise LaunchFailed(
            f"What a driver needs cannot be written to the results location {results}: {words}"
        ) from error
