from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.support.script import Source, read_sources, split_sources
from headrace.errors import EmptyStatement, InvalidRequest, InvalidText


def test_statements_are_numbered_across_all_sources() -> None:
    statements = split_sources([Source(None, "A; B"), Source("f.sql", "\n C")])
    assert [(each.text, each.number, each.line, each.column) for each in statements] == [
        ("A", 1, 1, 1),
        ("B", 2, 1, 4),
        ("C", 3, 2, 2),
    ]


def test_a_file_may_hold_no_statement_but_an_argument_must_hold_one() -> None:
    assert split_sources([Source("f.sql", "-- later\n")]) == []
    with pytest.raises(EmptyStatement):
        split_sources([Source(None, "-- later\n")])


def test_files_are_utf8_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "f.sql"
    for content in ("SELECT 'ä'".encode(), "SELECT 'ä'".encode("utf-8-sig")):
        file.write_bytes(content)
        assert read_sources([], [str(file)]) == [Source(str(file), "SELECT 'ä'")]
    file.write_bytes(b"SELECT\n\n'\xe4'")
    with pytest.raises(InvalidText, match=r"f\.sql is not valid UTF-8 in line 3"):
        read_sources([], [str(file)])


def test_an_argument_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidText, match="at character 8"):
        read_sources(["SELECT \udcff"], [])


def test_a_folder_is_refused_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="Is a directory"):
        read_sources([], [str(tmp_path)])


def test_lines_of_a_source_are_counted_from_1() -> None:
    source = Source(None, "a\r\nb\n")
    assert [source.line(number) for number in range(5)] == ["", "a", "b", "", ""]
