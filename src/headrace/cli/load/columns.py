"""The columns of the table of a load: those that it has, or those that files make.

The types of the columns of a new table come from the files, or from the values in them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum, auto
from typing import Any

from headrace.cli.load.file_rows import Misfits, column_key
from headrace.cli.load.formats import LoadFile
from headrace.cli.load.statements import LoadColumn
from headrace.cli.output.text import Number
from headrace.cli.support.follow import fetch_rows, run_query
from headrace.client.http import Client
from headrace.errors import InvalidRequest, TableNotFound
from headrace.grammar.data_types import DataType, parse_data_type

_LENGTH = re.compile(r"(?:var)?char\((\d+)\)", re.IGNORECASE)


def find_columns(client: Client, session: str | None, table: str) -> list[LoadColumn] | None:
    """Return the columns of a table; None if it does not exist.

    DESCRIBE would not do: it shortens the types of wide structs. Raises StatementFailed.
    """
    try:
        statement = run_query(client, session, f"SELECT * FROM {table} LIMIT 0")  # noqa: S608
    except TableNotFound:
        return None
    schema = (statement["result"] or {}).get("schema") or []
    types = {column["name"]: parse_data_type(column["type"]) for column in schema}
    return _number(types)


def find_lengths(client: Client, session: str | None, table: str) -> dict[str, int]:
    """Return the largest number of characters of the columns that have one.

    Raises StatementFailed.
    """
    lengths = {}
    for name, type_, *_ in fetch_rows(client, session, f"DESCRIBE TABLE {table}"):
        if not name or name.startswith("#"):
            break
        if match := _LENGTH.fullmatch(type_ or ""):
            lengths[name] = int(match[1])
    return lengths


def infer_columns(files: Sequence[LoadFile]) -> list[LoadColumn]:
    """Return the columns of a new table: the types that the files declare, or that fit all values.

    Raises:
        InvalidRequest: A file cannot be read, or the types are not known: the files have no rows,
            or contradict each other.
    """
    declared: dict[str, DataType] = {}
    guesses: dict[str, TypeGuess] = {}
    names: dict[str, str] = {}
    for file in files:
        types = file.types()
        if types is not None:
            _add_declared(file, types, declared)
            names |= {column_key(name): name.strip() for name in types}
            continue
        for _, row in file.rows(Misfits()):
            for name, value in row.items():
                key = column_key(name)
                names.setdefault(key, name.strip())
                if key not in guesses:
                    guesses[key] = TypeGuess(is_text=file.is_text)
                guesses[key].add(value)
    if not names:
        raise InvalidRequest(
            "The files contain no rows, so that the types of a new table are not known.",
            hint="create the table first",
        )
    return _number(
        {name: declared.get(key) or guesses[key].result() for key, name in names.items()}
    )


def _add_declared(
    file: LoadFile, types: dict[str, DataType], declared: dict[str, DataType]
) -> None:
    for name, type_ in types.items():
        other = declared.setdefault(column_key(name), type_)
        if other != type_:
            raise InvalidRequest(
                f"{file.source.path}: column {name!r} is {type_.sql}, but {other.sql} in the files "
                "before it.",
                hint="create the table first, with types that hold both",
            )


def _number(types: dict[str, DataType]) -> list[LoadColumn]:
    return [
        LoadColumn(f"c{index}", name, type_) for index, (name, type_) in enumerate(types.items())
    ]


STRING = DataType("string")
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*)?\.[0-9]+|-?(?:0|[1-9][0-9]*)\.")
_EXPONENT = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+")
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity", "inf", "-inf"})
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(Z|[+-]\d{2}(?::?\d{2})?)?"
)
_MAX_LONG = 2**63
_MAX_PRECISION = 38


class _Kind(Enum):
    BOOLEAN = auto()
    WHOLE = auto()
    FRACTION = auto()
    """A number whose digits a decimal holds."""
    EXPONENT = auto()
    NOT_FINITE = auto()
    DATE = auto()
    TIMESTAMP = auto()
    LOCAL_TIMESTAMP = auto()
    TEXT = auto()
    LIST = auto()
    OBJECT = auto()


_NUMBERS = {_Kind.WHOLE, _Kind.FRACTION, _Kind.EXPONENT}
_TYPES = {
    _Kind.BOOLEAN: "boolean",
    _Kind.DATE: "date",
    _Kind.TIMESTAMP: "timestamp",
    _Kind.LOCAL_TIMESTAMP: "timestamp_ntz",
}
"""Types of columns whose values are all of one kind."""


class TypeGuess:
    """The type that holds every value that was added, without a loss."""

    def __init__(self, *, is_text: bool) -> None:
        """Begin without values. `is_text`: numbers and booleans are texts, as in CSV."""
        self._is_text = is_text
        self._kinds: set[_Kind] = set()
        self._whole_digits = 1
        self._scale = 0
        self._fits_long = self._fits_double = True
        self._items: TypeGuess | None = None
        self._fields: dict[str, TypeGuess] = {}

    def add(self, value: Any) -> None:
        """Add a value of the column. NULL fits every type."""
        if value is None:
            return
        kind = self._kind(value)
        self._kinds.add(kind)
        if kind in {_Kind.WHOLE, _Kind.FRACTION}:
            self._add_number(value)
        elif kind is _Kind.LIST:
            self._add_items(value)
        elif kind is _Kind.OBJECT:
            self._add_members(value)

    def _add_items(self, items: list[Any]) -> None:
        self._items = self._items or TypeGuess(is_text=False)
        for item in items:
            self._items.add(item)

    def _add_members(self, members: dict[str, Any]) -> None:
        for name, member in members.items():
            if name not in self._fields:
                self._fields[name] = TypeGuess(is_text=False)
            self._fields[name].add(member)

    def result(self) -> DataType:
        """Return the type. A column without values, or with several kinds, is a string."""
        if self._kinds == {_Kind.LIST} and self._items is not None:
            return DataType("array", (self._items.result(),))
        if self._kinds == {_Kind.OBJECT} and self._fields:
            children = tuple(guess.result() for guess in self._fields.values())
            return DataType("struct", children, tuple(self._fields))
        if len(self._kinds) == 1 and (name := _TYPES.get(next(iter(self._kinds)))):
            return DataType(name)
        if self._kinds & _NUMBERS and self._kinds <= _NUMBERS | {_Kind.NOT_FINITE}:
            return self._number_type()
        return STRING

    def _number_type(self) -> DataType:
        if self._kinds == {_Kind.WHOLE} and self._fits_long:
            return DataType("bigint")
        has_digits_only = self._kinds <= {_Kind.WHOLE, _Kind.FRACTION}
        if self._fits_double and self._kinds != {_Kind.WHOLE}:
            return DataType("double")
        precision = self._whole_digits + self._scale
        if has_digits_only and precision <= _MAX_PRECISION:
            return DataType(f"decimal({precision},{self._scale})")
        return STRING if has_digits_only else DataType("double")

    def _add_number(self, text: str) -> None:
        whole, _, fraction = text.removeprefix("-").partition(".")
        self._whole_digits = max(self._whole_digits, len(whole))
        self._scale = max(self._scale, len(fraction))
        if len(whole) + len(fraction) > 15:
            exact = Decimal(text)
            self._fits_long &= not fraction and -_MAX_LONG <= exact < _MAX_LONG
            self._fits_double &= Decimal(repr(float(text))) == exact

    def _kind(self, value: Any) -> _Kind:
        if isinstance(value, bool):
            return _Kind.BOOLEAN
        if isinstance(value, list):
            return _Kind.LIST
        if isinstance(value, dict):
            return _Kind.OBJECT
        if self._is_text or isinstance(value, Number):
            number = _number_kind(value)
            if number is not None:
                return number
            if self._is_text and value.lower() in {"true", "false"}:
                return _Kind.BOOLEAN
        return _text_kind(value)


def _number_kind(text: str) -> _Kind | None:
    if _WHOLE.fullmatch(text):
        return _Kind.WHOLE
    if _FRACTION.fullmatch(text):
        return _Kind.FRACTION
    if _EXPONENT.fullmatch(text):
        return _Kind.EXPONENT
    return _Kind.NOT_FINITE if text in _NOT_FINITE else None


def _text_kind(text: str) -> _Kind:
    """Return the kind of a text that is no number. Dates that do not exist are texts."""
    if not text[:4].isdigit():
        return _Kind.TEXT
    match = _TIMESTAMP.fullmatch(text)
    if match is None and not _DATE.fullmatch(text):
        return _Kind.TEXT
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return _Kind.TEXT
    if match is None:
        return _Kind.DATE
    return _Kind.TIMESTAMP if match[1] else _Kind.LOCAL_TIMESTAMP
