"""Temporary: manifests as YAML."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from headrace.deploy.manifest_meta import ManifestMeta


def write_manifest(values: Mapping[str, Any]) -> str:
    """Return values of a manifest as YAML."""
    buffer = io.StringIO()
    yaml = YAML()
    yaml.dump(
        {
            key: LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value
            for key, value in values.items()
        },
        buffer,
    )
    return buffer.getvalue()


def add_meta(text: str, meta: ManifestMeta) -> str:
    """Return a manifest with its meta."""
    return text + write_manifest({"meta": meta.model_dump(by_alias=True)})
