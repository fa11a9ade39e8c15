"""Colours of the prompt."""

from __future__ import annotations

import pytest
from prompt_toolkit.document import Document

from headrace.cli.shell.prompt import SqlLexer, style_lines


def styles(text: str) -> dict[str, str]:
    """Return the styles of the parts of a text that have one."""
    fragments = [fragment for line in style_lines(text) for fragment in line]
    return {part: style.removeprefix("class:sql.") for style, part, *_ in fragments if style}


def test_each_kind_of_token_has_a_style() -> None:
    assert styles("select a, 1, 'x' /* c */ as `b c`, cast(d as int) -- end") == {
        "select": "keyword",
        "1": "number",
        "'x'": "string",
        "/* c */": "comment",
        "as": "keyword",
        "`b c`": "name",
        "cast": "keyword",
        "int": "type",
        "-- end": "comment",
    }


@pytest.mark.parametrize(
    ("text", "style"), [("'open", "string"), ("/* open", "comment"), ("`open", "name")]
)
def test_unclosed_parts_keep_their_style_to_the_end(text: str, style: str) -> None:
    assert styles(text) == {text: style}


def test_a_command_is_not_read_as_sql() -> None:
    assert styles("\\copy t from 'f'") == {"\\copy": "command"}


@pytest.mark.parametrize("text", ["SELECT 'a\nb'\n\n, 1;", "", "\n", "\\i f\nx", " \\d"])
def test_lines_hold_exactly_the_text(text: str) -> None:
    get_line = SqlLexer().lex_document(Document(text))
    lines = ["".join(part for _, part, *_ in get_line(n)) for n in range(text.count("\n") + 1)]
    assert "\n".join(lines) == text
    assert get_line(99) == []
