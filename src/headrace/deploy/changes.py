"""What differs between two versions of a job, for reasons and for display."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from headrace.deploy.definitions import NeededDefinitions
from headrace.deploy.fingerprint import describe_configuration, describe_query
from headrace.deploy.manifest import JobManifest
from headrace.deploy.manifest_text import WrittenValue, write_manifest
from headrace.deploy.variables import find_variables
from headrace.grammar.masking import is_secret_key, mask_sql, mask_value

_SQL_KEYS = frozenset({"sql", "script"})
_CONTEXT_LINES = 3


def list_changed_keys(
    old: JobManifest, old_needed: NeededDefinitions, new: JobManifest, new_needed: NeededDefinitions
) -> list[str]:
    """Return the keys whose change is a change of the query or of the configuration.

    Keys of properties are `spark-properties.NAME`. Table definitions and the statements of
    Spark's own among them are `definitions`.
    """
    before = describe_query(old, old_needed) | _prefix(describe_configuration(old, old_needed))
    after = describe_query(new, new_needed) | _prefix(describe_configuration(new, new_needed))
    changed = dict[str, None]()
    for key in dict.fromkeys([*before, *after]):
        if before.get(key) != after.get(key):
            changed.update(dict.fromkeys(_name_keys(key, before.get(key), after.get(key))))
    return list(changed)


def diff_manifests(
    old: Mapping[str, WrittenValue], new: Mapping[str, WrittenValue], *, name: str
) -> str:
    """Return a unified diff of two manifests as YAML, without secrets; empty if they are equal.

    Args:
        old: Values as written, by key. See `LoadedManifest.written`.
        new: Likewise.
        name: Name of the job, for the first lines.
    """
    return _diff(write_manifest(mask_written(old)), write_manifest(mask_written(new)), name)


def diff_definitions(old: NeededDefinitions, new: NeededDefinitions) -> str:
    """Return a unified diff of the definitions that a job needs, without secrets."""
    return _diff(_join_definitions(old), _join_definitions(new), "definitions")


def mask_written(written: Mapping[str, WrittenValue]) -> dict[str, WrittenValue]:
    """Return the values of a manifest with every secret replaced. References are kept."""
    masked: dict[str, WrittenValue] = {}
    for key, value in written.items():
        if isinstance(value, dict):
            masked[key] = {name: _mask_property(name, item) for name, item in value.items()}
        elif isinstance(value, str):
            masked[key] = mask_sql(value) if key in _SQL_KEYS else mask_value(key, value)
        else:
            masked[key] = value
    return masked


def _prefix(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with keys that differ from those of the query."""
    return {
        f"{key}:" if key in {"script", "definitions", "setup"} else key: value
        for key, value in configuration.items()
    }


def _name_keys(key: str, before: Any, after: Any) -> list[str]:
    if key == "spark-properties":
        names = sorted({*before, *after})
        return [f"{key}.{name}" for name in names if before.get(name) != after.get(name)]
    name = key.removesuffix(":")
    return ["definitions" if name == "setup" else name]


def _mask_property(name: str, text: WrittenValue) -> WrittenValue:
    if not isinstance(text, str):
        return text
    # A reference tells which secret it is, without the secret.
    if is_secret_key(name) and find_variables(text):
        return text
    return mask_value(name, text)


def _join_definitions(needed: NeededDefinitions) -> str:
    return "".join(f"{mask_sql(text)};\n" for text in [*needed.setup, *needed.texts])


def _diff(old: str, new: str, name: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"{name} (deployed)",
        f"{name} (new)",
        n=_CONTEXT_LINES,
    )
    return "".join(lines)
