"""Validation of a parsed manifest: pydantic's errors become problems with places."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headrace.deploy.manifest import (
    META_KEY,
    JobManifest,
    ManifestMeta,
    UnknownTables,
    find_key_problems,
)
from headrace.deploy.problems import Findings, Place
from headrace.deploy.script_statements import TextProblem, check_batch_script, check_script
from headrace.deploy.variables import replace_variables
from headrace.deploy.yaml_values import (
    ScalarKind,
    YamlList,
    YamlMapping,
    YamlScalar,
    YamlValue,
    find_scalar_kind,
)
from headrace.errors import HeadraceError, InvalidSetting, Position
from headrace.grammar.text import offset_at
from headrace.model.headrace_options import check_conf_option, is_own_key
from headrace.model.retry_policy import read_retry_policy

_EXPECTED = {
    "string_type": "a text. Put it in quotes",
    "dict_type": "a mapping of keys to values",
    "bool_type": "true or false",
    "int_type": "an integer",
    "int_parsing": "an integer",
}
"""What a value must be, by the type of pydantic's error."""
_MAX_DIGITS = 18
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
        key: _READERS.get(key, to_plain)(entry.value)
        for key, entry in mapping.entries.items()
        if key != META_KEY
    }
    try:
        manifest = JobManifest.model_validate(values)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            reporter.report(details)
        return None
    return manifest if _check_properties(manifest, mapping, findings) else None


def _check_properties(manifest: JobManifest, mapping: YamlMapping, findings: Findings) -> bool:
    """Return whether the options of Headrace in `spark-properties` are valid; report problems."""
    if not manifest.spark_properties:
        return True
    properties = mapping.entries["spark-properties"].value
    assert isinstance(properties, YamlMapping)
    is_valid = True
    for key in filter(is_own_key, manifest.spark_properties):
        try:
            check_conf_option(key, manifest.spark_properties[key])
        except InvalidSetting as error:
            place = properties.entries[key].value.place
            findings.add_problem(place, "invalid_value", error.message, error.hint)
            is_valid = False
    try:
        if is_valid:
            read_retry_policy({}, manifest.spark_properties)
    except InvalidSetting as error:
        findings.add_problem(properties.place, "invalid_value", error.message, error.hint)
        is_valid = False
    return is_valid


def find_wrong_property(
    properties: Mapping[str, str], check: Callable[[Mapping[str, str]], object]
) -> str | None:
    """Return the first property that `check` refuses by itself.

    Return None if it refuses only several together. `check` raises a HeadraceError.
    """
    for key, value in properties.items():
        try:
            check({key: value})
        except HeadraceError:
            return key
    return None


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
    if value.kind is ScalarKind.BOOLEAN:
        return value.text.lower() == "true"
    return _to_number(value.text) if value.kind is ScalarKind.NUMBER else value.text


def _to_number(text: str) -> float:
    """Return an integer; no key takes any other number, so that those need no value."""
    is_integer = text.lstrip("+-").isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if is_integer else math.nan


def _to_boolean(value: YamlValue) -> Any:
    """Return a boolean, which may come from a variable, or any other value as it is."""
    if isinstance(value, YamlScalar) and value.text != value.written:
        return to_plain(replace(value, kind=find_scalar_kind(value.text)))
    return to_plain(value)


def _to_texts(value: YamlValue) -> Any:
    """Return a mapping of scalars with each of them as the file has it, for example `true`."""
    if not isinstance(value, YamlMapping):
        return to_plain(value)
    return {
        key: entry.value.text if isinstance(entry.value, YamlScalar) else to_plain(entry.value)
        for key, entry in value.entries.items()
    }


_READERS: Mapping[str, Callable[[YamlValue], Any]] = {
    "spark-properties": _to_texts,
    "metadata-columns": _to_boolean,
}
"""What reads the value of a key, if not `to_plain`."""


def find_value(mapping: YamlMapping, keys: Sequence[int | str]) -> YamlValue | None:
    """Return the value below these keys, or None. The search ends at a value without keys."""
    value: YamlValue | None = mapping
    for key in keys:
        if isinstance(value, YamlList) and isinstance(key, int):
            value = value.items[key] if key < len(value.items) else None
        elif isinstance(value, YamlMapping):
            value = value.find(str(key))
        else:
            break
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
        at, is_missing = details["loc"], details["type"] == "missing"
        if not at or (is_missing and len(at) == 1):
            return  # find_key_problems has reported it
        key = ".".join(map(str, at))
        value = find_value(self._mapping, at[:-1] if is_missing else at)
        error = details.get("ctx", {}).get("error")
        if isinstance(error, TextProblem):
            if error.keys:
                value = find_value(self._mapping, [*at, *error.keys])
            self._report_text(key, value, error)
            return
        place = self._mapping.place if value is None else value.place
        self._findings.add_problem(place, "invalid_value", *_describe(key, details, value))

    def _report_text(self, key: str, value: YamlValue | None, error: TextProblem) -> None:
        if not isinstance(value, YamlScalar):
            place = self._mapping.place if value is None else value.place
            self._findings.add_problem(place, error.code, error.message, error.hint)
            return
        problems = [error]
        if key == "script" and not isinstance(error, UnknownTables):
            is_batch = self._mapping.find("schedule") is not None
            problems = list((check_batch_script if is_batch else check_script)(value.text))
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
