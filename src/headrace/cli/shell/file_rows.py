"""Rows of local CSV and JSON files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from headrace.cli.output.text import Number
from headrace.errors import InvalidRequest

FileRow = dict[str, Any]
"""Values of a row by the column names in the file."""
_FIELD = re.compile(r'"([^"]*(?:""[^"]*)*)"|([^,"]*)')
_RENAME = "rename or remove one of them"
_CSV = frozenset({".csv"})
_JSON = frozenset({".json", ".jsonl", ".ndjson"})


def read_rows(file: Path) -> Iterator[tuple[int, FileRow]]:
    """Yield the rows of a file with their lines, counted from 1.

    Raises:
        InvalidRequest: The file cannot be read, its name has another end, or a line is not valid.
    """
    suffix = file.suffix.lower()
    if suffix not in _CSV | _JSON:
        raise InvalidRequest(
            f"The end of {str(file)!r} does not name a format that can be loaded.",
            hint=f"choose one of {', '.join(sorted(_CSV | _JSON))}",
        )
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            yield from _read_csv(file, stream) if suffix in _CSV else _read_json(file, stream)
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise InvalidRequest(f"{file} is not valid UTF-8.") from None


def _read_csv(file: Path, stream: TextIO) -> Iterator[tuple[int, FileRow]]:
    """Yield the rows of CSV with a header, as RFC 4180 defines it.

    An empty field is NULL, `""` is an empty string. The csv module cannot tell them apart before
    Python 3.12.
    """
    records = _read_records(file, stream)
    header_line, header = next(records, (1, []))
    names = [name or "" for name in header]
    if not any(names):
        raise InvalidRequest(f"{file} has no header: its first line must name the columns.")
    _refuse_duplicates(file, header_line, names)
    for line, fields in records:
        if len(fields) != len(names):
            raise InvalidRequest(
                f"{file}:{line} has {len(fields)} fields, but the header has {len(names)}."
            )
        yield line, dict(zip(names, fields, strict=True))


def _refuse_duplicates(file: Path, line: int, names: Iterable[str]) -> None:
    """Raise InvalidRequest if two names of a row stand for the same column."""
    earlier: dict[str, str] = {}
    for name in names:
        key = column_key(name)
        if key in earlier:
            other = earlier[key]
            also = "" if other == name else f" (as {other!r} and {name!r})"
            raise InvalidRequest(
                f"{file}:{line} has the column {name.strip()!r} more than once{also}.",
                hint=_RENAME,
            )
        earlier[key] = name


def column_key(name: str) -> str:
    """Return what the names of a column in a file and in its table have in common."""
    return name.strip().lower()


def _read_records(file: Path, stream: TextIO) -> Iterator[tuple[int, list[str | None]]]:
    """Yield the fields of each record. A quoted field may hold line ends."""
    lines: list[str] = []
    first_line, width, is_quoted = 1, 0, False
    for number, line in enumerate(stream, start=1):
        if not lines:
            first_line = number
        lines.append(line)
        is_quoted ^= line.count('"') % 2 == 1
        if is_quoted:
            continue
        record = "".join(lines)
        lines.clear()
        text = record.rstrip("\r\n") if not record.endswith('"') else record
        if not text and width != 1:
            continue  # an empty line is a row only in a file with one column
        fields = _split_record(file, first_line, text)
        width = width or len(fields)
        yield first_line, fields
    if lines:
        raise InvalidRequest(f"{file}:{first_line}: a quoted field does not end.")


def _split_record(file: Path, line: int, text: str) -> list[str | None]:
    fields: list[str | None] = []
    at = 0
    while True:
        match = _FIELD.match(text, at)
        assert match is not None
        quoted, plain = match.groups()
        fields.append(quoted.replace('""', '"') if quoted is not None else plain or None)
        at = match.end()
        if at == len(text):
            return fields
        if text[at] != ",":
            raise InvalidRequest(
                f"{file}:{line}: the quotes of field {len(fields)} do not enclose it.",
                hint='write a field with quotes as "a ""b"" c"',
            )
        at += 1


def _read_json(file: Path, stream: TextIO) -> Iterator[tuple[int, FileRow]]:
    """Yield the objects of JSON lines, or the items of one array, which are counted as lines."""
    begin = stream.readline()
    if begin.lstrip().startswith("["):
        items = _parse_json(begin + stream.read(), str(file))
        if not isinstance(items, list):
            raise InvalidRequest(f"{file} is not a JSON array.")
        values: Iterator[tuple[int, Any]] = enumerate(items, start=1)
    else:
        lines = enumerate(chain([begin], stream), start=1)
        values = (
            (number, _parse_json(line, f"{file}:{number}"))
            for number, line in lines
            if line.strip()
        )
    for number, value in values:
        if not isinstance(value, dict):
            raise InvalidRequest(f"{file}:{number} is not a JSON object.")
        _refuse_duplicates(file, number, value)
        yield number, value


def _parse_json(text: str, place: str) -> Any:
    """Return the value of a JSON text; None if it is not valid. Numbers keep their digits.

    Raises InvalidRequest if an object has a name twice, of which the json module drops the first.
    """

    def make_object(pairs: list[tuple[str, Any]]) -> FileRow:
        value = dict(pairs)
        if len(value) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            name = counts.most_common(1)[0][0]
            raise InvalidRequest(f"{place} has the column {name!r} more than once.", hint=_RENAME)
        return value

    try:
        return json.loads(text, parse_float=Number, parse_int=Number, object_pairs_hook=make_object)
    except (ValueError, RecursionError):
        return None
