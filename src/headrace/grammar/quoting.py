"""Quoting of names and strings for Spark SQL, so that no part of them is read as SQL."""

from __future__ import annotations


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
