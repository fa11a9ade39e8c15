"""Variant values as JSON, from the binary form that Spark and Parquet share.

The form: github.com/apache/parquet-format, VariantEncoding.md. `metadata` is a dictionary of the
keys of objects; `value` is a tree of tagged values. Numbers stay numbers, decimals with all their
digits; what JSON has no word for is a string, written as in `headrace.results.instants`.
"""

from __future__ import annotations

import base64
import json
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from headrace.errors import ResultsUnavailable
from headrace.results.instants import date_text, instant_text, time_text

_OBJECT, _ARRAY, _SHORT_STRING = 2, 3, 1


def variant_json(value: bytes, metadata: bytes) -> str:
    """The JSON text of a variant. Raises ResultsUnavailable when the bytes are not a variant."""
    try:
        return _Variant(value, metadata).text(0)
    except (IndexError, struct.error, KeyError, UnicodeDecodeError) as error:
        raise ResultsUnavailable(f"a variant's bytes cannot be read: {error}") from error


class _Variant:
    def __init__(self, value: bytes, metadata: bytes) -> None:
        self._value = value
        self._metadata = metadata

    def text(self, at: int) -> str:
        tag = self._value[at]
        basic, info = tag & 3, tag >> 2
        if basic == _SHORT_STRING:
            return self._string(at + 1, info)
        if basic == _OBJECT:
            return self._object(at + 1, info)
        if basic == _ARRAY:
            return self._array(at + 1, info)
        return _PRIMITIVES[info](self, at + 1)

    def number(self, at: int, size: int, *, signed: bool = True) -> int:
        content = self._value[at : at + size]
        if len(content) != size:
            raise IndexError("a number is cut short")
        return int.from_bytes(content, "little", signed=signed)

    def unpacked(self, code: str, at: int) -> float:
        found: float = struct.unpack_from(code, self._value, at)[0]
        return found

    def content(self, at: int, size: int) -> bytes:
        content = self._value[at : at + size]
        if len(content) != size:
            raise IndexError("a value is cut short")
        return content

    def sized(self, at: int) -> bytes:
        return self.content(at + 4, self.number(at, 4, signed=False))

    def _string(self, at: int, size: int) -> str:
        return _quoted(self.content(at, size).decode())

    def _array(self, at: int, info: int) -> str:
        width = (info & 3) + 1
        at, count = self._count(at, large=bool(info >> 2 & 1))
        places = self._places(at, count, width)
        return "[" + ",".join(self.text(place) for place in places) + "]"

    def _object(self, at: int, info: int) -> str:
        width, id_width = (info & 3) + 1, (info >> 2 & 3) + 1
        at, count = self._count(at, large=bool(info >> 4 & 1))
        keys = [self.number(at + id_width * i, id_width, signed=False) for i in range(count)]
        places = self._places(at + id_width * count, count, width)
        pairs = zip(keys, places, strict=True)
        return "{" + ",".join(f"{self._key(key)}:{self.text(place)}" for key, place in pairs) + "}"

    def _count(self, at: int, *, large: bool) -> tuple[int, int]:
        size = 4 if large else 1
        return at + size, self.number(at, size, signed=False)

    def _places(self, at: int, count: int, width: int) -> list[int]:
        """Where the values of an array or object begin; its offsets count from their end."""
        start = at + (count + 1) * width
        return [start + self.number(at + width * i, width, signed=False) for i in range(count)]

    def _key(self, number: int) -> str:
        names = self._metadata
        width = (names[0] >> 6) + 1
        count = int.from_bytes(names[1 : 1 + width], "little")
        if number >= count:
            raise IndexError("a key is not in the metadata")

        def offset(index: int) -> int:
            at = 1 + width * (1 + index)
            return int.from_bytes(names[at : at + width], "little")

        start = 1 + width * (2 + count)
        return _quoted(names[start + offset(number) : start + offset(number + 1)].decode())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _float(number: float) -> str:
    # Python's words for what JSON does not have are those of the other columns too.
    text = json.dumps(number)
    return text if text[-1].isdigit() else _quoted(text)


def _shortest(number: float) -> float:
    """The double with the fewest digits that is the same float: 0.1, not 0.10000000149011612."""
    return float(pa.scalar(number, pa.float32()).cast(pa.string()).as_py())


def _decimal(size: int) -> Callable[[_Variant, int], str]:
    def text(variant: _Variant, at: int) -> str:
        scale = variant.number(at, 1, signed=False)
        unscaled = variant.number(at + 1, size)
        # By digits: arithmetic would round to the context's precision.
        number = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
        return format(number, "f")

    return text


def _integer(size: int) -> Callable[[_Variant, int], str]:
    return lambda variant, at: str(variant.number(at, size))


def _instant(per_second: int, zone: str) -> Callable[[_Variant, int], str]:
    return lambda variant, at: _quoted(instant_text(variant.number(at, 8), per_second) + zone)


_PRIMITIVES: dict[int, Callable[[_Variant, int], str]] = {
    0: lambda _variant, _at: "null",
    1: lambda _variant, _at: "true",
    2: lambda _variant, _at: "false",
    3: _integer(1),
    4: _integer(2),
    5: _integer(4),
    6: _integer(8),
    7: lambda variant, at: _float(variant.unpacked("<d", at)),
    8: _decimal(4),
    9: _decimal(8),
    10: _decimal(16),
    11: lambda variant, at: _quoted(date_text(variant.number(at, 4))),
    12: _instant(1_000_000, "Z"),
    13: _instant(1_000_000, ""),
    14: lambda variant, at: _float(_shortest(variant.unpacked("<f", at))),
    15: lambda variant, at: _quoted(base64.b64encode(variant.sized(at)).decode()),
    16: lambda variant, at: _quoted(variant.sized(at).decode()),
    17: lambda variant, at: _quoted(time_text(variant.number(at, 8))),
    18: _instant(1_000_000_000, "Z"),
    19: _instant(1_000_000_000, ""),
    20: lambda variant, at: _quoted(str(uuid.UUID(bytes=variant.content(at, 16)))),
}
