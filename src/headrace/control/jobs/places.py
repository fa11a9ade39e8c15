"""Where a job keeps its manifest, its savepoints and its checkpoints: the layout of the seed."""

from __future__ import annotations

import uuid

from headrace.model.deployment import JobQuery


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

    def checkpoint(self, version: int, run: str) -> str:
        """Return the directory of the checkpoints of a run."""
        return f"{self._location}/checkpoints/{self._name}/{version}/{run}"

    def checkpoint_of(self, version: int, run: str, query: JobQuery) -> str:
        """Return the checkpoint of one query of a run."""
        directory = self.checkpoint(version, run)
        return f"{directory}/{query.directory}" if query.directory else directory


def new_run() -> str:
    """Return the name of a new run: 32 hexadecimal digits, as in the seed."""
    return uuid.uuid4().hex
