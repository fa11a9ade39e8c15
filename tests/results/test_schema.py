"""Spark's schema JSON as columns with SQL types."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import FormatCannotHold
from headrace.results.layout import shown_schema, stored_schema
from headrace.results.schema import parse_schema


def _field(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def _struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def _array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        ("integer", "int"),
        ("long", "bigint"),
        ("decimal(10,2)", "decimal(10,2)"),
        ("void", "void"),
        ("time(3)", "time(3)"),
        ("varchar(7)", "varchar(7)"),
        ("interval year to month", "interval year to month"),
        ("interval minute", "interval minute"),
        ("interval", "interval"),
        ("geography(OGC:CRS84, SPHERICAL)", "geography(OGC:CRS84, SPHERICAL)"),
        (_array("date"), "array<date>"),
        (
            {
                "type": "map",
                "keyType": "string",
                "valueType": _array("byte"),
                "valueContainsNull": True,
            },
            "map<string,array<tinyint>>",
        ),
        (_struct(), "struct<>"),
        (
            _struct(_field("a", "short"), _field("b c`", _struct(_field("ä", "float")))),
            "struct<a:smallint,`b c```:struct<`ä`:float>>",
        ),
        ({"type": "udt", "class": "x.Y", "sqlType": _array("double")}, "array<double>"),
    ],
    ids=str,
)
def test_types_read_as_spark_sql(kind: Any, sql: str) -> None:
    schema = parse_schema(_struct(_field("c", kind)))
    assert schema.described() == [{"name": "c", "type": sql}]
    assert stored_schema(schema).names == ["_0"]


def test_collations_are_those_of_their_place() -> None:
    kind = _struct(
        _field("inner", "string"), _field("other", "string", __COLLATIONS={"other": "icu.UNICODE"})
    )
    mapped = {"type": "map", "keyType": "string", "valueType": _array("string")}
    schema = parse_schema(
        _struct(
            _field("c", "string", __COLLATIONS={"c": "spark.UTF8_LCASE"}),
            _field("m", mapped, __COLLATIONS={"m.value.element": "icu.de_CI"}),
            _field("s", kind),
        )
    )
    assert [column["type"] for column in schema.described()] == [
        "string collate UTF8_LCASE",
        "map<string,array<string collate de_CI>>",
        "struct<inner:string,other:string collate UNICODE>",
    ]


def test_names_may_repeat_and_only_shown_schemas_have_them() -> None:
    schema = parse_schema(_struct(_field("a", _struct(_field("f", "long"))), _field("a", "long")))
    assert schema.names == ("a", "a")
    stored, shown = stored_schema(schema), shown_schema(schema, "{}")
    assert stored.names == ["_0", "_1"]
    assert stored.field(0).type.field(0).name == "_0"
    assert shown.names == ["a", "a"]
    assert shown.field(0).type.field(0).name == "f"
    assert shown.metadata == {b"spark.schema": b"{}"}


@pytest.mark.parametrize(
    "kind", ["hyperloglog", "interval year to day", _array("decimal"), {"type": "graph"}], ids=str
)
def test_unknown_type_names_its_column(kind: Any) -> None:
    with pytest.raises(FormatCannotHold, match="column 'b c' has the type"):
        parse_schema(_struct(_field("a", "long"), _field("b c", kind)))
