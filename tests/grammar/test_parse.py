"""The one parse of a submitted text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import (
    EmptyStatement,
    InvalidRequest,
    MultipleStatements,
    Position,
    StatementTooComplex,
    StatementTooLarge,
)
from headrace.grammar.lexer import Token, skip_all_but, tokenize
from headrace.grammar.parse import CancelStatement, ParsedStatement, parse
from headrace.grammar.text import MAX_NESTING, MAX_OWN

OWN = {
    "CREATE STREAM s AS SELECT 1": "CREATE STREAM",
    "CREATE OR REPLACE STREAM s FROM rate": "CREATE STREAM",
    "create\tsink k TO kafka": "CREATE SINK",
    "Create Or Replace Sink k TO kafka": "CREATE SINK",
    "SAVE STREAM s TO TABLE t": "SAVE STREAM",
    "STOP STREAM q": "STOP STREAM",
    "PAUSE STREAM q": "PAUSE STREAM",
    "RESUME STREAM q": "RESUME STREAM",
    "RESTART STREAM q": "RESTART STREAM",
    "RETRY STREAM q": "RETRY STREAM",
    "SHOW STREAMS": "SHOW STREAMS",
    "SHOW STREAM q": "SHOW STREAM",
    "SHOW SINKS;": "SHOW SINKS",
    "DROP STREAM s": "DROP STREAM",
    "DROP SINK s": "DROP SINK",
    "CANCEL STATEMENT 'st_1'": "CANCEL STATEMENT",
    "CREATE MATERIALIZED VIEW v AS SELECT 1": "CREATE MATERIALIZED VIEW",
    "REFRESH MATERIALIZED VIEW v": "REFRESH MATERIALIZED VIEW",
    "DROP MATERIALIZED VIEW v": "DROP MATERIALIZED VIEW",
    "SHOW MATERIALIZED VIEWS;": "SHOW MATERIALIZED VIEWS",
    "DESCRIBE MATERIALIZED VIEW v": "DESCRIBE MATERIALIZED VIEW",
}


@pytest.mark.parametrize(("text", "keyword"), OWN.items())
def test_own_statements_are_recognised_by_their_first_words(text: str, keyword: str) -> None:
    spaced = text.replace(" ", " /* ; */ ")
    for variant in (text, f"/* a */ -- b\n {text}", spaced):
        parsed = parse(variant)
        assert parsed.keyword == keyword
        assert parsed.command is not None
        assert not parsed.is_query
        assert parse(variant, reserved=False).command is None


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
        "SELECT 'CANCEL STATEMENT'",
        "CANCEL",
    ],
)
def test_all_other_statements_belong_to_spark(text: str) -> None:
    parsed = parse(text)

    assert parsed.command is None
    assert parsed.kind == "interactive"


def test_a_cancel_statement_is_a_local_command() -> None:
    parsed = parse("-- a\n CANCEL STATEMENT 'st_1';")

    assert parsed.command == CancelStatement("st_1")
    assert parsed.kind == "local"
    assert not parsed.is_query
    assert parsed.position == Position(2, 2)


@pytest.mark.parametrize(
    "text",
    ["SELECT 1", "SELECT 1;", "SELECT 1; ; -- x;", "BEGIN SELECT 1; END;", "SELECT '; 1"],
)
def test_a_single_statement_may_end_with_semicolons(text: str) -> None:
    parse(text)


def test_the_error_for_several_statements_names_the_position_of_the_second() -> None:
    with pytest.raises(MultipleStatements, match="3 statements") as caught:
        parse("SELECT ';';\n /* b */ SELECT 2; SELECT 3")
    assert caught.value.position == Position(2, 10)


@pytest.mark.parametrize(
    "text",
    ["", " \t\r\n\u3000", ";", " ; ;\n", "-- nothing", "-- a \\\n b", "/* /* a */ ; */", "--"],
)
def test_a_text_without_a_statement_is_an_error(text: str) -> None:
    with pytest.raises(EmptyStatement):
        parse(text)


@given(st.text())
def test_any_text_is_parsed_or_refused_with_a_documented_error(text: str) -> None:
    # Hypothesis also tries strings of the source, such as SHOW SINKS.
    with contextlib.suppress(InvalidRequest):
        assert isinstance(parse(text), ParsedStatement)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "-- first\n /* then */ select update from t",
        "VALUES (1), (2)",
        "WITH a AS (SELECT 1) SELECT * FROM a;",
        "FROM t |> WHERE x > 1 |> SELECT y",
        "TABLE t",
        "((SELECT 1) UNION ALL (SELECT 2))",
        "WITH a AS (SELECT 'insert' AS `delete`) SELECT * FROM a",
        "show tables in d",
        "DESCRIBE TABLE EXTENDED t",
        "desc query SELECT 1",
        "EXPLAIN FORMATTED INSERT INTO t SELECT 1",
    ],
)
def test_pure_queries_are_recognised(text: str) -> None:
    assert parse(text).is_query


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t SELECT 1",
        "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
        "FROM t INSERT INTO a SELECT x INSERT INTO b SELECT y",
        "FROM (FROM t) INSERT OVERWRITE TABLE a SELECT *",
        "WITH a AS (SELECT 1) MERGE INTO t USING a ON true WHEN MATCHED THEN DELETE",
        "BEGIN SELECT 1; END",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "EXPLAIN SELECT ${x}",
        "EXPLAIN EXECUTE IMMEDIATE 'DROP TABLE t'",
        "explain extended\n execute immediate x",
        "SHOW CATALOGS",
        "DESCRIBE ${t}",
        "SHOW TABLES LIKE 'never closed",
        "SET x = 1",
        "CREATE TABLE t AS SELECT 1",
        "WITH a AS (SELECT 1) ${rest}",
        "SELECT 'never closed",
        "`SELECT` 1",
    ],
)
def test_a_text_that_might_change_something_is_not_a_query(text: str) -> None:
    assert not parse(text).is_query


DEEP = {
    "parentheses": ("(", "1", ")"),
    "arrays": ("array(", "1", ")"),
    "indexes": ("a[", "1", "]"),
    "cases": ("CASE WHEN a THEN ", "1", " END"),
    "types": ("CAST(a AS ARRAY<", "INT", ">)"),
    "subqueries": ("(SELECT * FROM ", "t", ")"),
    "maps": ("MAP <INT, ", "INT", ">"),
}


@pytest.mark.parametrize("name", DEEP)
def test_a_text_that_is_nested_too_deeply_for_sparks_parser_is_refused_at_once(name: str) -> None:
    start, inner, end = DEEP[name]
    levels = 2 if name == "types" else 1
    depth = MAX_NESTING // levels
    assert parse(f"SELECT {start * depth}{inner}{end * depth}").is_query
    for count in (depth + 1, 10 * depth):
        with pytest.raises(StatementTooComplex) as caught:
            parse(f"SELECT\n {start * count}{inner}{end * count}")
        assert caught.value.position is not None
        assert caught.value.position.line == 2
        assert caught.value.condition == "FAILED_TO_PARSE_TOO_COMPLEX"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + ", ".join(["(((a < b)))", "CASE WHEN a THEN b END", "array(1)"] * 2000),
        "SELECT " + " AND ".join(["a < b", "array < c", "t.case > 1"] * 2000),
        f"SELECT '{'(' * 5000}', 1 /* {'(' * 5000} */ -- {'(' * 5000}",
        "BEGIN " + "IF a THEN SELECT CASE WHEN a THEN 1 END CASE; END IF; " * 2000 + "END",
    ],
    ids=["wide", "comparisons", "strings and comments", "script"],
)
def test_a_long_text_that_is_not_deep_is_accepted(text: str) -> None:
    assert parse(text).command is None


CORPUS = [
    text
    for file in sorted((Path(__file__).parent / "corpus").glob("*.sql"))
    for text in file.read_bytes().decode().removesuffix("\n").split("\n%%\n")
]
ATOMS = [
    *(
        "SELECT",
        "INSERT",
        "update",
        "CASE",
        "END",
        "r",
        "R'a\\'",
        "'a\\'b'",
        "'a''b'",
        '"',
        "'",
        "`;`",
    ),
    *(
        "1e-5",
        "1e-",
        "1e--x\n",
        "-",
        "--;\n",
        "/*",
        "*/",
        "/*+ a */",
        "file://--;",
        "a1://;",
        ":",
        "//",
    ),
    *(
        "(",
        ")",
        "((1,'x'),",
        "))",
        ";",
        "; ",
        ".",
        ".delete",
        ",",
        " ",
        "\n",
        "é",
        "1",
        "<",
        "ARRAY<",
    ),
]
PADDING = " " * MAX_OWN


def describe(text: str) -> object:
    """Return what the parse of a text decides, or the class of its error."""
    try:
        parsed = parse(text, reserved=False)
    except InvalidRequest as error:
        return type(error)
    return parsed.is_query, parsed.position


def semicolons(tokens: Iterable[Token]) -> list[int]:
    return [token.start for token in tokens if token.word == ";"]


@pytest.mark.parametrize("text", CORPUS)
def test_a_long_text_is_parsed_as_a_short_one(text: str) -> None:
    skipped = skip_all_but(["INSERT"])
    assert semicolons(tokenize(text, 0, skipped)) == semicolons(tokenize(text))
    if "BEGIN" not in text.upper():
        assert describe(text + PADDING) == describe(text)


@given(st.lists(st.sampled_from(ATOMS), max_size=20).map("".join))
def test_no_end_of_a_statement_is_skipped(text: str) -> None:
    skipped = skip_all_but(["INSERT", "UPDATE", "CASE"])
    assert semicolons(tokenize(text, 0, skipped)) == semicolons(tokenize(text))


@pytest.mark.parametrize(
    ("text", "is_query"),
    [
        ("WITH a AS (SELECT {}) SELECT * FROM a", True),
        ("WITH a AS (SELECT {}) INSERT INTO t SELECT * FROM a", False),
        ("WITH a AS (SELECT {}) /* INSERT */ SELECT 'insert' FROM a", True),
        ("INSERT INTO t VALUES {}", False),
        ("-- {{\nVALUES {}", True),
    ],
)
def test_a_text_of_some_mebibytes_is_a_query_by_its_words(text: str, is_query: bool) -> None:
    rows = ", ".join(["(-1, 'it''s \\' ;', cast('2024-01-01' AS date), 1.5e-3)"] * 60_000)
    long_one = text.format(rows)
    assert len(long_one) > 3 * MAX_OWN
    assert parse(long_one).is_query is is_query
    with pytest.raises(MultipleStatements) as caught:
        parse(f"{long_one};\nSELECT 1")
    assert caught.value.position == Position(text.count("\n") + 2, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SAVE STREAM s TO TABLE t" + PADDING, "SAVE STREAM has at most 1 MiB"),
        ("BEGIN SELECT 1; END" + PADDING, "scripting block has at most"),
    ],
)
def test_own_statements_and_blocks_have_a_lower_limit(text: str, reason: str) -> None:
    with pytest.raises(StatementTooLarge, match=reason):
        parse(text)


@pytest.mark.parametrize("text", ["SELECT " + "(" * 2_000_000, "SELECT 0" + "+(((1)))" * 300_000])
def test_a_long_text_with_too_many_brackets_is_refused(text: str) -> None:
    with pytest.raises(StatementTooComplex):
        parse(text)
