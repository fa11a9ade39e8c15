"""Validation of a parsed manifest: pydantic's errors become problems with places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headrace.deploy.manifest import JobManifest, find_key_problems
from headrace.deploy.manifest_meta import META_KEY, ManifestMeta
from headrace.deploy.problems import Findings, Place
from headrace.deploy.script_statements import TextProblem, check_script
from headrace.deploy.yaml_values import (
    ScalarKind,
    YamlList,
    YamlMapping,
    YamlScalar,
    YamlValue,
)
from headrace.errors import InvalidSetting, Position
from headrace.grammar.text import offset_at
from headrace.model.retry_policy import read_retry_policy
from headrace.variables import replace_variables

_EXPECTED = {
    "string_type": "a text. Put it in quotes",
    "dict_type": "a mapping of keys to values",
    "bool_type": "true or false",
    "int_type": "an integer",
    "int_parsing": "an integer",
}
"""What a value must be, by the type of pydantic's error."""
_NAME_HINT = (
    "A name has at most 100 letters, digits, `.`, `_` and `-`, and begins with a letter or a digit."
)


def read_manifest(
    mapping: YamlMapping, variables: Mapping[str, str], findings: Findings
) -> JobManifest | None:
    """Return the manifest of a mapping, or None if it has problems.

    Args:
        mapping: Merged and translated, with the values of variables, without unknown keys.
        variables: The variables, to find places in the text as written.
        findings: Receives the problems.
    """
    reporter = _Reporter(mapping, variables, findings)
    missing = find_key_problems(set(mapping.entries))
    for problem in missing:
        place = mapping.place if problem.key is None else mapping.entries[problem.key].key_place
        findings.add_problem(place, problem.code, problem.message, problem.hint)
    values = {
        key: _to_texts(entry.value) if key == "spark-properties" else to_plain(entry.value)
        for key, entry in mapping.entries.items()
        if key != META_KEY
    }
    try:
        manifest = JobManifest.model_validate(values)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            reporter.report(details)
        return None
    try:
        read_retry_policy({}, manifest.spark_properties)
    except InvalidSetting as error:
        place = mapping.entries["spark-properties"].value.place
        findings.add_problem(place, "invalid_value", error.message, error.hint)
        return None
    return manifest


def read_meta(mapping: YamlMapping, findings: Findings) -> ManifestMeta | None:
    """Return the `meta` of a manifest, or None if it has none."""
    value = mapping.find(META_KEY)
    if value is None:
        return None
    try:
        return ManifestMeta.model_validate(to_plain(value))
    except ValidationError as error:
        for details in error.errors(include_url=False):
            key = ".".join([META_KEY, *map(str, details["loc"])])
            at = find_value(mapping, (META_KEY, *details["loc"]))
            place = value.place if at is None else at.place
            findings.add_problem(place, "invalid_value", *_describe(key, details, at))
    return None


def to_plain(value: YamlValue) -> Any:
    """Return a value without places: texts, numbers, booleans, None, lists and dictionaries."""
    if isinstance(value, YamlMapping):
        return {key: to_plain(entry.value) for key, entry in value.entries.items()}
    if isinstance(value, YamlList):
        return [to_plain(item) for item in value.items]
    if value.kind is ScalarKind.NULL:
        return None
    is_replaced = value.kind is ScalarKind.TEXT and value.text != value.written
    if value.kind is ScalarKind.BOOLEAN or (is_replaced and value.text in {"true", "false"}):
        return value.text.lower() == "true"
    if value.kind is ScalarKind.NUMBER and value.text.lstrip("+-").isdecimal():
        return int(value.text)
    return float("nan") if value.kind is ScalarKind.NUMBER else value.text


def _to_texts(value: YamlValue) -> Any:
    """Return a mapping of scalars with each of them as the file has it, for example `true`."""
    if not isinstance(value, YamlMapping):
        return to_plain(value)
    return {
        key: entry.value.text if isinstance(entry.value, YamlScalar) else to_plain(entry.value)
        for key, entry in value.entries.items()
    }


def find_value(mapping: YamlMapping, keys: Sequence[int | str]) -> YamlValue | None:
    """Return the value below these keys, or None. The search ends at a value without keys."""
    value: YamlValue | None = mapping
    for key in keys:
        if not isinstance(value, YamlMapping):
            break
        value = value.find(str(key))
    return value


class _Reporter:
    """Reports the errors of one mapping."""

    def __init__(
        self, mapping: YamlMapping, variables: Mapping[str, str], findings: Findings
    ) -> None:
        self._mapping = mapping
        self._variables = variables
        self._findings = findings

    def report(self, details: ErrorDetails) -> None:
        """Report one error of pydantic's."""
        if details["type"] == "missing" or not details["loc"]:
            return  # find_key_problems has reported it
        key = ".".join(str(part) for part in details["loc"])
        value = find_value(self._mapping, details["loc"])
        error = details.get("ctx", {}).get("error")
        if isinstance(error, TextProblem):
            self._report_text(key, value, error)
            return
        place = self._mapping.place if value is None else value.place
        self._findings.add_problem(place, "invalid_value", *_describe(key, details, value))

    def _report_text(self, key: str, value: YamlValue | None, error: TextProblem) -> None:
        assert isinstance(value, YamlScalar)
        problems = list(check_script(value.text)) if key == "script" else [error]
        for problem in problems:
            self._findings.add_problem(
                self._locate(value, problem.position), problem.code, problem.message, problem.hint
            )

    def _locate(self, scalar: YamlScalar, position: Position) -> Place:
        offset = offset_at(scalar.text, position)
        if scalar.source is None:
            return scalar.place
        replaced = replace_variables(scalar.written, self._variables)
        return scalar.locate(replaced.written_offset(offset))


def _describe(key: str, details: ErrorDetails, value: YamlValue | None) -> tuple[str, str | None]:
    """Return message and hint for a value that pydantic refuses."""
    expected = _EXPECTED.get(details["type"])
    shown = f" is {value.written!r}, which" if isinstance(value, YamlScalar) else ""
    if details["type"] == "extra_forbidden":
        return f"The key `{key}` is unknown.", "Delete it."
    if details["type"] == "missing":
        return f"The key `{key}` is missing.", None
    if expected is not None:
        return f"`{key}` must be {expected}.", None
    if details["type"] == "enum":
        allowed = details["ctx"]["expected"].lower().replace("'", "`")
        return f"`{key}`{shown} is not allowed.", f"Allowed: {allowed}."
    if key == "name":
        return (
            f"`name`{shown} is not the name of a job.",
            _NAME_HINT,
        )
    return f"`{key}`{shown} is not valid: {details['msg']}.", None
