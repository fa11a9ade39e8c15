from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import MultipleStatements, Position, ReservedStatement
from headrace.grammar.statements import Classified, classify, refuse_reserved, single

RESERVED = {
    "CREATE STREAM s AS SELECT 1": "CREATE STREAM",
    "create\tsink k TO kafka": "CREATE SINK",
    "SAVE STREAM s TO TABLE t": "SAVE STREAM",
    "STOP STREAM q": "STOP STREAM",
    "RESTART STREAM q": "RESTART STREAM",
    "SHOW STREAMS": "SHOW STREAMS",
    "SHOW STREAM q": "SHOW STREAM",
    "DROP STREAM s": "DROP STREAM",
    "CANCEL STATEMENT 'st_1'": "CANCEL STATEMENT",
    "CREATE MATERIALIZED VIEW v AS SELECT 1": "CREATE MATERIALIZED VIEW",
    "REFRESH MATERIALIZED VIEW v": "REFRESH MATERIALIZED VIEW",
    "DROP MATERIALIZED VIEW v": "DROP MATERIALIZED VIEW",
    "SHOW MATERIALIZED VIEWS;": "SHOW MATERIALIZED VIEWS",
}


@pytest.mark.parametrize(("text", "name"), RESERVED.items())
def test_reserved_statements_are_told_by_their_first_words(text: str, name: str) -> None:
    assert classify(text) == Classified(name, 0)
    assert classify(f"/* a */ -- b\n {text}") == Classified(name, 14)
    assert classify(text.replace(" ", " /* ; */ ")).reserved == name
    assert classify(text, reserved=False) == Classified(None, 0)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "CREATE STREAMING TABLE t AS SELECT 1",
        "CREATE TABLE stream (a INT)",
        "CREATE `STREAM` s",
        "CREATE 'STREAM' s",
        "EXPLAIN CREATE STREAM s AS SELECT 1",
        "REFRESH TABLE materialized",
        "REFRESH MATERIALIZED",
        "SHOW TABLES LIKE 'streams'",
        "-- SHOW STREAMS\nSELECT 1",
        "DROP VIEW materialized",
        "",
    ],
)
def test_everything_else_is_sparks(text: str) -> None:
    assert classify(text).reserved is None
    refuse_reserved(text)


def test_a_reserved_statement_is_refused_with_its_place() -> None:
    with pytest.raises(ReservedStatement, match="SAVE STREAM is reserved") as caught:
        refuse_reserved("-- a\n  save stream s TO TABLE t")
    assert caught.value.position == Position(2, 3)
    assert caught.value.hint is not None
    assert "reserved_statements = false" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["SELECT 1", "SELECT 1;", "SELECT 1; ; -- x;", "BEGIN SELECT 1; END;", "SELECT '; 1", ""],
)
def test_one_statement_is_single(text: str) -> None:
    single(text)


def test_a_second_statement_is_refused_with_its_place() -> None:
    with pytest.raises(MultipleStatements, match="3 statements") as caught:
        single("SELECT ';';\n /* b */ SELECT 2; SELECT 3")
    assert caught.value.position == Position(2, 10)


@given(st.text())
def test_no_text_is_too_odd_to_classify(text: str) -> None:
    assert classify(text).reserved is None
