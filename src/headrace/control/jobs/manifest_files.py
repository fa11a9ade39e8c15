"""Manifests of versions: as the state location keeps them, and compared with one another."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.deploy.changes import (
    diff_definitions,
    diff_manifests,
    list_changed_keys,
    mask_written,
)
from headrace.deploy.definitions import NeededDefinitions
from headrace.deploy.manifest import JobManifest, ManifestMeta
from headrace.deploy.manifest_text import write_manifest
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateSink
from headrace.model.deployment import JobVersion, VersionDefinitions, VersionSpec


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two versions."""

    changed: list[str]
    """Keys of the manifest."""
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
