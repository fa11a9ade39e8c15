"""Rows of text files: CSV, tab-separated values and JSON.

CSV is that of RFC 4180. Tab-separated files are read as the shell writes them. A file of JSON has
one object in each line, or an array of objects.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TextIO

from headrace.cli.load.file_rows import (
    FileSource,
    Misfits,
    Numbered,
    Row,
    find_duplicate,
    refuse_duplicates,
)
from headrace.cli.output.text import Number
from headrace.errors import InvalidRequest
from headrace.text.readable import describe_count

_FIELD = re.compile(r'"([^"]*(?:""[^"]*)*)"|([^,"]*)')
_TSV_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_TSV_CHARACTERS = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}
_TSV_NULL = "\\N"
Record = tuple[int, list[str | None]]


class _NotWellFormedError(Exception):
    """A record cannot be split into fields; the text says why."""


def read_csv(source: FileSource, misfits: Misfits) -> Iterator[Numbered]:
    """Yield the rows of CSV with a header.

    An empty field is NULL, `""` is an empty string. The csv module cannot tell them apart before
    Python 3.12.
    """
    with io.TextIOWrapper(source.open(), encoding="utf-8-sig", newline="") as stream:
        yield from _name_fields(source, _read_csv_records(source, stream, misfits), misfits)


def read_tsv(source: FileSource, misfits: Misfits) -> Iterator[Numbered]:
    r"""Yield the rows of a tab-separated file with a header, in which `\N` is NULL."""
    with io.TextIOWrapper(source.open(), encoding="utf-8-sig", newline="\n") as stream:
        records = (
            (number, [_unescape(field) for field in line.rstrip("\r\n").split("\t")])
            for number, line in enumerate(stream, start=1)
        )
        yield from _name_fields(source, records, misfits)


def _unescape(field: str) -> str | None:
    if field == _TSV_NULL:
        return None
    if "\\" not in field:
        return field
    return _TSV_ESCAPE.sub(lambda match: _TSV_CHARACTERS.get(match[1], match[0]), field)


def _name_fields(
    source: FileSource, records: Iterator[Record], misfits: Misfits
) -> Iterator[Numbered]:
    """Yield the records as rows. The first one has the names of the columns."""
    header_line, header = next(records, (1, []))
    names = [name or "" for name in header]
    if not any(names):
        raise InvalidRequest(f"{source.path} has no header: its first line must name the columns.")
    if "" in names:
        raise InvalidRequest(
            f"{source.place(header_line)}: column {names.index('') + 1} has no name.",
            hint="name it; pandas writes no such column with to_csv(…, index=False)",
        )
    refuse_duplicates(source, header_line, names)
    for line, fields in records:
        if fields == [""] and len(names) > 1:
            continue  # an empty line
        if len(fields) != len(names):
            misfits.add(
                source.place(line),
                f"the row has {_count(fields)}, but the header has {_count(names)}",
            )
            continue
        yield line, dict(zip(names, fields, strict=True))


def _count(fields: Sequence[object]) -> str:
    return describe_count(len(fields), "field")


def _read_csv_records(source: FileSource, stream: TextIO, misfits: Misfits) -> Iterator[Record]:
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
        text = record.removesuffix("\n").removesuffix("\r")
        if not text and width != 1:
            continue  # an empty line is a row only in a file with one column
        try:
            fields = _split_csv(text)
        except _NotWellFormedError as error:
            misfits.add(source.place(first_line), str(error))
            continue
        width = width or len(fields)
        yield first_line, fields
    if lines:
        raise InvalidRequest(f"{source.place(first_line)}: a quoted field does not end.")


def _split_csv(text: str) -> list[str | None]:
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
            raise _NotWellFormedError(
                f"the quotes of field {len(fields)} do not enclose it "
                '(a field with quotes is written as "a ""b"" c")'
            )
        at += 1


class NotJsonError(Exception):
    """A text is not JSON that can be loaded; the message says why."""


def read_json(source: FileSource, misfits: Misfits) -> Iterator[Numbered]:
    """Yield the objects of JSON lines, or the items of one array, which are counted as lines."""
    with io.TextIOWrapper(source.open(), encoding="utf-8-sig", newline="\n") as stream:
        for number, value in _read_values(source, stream, misfits):
            if not isinstance(value, dict):
                misfits.add(source.place(number), "the value is not a JSON object")
            elif duplicate := find_duplicate(value):
                misfits.add(source.place(number), f"the row {duplicate}")
            else:
                yield number, value


def _read_values(source: FileSource, stream: TextIO, misfits: Misfits) -> Iterator[tuple[int, Any]]:
    begin, first = stream.readline(), 1
    while begin and not begin.strip():
        begin, first = stream.readline(), first + 1
    if begin.lstrip().startswith("["):
        try:
            items = parse_json(begin + stream.read())
        except NotJsonError as error:
            raise InvalidRequest(f"{source.path}: {error}.") from None
        yield from enumerate(items, start=1)
        return
    for number, line in enumerate(chain([begin], stream), start=first):
        if not line.strip():
            continue
        try:
            yield number, parse_json(line)
        except NotJsonError as error:
            misfits.add(source.place(number), str(error))


def parse_json(text: str) -> Any:
    """Return the value of a JSON text. Numbers keep their digits.

    Raises NotJsonError for other texts, and for an object with two equal names: the json module
    would drop the first of their values.
    """
    try:
        return json.loads(
            text,
            parse_float=Number,
            parse_int=Number,
            parse_constant=Number,
            object_pairs_hook=_make_object,
        )
    except (ValueError, RecursionError):
        raise NotJsonError("the text is not JSON") from None


def _make_object(pairs: list[tuple[str, Any]]) -> Row:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        name = counts.most_common(1)[0][0]
        raise NotJsonError(f"an object has the name {name!r} more than once")
    return value
