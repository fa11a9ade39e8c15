"""References to variables in texts."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.deploy.variables import escape_variables, find_variables, replace_variables

_texts = st.text(alphabet="ab$\\{}\n ", max_size=20)


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "${A}": "1",
        "x ${A}${B_2} y": "x 12 y",
        "$${A}": "${A}",
        "$$${A}": "$${A}",
        "$A {A} $ {A}": "$A {A} $ {A}",
        "${spark.x} ${env:HOME} ${}": "${spark.x} ${env:HOME} ${}",
    }.items(),
)
def test_references_are_replaced_and_everything_else_is_kept(text: str, expected: str) -> None:
    replaced = replace_variables(text, {"A": "1", "B_2": "2"})

    assert (replaced.text, replaced.missing) == (expected, ())


def test_a_value_is_not_searched_for_references() -> None:
    assert replace_variables("${A}", {"A": "${B}", "B": "x"}).text == "${B}"


def test_a_reference_without_a_value_is_reported_with_its_offset() -> None:
    replaced = replace_variables("a ${B} $${C} ${D}", {"D": "x"})

    assert (replaced.text, replaced.missing) == ("a ${B} ${C} x", (("B", 2),))


def test_the_variables_of_a_text_are_found() -> None:
    assert find_variables("${A} $${B} ${C}${A} ${d.e}") == {"A", "C"}


@given(_texts)
def test_an_escaped_text_is_itself_whatever_the_variables_are(text: str) -> None:
    escaped = escape_variables(text)

    assert replace_variables(escaped, {"a": "x", "b": "y"}).text == text
    assert find_variables(escaped) == set()


@given(st.lists(st.one_of(_texts.filter(lambda t: "$" not in t), st.just("${a}")), max_size=6))
def test_every_offset_outside_a_value_leads_back_to_the_same_character(parts: list[str]) -> None:
    text = "".join(parts)
    replaced = replace_variables(text, {"a": "«long value»"})

    at = 0
    for part in parts:
        value = "«long value»" if part == "${a}" else part
        written = replaced.written_offset(at)
        assert text[written : written + len(part)] == part
        at += len(value)
    assert replaced.text == text.replace("${a}", "«long value»")


def test_the_module_needs_only_the_standard_library() -> None:
    code = "import sys, headrace.deploy.variables; print({'pydantic', 'ruamel'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "set()"
