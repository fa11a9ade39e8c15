from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import Position
from headrace.grammar.script import ScriptStatement, is_complete_script, split_script
from headrace.grammar.text import position_at

FRAGMENTS = [
    *("'", '"', "`", "\\", "\\'", "''", ";", "--", "\n", "\r\n", "\\\n", "/*", "*/", "/*+", "r'"),
    *("://", "a://b", "1e+5", "(", ")", "[", ".", ":", "?", ",", "é", "😀", "\u3000", "\0"),
    *("BEGIN", "END", "IF", "THEN", "CASE", "WHEN", "ELSE", "DO", "WHILE", "FOR", "LOOP", "UNTIL"),
    *("REPEAT", "DECLARE", "EXIT", "HANDLER", "SQLSTATE", "NOT", "IDENTIFIER", "SELECT", "x", "1"),
]
any_text = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from([*FRAGMENTS, " ", ";"]), max_size=40).map("".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(" ".join),
)
STATEMENTS = [
    "SELECT 1",
    "SELECT ';', \";\", `;`, r'\\', 'it\\'s;'",
    "-- lead; \\\n ; on\nSELECT /* ; /* ; */ ; */ 2",
    "/* one; */ SELECT 3 /* two; */",
    "BEGIN IF end = 1 THEN SELECT CASE WHEN a THEN b END; END IF; END",
    "BEGIN NOT ATOMIC l: LOOP BEGIN END; LEAVE l; END LOOP l; SELECT end; END",
    "SET spark.x=a'b'c",
    "TABLE begin",
]


def texts(script: str) -> list[str]:
    return [statement.text for statement in split_script(script)]


@given(any_text)
def test_statements_are_exact_slices_of_the_script_in_order(script: str) -> None:
    end = 0
    for statement in split_script(script):
        assert statement.offset >= end
        end = statement.offset + len(statement.text)
        assert statement.text
        assert script[statement.offset : end] == statement.text
        assert position_at(script, statement.offset) == Position(statement.line, statement.column)


@given(any_text)
def test_a_statement_is_not_split_again(script: str) -> None:
    for text in texts(script):
        assert texts(text) == [text]


@given(
    st.lists(st.sampled_from(STATEMENTS)),
    st.lists(st.sampled_from([";", "\n;\n", " ; ;\t", ";\r\n\u3000", ";;"]), min_size=1),
)
def test_joined_statements_are_split_again(statements: list[str], separators: list[str]) -> None:
    script = "".join(text + separators[n % len(separators)] for n, text in enumerate(statements))
    assert texts(script) == statements


def test_a_statement_has_its_offset_line_and_column() -> None:
    assert split_script("SELECT 1;\r\n  -- é\n  SELECT 2 ; x") == [
        ScriptStatement("SELECT 1", 0, 1, 1),
        ScriptStatement("-- é\n  SELECT 2", 13, 2, 3),
        ScriptStatement("x", 31, 3, 14),
    ]


@pytest.mark.parametrize("script", ["", " ", ";;", "-- only a comment;", "/* ; */;\n;-- x"])
def test_a_script_without_statements_is_split_into_none(script: str) -> None:
    assert split_script(script) == []


def test_comments_after_the_last_statement_are_dropped() -> None:
    assert texts("SELECT 1; -- done;\n/* really; */") == ["SELECT 1"]


@pytest.mark.parametrize(
    "script",
    ["SELECT 1; SELECT 'a; b", 'a; "b', "a; `b;", "a; /* b; /* */ c", "a; r'b", "a; 'b\\'"],
)
def test_a_script_with_an_unclosed_quote_or_comment_is_not_split(script: str) -> None:
    assert texts(script) == [script]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("a -- \\\n; b\n; c", ["a -- \\\n; b", "c"]),
        ("a -- \\\r\n; b", ["a -- \\", "b"]),
        ("a -- \\\\\n; b", ["a -- \\\\\n; b"]),
        ("a /*+ h; */ ; b", ["a /*+ h", "*/", "b"]),
        ("a /*+ h */* ; /* b */", ["a /*+ h */*"]),
        ("r'\\'; r\"\\\"; x'\\';'", ["r'\\'", 'r"\\"', "x'\\';'"]),
        ("bar'\\';'; a", ["bar'\\';'", "a"]),
        ("1e+5r'\\'; a", ["1e+5r'\\'", "a"]),
        ("file:///a--b; c", ["file:///a--b", "c"]),
        ("s3://a--b; c", ["s3://a--b; c"]),
        ("file:///a/*; b", ["file:///a/*", "b"]),
        ("'a''b;'; `a``b;`; \"a\"\"b;\"", ["'a''b;'", "`a``b;`", '"a""b;"']),
        ("{# ; #}", ["{#", "#}"]),
    ],
)
def test_quotes_and_comments_follow_the_rules_of_spark(script: str, expected: list[str]) -> None:
    assert texts(script) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;\n",
        "a;",
        "BEGIN ",
        "IF (",
        "/*",
        "'a' ",
        "BEGIN LOOP x; ",
        "IDENTIFIER(",
        "r'",
        "-",
    ],
)
def test_a_long_script_is_split_in_linear_time(text: str) -> None:
    def seconds(size: int) -> float:
        script = "BEGIN " + text * (size // len(text)) + "; END;" + text
        taken = []
        for _ in range(3):
            started = time.thread_time()
            split_script(script)
            taken.append(time.thread_time() - started)
        return min(taken)

    # Quadratic work would take 64 times as long; the best of three and a floor keep noise out.
    assert seconds(80_000) < 40 * max(seconds(10_000), 0.02)


@pytest.mark.parametrize(
    ("script", "complete"),
    [
        ("", True),
        ("-- a comment", True),
        (";", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- the end", True),
        ("SELECT 1; SELECT 2", False),
        ("SELECT ';'", False),
        ("SELECT 'it;", False),
        ("SELECT 1 /* ;", False),
        ("BEGIN SELECT 1;", False),
        ("BEGIN SELECT 1; END", False),
        ("BEGIN SELECT 1; END;", True),
        ("BEGIN IF a THEN SELECT 1; END IF; END;", True),
    ],
)
def test_a_script_is_complete_if_every_statement_ends(script: str, complete: bool) -> None:
    assert is_complete_script(script) is complete
