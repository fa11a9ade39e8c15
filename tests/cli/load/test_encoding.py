"""Values of files as a load sends them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.load.encoding import ValueMisfit, encode_value
from headrace.cli.output.text import Number
from headrace.grammar.data_types import parse_data_type


def encode(value: Any, type_: str, *, is_text: bool = False) -> Any:
    return encode_value(value, parse_data_type(type_), is_text=is_text)


@pytest.mark.parametrize(
    ("value", "type_", "encoded"),
    [
        (Number("1.50"), "decimal(10,2)", "1.50"),
        (True, "string", "true"),
        ({"x": Number("1.0")}, "string", '{"x": 1.0}'),
        (["a", Number("1"), None], "array<string>", ["a", "1", None]),
        ({"b": Number("2"), "A": None}, "struct<a:int,b:int>", {"f0": None, "f1": "2"}),
        ({}, "struct<a:int>", {"f0": None}),
        ([["k", Number("1")]], "map<string,int>", {"k": "1"}),
        ({"1": [True]}, "map<int,array<boolean>>", {"1": ["true"]}),
        ([["b", Number("1")], ["b", None]], "struct<b:int,b:int>", {"f0": "1", "f1": None}),
        ({"x": Number("1")}, "variant", '{"x": 1}'),
        ("x", "variant", '"x"'),
        ([{"x": [None]}], "array<variant>", ['{"x": [null]}']),
        ("", "string", ""),
        ("", "int", None),
        ("", "binary", ""),
        (r"\xCA\xFEa", "binary", "yv5h"),
    ],
)
def test_json_values_are_sent_as_texts(value: Any, type_: str, encoded: Any) -> None:
    assert encode(value, type_) == encoded


@pytest.mark.parametrize(
    ("text", "type_", "encoded"),
    [
        ('["a", 1.10]', "array<string>", ["a", "1.10"]),
        ('[["k", null]]', "map<string,int>", {"k": None}),
        ('{"a": 1.0}', "variant", '{"a": 1.0}'),
        ('"x"', "variant", '"x"'),
        ("[1]", "string", "[1]"),
    ],
)
def test_nested_values_in_delimited_files_are_json(text: str, type_: str, encoded: Any) -> None:
    assert encode(text, type_, is_text=True) == encoded


@pytest.mark.parametrize(
    ("value", "type_", "reason"),
    [
        ([Number("1")], "int", "is not int"),
        ("{", "array<int>", "the text is not JSON"),
        ("1", "array<int>", "is not a list"),
        ({"c": None}, "struct<a:int>", "the struct has no field 'c'"),
        ("[1]", "struct<a:int>", "is not an object"),
        ([["a", None], ["a", None]], "map<string,int>", "the key 'a' repeats"),
        ([[["x"], None]], "map<array<string>,int>", "keys of the type array<string> cannot be"),
        ([[None, None]], "map<string,int>", "a key of the map is NULL"),
        ([["a"]], "map<string,int>", "neither an object nor a list"),
        ("x!", "binary", "is not base64"),
        (["yv4"], "array<binary>", "is not base64"),
    ],
)
def test_values_of_another_form_do_not_fit(value: Any, type_: str, reason: str) -> None:
    with pytest.raises(ValueMisfit, match=reason):
        encode(value, type_)


def test_text_of_a_variant_in_a_delimited_file_must_be_json() -> None:
    with pytest.raises(ValueMisfit, match="the text is not JSON"):
        encode("x", "variant", is_text=True)


@given(st.binary())
def test_bytes_as_duckdb_writes_them_are_kept(value: bytes) -> None:
    text = "".join(f"\\x{byte:02X}" for byte in value)
    assert base64.b64decode(encode(text, "binary")) == value
