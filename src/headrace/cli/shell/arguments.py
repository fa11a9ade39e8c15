"""Words and files in the arguments of backslash commands."""

from __future__ import annotations

import shlex
from pathlib import Path

from headrace.errors import InvalidRequest

_QUOTE_HINT = "quote a name with spaces: 'my file.sql'"


def split_words(command: str, arguments: str, *, hint: str | None = None) -> list[str]:
    """Return the words of the arguments. Raises InvalidRequest if a quote does not end."""
    try:
        return shlex.split(arguments)
    except ValueError as error:
        raise InvalidRequest(f"\\{command}: {error}.", hint=hint) from None


def parse_file(command: str, arguments: str, *, hint: str = _QUOTE_HINT) -> Path:
    """Return the one file that the arguments name.

    Raises InvalidRequest if there is not one word, or if the home of its user is not known.
    """
    words = split_words(command, arguments, hint=hint)
    if len(words) != 1:
        raise InvalidRequest(
            f"\\{command} takes one file, but there are {len(words)} words.", hint=hint
        )
    try:
        return Path(words[0]).expanduser()
    except RuntimeError:
        raise InvalidRequest(
            f"\\{command}: the home folder in {words[0]!r} is not known.",
            hint="write the whole path, or ./~… for a file whose name begins with ~",
        ) from None
