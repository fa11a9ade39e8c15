"""Single values as text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

NULL = "NULL"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Number(str):
    """A JSON number as it was written: 1.10 stays 1.10."""

    __slots__ = ()


def as_json(value: Any) -> str:
    """A value of the API's as JSON, numbers as they were written."""
    return _AS_JSON.get(type(value), str)(value)


def _list_as_json(value: list[Any]) -> str:
    return "[" + ", ".join(map(as_json, value)) + "]"


def _dict_as_json(value: dict[str, Any]) -> str:
    members = (f"{encode_basestring(key)}: {as_json(each)}" for key, each in value.items())
    return "{" + ", ".join(members) + "}"


_AS_JSON: dict[type, Callable[[Any], str]] = {
    str: encode_basestring,
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    list: _list_as_json,
    dict: _dict_as_json,
}


def plain(value: Any) -> str:
    """A value that is not NULL, unescaped; what is nested as JSON."""
    if isinstance(value, str):
        return value
    return as_json(value)


def shown(value: Any) -> str:
    """A value as a terminal may show it on one line: control characters become escapes."""
    if value is None:
        return NULL
    text = plain(value)
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable() or unicodedata.category(char) in {"Zs", "Co", "Cn"}:
        return char
    return char.encode("unicode_escape").decode("ascii")


def is_number(type_name: str) -> bool:
    """Whether a Spark SQL type is read best when aligned to the right."""
    return type_name.partition("(")[0] in _NUMBERS


def width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """A text filled with spaces to that many terminal columns; a longer one stays whole."""
    space = " " * (columns - width(text))
    return space + text if right else text + space
