"""Texts of the prompt, split into commands and SQL."""

from __future__ import annotations

import pytest

from headrace.cli.shell.prompt import is_complete_input, split_input


def entries(text: str) -> list[tuple[str, bool]]:
    return [(entry.text, entry.is_command) for entry in split_input(text)]


def test_a_line_that_begins_with_a_backslash_is_a_command() -> None:
    assert entries("SELECT 1;\n \\timing on\nSELECT 2;\n") == [
        ("SELECT 1;\n", False),
        ("\\timing on", True),
        ("SELECT 2;\n", False),
    ]


def test_a_backslash_inside_a_statement_is_part_of_it() -> None:
    text = "SELECT 'a\n\\d b';"
    assert entries(text) == [(text, False)]


@pytest.mark.parametrize(
    ("text", "command"), [("quit", "\\q"), (" Exit; ", "\\q"), ("help", "\\?")]
)
def test_plain_words_stand_for_commands(text: str, command: str) -> None:
    assert entries(text) == [(command, True)]
    assert is_complete_input(text)


@pytest.mark.parametrize("text", ["", "  ", "\\d", "\\copy (SELECT 1", "SELECT 1;", "-- c"])
def test_enter_runs_complete_texts(text: str) -> None:
    assert is_complete_input(text)


@pytest.mark.parametrize("text", ["SELECT 1", "SELECT 1; SELECT '", "quit now", "\\d\nSELECT 1"])
def test_enter_continues_texts_without_an_end(text: str) -> None:
    assert not is_complete_input(text)


def test_comments_hold_no_statement() -> None:
    assert [entry.statements for entry in split_input("-- nothing\n;")] == [[]]


@pytest.mark.parametrize(
    ("text", "sql", "command"),
    [
        ("SELECT 1 \\g", "SELECT 1 ", "\\g"),
        ("SELECT 1\n\\gx\n", "SELECT 1\n", "\\gx"),
        ("SELECT '\\g', 1 -- \\gx\n\\g f.csv", "SELECT '\\g', 1 -- \\gx\n", "\\g f.csv"),
        ("SELECT 1; SELECT 2\\gx", "SELECT 1; SELECT 2", "\\gx"),
    ],
)
def test_g_ends_a_statement_and_runs_it(text: str, sql: str, command: str) -> None:
    waiting, running = split_input(text)
    assert (waiting.text, waiting.waits_for_command) == (sql, True)
    assert (running.text, running.is_command) == (command, True)
    assert is_complete_input(text)


@pytest.mark.parametrize(
    "text", ["SELECT '\\g'", "SELECT `a\\g`", "/* \\g */ SELECT", "SELECT \\go"]
)
def test_other_backslashes_end_no_statement(text: str) -> None:
    assert entries(text) == [(text, False)]
    assert not is_complete_input(text)
