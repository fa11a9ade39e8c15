"""Parsing Spark's schema JSON into columns with SQL types."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import FormatCannotHold
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
def test_types_have_the_text_of_spark_sql(kind: Any, sql: str) -> None:
    schema = parse_schema(_struct(_field("c", kind)))
    assert schema.describe() == [{"name": "c", "type": sql}]


def test_each_string_has_its_own_collation() -> None:
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
    assert [column["type"] for column in schema.describe()] == [
        "string collate UTF8_LCASE",
        "map<string,array<string collate de_CI>>",
        "struct<inner:string,other:string collate UNICODE>",
    ]


@pytest.mark.parametrize(
    "kind", ["hyperloglog", "interval year to day", _array("decimal"), {"type": "graph"}], ids=str
)
def test_an_unknown_type_is_an_error_that_names_the_column(kind: Any) -> None:
    with pytest.raises(FormatCannotHold, match=r"^Column 'b c' has the type"):
        parse_schema(_struct(_field("a", "long"), _field("b c", kind)))
