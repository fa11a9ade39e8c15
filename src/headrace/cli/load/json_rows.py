"""Rows of JSON: one object in each line, or an array of objects."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any, TextIO

from headrace.cli.load.file_rows import FileSource, Misfits, Numbered, Row, find_duplicate
from headrace.cli.output.text import Number
from headrace.errors import InvalidRequest


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
