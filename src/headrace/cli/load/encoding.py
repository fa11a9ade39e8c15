"""Values of files as the JSON that the statement of a load parses.

Every value that is not nested is a text or null, so that Spark's own CAST decides what it means. A
map is an object, and a struct an object of `f0`, `f1` …, so that no name matters.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from headrace.cli.load.file_rows import Misfits, Row, column_key
from headrace.cli.load.formats import LoadFile
from headrace.cli.load.statements import LoadColumn
from headrace.cli.load.text_rows import NotJsonError, parse_json
from headrace.cli.output.text import to_json
from headrace.errors import InvalidRequest
from headrace.grammar.data_types import DataType

_TEXTS = frozenset({"string", "char", "varchar", "binary", "variant"})
"""Types with an empty value, and those for which an empty text is not NULL."""
_HEX_ESCAPE = re.compile(rb"\\x([0-9A-Fa-f]{2})")


class ValueMisfit(Exception):
    """A value does not fit its type; the message says why."""


def encode_value(value: Any, type_: DataType, *, is_text: bool) -> Any:
    """Return a value of a column as a part of the JSON of its row.

    Args:
        is_text: Whether nested values and variants are texts of JSON, as in CSV.

    Raises:
        ValueMisfit: The value cannot have the type.
    """
    if value is None:
        return None
    if type_.base == "variant":
        return _encode_variant(value, is_text=is_text)
    if type_.is_nested and isinstance(value, str):
        value = _parse(value)
    return _encode(value, type_)


def _parse(text: str) -> Any:
    try:
        return parse_json(text)
    except NotJsonError as error:
        raise ValueMisfit(str(error)) from None


def _encode(value: Any, type_: DataType) -> Any:
    if value is None:
        return None
    if type_.name == "array":
        if not isinstance(value, list):
            raise ValueMisfit(f"{_shorten(value)} is not a list")
        return [_encode(item, type_.children[0]) for item in value]
    if type_.name == "map":
        return _encode_map(value, type_)
    if type_.name == "struct":
        return _encode_struct(value, type_)
    return _encode_plain(value, type_)


def _encode_map(value: Any, type_: DataType) -> dict[str, Any]:
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 for pair in value
    ):
        pairs = [(key, item) for key, item in value]
    else:
        raise ValueMisfit(f"{_shorten(value)} is neither an object nor a list of [key, value]")
    key_type, item_type = type_.children
    if key_type.is_nested:
        raise ValueMisfit(f"keys of the type {key_type.sql} cannot be loaded")
    encoded = {}
    for key, item in pairs:
        text = _encode_plain(key, key_type)
        if text is None or text in encoded:
            raise ValueMisfit(
                "a key of the map is NULL" if text is None else f"the key {text!r} repeats"
            )
        encoded[text] = _encode(item, item_type)
    return encoded


def _encode_struct(value: Any, type_: DataType) -> dict[str, Any]:
    if isinstance(value, dict):
        members = _match_names(value, type_)
    elif isinstance(value, list) and [_name_of(pair) for pair in value] == list(type_.fields):
        members = [pair[1] for pair in value]  # the form of the API if names repeat
    else:
        raise ValueMisfit(f"{_shorten(value)} is not an object")
    return {
        f"f{index}": _encode(member, child)
        for index, (member, child) in enumerate(zip(members, type_.children, strict=True))
    }


def _name_of(pair: Any) -> Any:
    return pair[0] if isinstance(pair, list) and len(pair) == 2 else None


def _match_names(value: dict[str, Any], type_: DataType) -> list[Any]:
    """Return the members of an object in the order of the fields. A missing one is None."""
    if all(name in type_.fields for name in value):
        return [value.get(name) for name in type_.fields]
    by_key = {name.lower(): member for name, member in value.items()}
    unknown = set(by_key) - {name.lower() for name in type_.fields}
    if unknown:
        name = next(name for name in value if name.lower() in unknown)
        raise ValueMisfit(f"the struct has no field {name!r}")
    return [by_key.get(name.lower()) for name in type_.fields]


def _encode_plain(value: Any, type_: DataType) -> str | None:
    """Return the text of a value that is not nested."""
    if type_.base == "variant":
        return to_json(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        if type_.base.startswith("string"):
            return to_json(value)
        raise ValueMisfit(f"{_shorten(value)} is not {type_.name}")
    if value is None or (not value and type_.base.partition(" ")[0] not in _TEXTS):
        return None
    return _encode_binary(value) if type_.base == "binary" else str(value)


def _encode_variant(value: Any, *, is_text: bool) -> str:
    if is_text:
        _parse(value)
        return str(value)
    return to_json(value)


def _encode_binary(text: str) -> str:
    r"""Return base64. A text with `\x00`, as DuckDB and PostgreSQL write bytes, is converted."""
    if "\\x" in text:
        content = _HEX_ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode())
        return base64.b64encode(content).decode()
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueMisfit(f"{_shorten(text)} is not base64") from None
    return text


def _shorten(value: Any) -> str:
    text = repr(value if isinstance(value, str) else to_json(value))
    return text if len(text) <= 40 else f"{text[:39]}…"


class EncodedRows:
    """The lines of one load."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        """Number of rows."""
        self.size = 0
        """Size of the lines in bytes."""
        self._columns: dict[str, LoadColumn] = {}
        self._used: set[str] = set()

    def write(
        self,
        files: Sequence[LoadFile],
        columns: Sequence[LoadColumn],
        table: str,
        misfits: Misfits,
    ) -> list[LoadColumn]:
        """Write the rows of the files. Return the columns that a file has.

        A column that a row does not name is NULL in this row. Rows that do not fit go to the
        misfits.

        Raises:
            InvalidRequest: A file cannot be read, or names a column that the table does not have.
        """
        self._columns = {column_key(column.name): column for column in columns}
        with self.path.open("w", encoding="utf-8", newline="\n") as stream:
            for index, file in enumerate(files):
                for line, row in file.rows(misfits):
                    self._write_row(stream, file, index, line, row, table, misfits)
        self.size = self.path.stat().st_size
        return [column for column in columns if column.field in self._used]

    def _write_row(
        self,
        stream: TextIO,
        file: LoadFile,
        index: int,
        line: int,
        row: Row,
        table: str,
        misfits: Misfits,
    ) -> None:
        place = file.source.place(line)
        if not row:
            misfits.add(place, "the row has no columns")
            return
        values: dict[str, Any] = {"f": index, "n": line}
        for name, value in row.items():
            column = self._columns.get(column_key(name))
            if column is None:
                raise self._unknown_column(place, name, table)
            self._used.add(column.field)
            try:
                values[column.field] = encode_value(value, column.type, is_text=file.is_text)
            except ValueMisfit as error:
                misfits.add(place, f"column {name}: {error}")
                return
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        try:
            stream.write(text + "\n")
        except UnicodeEncodeError:
            misfits.add(place, "a text has half of a surrogate pair, which is no character")
            return
        self.count += 1

    def _unknown_column(self, place: str, name: str, table: str) -> InvalidRequest:
        names = [column.name for column in self._columns.values()]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"its columns: {', '.join(names)}"
        return InvalidRequest(f"{place} has the column {name!r}, but {table} has not.", hint=hint)

    def text(self) -> str:
        """Return all lines."""
        return self.path.read_text(encoding="utf-8").removesuffix("\n")

    def batches(self, max_bytes: int, max_rows: int) -> Iterator[str]:
        """Yield the lines in parts of about this size."""
        lines: list[str] = []
        size = 0
        with self.path.open(encoding="utf-8", newline="\n") as stream:
            for line in stream:
                lines.append(line)
                size += len(line.encode())
                if size >= max_bytes or len(lines) >= max_rows:
                    yield "".join(lines).removesuffix("\n")
                    lines, size = [], 0
        if lines:
            yield "".join(lines).removesuffix("\n")
