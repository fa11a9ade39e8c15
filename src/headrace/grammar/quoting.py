"""Quoting of names and strings for Spark SQL, so that no part of them is read as SQL."""

from __future__ import annotations

import re

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPE = r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))"
_ESCAPES_WITHIN = {quote: re.compile(f"{_ESCAPE}|{quote * 2}", re.DOTALL) for quote in "'\""}


def quote_name(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quote_string(value: str) -> str:
    """Return a string literal.

    The literal has the same value whatever the session's setting for backslashes, unless the value
    contains backslashes and both kinds of quotes.
    """
    if "\\" not in value:
        return "'" + value.replace("'", "''") + "'"
    for quote in ("'", '"'):
        if quote not in value:
            return f"r{quote}{value}{quote}"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def unquote_name(name: str) -> str:
    """Return the name that an identifier, plain or in backticks, stands for."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def unquote_string(literal: str) -> str:
    """Return the value of a string literal.

    The rules are those of Spark's `SparkParserUtils.unescapeSQLString`, with
    `spark.sql.parser.escapedStringLiterals` unset.
    """
    if literal[0] in "rR":
        return literal[2:-1]
    return _ESCAPES_WITHIN[literal[0]].sub(_unescape, literal[1:-1])


def _unescape(match: re.Match[str]) -> str:
    short, long, octal, other = match.groups()
    if short or long:
        return chr(int(short or long, 16))
    if octal:
        return chr(int(octal, 8))
    if other is None:  # a doubled quote
        return match[0][0]
    # `\%` and `\_` keep their backslash, for patterns of LIKE.
    return f"\\{other}" if other in "%_" else _ESCAPES.get(other, other)
