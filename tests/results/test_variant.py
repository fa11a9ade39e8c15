"""Variants as JSON. PySpark's VariantBuilder creates the bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantBuilder

from headrace.errors import InvalidResult
from headrace.results.variant import MAX_DEPTH, variant_to_json

_LIMIT = 1_000_000
_NO_KEYS = b"\x01\x00\x00"


def _to_json(value: bytes, metadata: bytes = _NO_KEYS, limit: int = _LIMIT) -> str:
    return variant_to_json(value, metadata, limit)


def _build(value: Any) -> tuple[bytes, bytes]:
    content, metadata = VariantBuilder().build(json.dumps(value))
    return bytes(content), bytes(metadata)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=80),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(_json)
def test_a_variant_of_a_json_text_becomes_that_json(value: Any) -> None:
    assert json.loads(_to_json(*_build(value))) == value


def test_large_arrays_and_objects_are_read() -> None:
    value = {f"key{n}": list(range(n)) for n in range(0, 400, 13)} | {"wide": ["x" * 300] * 300}
    assert json.loads(_to_json(*_build(value))) == value


def _primitive(info: int, content: bytes) -> str:
    return _to_json(bytes([info << 2]) + content)


@pytest.mark.parametrize(
    ("info", "content", "text"),
    [
        (7, struct.pack("<d", float("nan")), '"NaN"'),
        (7, struct.pack("<d", float("-inf")), '"-Infinity"'),
        (8, b"\x09" + struct.pack("<i", -1), "-0.000000001"),
        (9, b"\x00" + struct.pack("<q", 10**17), "100000000000000000"),
        (
            10,
            b"\x12" + (12345678901234567890123456789012345678).to_bytes(16, "little"),
            "12345678901234567890.123456789012345678",
        ),
        (11, struct.pack("<i", 2_932_897), '"+10000-01-01"'),
        (12, struct.pack("<q", 1), '"1970-01-01T00:00:00.000001Z"'),
        (13, struct.pack("<q", -1), '"1969-12-31T23:59:59.999999"'),
        (14, struct.pack("<f", 0.1), "0.1"),
        (15, struct.pack("<I", 2) + b"\x00\xff", '"AP8="'),
        (17, struct.pack("<q", 1), '"00:00:00.000001"'),
        (18, struct.pack("<q", 1), '"1970-01-01T00:00:00.000000001Z"'),
        (20, bytes(range(16)), '"00010203-0405-0607-0809-0a0b0c0d0e0f"'),
    ],
)
def test_values_of_types_that_json_lacks_become_text(info: int, content: bytes, text: str) -> None:
    assert _primitive(info, content) == text


@pytest.mark.parametrize("value", [b"", b"\xfc", b"\x0c", b"\x09\x41", b"\x02\x01\x07\x00\x01\x00"])
def test_bytes_that_are_not_a_variant_are_an_error(value: bytes) -> None:
    with pytest.raises(InvalidResult, match="variant"):
        _to_json(value)


def _array(offsets: list[int], content: bytes) -> bytes:
    return bytes([3, len(offsets) - 1, *offsets]) + content


def _object(offsets: list[int], content: bytes) -> bytes:
    """Return an object in which every key is the first key of the metadata."""
    count = len(offsets) - 1
    return bytes([2, count, *[0] * count, *offsets]) + content


_ONE_KEY = b"\x01\x01\x00\x01a"


def test_the_values_of_an_object_can_have_any_order() -> None:
    # The key b has the first value: VariantEncoding.md allows this.
    value = bytes([2, 2, 0, 1, 2, 0, 4]) + b"\x0c\x02\x0c\x01"
    assert _to_json(value, b"\x01\x02\x00\x01\x02ab") == '{"a":1,"b":2}'


@pytest.mark.finding("S3")
@pytest.mark.parametrize(
    "value",
    [
        _array([0, 0, 2], b"\x0c\x01"),
        _array([2, 0, 4], b"\x0c\x01\x0c\x02"),
        _array([0, 9], b"\x0c\x01"),
        _array([0, 1], b"\x0c\x01"),
        _array([0, 3], _array([0, 2], b"\x0c\x01")),
        _object([0, 0, 2], b"\x0c\x01"),
        _object([0, 9], b"\x0c\x01"),
        _object([3, 1], b"\x0c\x01\x0c\x01"),
    ],
)
def test_a_variant_whose_values_overlap_or_leave_their_parent_is_refused(value: bytes) -> None:
    # Bytes follow that a value could read if only its parent bounded it.
    with pytest.raises(InvalidResult):
        _to_json(_array([0, len(value), len(value) + 6], value + b"\x0c\x01" * 3), _ONE_KEY)
    with pytest.raises(InvalidResult):
        _to_json(value, _ONE_KEY)


@pytest.mark.finding("S3")
@pytest.mark.parametrize("wrap", [_array, _object])
def test_a_few_bytes_do_not_expand_to_a_large_text(wrap: Any) -> None:
    """Ten elements at the same offset, repeated for every level, are ten times as many values."""
    value = b"\x00"
    for _ in range(6):
        value = wrap([0] * 10 + [len(value)], value)
    with pytest.raises(InvalidResult, match="overlap"):
        _to_json(value, _ONE_KEY, limit=1 << 30)


@pytest.mark.finding("S3")
def test_the_text_of_a_variant_is_bounded() -> None:
    """The bytes have a key once, and JSON has it in every object."""
    value, metadata = _build([{"k" * 1000: 1}] * 100)
    assert len(_to_json(value, metadata)) > 100_000
    with pytest.raises(InvalidResult, match="more than 50000 characters"):
        _to_json(value, metadata, limit=50_000)


def _nest(depth: int) -> bytes:
    value = b"\x00"
    for _ in range(depth):
        value = bytes([3 | 3 << 2, 1]) + bytes(4) + len(value).to_bytes(4, "little") + value
    return value


@pytest.mark.finding("S3")
def test_nesting_is_read_as_deep_as_spark_parses_it() -> None:
    assert _to_json(_nest(MAX_DEPTH)) == "[" * MAX_DEPTH + "null" + "]" * MAX_DEPTH
    with pytest.raises(InvalidResult, match="more than 1000 levels"):
        _to_json(_nest(MAX_DEPTH + 1))


def test_a_decimal_of_a_larger_scale_than_spark_has_is_refused() -> None:
    with pytest.raises(InvalidResult, match="scale 255"):
        _primitive(8, b"\xff" + struct.pack("<i", 1))
