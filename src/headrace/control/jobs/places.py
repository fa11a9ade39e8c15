"""Where a job keeps its manifest, its savepoints and its checkpoints: the layout of the seed."""

from __future__ import annotations

import posixpath
import re
import uuid

from headrace.errors import InvalidRequest
from headrace.model.deployment import JobQuery

_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL
)


def normalize_location(location: str) -> str:
    """Return a state location in the only spelling that the store knows.

    Raise InvalidRequest unless it is an absolute path, or a URI with an absolute path.
    """
    match = _URI.fullmatch(location)
    scheme, host = ("", "") if match is None else (match["scheme"].lower(), match["host"] or "")
    path = location if match is None else match["path"]
    is_local = scheme in {"", "file"}
    if (is_local and not path.startswith("/")) or (not is_local and not host and not path):
        raise InvalidRequest(
            f"The state location {location!r} is not absolute. Drivers on other hosts would look"
            " for it in another directory.",
            hint="Give an absolute path, or a URI such as s3://bucket/jobs.",
        )
    clean = posixpath.normpath(f"/{path.lstrip('/')}").rstrip("/")
    if is_local:
        return clean or "/"
    return f"{scheme}://{host}{clean}"


class JobPlaces:
    """The directories of one job below the state location."""

    def __init__(self, state_location: str, name: str) -> None:
        self._location = state_location.rstrip("/")
        self._name = name

    @property
    def manifest(self) -> str:
        """Path of the manifest of the deployed version."""
        return f"{self._location}/manifests/{self._name}.yaml"

    def savepoint(self, version: int, savepoint_id: str) -> str:
        """Return the directory of a savepoint."""
        return f"{self._location}/savepoints/{self._name}/{version}/{savepoint_id}"

    def checkpoint(self, run: str) -> str:
        """Return the directory of the checkpoints of a run."""
        return f"{self._location}/checkpoints/{self._name}/{run}"

    def checkpoint_of(self, run: str, query: JobQuery) -> str:
        """Return the checkpoint of one query of a run."""
        directory = self.checkpoint(run)
        return f"{directory}/{query.directory}" if query.directory else directory


def new_run(version: int) -> str:
    """Return the name of a new run: the number of its version, and 32 hexadecimal digits.

    An older version can continue in the run of a newer one, and the name stays.
    """
    return f"{version}/{uuid.uuid4().hex}"
