"""Writing names and strings into Spark SQL, so that nothing in them is read as SQL."""

from __future__ import annotations


def quote_name(called: str) -> str:
    """A name in backticks."""
    return "`" + called.replace("`", "``") + "`"


def quote_string(value: str) -> str:
    """A string literal, whatever the session's settings say of backslashes, where that can be."""
    if "\\" not in value:
        return "'" + value.replace("'", "''") + "'"
    for quote in ("'", '"'):
        if quote not in value:
            return f"r{quote}{value}{quote}"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
