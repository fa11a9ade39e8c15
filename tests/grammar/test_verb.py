from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.grammar.script import describe_verb


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("INSERT INTO t VALUES (1)", "INSERT"),
        ("-- load\ninsert overwrite t select 1", "INSERT"),
        ("CREATE TABLE t AS SELECT 1", "CREATE TABLE"),
        ("CREATE OR REPLACE GLOBAL TEMPORARY VIEW v AS SELECT 1", "CREATE VIEW"),
        ("CREATE OR REPLACE /* c */ TABLE t AS SELECT 1", "CREATE TABLE"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "CREATE MATERIALIZED VIEW"),
        ("DROP DATABASE IF EXISTS d CASCADE", "DROP DATABASE"),
        ("REFRESH TABLE t", "REFRESH TABLE"),
        ("SHOW CREATE TABLE t", "SHOW"),
        ("SET x = 1", "SET"),
        ("(SELECT 1)", ""),
        ("'text'", ""),
    ],
)
def test_the_verb_names_what_a_statement_does(text: str, verb: str) -> None:
    assert describe_verb(text) == verb


@given(st.text())
def test_every_text_has_a_verb_or_none(text: str) -> None:
    assert describe_verb(text) == describe_verb(text).upper()
