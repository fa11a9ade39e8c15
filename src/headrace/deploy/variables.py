"""Replacement of variables in the values of a manifest.

The values are those of the parsed document, so that no variable can add a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.deploy.problems import Findings, Place
from headrace.deploy.yaml_values import YamlEntry, YamlList, YamlMapping, YamlScalar, YamlValue
from headrace.variables import replace_variables


def replace_in_mapping(
    mapping: YamlMapping, variables: Mapping[str, str], findings: Findings
) -> YamlMapping:
    """Return a mapping whose texts have the values of variables, and keep what was written.

    A reference to a variable without a value is the problem `missing_variable`.
    """
    entries = {
        key: YamlEntry(entry.key_place, _replace(entry.value, variables, findings))
        for key, entry in mapping.entries.items()
    }
    return YamlMapping(entries, mapping.place)


def add_missing_variable(place: Place, name: str, findings: Findings) -> None:
    """Report a reference without a value."""
    findings.add_problem(
        place,
        "missing_variable",
        f"The variable {name} has no value.",
        f"Set {name} in the environment of the command, or write $${{{name}}} for a literal"
        f" ${{{name}}}.",
    )


def _replace(value: YamlValue, variables: Mapping[str, str], findings: Findings) -> YamlValue:
    if isinstance(value, YamlMapping):
        return replace_in_mapping(value, variables, findings)
    if isinstance(value, YamlList):
        items = tuple(_replace(item, variables, findings) for item in value.items)
        return YamlList(items, value.place)
    return _replace_in_scalar(value, variables, findings)


def _replace_in_scalar(
    scalar: YamlScalar, variables: Mapping[str, str], findings: Findings
) -> YamlScalar:
    if "${" not in scalar.written:
        return scalar
    replaced = replace_variables(scalar.written, variables)
    for name, offset in replaced.missing:
        add_missing_variable(scalar.locate(offset), name, findings)
    return replace(scalar, text=replaced.text)
