"""Writing of a manifest as YAML, in the form in which the state location keeps it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic import JsonValue
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import (
    DoubleQuotedScalarString,
    LiteralScalarString,
    SingleQuotedScalarString,
)

from headrace.deploy.manifest import META_KEY, JobManifest, ManifestMeta
from headrace.deploy.variables import escape_variables
from headrace.deploy.yaml_values import ScalarKind, find_scalar_kind

_DOUBLE_QUOTED: type[str] = DoubleQuotedScalarString
_LITERAL_BLOCK: type[str] = LiteralScalarString
_SINGLE_QUOTED: type[str] = SingleQuotedScalarString

WrittenValue: TypeAlias = JsonValue
"""A value of a manifest as it was written: with references to variables."""

_LITERAL = re.compile(r"[^\n\s][^\n]*(?:\n[^\n]*)*\n+|[^\n\s][^\n]*(?:\n[^\n]*)*[^\n]")
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
"""What a block cannot contain: control characters, other line breaks, and, to be safe, all
characters beyond the basic plane."""
_PLAIN = re.compile(r"[A-Za-z0-9_/.][A-Za-z0-9_/.,;=()+$ -]*(?<! )")


def write_manifest(written: Mapping[str, WrittenValue], meta: ManifestMeta | None = None) -> str:
    """Return a manifest as YAML, with its keys in the order of the alphabet.

    Args:
        written: Values with references to variables, by key.
        meta: The version that the manifest belongs to.
    """
    document: dict[str, Any] = dict(written)
    if meta is not None:
        document[META_KEY] = meta.model_dump(by_alias=True)
    yaml = YAML()
    yaml.width = 2**31
    yaml.default_flow_style = False
    stream = io.StringIO()
    yaml.dump({key: _style(document[key]) for key in sorted(document)}, stream)
    return stream.getvalue()


def list_written(manifest: JobManifest) -> dict[str, WrittenValue]:
    """Return the values of a manifest that has no references, without those that are defaults."""
    values = manifest.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    written: dict[str, WrittenValue] = {}
    for key, value in values.items():
        written[key] = _escape(value)
    return written


def _escape(value: Any) -> WrittenValue:
    if isinstance(value, dict):
        return {name: _escape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_escape(item) for item in value]
    return value if isinstance(value, bool) else escape_variables(str(value))


def _style(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_style(key): _style(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [_style(item) for item in value]
    return _style_text(value) if isinstance(value, str) else value


def _style_text(text: str) -> str:
    """Return a text in the form that is easiest to read and keeps every character."""
    if _UNPRINTABLE.search(text):
        return _DOUBLE_QUOTED(text)
    if "\n" in text:
        is_block = _LITERAL.fullmatch(text) is not None
        return _LITERAL_BLOCK(text) if is_block else _DOUBLE_QUOTED(text)
    if _PLAIN.fullmatch(text) and find_scalar_kind(text) is ScalarKind.TEXT:
        return text
    return _SINGLE_QUOTED(text)
