"""Replacement of variables in the values of a manifest.

The values are those of the parsed document, so that no variable can add a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.deploy.problems import MAX_EXPANDED, Findings, Place
from headrace.deploy.yaml_values import YamlEntry, YamlList, YamlMapping, YamlScalar, YamlValue
from headrace.variables import ReplacedText, TextTooLarge, replace_variables


def replace_in_mapping(
    mapping: YamlMapping, variables: Mapping[str, str], findings: Findings
) -> YamlMapping:
    """Return a mapping whose texts have the values of variables, and keep what was written.

    A reference to a variable without a value is the problem `missing_variable`. Texts that would be
    too large are returned as written; the findings are then full.
    """
    entries = {
        key: YamlEntry(entry.key_place, _replace(entry.value, variables, findings))
        for key, entry in mapping.entries.items()
    }
    return YamlMapping(entries, mapping.place)


def replace_within_limit(
    text: str, variables: Mapping[str, str], findings: Findings
) -> ReplacedText | None:
    """Return a text with the values of its references, and count its characters.

    Return None if the values of the deployment would be too large; the findings are then full.
    """
    try:
        replaced = replace_variables(text, variables, limit=MAX_EXPANDED - findings.expanded)
    except TextTooLarge:
        findings.expanded = MAX_EXPANDED + 1
        return None
    findings.expanded += len(replaced.text)
    return replaced


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
    replaced = replace_within_limit(scalar.written, variables, findings)
    if replaced is None:
        return scalar
    for name, offset in replaced.missing:
        add_missing_variable(scalar.locate(offset), name, findings)
    return scalar if replaced.text == scalar.text else replace(scalar, text=replaced.text)
