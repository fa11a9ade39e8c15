"""The grammar compared with Spark's own parser and lexer, over statements of every class.

The corpus is in the folder beside this file. A line with only `%%` separates its statements.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.grammar.spark_parser import SparkParser

from headrace.errors import MultipleStatements
from headrace.grammar.lexer import TokenKind, tokenize
from headrace.grammar.parse import parse
from headrace.grammar.script import split_script

pytestmark = pytest.mark.spark

FOLDER = Path(__file__).parent / "corpus"
BY_FILE = {
    file.stem: file.read_bytes().decode().removesuffix("\n").split("\n%%\n")
    for file in sorted(FOLDER.glob("*.sql"))
}
CORPUS = [text for texts in BY_FILE.values() for text in texts]
WINDOWS = [text.replace("\n", "\r\n") for text in CORPUS if "\n" in text and "\\\n" not in text]

# With LF alone, a `\` at the end of a comment would make the `;` a part of the comment.
BETWEEN = ["\r\n;", "\r\n; \n\t\n", "\r\n\u3000;\r\n", "\r\n;\n;;"]
COMMENTS = ["-- joined; with \\\n ; \n", "/* joined; /* with */ ; */ ", "-- '\n/* \" */\n"]


def join_statements(statements: list[str], seed: int) -> tuple[str, list[str]]:
    """Return a script and its statements, some of which get a leading comment."""
    rnd = random.Random(seed)
    commented = [rnd.choice(["", "", *COMMENTS]) + text for text in statements]
    return "".join(text + rnd.choice(BETWEEN) for text in commented), commented


def assert_same_tokens_as_spark(parser: SparkParser, text: str) -> None:
    """Compare each `;` and comment with Spark's lexer, up to an unclosed quote or comment."""
    ours, theirs = list(tokenize(text)), parser.tokens(text)
    unread = ours[-1].start if ours and ours[-1].kind is TokenKind.UNREADABLE else len(text)

    assert [token.start for token in ours if token.word == ";"] == [
        token.start for token in theirs if token.type == "SEMICOLON" and token.start < unread
    ]
    assert [token.start for token in ours if token.kind is TokenKind.COMMENT] == [
        token.start
        for token in theirs
        if token.type in ("SIMPLE_COMMENT", "BRACKETED_COMMENT") and token.start < unread
    ]
    # Spark continues after an unclosed quote, but no valid statement contains one.
    unclosed = [t.start for t in theirs if t.type == "UNRECOGNIZED" and text[t.start] in "'\"`"]
    assert unclosed == [] or unread <= unclosed[0]


def test_the_corpus_covers_many_statements() -> None:
    assert len(set(CORPUS)) == len(CORPUS) >= 450
    assert min(len(texts) for texts in BY_FILE.values()) >= 20


@pytest.mark.parametrize("name", BY_FILE)
def test_spark_and_headrace_both_accept_each_statement_as_one(
    name: str, parser: SparkParser
) -> None:
    for text in BY_FILE[name]:
        assert parser.find_error(text) is None, text
        assert_same_tokens_as_spark(parser, text)
        parse(text, reserved=False)
        assert [statement.text for statement in split_script(text)] == [text]


def test_windows_line_ends_make_no_difference(parser: SparkParser) -> None:
    for text in WINDOWS:
        assert parser.find_error(text) is None, text
        assert [statement.text for statement in split_script(text)] == [text]


@pytest.mark.parametrize("seed", range(20))
def test_a_script_of_the_corpus_splits_into_its_statements(seed: int) -> None:
    sample = random.Random(seed).sample(CORPUS, len(CORPUS))
    script, statements = join_statements(sample, seed)
    assert [statement.text for statement in split_script(script)] == statements


def test_spark_accepts_each_statement_with_its_comments(parser: SparkParser) -> None:
    script, statements = join_statements(CORPUS, seed=1)
    assert all(parser.find_error(statement.text) is None for statement in split_script(script))
    with pytest.raises(MultipleStatements):
        parse(script, reserved=False)
    assert len(statements) == len(CORPUS)


ODDITIES = [
    *("'", '"', "`", "\\", "--", "\n", "\r\n", "\r", "/*", "*/", "/*+", "*", "/", ";", "r'", 'R"'),
    *("://", "a://b", "1e+5", "1.", ".5", "é", "🜂", "\u017f", "\u3000", "\u2028", "\x1c", "\x85"),
    *("$", "{", "::", "''", '""', "``", "\\\n", "\\\r\n", "-", "+", "2", "_", "ª", "E", "x'"),
    "-- \\\n;",
]
edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 4), st.sampled_from(["", *ODDITIES])), max_size=6
)
odd_texts = st.lists(st.sampled_from([*ODDITIES, "a", ";"]), max_size=14).map("".join)


@st.composite
def edited_statements(draw: st.DrawFn) -> str:
    """Draw a statement of the corpus with odd characters inserted or parts removed."""
    text = draw(st.sampled_from(CORPUS))
    for position, removed, inserted in draw(edits):
        index = int(position * len(text))
        text = text[:index] + inserted + text[index + removed :]
    return text


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.one_of(edited_statements(), odd_texts))
@example("a */* ; */ b; c")
@example("/* /* a; */ ; */ b; /*/ ; */ c */; d")
@example("/* /*+ a; */ b; /* c */ ; d")
@example("1e+5r'\\'; 1.5r'\\'; 'a''b;'")
def test_semicolons_and_comments_are_where_spark_sees_them(parser: SparkParser, text: str) -> None:
    assert_same_tokens_as_spark(parser, text)
