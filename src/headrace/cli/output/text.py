"""Text that commands write: values as text, their width on a terminal, and colours."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, TextIO

from headrace.text.readable import escape_character, escape_controls

if TYPE_CHECKING:
    from rich.style import Style

NULL = "NULL"
_CUT_MARK, _ASCII_CUT_MARK = "…", "~"
_NUMERIC_TYPES = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


class Number(str):
    """Text of a JSON number, with every digit that the node wrote: 1.10 stays 1.10."""

    __slots__ = ()


def to_json(value: Any) -> str:
    """Return a value of the API as JSON. Numbers keep the digits that the node wrote."""
    return _TO_JSON.get(type(value), str)(value)


def _list_to_json(value: list[Any]) -> str:
    return "[" + ", ".join(map(to_json, value)) + "]"


def _dict_to_json(value: dict[str, Any]) -> str:
    members = (f"{encode_basestring(key)}: {to_json(member)}" for key, member in value.items())
    return "{" + ", ".join(members) + "}"


_TO_JSON: dict[type, Callable[[Any], str]] = {
    str: encode_basestring,
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    list: _list_to_json,
    dict: _dict_to_json,
}


def to_text(value: Any) -> str:
    """Return the text of a value that is not NULL, without escapes. Nested values are JSON."""
    if isinstance(value, str):
        return value
    return to_json(value)


def to_printable(value: Any) -> str:
    """Return a value as one line for a terminal. Control characters become escapes."""
    if value is None:
        return NULL
    text = to_text(value)
    return text if text.isprintable() else "".join(map(escape_character, text))


def to_printable_lines(value: Any) -> list[str]:
    """Return the lines of a value for a terminal. Other control characters become escapes."""
    if not isinstance(value, str) or "\n" not in value:
        return [to_printable(value)]
    return [to_printable(line) for line in value.split("\n")]


def is_numeric_type(type_name: str) -> bool:
    """Return True for the Spark SQL types that a table aligns to the right."""
    return type_name.partition("(")[0] in _NUMERIC_TYPES


def is_utf8(encoding: str | None) -> bool:
    """Return whether a stream with this encoding shows lines and marks beyond ASCII."""
    return (encoding or "").lower().replace("-", "") == "utf8"


def display_width(text: str) -> int:
    """Return the number of terminal columns that a text needs."""
    if text.isascii():
        return len(text)
    # rich takes 0.01 s to import, which most output does not need.
    from rich.cells import cell_len  # noqa: PLC0415

    return cell_len(text)


def pad(text: str, columns: int) -> str:
    """Fill a text with spaces to this number of terminal columns. A longer text is not cut."""
    return text + " " * (columns - display_width(text))


def cut(text: str, columns: int, *, utf8: bool = True) -> str:
    """Return a text of at most this number of terminal columns. A mark ends a text that is cut."""
    if display_width(text) <= columns:
        return text
    mark = _CUT_MARK if utf8 else _ASCII_CUT_MARK
    if text.isascii():
        return text[: columns - 1] + mark
    from rich.cells import set_cell_size  # noqa: PLC0415 - see display_width

    # A wide character that does not fit is replaced by a space.
    return set_cell_size(text, columns - 1).rstrip() + mark


class StyledText(str):
    """Text that a terminal stream writes without escapes.

    Every part of it that is not a constant of the shell must be escaped, as `paint` does.
    """

    __slots__ = ()


ERASE_LINE = StyledText("\r\x1b[2K")
"""Moves the cursor to the start of the line and erases the line."""


def paint(text: str, style: str, *, colour: bool) -> str:
    """Return a text in a style of rich, for example `bold` or `red`; unchanged without colour."""
    if not colour or not style:
        return text
    return StyledText(_parse_style(style).render(escape_controls(text)))


@lru_cache
def _parse_style(style: str) -> Style:
    # rich takes 0.02 s to import, which output without colour does not need.
    from rich.style import Style  # noqa: PLC0415

    return Style.parse(style)


class WrappedStream(io.TextIOBase):
    """Base of the streams that change what is written to a stream of the process."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()
