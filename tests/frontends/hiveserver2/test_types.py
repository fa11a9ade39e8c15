"""Types of columns and patterns of names, as clients of each version read them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from headrace.frontends.hiveserver2.listings import MetadataCall, statement_for
from headrace.frontends.hiveserver2.types import describe_schema
from headrace.frontends.hiveserver2.wire import load_protocol
from headrace.grammar.metadata import ListObjects, pattern_to_regex
from headrace.grammar.parse import parse
from headrace.results.schema import parse_schema

IDS = load_protocol().TTypeId
KINDS = [
    *("void", "boolean", "byte", "short", "integer", "long", "float", "double", "string"),
    *("binary", "date", "timestamp", "timestamp_ntz", "variant", "time(6)", "decimal(38,18)"),
    *("interval year to month", "interval day to second", "interval"),
]


@pytest.mark.parametrize("version", [0, 5, 6, 9])
def test_each_type_has_an_id_that_clients_know(version: int) -> None:
    fields = [{"name": kind, "type": kind, "nullable": True, "metadata": {}} for kind in KINDS]
    columns = describe_schema(parse_schema({"type": "struct", "fields": fields}), version).columns
    entries = {each.columnName: each.typeDesc.types[0].primitiveEntry for each in columns}
    # PyHive knows ids up to 21, and impyla up to 19 in version 6 (5 from 0).
    assert max(entry.type for entry in entries.values()) <= (19 if version < 6 else 21)
    assert entries["variant"].type == entries["time(6)"].type == IDS.STRING_TYPE
    assert entries["timestamp_ntz"].type == IDS.TIMESTAMP_TYPE
    qualifiers = entries["decimal(38,18)"].typeQualifiers.qualifiers
    assert {name: value.i32Value for name, value in qualifiers.items()} == {
        "precision": 38,
        "scale": 18,
    }


@pytest.mark.parametrize("pattern", [None, "", "*", "%", ".*"])
def test_a_pattern_for_all_names_is_one_in_each_form(pattern: str | None) -> None:
    request = SimpleNamespace(catalogName=None, schemaName=pattern, tableName=pattern)
    text = statement_for(MetadataCall.TABLES, request)
    assert text is not None
    command = parse(text).command
    assert isinstance(command, ListObjects)
    for part in (command.schema, command.name):
        assert re.fullmatch(pattern_to_regex(part), "a_b.c`d")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [(r"a\_b", {"a_b"}), ("a_b", {"a_b", "axb"}), ("a%", {"a_b", "axb"}), ("x", set())],
)
def test_an_escaped_underscore_is_that_character(pattern: str, names: set[str]) -> None:
    request = SimpleNamespace(catalogName=None, schemaName=None, tableName=pattern)
    command = parse(statement_for(MetadataCall.TABLES, request) or "").command
    assert isinstance(command, ListObjects)
    regex = pattern_to_regex(command.name)
    assert {name for name in ("a_b", "axb") if re.fullmatch(regex, name)} == names
