"""SQL from arguments, files and standard input, split into single statements."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import EmptyStatement, InvalidRequest, InvalidText, Position
from headrace.grammar import script as grammar_script
from headrace.grammar.lexer import TokenKind, code_tokens
from headrace.grammar.quoting import quote_string, unquote_name

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Source:
    """A text with SQL."""

    name: str | None
    """Name of the file, or `stdin`; None for an argument."""
    text: str

    def line(self, number: int) -> str:
        """Return a line without its line end; empty if the text has no such line.

        Lines are counted from 1.
        """
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class SourceStatement:
    """A statement and the position at which it begins in its source."""

    source: Source
    text: str
    line: int
    column: int
    number: int
    """Ordinal among all statements of the command, from 1."""

    def locate(self, position: Position) -> Position:
        """Convert a position in the statement into a position in the source."""
        if position.line == 1:
            return Position(self.line, self.column + position.column - 1)
        return Position(self.line + position.line - 1, position.column)


def read_sources(texts: Sequence[str], files: Sequence[str]) -> list[Source]:
    """Return the SQL of the arguments, then of the files.

    Without arguments and files, read standard input.

    Raises:
        InvalidRequest: A file cannot be read, or standard input is a terminal.
        InvalidText: A text is not valid UTF-8.
    """
    sources = [Source(None, _check_argument(text)) for text in texts]
    sources += [_read_stdin() if file == STDIN else _read_file(file) for file in files]
    if sources:
        return sources
    if sys.stdin is None or sys.stdin.isatty():
        raise InvalidRequest(
            "There is no SQL to run.",
            hint='pass it as an argument (headrace sql "SELECT 1"), with -f FILE, or by a pipe',
        )
    return [_read_stdin()]


def split_sources(sources: Sequence[Source]) -> list[SourceStatement]:
    """Return the statements of all sources in order.

    Raises EmptyStatement if an argument holds no statement. A file may hold none.
    """
    statements: list[SourceStatement] = []
    for source in sources:
        script = grammar_script.split_script(source.text)
        if not script and source.name is None:
            raise EmptyStatement
        for statement in script:
            number = len(statements) + 1
            statements.append(
                SourceStatement(source, statement.text, statement.line, statement.column, number)
            )
    return statements


def _check_argument(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(
            f"The SQL argument is not valid UTF-8 at character {error.start + 1}."
        ) from None
    return text


def _read_file(name: str) -> Source:
    try:
        return Source(name, _decode(Path(name).read_bytes(), name))
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}.") from error


def _read_stdin() -> Source:
    return Source("stdin", _decode(sys.stdin.buffer.read(), "standard input"))


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidText(f"{name} is not valid UTF-8 in line {line}.") from None


def parse_name(text: str) -> str:
    """Return a name such as `db.sales` as it can stand in a statement.

    Raises InvalidRequest for any other text, so that an argument is never run as SQL.
    """
    tokens = list(code_tokens(text))
    expected_name = True
    for token in tokens:
        is_dot = token.word == "."
        quoted = token.kind is TokenKind.QUOTED and text[token.start] == "`"
        is_name = token.kind is TokenKind.WORD or quoted
        if is_dot == expected_name or not (is_dot or is_name):
            raise _invalid_name(text)
        expected_name = is_dot
    if expected_name:
        raise _invalid_name(text)
    return "".join(text[token.start : token.end] for token in tokens)


def parse_pattern(text: str) -> str | None:
    """Return the clauses of SHOW TABLES for `db.*` or `sal*`; None for a text without `*`."""
    if "*" not in text:
        return None
    database, dot, pattern = text.rpartition(".")
    within = f"IN {parse_name(database)} " if dot else ""
    return f"{within}LIKE {quote_string(pattern)}"


def parse_listing(text: str) -> str:
    """Return the clauses of SHOW for nothing, a name, or a pattern such as `db.*` or `sal*`."""
    if not text:
        return ""
    pattern = parse_pattern(text)
    if pattern is not None:
        return pattern
    database, dot, name = text.rpartition(".")
    within = f"IN {parse_name(database)} " if dot else ""
    return f"{within}LIKE {quote_string(unquote_name(parse_name(name)))}"


def _invalid_name(text: str) -> InvalidRequest:
    return InvalidRequest(
        f"{text!r} is not a name.", hint="write NAME, or DATABASE.NAME; quote others in backticks"
    )
