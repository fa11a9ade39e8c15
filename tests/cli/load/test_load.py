"""`headrace load` against a scripted node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode

from headrace.cli.load import loader
from headrace.cli.load.statements import LoadColumn, LoadPlan, from_parameter
from headrace.grammar.data_types import parse_data_type

MISSING = {"code": "analysis_error", "condition": "TABLE_OR_VIEW_NOT_FOUND", "message": "No table."}
FAILURE = {"code": "execution_error", "condition": "CAST_INVALID_INPUT", "message": "Bad value."}
COLUMNS = [("id", "int"), ("name", "string")]


def make_plan(*, is_new: bool = False, id_type: str = "int") -> LoadPlan:
    types = [("id", id_type), ("name", "string")]
    columns = [
        LoadColumn(f"c{index}", name, parse_data_type(type_))
        for index, (name, type_) in enumerate(types)
    ]
    return LoadPlan("t", columns, is_new=is_new)


@pytest.fixture
def table(node: ScriptedNode) -> None:
    node.on("SELECT * FROM t LIMIT 0", columns=COLUMNS, chunks=[[]])


@pytest.fixture
def no_table(node: ScriptedNode) -> None:
    node.on("SELECT * FROM t LIMIT 0", state="failed", error=MISSING)


def bodies(node: ScriptedNode) -> list[dict[str, Any]]:
    return [call.body or {} for call in node.calls("POST", "/api/v1/statements")]


def sent_rows(body: dict[str, Any]) -> list[Any]:
    (parameter,) = body["parameters"]
    return [json.loads(line) for line in parameter["value"].split("\n")]


@pytest.mark.usefixtures("table")
def test_the_rows_of_several_files_are_inserted_by_one_statement(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("NAME,id\nann,1\n,2\n")
    (tmp_path / "b.jsonl").write_text('{"id": 3}\n')
    completed = headrace("load", "a.csv", "b.jsonl", "--into", "t")
    assert (completed.returncode, completed.stdout) == (0, "")
    assert completed.stderr == "3 rows loaded into t.\n"
    insert = bodies(node)[-1]
    assert insert["statement"] == make_plan().write(from_parameter())
    assert insert["conf"] == {"spark.sql.ansi.enabled": "true"}
    assert sent_rows(insert) == [
        {"f": 0, "n": 2, "c0": "1", "c1": "ann"},
        {"f": 0, "n": 3, "c0": "2", "c1": None},
        {"f": 1, "n": 1, "c0": "3"},
    ]
    assert not {"session"} & set(insert)  # the pool session


@pytest.mark.usefixtures("no_table")
def test_a_table_that_does_not_exist_is_created_with_the_schema_that_is_shown(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,x\n")
    completed = headrace("load", "a.csv", "--into", "t")
    assert completed.stderr == (
        "New table t:\n  id    bigint\n  name  string\n1 row loaded into t.\n"
    )
    plan = make_plan(is_new=True, id_type="bigint")
    assert bodies(node)[-1]["statement"] == plan.write(from_parameter())
    assert headrace("load", "a.csv", "--into", "t", "--quiet").stderr == ""


@pytest.mark.usefixtures("no_table")
def test_a_file_without_rows_creates_a_table_only_if_its_columns_are_known(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "a.csv").write_text("id\n")
    completed = headrace("load", "a.csv", "--into", "t")
    assert completed.returncode == 2
    assert "types of a new table are not known" in completed.stderr
    pq.write_table(pa.table({"id": pa.array([], pa.int32())}), tmp_path / "a.parquet")
    assert headrace("load", "a.parquet", "--into", "t").returncode == 0
    assert bodies(node)[-1]["statement"] == "CREATE TABLE t (`id` int)"


@pytest.mark.usefixtures("table")
def test_rows_that_are_not_well_formed_are_named_and_nothing_is_sent(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path
) -> None:
    lines = ["id,name", "1,a", "2", *["3"] * 9, "4,b"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    completed = headrace("load", "a.csv", "--into", "t")
    assert completed.returncode == 2
    *rows, error = completed.stderr.splitlines()
    assert rows == [
        f"a.csv:{line}: the row has 1 field, but the header has 2 fields" for line in range(3, 8)
    ]
    assert error == "error: 10 rows do not fit t. No row was loaded."
    assert len(node.statements) == 1


@pytest.mark.usefixtures("table")
def test_rows_that_spark_refuses_are_named(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path
) -> None:
    node.on(make_plan().write(from_parameter()), state="failed", error=FAILURE)
    node.on(
        "DESCRIBE TABLE t",
        columns=[("col_name", "string"), ("data_type", "string"), ("comment", "string")],
        chunks=[[["id", "int", None], ["name", "varchar(3)", None]]],
    )
    query = make_plan().find_misfits(from_parameter(), {"name": 3})
    assert query is not None
    shown = [("f", "int"), ("n", "bigint"), ("i", "int"), ("v", "string"), ("c", "bigint")]
    node.on(query, columns=shown, chunks=[[[0, "2", 0, "x", "7"], [1, "5", 1, "long", "7"]]])
    (tmp_path / "a.csv").write_text("id,name\nx,a\n")
    (tmp_path / "b.csv").write_text("id,name\n1,a\n1,a\n1,a\n1,long\n")
    completed = headrace("load", "a.csv", "b.csv", "--into", "t")
    assert completed.returncode == 2
    assert completed.stderr.splitlines() == [
        "a.csv:2: column id: 'x' is not int",
        "b.csv:5: column name: 'long' is not a text of 3 characters",
        "error: 7 rows do not fit t. No row was loaded.",
    ]
    assert sent_rows(bodies(node)[-1]) == sent_rows(bodies(node)[1])


@pytest.mark.usefixtures("table")
def test_another_failure_is_shown_as_spark_reports_it(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path
) -> None:
    failure = {"code": "execution_error", "condition": "NOT_NULL", "message": "id is NULL."}
    node.on(make_plan().write(from_parameter()), state="failed", error=failure)
    (tmp_path / "a.csv").write_text("id,name\n,a\n")
    completed = headrace("load", "a.csv", "--into", "t")
    assert completed.returncode == 1
    assert completed.stderr == "error: [NOT_NULL] id is NULL.\nNo row of a.csv was loaded.\n"


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nam\nx\n", "a.csv:2 has the column 'nam', but t has not.\nhint: did you mean name?"),
        ("zzz\nx\n", "hint: its columns: id, name"),
    ],
)
def test_a_column_that_the_table_lacks_is_refused(
    headrace: RunHeadrace, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "a.csv").write_text(content)
    completed = headrace("load", "a.csv", "--into", "t")
    assert completed.returncode == 2
    assert message in completed.stderr


@pytest.mark.usefixtures("table")
def test_a_large_file_that_the_driver_cannot_read_goes_through_a_staging_table(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "BATCH_BYTES", 300)
    monkeypatch.setattr(loader, "token_hex", lambda _: "ab")
    (tmp_path / "a.csv").write_text("id,name\n" + "1,x\n" * 20)
    assert headrace("load", "a.csv", "--into", "t").returncode == 0
    texts = [body["statement"] for body in bodies(node)]
    _, probe, create, *stages, insert, drop = texts
    assert probe.startswith("SELECT row FROM (SELECT value AS row FROM text.`file:")
    assert create == "CREATE TABLE headrace_load_ab (row STRING)"
    assert len(set(stages)) == 1
    assert insert == make_plan().write("headrace_load_ab")
    assert drop == "DROP TABLE IF EXISTS headrace_load_ab"
    staged = [row for body in bodies(node)[3:-2] for row in sent_rows(body)]
    assert [row["n"] for row in staged] == list(range(2, 22))


@pytest.mark.usefixtures("table")
def test_a_failed_batch_leaves_neither_rows_nor_the_staging_table(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "BATCH_ROWS", 2)
    monkeypatch.setattr(loader, "token_hex", lambda _: "ab")
    stage = "INSERT INTO headrace_load_ab SELECT row FROM " + from_parameter()
    node.on(stage, state="failed", error=FAILURE)
    (tmp_path / "a.csv").write_text("id,name\n" + "1,x\n" * 9)
    completed = headrace("load", "a.csv", "--into", "t")
    assert completed.returncode == 1
    assert "Bad value." in completed.stderr
    texts = [body["statement"] for body in bodies(node)]
    assert texts[3:] == [stage, "DROP TABLE IF EXISTS headrace_load_ab"]


@pytest.mark.usefixtures("table")
def test_a_file_that_is_too_large_for_the_store_is_refused(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "BATCH_ROWS", 2)
    monkeypatch.setattr(loader, "LARGEST_REMOTE", 100)
    (tmp_path / "a.csv").write_text("id,name\n" + "1,x\n" * 9)
    completed = headrace("load", "a.csv", "--into", "t")
    assert completed.returncode == 2
    assert "copy the file to a place that Spark reads" in completed.stderr
    assert len(node.statements) == 2  # the columns and the probe


def test_an_argument_is_never_read_as_sql(node: ScriptedNode, headrace: RunHeadrace) -> None:
    completed = headrace("load", "a.csv", "--into", "t; DROP TABLE t")
    assert "is not a name" in completed.stderr
    assert node.statements == {}
