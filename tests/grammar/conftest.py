"""Spark's own parser and lexer, which the grammar is held against."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

_TOKEN = re.compile(r"\[@-1,(\d+):(\d+)='")
_TYPE = re.compile(r"',<(\d+)>(?:,channel=(\d+))?,\d+:\d+\](?:, |\])")


@dataclass(frozen=True)
class SparkToken:
    """A token as Spark's lexer gives it; `end` lies behind its last code point."""

    type: str
    start: int
    end: int
    hidden: bool


class SparkParser:
    """Spark's parser, reached through py4j."""

    def __init__(self, session: Any) -> None:
        self._jvm = session.sparkContext._jvm
        self._parser = session._jsparkSession.sessionState().sqlParser()
        vocabulary = self._antlr().SqlBaseLexer.VOCABULARY
        self._types = [
            str(vocabulary.getSymbolicName(n)) for n in range(vocabulary.getMaxTokenType() + 1)
        ]

    def refusal(self, text: str) -> str | None:
        """What Spark's parser says against a text; None when it accepts it."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            self._parser.parsePlan(text)
        except (PySparkException, Py4JError) as error:
            return str(error)
        return None

    def tokens(self, text: str) -> list[SparkToken]:
        """Every token, comments and white space among them (`hidden`)."""
        stream = self._jvm.org.antlr.v4.runtime.CharStreams.fromString(text)
        antlr = self._antlr()
        lexer = antlr.SqlBaseLexer(antlr.UpperCaseCharStream(stream))
        lexer.removeErrorListeners()
        # One call for all of them: `[[@-1,start:stop='text',<type>,line:column], …]`.
        listed, at = lexer.getAllTokens().toString(), 1
        found = []
        while match := _TOKEN.match(listed, at):
            start, end = int(match[1]), int(match[2]) + 1
            shown = text[start:end]
            for plain, escaped in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
                shown = shown.replace(plain, escaped)
            kind = _TYPE.match(listed, match.end() + len(shown))
            assert kind is not None
            found.append(SparkToken(self._types[int(kind[1])], start, end, kind[2] is not None))
            at = kind.end()
        return found

    def _antlr(self) -> Any:
        return self._jvm.org.apache.spark.sql.catalyst.parser


@pytest.fixture(scope="session")
def parser() -> Iterator[SparkParser]:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .appName("headrace-grammar-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.sql.scripting.enabled", "true")
        .getOrCreate()
    )
    try:
        yield SparkParser(session)
    finally:
        session.stop()
