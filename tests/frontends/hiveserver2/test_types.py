"""Types of columns, as clients of each version read them."""

from __future__ import annotations

import pytest

from headrace.frontends.hiveserver2.types import describe_schema
from headrace.frontends.hiveserver2.wire import load_protocol
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
