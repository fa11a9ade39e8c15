"""Replacement of variables in the values of a manifest.

The values are those of the parsed document, so that no variable can add a key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.deploy.problems import MAX_EXPANDED, Findings, Place
from headrace.deploy.yaml_values import YamlEntry, YamlList, YamlMapping, YamlScalar, YamlValue

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class ReplacedText:
    """A text whose references are replaced."""

    text: str
    missing: tuple[tuple[str, int], ...]
    """Each name without a value, with the offset of its reference in the text as written."""
    _edits: tuple[tuple[int, int, int], ...] = ()
    """Of each replacement: start and end in `text`, and the end in the text as written."""

    @property
    def value_ends(self) -> list[int]:
        """Offsets in `text` at which the value of a reference ends, in order."""
        return [end for _start, end, _written_end in self._edits]

    def written_offset(self, offset: int) -> int:
        """Return the offset in the text as written of an offset in `text`.

        An offset inside a replaced value is that of the end of its reference.
        """
        written = offset
        for start, end, written_end in self._edits:
            if offset <= start:
                break
            written = written_end + max(0, offset - end)
        return written

    def offset_of(self, written: int) -> int:
        """Return the offset in `text` of an offset in the text as written.

        An offset inside a reference is that of the start of its value.
        """
        text_end = written_end = 0
        for start, end, next_written_end in self._edits:
            if written < next_written_end:
                return min(start, text_end + written - written_end)
            text_end, written_end = end, next_written_end
        return text_end + written - written_end


def find_variables(text: str) -> set[str]:
    """Return the names that a text refers to."""
    return {match["name"] for match in _REFERENCE.finditer(text) if match["name"] is not None}


class TextTooLarge(Exception):
    """A text is too large with the values of its variables."""


def replace_variables(
    text: str, variables: Mapping[str, str], *, limit: int = sys.maxsize
) -> ReplacedText:
    """Return a text with the values of its references. A reference without a value is kept.

    Args:
        limit: Largest number of characters of the returned text. Raise TextTooLarge above it,
            before the text is built.
    """
    if "${" not in text:
        return ReplacedText(text, ())
    parts, missing, edits = list[str](), list[tuple[str, int]](), list[tuple[int, int, int]]()
    size = last = 0
    for match in _REFERENCE.finditer(text):
        name = match["name"]
        value = "${" if name is None else variables.get(name, match[0])
        if name is not None and name not in variables:
            missing.append((name, match.start()))
        size += match.start() - last
        parts += [text[last : match.start()], value]
        edits.append((size, size + len(value), match.end()))
        size += len(value)
        last = match.end()
        if size > limit:
            raise TextTooLarge
    return ReplacedText("".join([*parts, text[last:]]), tuple(missing), tuple(edits))


def escape_variables(text: str) -> str:
    """Return a text that `replace_variables` turns into this text, whatever the variables are."""
    return text.replace("${", "$${")


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
