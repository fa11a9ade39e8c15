"""Statements that list what catalogs hold: their patterns, and the names of schemas."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.listings import join_namespace
from headrace.grammar.metadata import (
    ListedObjects,
    ListObjects,
    matches,
    pattern_to_regex,
    split_namespace,
)
from headrace.grammar.parse import parse

LETTERS = "ab%_*\\.`|$[ (é\n"
"""Characters that mean something in patterns or in regular expressions, and others."""
patterns = st.text(LETTERS, max_size=8)
names = st.text(LETTERS, max_size=8)


def expect(pattern: str, name: str) -> bool:
    """Return whether a pattern matches, read from left to right as JDBC describes it."""

    @cache
    def rest_matches(p: int, n: int) -> bool:
        if p == len(pattern):
            return n == len(name)
        if pattern[p] == "%":
            return rest_matches(p + 1, n) or (n < len(name) and rest_matches(p, n + 1))
        if pattern[p] == "_":
            return n < len(name) and rest_matches(p + 1, n + 1)
        if pattern[p] == "\\" and p + 1 < len(pattern):
            p += 1
        return n < len(name) and name[n] == pattern[p] and rest_matches(p + 1, n + 1)

    return rest_matches(0, 0)


@given(patterns, names)
def test_a_pattern_matches_what_jdbc_says(pattern: str, name: str) -> None:
    assert matches(pattern, name) is expect(pattern, name)


@given(names)
def test_an_escaped_name_matches_itself_alone(name: str) -> None:
    pattern = re.sub(r"([\\%_])", r"\\\1", name)
    assert matches(pattern, name)
    assert not matches(pattern, f"{name}x")


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (None, "", True),
        (None, "a\nb", True),
        ("", "", True),
        ("", "a", False),
        ("A_C", "abc", True),
        ("É%", "école", True),
        # Hive's wildcards are none of JDBC's: HiveServer2 translates them.
        ("a*", "ab", False),
        (".*", "ab", False),
    ],
)
def test_a_pattern_ignores_case_and_has_two_wildcards(
    pattern: str | None, name: str, expected: bool
) -> None:
    assert matches(pattern, name) is expected


@given(
    st.sampled_from(ListedObjects),
    *(st.none() | st.text(LETTERS, min_size=1, max_size=8) for _number in range(4)),
)
def test_a_statement_is_read_as_it_was_written(
    objects: ListedObjects,
    catalog: str | None,
    schema: str | None,
    name: str | None,
    column: str | None,
) -> None:
    written = ListObjects(
        objects,
        catalog,
        schema,
        None if objects is ListedObjects.SCHEMAS else name,
        column if objects is ListedObjects.COLUMNS else None,
    )
    assert parse(written.to_sql()).command == written


@given(st.lists(st.text("ab.` é", min_size=1, max_size=5), max_size=4))
def test_the_parts_of_a_schema_are_read_as_they_were_joined(parts: list[str]) -> None:
    assert split_namespace(join_namespace(parts)) == parts


def test_parts_are_quoted_where_they_must_be() -> None:
    assert join_namespace(["a-b", "c.d", "e`f"]) == "a-b.`c.d`.`e``f`"
    assert split_namespace("sales.`2026.01`") == ["sales", "2026.01"]


def test_a_regular_expression_has_no_other_operators() -> None:
    assert pattern_to_regex(r"a|b%\%_") == r"a\|b.*%."
