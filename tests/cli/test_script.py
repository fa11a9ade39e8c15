from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.script import Source, read, split
from headrace.errors import EmptyStatement, InvalidRequest, InvalidText


def test_statements_are_counted_over_all_sources() -> None:
    pieces = split([Source(None, "A; B"), Source("f.sql", "\n C")])
    assert [(piece.text, piece.number, piece.line, piece.column) for piece in pieces] == [
        ("A", 1, 1, 1),
        ("B", 2, 1, 4),
        ("C", 3, 2, 2),
    ]


def test_a_file_may_hold_nothing_but_an_argument_may_not() -> None:
    assert split([Source("f.sql", "-- later\n")]) == []
    with pytest.raises(EmptyStatement):
        split([Source(None, "-- later\n")])


def test_files_are_utf8_with_or_without_a_mark(tmp_path: Path) -> None:
    file = tmp_path / "f.sql"
    for content in ("SELECT 'ä'".encode(), "SELECT 'ä'".encode("utf-8-sig")):
        file.write_bytes(content)
        assert read([], [str(file)]) == [Source(str(file), "SELECT 'ä'")]
    file.write_bytes(b"SELECT\n\n'\xe4'")
    with pytest.raises(InvalidText, match=r"f\.sql is no valid UTF-8 in line 3"):
        read([], [str(file)])


def test_an_argument_that_is_no_text() -> None:
    with pytest.raises(InvalidText, match="at character 8"):
        read(["SELECT \udcff"], [])


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="Is a directory"):
        read([], [str(tmp_path)])


def test_lines() -> None:
    source = Source(None, "a\r\nb\n")
    assert [source.line(number) for number in range(5)] == ["", "a", "b", "", ""]
