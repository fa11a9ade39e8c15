r"""The statements of `\copy … from`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cli.shell import copy_from
from headrace.cli.shell.catalog_cache import CatalogName
from headrace.cli.shell.copy_command import CopyRequest
from headrace.cli.shell.copy_from import insert_statement, make_batches
from headrace.errors import InvalidRequest

COLUMNS = {
    "id": CatalogName("Id", "int"),
    "name": CatalogName("na`me", "string"),
    "tags": CatalogName("tags", "array<string>"),
    "raw": CatalogName("raw", "binary"),
    "doc": CatalogName("doc", "variant"),
}


def load(tmp_path: Path, content: str, name: str = "f.csv") -> CopyRequest:
    file = tmp_path / name
    file.write_text(content)
    return CopyRequest("t", "", is_load=True, file=file)


def test_the_insert_depends_on_the_columns_only() -> None:
    columns = list(enumerate(COLUMNS.values()))
    assert insert_statement("a.t", columns) == (
        "INSERT INTO a.t (`Id`, `na``me`, `tags`, `raw`, `doc`) "
        "SELECT CAST(c0 AS int), c1, c2, unbase64(c3), parse_json(c4) FROM (SELECT inline("
        "from_json(:rows, 'ARRAY<STRUCT<c0: STRING, c1: STRING, c2: array<string>, c3: STRING, "
        "c4: STRING>>', map('mode', 'FAILFAST'))))"
    )


def test_a_map_cannot_be_loaded() -> None:
    with pytest.raises(InvalidRequest, match="map<string,int>, which"):
        insert_statement("t", [(0, CatalogName("m", "map<string,int>"))])


def test_rows_are_converted_to_the_types_of_the_table(tmp_path: Path) -> None:
    content = (
        '{"ID": 1.50, "name": true, "tags": ["a", 1], "doc": {"x": 1.0}}\n{"name": "", "id": null}'
    )
    batch, other = make_batches(load(tmp_path, content, "f.json"), COLUMNS)
    assert [json.loads(row) for row in batch.rows + other.rows] == [
        {"c0": "1.50", "c1": "true", "c2": ["a", 1], "c4": '{"x": 1.0}'},
        {"c1": "", "c0": None},
    ]
    assert [column.text for _, column in batch.columns_of(COLUMNS)] == [
        "Id",
        "na`me",
        "tags",
        "doc",
    ]


def test_rows_with_other_columns_are_in_another_batch(tmp_path: Path) -> None:
    content = '{"id": 1}\n{"ID": 2}\n{"id": 3, "name": "x"}\n{"name": null, "id": 4}\n{"id": 5}'
    batches = make_batches(load(tmp_path, content, "f.json"), COLUMNS)
    shown = [(sorted(batch.names), len(batch.rows)) for batch in batches]
    assert shown == [(["id"], 2), (["id", "name"], 2), (["id"], 1)]


def test_a_row_without_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"f\.json:2 has no columns"):
        list(make_batches(load(tmp_path, '{"id": 1}\n{}', "f.json"), COLUMNS))


def test_a_large_file_is_inserted_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_from, "BATCH_BYTES", 100)
    content = "id\n" + "".join(f"{n}\n" for n in range(100))
    batches = list(make_batches(load(tmp_path, content), COLUMNS))
    assert len(batches) > 5
    assert all(batch.size < 150 for batch in batches)
    rows = [json.loads(row)["c0"] for batch in batches for row in batch.rows]
    assert rows == [str(n) for n in range(100)]


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ("nam\nx\n", r"f\.csv:2 has the column 'nam', but t has not", "did you mean na`me"),
        ("zzz\nx\n", "has the column 'zzz'", "its columns: Id, na`me"),
        ("id,tags\n1,[\n", r"f\.csv:2, column tags is not JSON", None),
    ],
)
def test_values_that_do_not_fit_are_refused(
    tmp_path: Path, content: str, message: str, hint: str | None
) -> None:
    with pytest.raises(InvalidRequest, match=message) as error:
        list(make_batches(load(tmp_path, content), COLUMNS))
    assert hint is None or (error.value.hint or "").startswith(hint)


def test_a_nested_value_needs_a_nested_column(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="column id is a list or an object"):
        list(make_batches(load(tmp_path, '{"id": [1]}', "f.json"), COLUMNS))
