"""The statements of a load."""

from __future__ import annotations

import pytest

from headrace.cli.load.statements import LoadColumn, LoadPlan, from_file
from headrace.errors import InvalidRequest
from headrace.grammar.data_types import parse_data_type


def plan(*, is_new: bool = False, **types: str) -> LoadPlan:
    columns = [
        LoadColumn(f"c{index}", name, parse_data_type(type_))
        for index, (name, type_) in enumerate(types.items())
    ]
    return LoadPlan("a.t", columns, is_new=is_new)


def test_a_table_is_created_or_extended_by_the_same_query() -> None:
    query = (
        "SELECT CAST(r.c0 AS int) AS `Id`, r.c1 AS `na``me` FROM (SELECT from_json(row, "
        "'STRUCT<f: INT, n: BIGINT, c0: STRING, c1: STRING>', map('mode', 'FAILFAST')) AS r FROM s)"
    )
    types = {"Id": "int", "na`me": "string"}
    assert plan(**types).write("s") == f"INSERT INTO a.t (`Id`, `na``me`) {query}"
    assert plan(**types, is_new=True).write("s") == f"CREATE TABLE a.t AS {query}"


_PAIRS = "struct(x0.key, transform(x0.value, x1 -> unbase64(x1)))"
_FIELDS = "'o''n', unbase64(r.c0.f0), 'b', CAST(r.c0.f1 AS int)"


@pytest.mark.parametrize(
    ("type_", "expression"),
    [
        ("map<int,date>", "CAST(r.c0 AS map<int,date>)"),
        ("binary", "unbase64(r.c0)"),
        ("array<variant>", "transform(r.c0, x0 -> parse_json(x0))"),
        (
            "map<string,array<binary>>",
            f"map_from_entries(transform(map_entries(r.c0), x0 -> {_PAIRS}))",
        ),
        ("struct<`o'n`:binary,b:int>", f"IF(r.c0 IS NULL, NULL, named_struct({_FIELDS}))"),
    ],
)
def test_nested_values_that_a_cast_cannot_make_are_made_by_functions(
    type_: str, expression: str
) -> None:
    assert f"SELECT {expression} AS `x` FROM" in plan(x=type_).write("s")


def test_rows_that_do_not_fit_are_found_in_nested_values_too() -> None:
    types = {"s": "string", "a": "array<map<string,int>>", "c": "string"}
    query = plan(**types).find_misfits("s", {"c": 5})
    assert query is not None
    assert "exists(map_entries(x0), x1 -> " in query
    assert "try_cast(x1.value AS int) IS NULL" in query
    assert "WHEN char_length(r.c2) > 5 THEN 2 END AS i" in query
    assert plan(s="string", b="binary").find_misfits("s", {}) is None


def test_a_path_is_quoted() -> None:
    assert from_file("/tmp/a`b") == "(SELECT value AS row FROM text.`file:/tmp/a``b`)"


@pytest.mark.parametrize("type_", ["interval", "array<geometry(4326)>", "void"])
def test_types_without_a_text_form_are_refused(type_: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be loaded from a file"):
        plan(x=type_)
