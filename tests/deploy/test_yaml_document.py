"""Reading of YAML: values with places, and everything that is refused."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.deploy.problems import Findings, Place
from headrace.deploy.yaml_document import read_documents
from headrace.deploy.yaml_values import ScalarKind, YamlList, YamlMapping, YamlScalar


def read(text: str) -> list[YamlMapping]:
    findings = Findings()
    documents = read_documents("m.yaml", text, findings)
    assert findings.problems == ()
    return documents


def scalar(mapping: YamlMapping, key: str) -> YamlScalar:
    value = mapping.find(key)
    assert isinstance(value, YamlScalar)
    return value


def locate(text: str, key: str, part: str) -> str:
    """Return what the file has at the place of a part of a value."""
    value = scalar(read(text)[0], key)
    place = value.locate(value.written.index(part))
    return text.split("\n")[place.line - 1][place.column - 1 :][: len(part)]


def test_every_key_and_value_has_its_place() -> None:
    document = read("a: 1\nb:\n  c: [x, 'y']\n")[0]

    assert document.entries["b"].key_place == Place("m.yaml", 2, 1)
    inner = document.find("b")
    assert isinstance(inner, YamlMapping)
    assert inner.entries["c"].key_place == Place("m.yaml", 3, 3)
    items = inner.find("c")
    assert isinstance(items, YamlList)
    assert [item.place.column for item in items.items] == [7, 10]


@pytest.mark.parametrize(
    ("text", "kind"),
    {
        "true": ScalarKind.BOOLEAN,
        "False": ScalarKind.BOOLEAN,
        "yes": ScalarKind.TEXT,
        "on": ScalarKind.TEXT,
        "12": ScalarKind.NUMBER,
        "-1.5e3": ScalarKind.NUMBER,
        "0x1F": ScalarKind.NUMBER,
        "1_000": ScalarKind.TEXT,
        "010": ScalarKind.NUMBER,
        "2022-12-07": ScalarKind.TEXT,
        "null": ScalarKind.NULL,
        "~": ScalarKind.NULL,
        "": ScalarKind.NULL,
        "'true'": ScalarKind.TEXT,
        "!!str 5": ScalarKind.TEXT,
        '""': ScalarKind.TEXT,
    }.items(),
)
def test_scalars_are_those_of_yaml_1_2_and_keep_their_spelling(text: str, kind: ScalarKind) -> None:
    value = scalar(read(f"a: {text}\n")[0], "a")

    assert value.kind is kind
    assert value.text == text.removeprefix("!!str ").strip("'\"")


def test_a_file_can_have_several_documents_and_empty_ones_do_not_count() -> None:
    documents = read("---\n---\na: 1\n---\n# nothing\n---\na: 2\n...\n")

    assert [scalar(document, "a").text for document in documents] == ["1", "2"]


def test_a_byte_order_mark_and_windows_line_ends_are_accepted() -> None:
    document = read("\ufeffa: |\r\n  x\r\n  y\r\n")[0]

    assert scalar(document, "a").text == "x\ny\n"


@pytest.mark.parametrize(
    "text",
    [
        "a: |\n  one\n\n    two\n  three here\n",
        "a: >-\n  one two\n  three here\n\n  four\n",
        "a: |2\n    one\n  three here\n",
        "a: one\n  two three here\n",
        "a: 'one two\n  three here'\n",
        'a: "one \n  three here"\nb: 1\n',
        "a: three here\n",
        "x: [1]\na:    'three here'\n",
    ],
)
def test_a_part_of_a_value_is_found_in_the_file(text: str) -> None:
    assert locate(text, "a", "here") == "here"
    assert locate(text, "a", "three") == "three"


def test_a_part_after_an_escape_is_at_the_start_of_the_value() -> None:
    value = scalar(read('a: "x\\ty"\n')[0], "a")

    assert value.locate(2) == Place("m.yaml", 1, 4)


PROBLEMS = {
    "a: b: c": (1, 5, "mapping values are not allowed"),
    "a: 1\nb: `x`": (2, 4, "cannot start any token"),
    "a: [1": (1, 6, "not valid YAML"),
    "a:\n\tb: 1": (2, 1, "cannot start any token"),
    "a: !x 1": (1, 4, "The tag !x is not allowed"),
    "a: !!python/object/apply:os.system [x]": (1, 4, "The tag !!python/object/apply:os.system"),
    "a: !!binary eA==": (1, 4, "The tag !!binary"),
    "a: &x [*x]": (1, 8, "The anchor x is not defined before"),
    "a: *x": (1, 4, "The anchor x is not defined before"),
    "b: &x {}\n<<: *x": (2, 1, "Merge keys"),
    "- a": (1, 1, "not a mapping"),
    "text": (1, 1, "not a mapping"),
    "? [a]\n: 1": (1, 3, "A key must be a text"),
    "? \n: 1": (1, 2, "A key must be a text"),
    "a: \x07": (1, 4, "U+0007"),
    "a: x\0y": (1, 5, "NUL"),
    'a: "\\0"': (1, 4, "NUL"),
    'a: "\\ud800"': (1, 4, "surrogate"),
    'a: "\\UFFFFFFFF"': (1, 1, "not valid YAML"),
    "a: 1\na: 2": (2, 1, "first in line 1"),
    "b:\n  a: 1\n  c: 2\n  'a': 3": (4, 3, "first in line 2"),
    "a: " + "[" * 100 + "]" * 100: (1, 24, "more than 20 levels"),
}


@pytest.mark.parametrize(("text", "expected"), PROBLEMS.items())
def test_an_invalid_document_is_refused_with_its_place(
    text: str, expected: tuple[int, int, str]
) -> None:
    findings = Findings()
    read_documents("m.yaml", text, findings)

    problem = findings.problems[0]
    assert (problem.path, problem.line, problem.column) == ("m.yaml", *expected[:2])
    assert expected[2] in problem.message
    assert problem.code == ("duplicate_key" if "first in line" in expected[2] else "invalid_yaml")


def test_documents_before_an_error_are_kept() -> None:
    findings = Findings()
    documents = read_documents("m.yaml", "a: 1\n---\na: [\n", findings)

    assert len(documents) == len(findings.problems) == 1


def test_a_file_of_more_than_a_mebibyte_is_refused() -> None:
    findings = Findings()

    assert read_documents("m.yaml", "a: " + "é" * (512 * 1024), findings) == []
    assert [problem.code for problem in findings.problems] == ["file_too_large"]


def test_aliases_that_multiply_are_refused_before_they_are_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    findings = Findings()
    before = time.thread_time()

    assert read_documents("m.yaml", "\n".join(lines), findings) == []
    assert time.thread_time() - before < 5
    assert "20,000 values" in findings.problems[0].message


def test_an_alias_stands_for_its_value() -> None:
    document = read("a: &x {b: 1}\nc: *x\n")[0]

    assert document.find("c") == document.find("a")


def test_deep_nesting_is_refused_and_ends_no_process() -> None:
    findings = Findings()
    read_documents("m.yaml", "{a: " * 100_000, findings)

    assert "more than 20 levels" in findings.problems[0].message


@given(
    st.text(alphabet=st.sampled_from("ab:-[]{}#&*!|>'\"%@`\\ \n\t,?~<0x\u2028\x85"), max_size=40)
)
def test_no_text_raises_an_error(text: str) -> None:
    findings = Findings()
    documents = read_documents("m.yaml", text, findings)

    lines = text.count("\n") + text.count("\u2028") + text.count("\x85") + 1
    assert all(1 <= problem.line <= lines + 1 for problem in findings.problems)
    assert all(isinstance(document, YamlMapping) for document in documents)


@given(st.text(max_size=60))
def test_no_text_of_any_characters_raises_an_error(text: str) -> None:
    read_documents("m.yaml", text, Findings())
