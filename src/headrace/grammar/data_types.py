"""Spark SQL data types as trees, from texts such as `array<struct<a:int,b:binary>>`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.grammar.quoting import quote_name

_NESTED = re.compile(r"(array|map|struct)\s*<\s*", re.IGNORECASE)
_FIELD_NAME = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^`:,<>\s][^:,<>]*?))\s*:\s*")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class DataType:
    """A type. An array has one child, a map has two, and a struct has one for each field."""

    name: str
    """`array`, `map`, `struct`, or the text of another type, for example `decimal(10,2)`."""
    children: tuple[DataType, ...] = ()
    fields: tuple[str, ...] = ()
    """Names of the fields of a struct."""

    @property
    def is_nested(self) -> bool:
        return self.name in {"array", "map", "struct"}

    @property
    def base(self) -> str:
        """The name without parameters, for example `decimal`."""
        return self.name.partition("(")[0].strip()

    @property
    def sql(self) -> str:
        """The type as it can stand in a statement."""
        if not self.is_nested:
            return self.name
        children = [child.sql for child in self.children]
        if self.name == "struct":
            names = (
                name if _PLAIN_NAME.fullmatch(name) else quote_name(name) for name in self.fields
            )
            children = [f"{name}:{child}" for name, child in zip(names, children, strict=True)]
        return f"{self.name}<{','.join(children)}>"

    def contains(self, *bases: str) -> bool:
        """Return whether the type, or a type within it, is one of these without parameters."""
        return self.base in bases or any(child.contains(*bases) for child in self.children)


def parse_data_type(text: str) -> DataType:
    """Return the tree of a type. A text that is not well formed is one type without children."""
    try:
        parsed, end = _parse(text, 0)
    except ValueError:
        return DataType(text)
    return parsed if end == len(text) else DataType(text)


def _parse(text: str, at: int) -> tuple[DataType, int]:
    """Return the type that begins at an offset, and the offset behind it. Raises ValueError."""
    match = _NESTED.match(text, at)
    if match is None:
        return _parse_plain(text, at)
    name, at = match[1].lower(), match.end()
    children: list[DataType] = []
    fields: list[str] = []
    while not (name == "struct" and not children and text.startswith(">", at)):
        if name == "struct":
            field = _FIELD_NAME.match(text, at)
            if field is None:
                raise ValueError
            fields.append(field[2] if field[1] is None else field[1].replace("``", "`"))
            at = field.end()
        child, at = _parse(text, at)
        children.append(child)
        if not text.startswith(",", at):
            break
        at += 1
    sizes = {"array": 1, "map": 2}
    if not text.startswith(">", at) or sizes.get(name, len(children)) != len(children):
        raise ValueError
    return DataType(name, tuple(children), tuple(fields)), at + 1


def _parse_plain(text: str, at: int) -> tuple[DataType, int]:
    depth, end = 0, at
    while end < len(text) and (depth or text[end] not in ",>"):
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    name = text[at:end].strip()
    if not name or depth:
        raise ValueError
    return DataType(name), end
