"""The grammar against Spark's own parser and lexer, over statements of every class.

The corpus lies beside this file; a line that holds only `%%` parts its statements.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.grammar.spark_parser import SparkParser

from headrace.errors import MultipleStatements
from headrace.grammar.splitter import split_script
from headrace.grammar.statements import single
from headrace.grammar.text import check_text
from headrace.grammar.tokens import TokenKind, tokenize

pytestmark = pytest.mark.spark

FOLDER = Path(__file__).parent / "corpus"
BY_FILE = {
    file.stem: file.read_bytes().decode().removesuffix("\n").split("\n%%\n")
    for file in sorted(FOLDER.glob("*.sql"))
}
CORPUS = [text for texts in BY_FILE.values() for text in texts]
WINDOWS = [text.replace("\n", "\r\n") for text in CORPUS if "\n" in text and "\\\n" not in text]

# CR before LF: a `\` at the end of a comment would otherwise take the `;` into it.
BETWEEN = ["\r\n;", "\r\n; \n\t\n", "\r\n\u3000;\r\n", "\r\n;\n;;"]
COMMENTS = ["-- joined; with \\\n ; \n", "/* joined; /* with */ ; */ ", "-- '\n/* \" */\n"]


def joined(statements: list[str], seed: int) -> tuple[str, list[str]]:
    """A script, and its pieces: some statements get a comment in front."""
    rnd = random.Random(seed)
    pieces = [rnd.choice(["", "", *COMMENTS]) + text for text in statements]
    return "".join(text + rnd.choice(BETWEEN) for text in pieces), pieces


def assert_read_alike(parser: SparkParser, text: str) -> None:
    """Every `;` and comment stands where Spark's lexer sees it, up to what nothing closes."""
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
    # Spark reads on behind a quote that nothing closes, but no statement holds one.
    loose = [t.start for t in theirs if t.type == "UNRECOGNIZED" and text[t.start] in "'\"`"]
    assert loose == [] or unread <= loose[0]


def test_the_corpus_is_wide() -> None:
    assert len(set(CORPUS)) == len(CORPUS) >= 450
    assert min(len(texts) for texts in BY_FILE.values()) >= 20


@pytest.mark.parametrize("name", BY_FILE)
def test_spark_accepts_each_statement_and_it_is_one(name: str, parser: SparkParser) -> None:
    for text in BY_FILE[name]:
        assert parser.refusal(text) is None, text
        assert_read_alike(parser, text)
        check_text(text)
        single(text)
        assert [piece.text for piece in split_script(text)] == [text]


def test_line_ends_of_windows_change_nothing(parser: SparkParser) -> None:
    for text in WINDOWS:
        assert parser.refusal(text) is None, text
        assert [piece.text for piece in split_script(text)] == [text]


@pytest.mark.parametrize("seed", range(20))
def test_the_joined_corpus_splits_into_the_same_pieces(seed: int) -> None:
    statements = random.Random(seed).sample(CORPUS, len(CORPUS))
    script, pieces = joined(statements, seed)
    assert [piece.text for piece in split_script(script)] == pieces


def test_a_piece_with_its_comments_is_still_accepted(parser: SparkParser) -> None:
    script, pieces = joined(CORPUS, seed=1)
    assert all(parser.refusal(piece.text) is None for piece in split_script(script))
    with pytest.raises(MultipleStatements):
        single(script)
    assert len(pieces) == len(CORPUS)


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
def edited(draw: st.DrawFn) -> str:
    """A statement of the corpus with a few oddities put in, or parts taken out."""
    text = draw(st.sampled_from(CORPUS))
    for place, taken, put in draw(edits):
        at = int(place * len(text))
        text = text[:at] + put + text[at + taken :]
    return text


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.one_of(edited(), odd_texts))
@example("a */* ; */ b; c")
@example("/* /* a; */ ; */ b; /*/ ; */ c */; d")
@example("/* /*+ a; */ b; /* c */ ; d")
@example("1e+5r'\\'; 1.5r'\\'; 'a''b;'")
def test_semicolons_and_comments_are_where_spark_sees_them(parser: SparkParser, text: str) -> None:
    assert_read_alike(parser, text)
