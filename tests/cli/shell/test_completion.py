"""Completion of keywords, names, commands and files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from headrace.cli.shell.catalog_cache import CatalogCache
from headrace.cli.shell.completion import ShellCompleter, find_tables
from headrace.grammar.catalog_queries import (
    CatalogName,
    Lookup,
    NameKind,
    described_columns,
    names_in,
    query_for,
)

NAMES = {
    Lookup(NameKind.TABLES): ["orders", "order lines"],
    Lookup(NameKind.TABLES, ("shop",)): ["baskets"],
    Lookup(NameKind.TABLES, ("lake", "db")): ["events"],
    Lookup(NameKind.DATABASES): ["default", "shop"],
    Lookup(NameKind.DATABASES, ("lake",)): ["db"],
    Lookup(NameKind.CATALOGS): ["spark_catalog", "lake"],
    Lookup(NameKind.COLUMNS, ("orders",)): ["id", "customer"],
    Lookup(NameKind.COLUMNS, ("default", "baskets")): ["basket_id"],
    Lookup(NameKind.FUNCTIONS): ["customize"],
}


class KnownNames(CatalogCache):
    """A cache that has loaded everything."""

    def __init__(self) -> None:
        super().__init__(lambda _: [])

    def names(self, lookup: Lookup) -> list[CatalogName]:
        return [CatalogName(text) for text in NAMES.get(lookup, [])]


def completions(before: str, after: str = "", *, requested: bool = True) -> list[str]:
    """Return the offered texts at the end of `before`, after Tab or while typing."""
    document = Document(before + after, len(before))
    event = CompleteEvent(completion_requested=requested, text_inserted=not requested)
    return [each.text for each in ShellCompleter(KnownNames()).get_completions(document, event)]


def test_a_long_word_takes_linear_time() -> None:
    begin = time.thread_time()
    assert completions(f"SELECT {'a' * 30_000} FROM ord")[0] == "orders"
    assert time.thread_time() - begin < 1  # several seconds if the whole text is searched


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("SELECT * FROM ord", ["orders", "`order lines`", "order"]),
        ("select * from orders, ba", []),
        ("SELECT * FROM orders, sh", ["shop", "show"]),
        ("SELECT * FROM shop.", ["baskets"]),
        ("SELECT * FROM shop.b", ["baskets"]),
        ("SELECT * FROM lake.", ["db"]),
        ("SELECT * FROM lake.db.", ["events"]),
        ("INSERT INTO shop.b", ["baskets"]),
        ("USE sho", ["shop", "show"]),
        ("USE lake.", ["db"]),
        ("SHOW TABLES IN def", ["default"]),
        ("sel", ["select"]),
        ("SEL", ["SELECT"]),
        ("SELECT 1; sel", ["select"]),
        ("SELECT 'or", []),
        ("SELECT 1 -- or", []),
        ("SELECT /* or", []),
        ("SELECT '' || cus", ["customize"]),
    ],
)
def test_names_fit_their_place(before: str, expected: list[str]) -> None:
    assert completions(before) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("SELECT cus", " FROM orders", ["customer", "customize"]),
        ("SELECT cus", "; SELECT 1 FROM orders", ["customize"]),
        ("SELECT o.", " FROM orders AS o", ["id", "customer"]),
        ("SELECT o.cu", " FROM orders o WHERE true", ["customer"]),
        ("SELECT O.cu", " FROM `orders` o", ["customer"]),
        ("SELECT b.", " FROM orders o JOIN default.baskets b", ["basket_id"]),
        ("SELECT x.", " FROM orders", []),
        ("UPDATE orders SET cus", "", ["customer", "customize"]),
    ],
)
def test_columns_come_from_the_tables_of_the_statement(
    before: str, after: str, expected: list[str]
) -> None:
    assert completions(before, after) == expected


def test_nothing_is_offered_for_an_empty_word_while_typing() -> None:
    assert completions("SELECT * FROM ", requested=False) == []
    assert completions("SELECT * FROM ")[:2] == ["orders", "`order lines`"]


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT 1 FROM a, b.c x JOIN d AS e", {"a": ("a",), "x": ("b", "c"), "e": ("d",)}),
        ("SELECT 1 FROM (SELECT 1 FROM a) WHERE b", {"a": ("a",)}),
        ("SELECT 1 FROM default.`t.u` WHERE", {"t.u": ("default", "t.u")}),
        ("INSERT INTO a SELECT 1", {"a": ("a",)}),
        ("SELECT 'FROM a' -- FROM b", {}),
    ],
)
def test_tables_of_a_statement(text: str, tables: dict[str, tuple[str, ...]]) -> None:
    assert find_tables(text, "") == tables


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("\\ti", ["timing"]),
        ("\\x ", ["on", "off", "auto"]),
        ("\\timing o", ["on", "off"]),
        ("\\d ord", ["orders", "`order lines`"]),
        ("\\copy shop.b", ["baskets"]),
    ],
)
def test_commands_and_their_arguments(before: str, expected: list[str]) -> None:
    assert completions(before) == expected


def test_files_of_commands(tmp_path: Path) -> None:
    (tmp_path / "script.sql").touch()
    assert completions(f"\\i {tmp_path}/scr") == ["ipt.sql"]
    assert completions(f"\\o {tmp_path}/scr") == ["ipt.sql"]
    assert completions(f"\\copy orders to '{tmp_path}/scr") == ["ipt.sql"]


def test_statements_that_load_names_quote_their_parts() -> None:
    assert query_for(Lookup(NameKind.TABLES, ("a`b", "c"))) == "SHOW TABLES IN `a``b`.`c`"
    assert query_for(Lookup(NameKind.COLUMNS, ("a", "b"))) == "DESCRIBE TABLE `a`.`b`"
    assert query_for(Lookup(NameKind.DATABASES)) == "SHOW DATABASES"


def test_columns_end_before_the_partitions() -> None:
    rows = [
        ["a", "int", None],
        ["p", "date", "x"],
        ["# Partition Information", "", ""],
        ["p", "", ""],
    ]
    assert described_columns(rows) == [CatalogName("a", "int"), CatalogName("p", "date")]
    tables = names_in(NameKind.TABLES, [["", "v", True], ["db", "t", False]])
    assert tables == [CatalogName("v", "view"), CatalogName("t", "table")]
