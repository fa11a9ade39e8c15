"""The merge of a template into a manifest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.deploy.load import merge_template
from headrace.deploy.manifest_validation import to_plain
from headrace.deploy.problems import Findings
from headrace.deploy.yaml_document import read_documents
from headrace.deploy.yaml_values import YamlMapping


def read(text: str, path: str = "m.yaml") -> YamlMapping:
    findings = Findings()
    documents = read_documents(path, text, findings)
    assert findings.problems == ()
    return documents[0]


def merge(manifest: str, template: str) -> Any:
    return to_plain(merge_template(read(manifest), read(template, "t.yaml")))


@pytest.mark.parametrize(
    ("manifest", "template", "expected"),
    [
        ("{a: x}", "{b: y}", {"a": "x", "b": "y"}),
        ("{a: x}", "{a: y}", {"a": "x"}),
        ("{a: {b: {c: x}}}", "{a: {b: {c: y, d: y}}}", {"a": {"b": {"c": "x", "d": "y"}}}),
        ("{a: [x]}", "{a: [y, z]}", {"a": ["x"]}),
        ("{a: x}", "{a: {b: y}}", {"a": "x"}),
        ("{a: {b: x}}", "{a: y}", {"a": {"b": "x"}}),
        ("{a: null}", "{a: y}", {}),
        ("{a: }", "{a: {b: y}}", {}),
        ("{a: {b: ~}}", "{a: {b: y, c: y}}", {"a": {"c": "y"}}),
        ("{b: x}", "{a: null}", {"b": "x"}),
        ("{a: ''}", "{a: y}", {"a": ""}),
        ("{a: false}", "{a: true}", {"a": False}),
    ],
)
def test_the_manifest_wins_and_null_removes(manifest: str, template: str, expected: Any) -> None:
    assert merge(manifest, template) == expected


def test_every_value_keeps_the_place_of_its_file() -> None:
    merged = merge_template(read("p:\n  b: 1\n"), read("p:\n\n  c: 1\n", "t.yaml"))

    inner = merged.find("p")
    assert isinstance(inner, YamlMapping)
    assert str(inner.entries["b"].value.place) == "m.yaml:2:6"
    assert str(inner.entries["c"].value.place) == "t.yaml:3:6"


_values = st.recursive(
    st.sampled_from(["x", "true", "5"]),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
_mappings = st.dictionaries(st.sampled_from("abcd"), _values, max_size=4)


def write(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {write(item)}' for key, item in value.items())}}}"
    return str(value)


@given(_mappings, _mappings)
def test_a_merge_with_itself_or_with_nothing_changes_nothing(
    own: dict[str, Any], other: dict[str, Any]
) -> None:
    once = merge(write(own), write(other))

    assert merge(write(own), write(own)) == merge(write(own), "{}")
    assert set(once) == set(own) | set(other)
