"""Variants as JSON. PySpark's VariantBuilder creates the bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantBuilder

from headrace.errors import ResultsUnavailable
from headrace.results.variant import variant_to_json

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
    assert json.loads(variant_to_json(*VariantBuilder().build(json.dumps(value)))) == value


def test_large_arrays_and_objects_are_read() -> None:
    value = {f"key{n}": list(range(n)) for n in range(0, 400, 13)} | {"wide": ["x" * 300] * 300}
    assert json.loads(variant_to_json(*VariantBuilder().build(json.dumps(value)))) == value


def _primitive(info: int, content: bytes) -> str:
    return variant_to_json(bytes([info << 2]) + content, b"\x01\x00\x00")


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
    with pytest.raises(ResultsUnavailable, match="variant"):
        variant_to_json(value, b"\x01\x00\x00")
