"""The manifest of a deployed version, as its state location keeps it."""

from __future__ import annotations

from headrace.deploy.manifest_meta import ManifestMeta
from headrace.deploy.manifest_text import add_meta
from headrace.model.deployment import JobVersion


def write_manifest_text(version: JobVersion) -> str:
    """Return the manifest of a version with its `meta`, as YAML."""
    meta = ManifestMeta.of_version(version.query_id, version.version, version.query_created_at)
    return add_meta(version.spec.text, meta)
