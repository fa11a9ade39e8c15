"""The calls for metadata: patterns of names as clients of Hive send them, and their rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hiveserver2 import Connect, HiveNode
from tests.support.made_results import inline_result, spark_schema
from tests.support.waiting import wait_until

from headrace.frontends.hiveserver2.listings import MetadataCall, read_rows, statement_for
from headrace.grammar.metadata import POSITION, ListedObjects, ListObjects, matches
from headrace.grammar.parse import parse

TABLES = ("catalog", "schema", "name", "type", "comment")
COLUMNS = ("catalog", "schema", "name", "columns")


def read_command(listing: MetadataCall, **fields: str | None) -> ListObjects:
    """Return the statement for a call with these patterns."""
    names = ("catalogName", "schemaName", "tableName", "columnName", "functionName")
    request = SimpleNamespace(**{**dict.fromkeys(names), **fields})
    command = parse(statement_for(listing, request) or "").command
    assert isinstance(command, ListObjects)
    return command


def list_rows(
    listing: MetadataCall,
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    text: str,
    types: int = 0,
) -> list[tuple[Any, ...]]:
    """Return the rows of a call for those of its statement."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    batch = pa.record_batch([pa.array(column, pa.string()) for column in columns], list(names))
    found: Any = SimpleNamespace(schema=SimpleNamespace(names=names), batches=lambda: [batch])
    return [tuple(row.values()) for row in read_rows(listing, found, text, types).to_pylist()]


@pytest.mark.parametrize("pattern", [None, "", "*", "%", ".*", "%%"])
def test_a_pattern_for_all_names_is_one_in_each_form(pattern: str | None) -> None:
    fields = dict.fromkeys(("schemaName", "tableName", "columnName"), pattern)
    command = read_command(MetadataCall.COLUMNS, **fields)
    assert command == ListObjects(ListedObjects.COLUMNS)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (r"a\_b", {"a_b"}),
        ("a_b", {"a_b", "axb"}),
        ("a%", {"a_b", "axb"}),
        ("a*", {"a_b", "axb"}),
        (".*b", {"a_b", "axb"}),
        (r"a\*", {"a*"}),
        ("x", set()),
    ],
)
def test_patterns_have_the_wildcards_of_jdbc_and_of_hive(pattern: str, names: set[str]) -> None:
    for listing, field in [
        (MetadataCall.TABLES, "tableName"),
        (MetadataCall.FUNCTIONS, "functionName"),
    ]:
        command = read_command(listing, **{field: pattern})
        found = {name for name in ("a_b", "axb", "a*") if matches(command.name, name)}
        assert found - {"a*"} == names - {"a*"}
        assert ("a*" in found) == (pattern in {"a%", "a*", r"a\*"})


@given(st.text("ab%_\\.", max_size=8).filter(lambda text: ".*" not in text))
def test_a_pattern_without_hives_wildcards_stays_as_it_is(pattern: str) -> None:
    command = read_command(MetadataCall.TABLES, tableName=pattern)
    for name in ("", "a", "ab", "a.b", "a_b", "a%b"):
        assert matches(command.name, name) == (not pattern or matches(pattern, name))


def test_each_view_is_listed_once_as_a_view_and_temporary_ones_in_no_schema() -> None:
    """Tools ask for each schema, and show what is in the answers."""
    rows = [
        ["spark_catalog", "s", "t", "TABLE", "about t"],
        ["spark_catalog", "s", "v", "VIEW", None],
        ["spark_catalog", "", "mine", "VIEW", None],
    ]
    shown = {
        pattern: [
            row[1:5] for row in list_rows(MetadataCall.TABLES, TABLES, rows, f"LIST TABLES{text}")
        ]
        for pattern, text in {"s": " SCHEMA LIKE 's'", "%": "", "": " SCHEMA LIKE ''"}.items()
    }
    of_schema = [("s", "t", "TABLE", "about t"), ("s", "v", "VIEW", "")]
    assert shown["s"] == of_schema
    assert sorted(shown["%"]) == [("", "mine", "VIEW", ""), *of_schema]
    views = list_rows(MetadataCall.TABLES, TABLES, rows, "LIST TABLES", types=2)
    assert [row[2] for row in views] == ["mine", "v"]


def test_columns_keep_their_positions_and_unreadable_tables_have_none() -> None:
    schema = spark_schema([("b", "long"), ("d", "string")])
    for field, position in zip(schema["fields"], (2, 4), strict=True):
        field["metadata"] = {POSITION: position}
    whole = spark_schema([("a", "long"), ("b", "string")])
    rows = [
        ["c", "s", "broken", None],
        ["c", "s", "some", json.dumps(schema)],
        ["c", "s", "whole", json.dumps(whole)],
    ]
    listed = list_rows(MetadataCall.COLUMNS, COLUMNS, rows, "LIST COLUMNS")
    assert [(row[2], row[3], row[16]) for row in listed] == [
        *(("some", "b", 2), ("some", "d", 4)),
        *(("whole", "a", 1), ("whole", "b", 2)),
    ]


def test_a_function_without_a_class_has_its_name() -> None:
    names = ("catalog", "schema", "name", "class")
    rows = [["c", "s", "f", None], ["c", "", "abs", "Abs"]]
    listed = list_rows(MetadataCall.FUNCTIONS, names, rows, "LIST FUNCTIONS IN CATALOG c")
    assert [(row[2], row[5]) for row in listed] == [("abs", "Abs"), ("f", "f")]


def test_the_patterns_of_a_call_reach_spark(server: HiveNode, connect: Connect) -> None:
    client = connect()
    text = r"LIST COLUMNS IN CATALOG `lake` SCHEMA LIKE 'a.b' TABLE LIKE r't\_%' COLUMN LIKE 'c%'"
    fields = {"catalogName": "lake", "schemaName": "a.b", "tableName": r"t\_*", "columnName": "c%"}
    with ThreadPoolExecutor(1) as thread:
        called = thread.submit(client.call, "GetColumns", sessionHandle=client.session, **fields)
        waiting = wait_until(lambda: server.find_waiting(text))
        columns = [(name, "string") for name in COLUMNS]
        schema = json.dumps(spark_schema([("c1", "long")]))
        server.run(waiting, inline_result(columns, [["lake", "a.b", "t_1", schema]]))
        response = called.result()
    assert response.status.statusCode == 0
    [row] = client.fetch_all(response.operationHandle)
    assert row[:4] == ("lake", "a.b", "t_1", "c1")
