"""Values in formats for people and in formats for programs."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode

from headrace.cli.output.readable_values import format_binary

BINARY = base64.b64encode(b"\xca\xfe").decode()
COLUMNS = [
    ("b", "binary"),
    ("a", "array<binary>"),
    ("m", "map<string,binary>"),
    ("s", "struct<b:binary,t:string>"),
    ("p", "struct<b:binary,b:binary>"),
    ("n", "array<struct<x:map<binary,int>>>"),
    ("g", "geometry(4326)"),
    ("t", "string"),
]
ROW = [
    BINARY,
    [BINARY, None],
    [["k", BINARY]],
    {"b": BINARY, "t": BINARY},
    [["b", BINARY], ["b", None]],
    [{"x": [[BINARY, 1]]}, {"x": None}],
    {"srid": 4326, "wkb": BINARY},
    BINARY,
]


@pytest.fixture
def script(node: ScriptedNode) -> None:
    node.on("SELECT", columns=COLUMNS, chunks=[[ROW], [[None] * len(COLUMNS)]])


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("format_", ["table", "vertical", "markdown"])
def test_binary_values_are_bytes_in_formats_for_people(headrace: RunHeadrace, format_: str) -> None:
    text = headrace("sql", "SELECT", "--format", format_).stdout
    assert text.count("[CA FE]") == 7
    assert text.count(BINARY) == 2  # the texts, which happen to be base64


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("format_", ["csv", "tsv", "jsonl"])
def test_binary_values_are_base64_in_formats_for_programs(
    headrace: RunHeadrace, format_: str
) -> None:
    assert headrace("sql", "SELECT", "--format", format_).stdout.count(BINARY) == 9


@given(st.binary())
def test_every_binary_value_is_shown_as_spark_shows_it(value: bytes) -> None:
    shown = format_binary(base64.b64encode(value).decode())
    assert shown == "[" + " ".join(f"{byte:02X}" for byte in value) + "]"
