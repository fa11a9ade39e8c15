"""Statements that change all rows of a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.grammar.unrestricted import find_unrestricted


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("DELETE FROM t", "t"),
        ("delete from a.`b c`.d as x", "a.`b c`.d"),
        ("/* WHERE */ DELETE FROM t -- WHERE a", "t"),
        ("UPDATE t SET a = 'WHERE', b = (SELECT 1 FROM u WHERE c)", "t"),
        ("WITH x AS (SELECT 1 WHERE true) DELETE FROM t", "t"),
        ("TRUNCATE TABLE t", "t"),
        ("DROP TABLE IF EXISTS a.t", "a.t"),
        ("DROP TABLE a . t PURGE", "a . t"),
        ("DELETE FROM t WHERE a = 1", None),
        ("UPDATE t SET a = 1 WHERE b", None),
        ("WITH x AS (SELECT 1) UPDATE t SET a = 1 WHERE b IN (SELECT 1 FROM x)", None),
        ("SELECT 'DELETE FROM t'", None),
        ("WITH x AS (SELECT 1) SELECT * FROM x", None),
        ("INSERT OVERWRITE t SELECT 1", None),
        ("DROP VIEW v", None),
        ("DELETE FROM", None),
        ("DELETE", None),
        ("", None),
    ],
)
def test_a_table_that_is_changed_whole_is_found(text: str, table: str | None) -> None:
    assert find_unrestricted(text) == table


words = st.sampled_from(
    ["DELETE", "FROM", "UPDATE", "WITH", "DROP", "TABLE", "WHERE", "t", ".", "(", ")", "'x", "/*"]
)


@given(st.lists(words).map(" ".join))
def test_no_text_is_an_error(text: str) -> None:
    found = find_unrestricted(text)
    assert found is None or found in text
