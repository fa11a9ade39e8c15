"""Where a job keeps its manifest, its savepoints and its checkpoints: the layout of the seed."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from headrace.control.jobs.trigger_checks import list_source_keys
from headrace.control.places import owner_folder
from headrace.deploy.changes import (
    diff_definitions,
    diff_manifests,
    list_changed_keys,
    mask_written,
)
from headrace.deploy.definitions import NeededDefinitions
from headrace.deploy.manifest import JobManifest, ManifestMeta
from headrace.deploy.manifest_text import write_manifest
from headrace.errors import InvalidLocation
from headrace.files.places import identify, is_relative, join, to_hadoop_form
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateSink
from headrace.model.deployment import Job, JobQuery, JobVersion, VersionDefinitions, VersionSpec


def normalize_location(location: str) -> str:
    """Return a state location in the spelling that a job keeps.

    Raise InvalidLocation unless it is an absolute path, or a URI with an absolute path, without a
    password.
    """
    if is_relative(location):
        raise InvalidLocation(
            f"The state location {location!r} is not absolute. Drivers on other hosts would look"
            " for it in another directory.",
            hint="Give an absolute path, or a URI such as s3://bucket/jobs.",
        )
    return to_hadoop_form(location)


def default_location(jobs_location: str, owner: str) -> str:
    """Return the state location of an owner's jobs below a location for all owners."""
    return normalize_location(join(jobs_location, owner_folder(owner)))


class JobPlaces:
    """The directories of one job below the state location."""

    def __init__(self, state_location: str, name: str) -> None:
        self._location = state_location
        self._name = name

    @property
    def manifest(self) -> str:
        """Path of the manifest of the deployed version."""
        return join(self._location, "manifests", f"{self._name}.yaml")

    def savepoint(self, version: int, savepoint_id: str) -> str:
        """Return the directory of a savepoint."""
        return join(self._location, "savepoints", self._name, str(version), savepoint_id)

    def checkpoint(self, run: str) -> str:
        """Return the directory of the checkpoints of a run."""
        return join(self._location, "checkpoints", self._name, run)

    def checkpoint_of(self, run: str, query: JobQuery) -> str:
        """Return the checkpoint of one query of a run."""
        directory = self.checkpoint(run)
        return f"{directory}/{query.directory}" if query.directory else directory


def identity_of(job: Job) -> str:
    """Return the identity of the place where a job keeps its state."""
    # Nodes of earlier versions store only the location.
    return job.state_place or identify(job.state_location)


def new_run(version: int) -> str:
    """Return the name of a new run: the number of its version, and 32 hexadecimal digits.

    An older version can continue in the run of a newer one, and the name stays.
    """
    return f"{version}/{uuid.uuid4().hex}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two versions."""

    changed: list[str]
    """Keys of the manifest, and what else has changed."""
    diff: str
    """Unified diff of the manifests and of the definitions, without secrets."""


def add_text(spec: VersionSpec) -> VersionSpec:
    """Return a version with the text that users see."""
    return spec.model_copy(update={"text": write_manifest(mask_written(spec.written))})


def write_manifest_text(version: JobVersion) -> str:
    """Return the manifest of a version with its `meta`, as YAML."""
    meta = ManifestMeta.of_version(version.query_id, version.version, version.query_created_at)
    return write_manifest(version.spec.written, meta)


def compare_versions(old: VersionSpec, new: VersionSpec, *, name: str) -> Comparison:
    """Return what differs between two versions of a job."""
    old_needed, new_needed = _restore(old.definitions), _restore(new.definitions)
    changed = list_changed_keys(
        JobManifest.model_validate(old.manifest),
        old_needed,
        JobManifest.model_validate(new.manifest),
        new_needed,
    )
    if old.session.spec.profile != new.session.spec.profile:
        changed.append("profile")
    if old.session.spec.py_files != new.session.spec.py_files:
        changed.append("py-files")
    if not changed and list_source_keys(old) != list_source_keys(new):
        # The manifest is the same, and a view that the job refreshes has another query.
        changed.append("tables of its views")
    diffs = (
        diff_manifests(old.written, new.written, name=name),
        diff_definitions(old_needed, new_needed),
    )
    return Comparison(changed, "".join(diffs))


def _restore(definitions: VersionDefinitions) -> NeededDefinitions:
    commands = (parse(text).command for text in definitions.sinks)
    return NeededDefinitions(
        streams=tuple(definitions.streams),
        sinks=tuple(command for command in commands if isinstance(command, CreateSink)),
        setup=tuple(definitions.setup),
    )
