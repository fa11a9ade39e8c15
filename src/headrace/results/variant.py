"""Variant values as JSON text, from the binary form that Spark and Parquet share.

The form is defined in github.com/apache/parquet-format, VariantEncoding.md. `metadata` is a
dictionary of the keys of objects, and `value` is a tree of tagged values. Numbers become JSON
numbers, decimals with all their digits. Values of types that JSON lacks become strings; dates and
times are written as in `headrace.model.instants`.

A driver has written the bytes, and users' code runs in the driver. No byte belongs to two values,
so that a few bytes cannot describe a huge tree. Depth and size of the text are bounded.
"""

from __future__ import annotations

import base64
import json
import struct
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from headrace.errors import InvalidResult
from headrace.model.instants import format_date, format_instant, format_time

MAX_DEPTH = 1000
"""Largest number of arrays and objects around a value.

Jackson, with which Spark parses JSON, has the same limit.
"""
_OBJECT, _ARRAY, _SHORT_STRING = 2, 3, 1
_MAX_SCALE = 38
"""Largest scale of a decimal in a variant of Spark."""


def variant_to_json(value: bytes, metadata: bytes, limit: int) -> str:
    """Return a variant as JSON text.

    Raises InvalidResult if the bytes are not a variant, or if the text has more than `limit`
    characters. Keys are text as often as objects have them, but bytes of a variant only once.
    """
    try:
        return _VariantReader(value, metadata).to_json(limit)
    except (IndexError, struct.error, KeyError, UnicodeDecodeError) as error:
        raise InvalidResult(f"Cannot read a variant of the result: {error}") from error


class _Extent(NamedTuple):
    """The bytes of a value and its children."""

    start: int
    end: int


class _VariantReader:
    """Reads values of a variant at byte positions of its `value`."""

    def __init__(self, value: bytes, metadata: bytes) -> None:
        self._value = value
        self._metadata = metadata

    def to_json(self, limit: int) -> str:
        """Return the whole value, without recursion, whose depth Python bounds."""
        texts, size = list[str](), 0
        open_values: list[Iterator[str | _Extent]] = [iter([_Extent(0, len(self._value))])]
        while open_values:
            item = next(open_values[-1], None)
            if item is None:
                open_values.pop()
            elif isinstance(item, _Extent):
                if len(open_values) - 1 > MAX_DEPTH:
                    raise IndexError(f"it has more than {MAX_DEPTH} levels")
                open_values.append(self._read_value(item))
            else:
                texts.append(item)
                size += len(item)
                if size > limit:
                    raise IndexError(f"it has more than {limit} characters as JSON")
        return "".join(texts)

    def read_integer(self, at: int, size: int, *, signed: bool = True) -> int:
        return int.from_bytes(self.read_bytes(at, size), "little", signed=signed)

    def read_float(self, format_: str, at: int) -> float:
        number: float = struct.unpack_from(format_, self._value, at)[0]
        return number

    def read_bytes(self, at: int, size: int) -> bytes:
        content = self._value[at : at + size]
        if len(content) != size:
            raise IndexError("its bytes are truncated")
        return content

    def read_sized_bytes(self, at: int) -> bytes:
        """Return the bytes that follow their length, a 32-bit integer."""
        return self.read_bytes(at + 4, self.read_integer(at, 4, signed=False))

    def _read_value(self, extent: _Extent) -> Iterator[str | _Extent]:
        """Yield the text of a value, with the extents of its children in their places."""
        at = extent.start
        tag = self.read_integer(at, 1, signed=False)
        basic, info = tag & 3, tag >> 2
        if basic == _OBJECT:
            return self._read_object(at + 1, info, extent.end)
        if basic == _ARRAY:
            return self._read_array(at + 1, info, extent.end)
        # A string may end anywhere: read it from the bytes of this value alone.
        own = _VariantReader(self._value[at : extent.end], b"")
        read = _PRIMITIVE_READERS[info] if basic != _SHORT_STRING else _short_string_reader(info)
        return iter([read(own, 1)])

    def _read_array(self, at: int, info: int, end: int) -> Iterator[str | _Extent]:
        width = (info & 3) + 1
        at, count = self._read_count(at, large=bool(info >> 2 & 1))
        positions = self._read_positions(at, count, width, end)
        start, separator = next(positions), "["
        for following in positions:
            if start >= following:
                raise IndexError("the values of an array overlap")
            yield separator
            yield _Extent(start, following)
            start, separator = following, ","
        yield "]" if count else "[]"

    def _read_object(self, at: int, info: int, end: int) -> Iterator[str | _Extent]:
        width, id_width = (info & 3) + 1, (info >> 2 & 3) + 1
        at, count = self._read_count(at, large=bool(info >> 4 & 1))
        positions = list(self._read_positions(at + id_width * count, count, width, end))
        # The keys are sorted by name, but the values may have any order.
        ordered = sorted(positions)
        if (
            any(first == second for first, second in pairwise(ordered))
            or ordered[-1] > positions[-1]
        ):
            raise IndexError("the values of an object overlap")
        separator = "{"
        for number, start in enumerate(positions[:-1]):
            key = self.read_integer(at + id_width * number, id_width, signed=False)
            yield f"{separator}{self._read_key(key)}:"
            yield _Extent(start, ordered[bisect_right(ordered, start)])
            separator = ","
        yield "}" if count else "{}"

    def _read_count(self, at: int, *, large: bool) -> tuple[int, int]:
        """Return the position after the count, and the number of elements or pairs."""
        size = 4 if large else 1
        return at + size, self.read_integer(at, size, signed=False)

    def _read_positions(self, at: int, count: int, width: int, end: int) -> Iterator[int]:
        """Yield the positions of the values of an array or object, then the end of all values.

        The offsets at `at` are relative to the first byte after the offsets. `end` is the end of
        the array or object.
        """
        start = at + (count + 1) * width
        if start > end:
            raise IndexError("its bytes are truncated")
        for offset in range(at, start, width):
            position = start + self.read_integer(offset, width, signed=False)
            if position > end:
                raise IndexError("a value is outside of its array or object")
            yield position

    def _read_key(self, number: int) -> str:
        """Return a key of the metadata as a JSON string."""
        metadata = self._metadata
        width = (metadata[0] >> 6) + 1
        count = int.from_bytes(metadata[1 : 1 + width], "little")
        if number >= count:
            raise IndexError(f"its metadata has no key {number}")

        def read_offset(index: int) -> int:
            at = 1 + width * (1 + index)
            return int.from_bytes(metadata[at : at + width], "little")

        first = 1 + width * (2 + count)
        start, end = first + read_offset(number), first + read_offset(number + 1)
        return _quote(metadata[start:end].decode())


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _float_to_json(number: float) -> str:
    # Python writes NaN, Infinity and -Infinity, which are strings in the other columns too.
    text = json.dumps(number)
    return text if text[-1].isdigit() else _quote(text)


def _shorten_float(number: float) -> float:
    """Return the double with the fewest digits for a 32-bit float: 0.1, not 0.10000000149011612."""
    return float(pa.scalar(number, pa.float32()).cast(pa.string()).as_py())


_Reader = Callable[[_VariantReader, int], str]
"""Returns the JSON text of a primitive whose content begins at a position."""


def _decimal_reader(size: int) -> _Reader:
    def read_decimal(variant: _VariantReader, at: int) -> str:
        scale = variant.read_integer(at, 1, signed=False)
        if scale > _MAX_SCALE:
            raise IndexError(f"it has a decimal of scale {scale}")
        unscaled = variant.read_integer(at + 1, size)
        # Built from digits, because decimal arithmetic rounds to the precision of the context.
        number = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
        return format(number, "f")

    return read_decimal


def _short_string_reader(size: int) -> _Reader:
    return lambda variant, at: _quote(variant.read_bytes(at, size).decode())


def _integer_reader(size: int) -> _Reader:
    return lambda variant, at: str(variant.read_integer(at, size))


def _instant_reader(per_second: int, zone: str) -> _Reader:
    return lambda variant, at: _quote(
        format_instant(variant.read_integer(at, 8), per_second) + zone
    )


_PRIMITIVE_READERS: dict[int, _Reader] = {
    0: lambda _variant, _at: "null",
    1: lambda _variant, _at: "true",
    2: lambda _variant, _at: "false",
    3: _integer_reader(1),
    4: _integer_reader(2),
    5: _integer_reader(4),
    6: _integer_reader(8),
    7: lambda variant, at: _float_to_json(variant.read_float("<d", at)),
    8: _decimal_reader(4),
    9: _decimal_reader(8),
    10: _decimal_reader(16),
    11: lambda variant, at: _quote(format_date(variant.read_integer(at, 4))),
    12: _instant_reader(1_000_000, "Z"),
    13: _instant_reader(1_000_000, ""),
    14: lambda variant, at: _float_to_json(_shorten_float(variant.read_float("<f", at))),
    15: lambda variant, at: _quote(base64.b64encode(variant.read_sized_bytes(at)).decode()),
    16: lambda variant, at: _quote(variant.read_sized_bytes(at).decode()),
    17: lambda variant, at: _quote(format_time(variant.read_integer(at, 8))),
    18: _instant_reader(1_000_000_000, "Z"),
    19: _instant_reader(1_000_000_000, ""),
    20: lambda variant, at: _quote(str(uuid.UUID(bytes=variant.read_bytes(at, 16)))),
}
