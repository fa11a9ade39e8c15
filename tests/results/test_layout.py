"""Arrow schemas of results."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.results.batches import has_same_layout
from headrace.results.layout import build_client_schema, build_stored_schema
from headrace.results.schema import parse_schema


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def test_only_the_client_schema_has_the_real_names_which_may_repeat() -> None:
    schema = parse_schema(_struct(_field("a", _struct(_field("f", "long"))), _field("a", "long")))
    assert schema.names == ("a", "a")
    stored, client = build_stored_schema(schema), build_client_schema(schema, "{}")
    assert stored.names == ["_0", "_1"]
    assert stored.field(0).type.field(0).name == "_0"
    assert client.names == ["a", "a"]
    assert client.field(0).type.field(0).name == "f"
    assert client.metadata == {b"spark.schema": b"{}"}


def test_both_schemas_have_one_layout() -> None:
    kinds = [
        "long",
        "interval",
        "variant",
        "interval year to month",
        "geometry(4326)",
        "decimal(9,2)",
    ]
    entries = {"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": True}
    schema = parse_schema(_struct(*(_field("a", kind) for kind in [*kinds, entries])))
    stored, client = build_stored_schema(schema), build_client_schema(schema, "{}")
    assert has_same_layout(pa.struct(stored), pa.struct(client))
    assert client.field(2).metadata == {b"spark.type": b"variant"}
    assert client.field(2).type.field("metadata").metadata == {b"variant": b"true"}
    assert client.field(0).metadata is None
