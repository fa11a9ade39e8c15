"""Defaults of manifests: the deep merge of a template file into a manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from headrace.deploy.manifest import META_KEY
from headrace.deploy.problems import Findings
from headrace.deploy.yaml_values import (
    YamlEntry,
    YamlList,
    YamlMapping,
    YamlScalar,
    YamlValue,
    is_null,
)

_OWN_KEYS = ("name", "sql", "code", "script", META_KEY)
"""Keys that every manifest has for itself."""
_JOB_NAME = "{job_name}"
"""Placeholder in the values of a template, as in those of Flink's SQL runner."""

T = TypeVar("T", bound=YamlValue)


def check_template(template: YamlMapping, findings: Findings) -> None:
    """Report the keys of a template that only a manifest can have."""
    for key in _OWN_KEYS:
        if key in template.entries:
            findings.add_problem(
                template.entries[key].key_place,
                "key_not_allowed",
                f"A template cannot have the key `{key}`.",
                "Move it into the manifests.",
            )


def fill_job_name(template: T, name: YamlScalar) -> T:
    """Return a template in whose values the name of a job takes the place of `{job_name}`."""
    if isinstance(template, YamlMapping):
        entries = {
            key: YamlEntry(entry.key_place, fill_job_name(entry.value, name))
            for key, entry in template.entries.items()
        }
        return replace(template, entries=entries)
    if isinstance(template, YamlList):
        items = tuple(fill_job_name(item, name) for item in template.items)
        return replace(template, items=items)
    if _JOB_NAME not in template.written:
        return template
    # The source would give wrong columns for the longer text.
    return replace(
        template,
        text=template.text.replace(_JOB_NAME, name.text),
        written=template.written.replace(_JOB_NAME, name.written),
        source=None,
    )


def merge_template(manifest: YamlMapping, template: YamlMapping | None) -> YamlMapping:
    """Return a manifest with the defaults of a template. Every value keeps its place.

    Mappings are merged key by key. Any other value of the manifest replaces that of the template,
    and null removes it. The result contains no null, except as an item of a list.
    """
    defaults = {} if template is None else template.entries
    entries: dict[str, YamlEntry] = {}
    for key in dict.fromkeys([*manifest.entries, *defaults]):
        merged = _merge(manifest.entries.get(key), defaults.get(key))
        if merged is not None:
            entries[key] = merged
    return YamlMapping(entries, manifest.place)


def _merge(own: YamlEntry | None, default: YamlEntry | None) -> YamlEntry | None:
    entry = default if own is None else own
    if entry is None or is_null(entry.value):
        return None
    if not isinstance(entry.value, YamlMapping):
        return entry
    base = None
    if own is not None and default is not None and isinstance(default.value, YamlMapping):
        base = default.value
    return YamlEntry(entry.key_place, merge_template(entry.value, base))
