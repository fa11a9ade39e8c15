r"""Arguments of `\copy`, and names in the arguments of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.shell.copy_command import CopyRequest, parse_copy
from headrace.cli.support.script import parse_listing, parse_name, parse_pattern
from headrace.errors import InvalidRequest


@pytest.mark.parametrize(
    ("arguments", "request_"),
    [
        ("t to 'f.csv'", CopyRequest("t", "TABLE t", False, Path("f.csv"))),
        ("a.`to` TO f.csv", CopyRequest("a.`to`", "TABLE a.`to`", False, Path("f.csv"))),
        ("t from 'a b.csv'", CopyRequest("t", "TABLE t", True, Path("a b.csv"))),
        (
            "(SELECT ')' FROM (SELECT 1)) to f.csv",
            CopyRequest("", "SELECT ')' FROM (SELECT 1)", False, Path("f.csv")),
        ),
    ],
)
def test_a_copy_names_a_table_or_query_and_a_file(arguments: str, request_: CopyRequest) -> None:
    assert parse_copy(arguments) == request_


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "t",
        "t to",
        "t to a b",
        "t to 'a",
        "to f.csv",
        "t; DROP TABLE t to f.csv",
        "(SELECT 1 to f.csv",
        "(SELECT 1) x to f.csv",
        "(SELECT 1; SELECT 2) to f.csv",
        "() to f.csv",
        "(SELECT 1) from f.csv",
    ],
)
def test_other_arguments_are_refused(arguments: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_copy(arguments)


@pytest.mark.parametrize(
    ("text", "name"), [("t", "t"), (" a . `b c` ", "a.`b c`"), ("a.b.c", "a.b.c")]
)
def test_names_have_parts(text: str, name: str) -> None:
    assert parse_name(text) == name


@pytest.mark.parametrize("text", ["", "a b", "a.", ".a", "a..b", "'a'", "a;", "a(b)", "`a"])
def test_other_texts_are_not_names(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a name"):
        parse_name(text)


def test_patterns_list_tables() -> None:
    assert parse_pattern("t") is None
    assert parse_pattern("sal*") == "LIKE 'sal*'"
    assert parse_pattern("db.*") == "IN db LIKE '*'"
    with pytest.raises(InvalidRequest):
        parse_pattern("db; DROP TABLE t.*")


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("", ""),
        ("sales", "LIKE 'sales'"),
        ("`o'n`", "LIKE 'o''n'"),
        ("db.sales", "IN db LIKE 'sales'"),
        ("a.db.*", "IN a.db LIKE '*'"),
    ],
)
def test_lists_take_nothing_a_name_or_a_pattern(text: str, clauses: str) -> None:
    assert parse_listing(text) == clauses
    with pytest.raises(InvalidRequest):
        parse_listing("db; DROP TABLE t")
