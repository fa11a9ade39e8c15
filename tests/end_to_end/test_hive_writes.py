"""INSERT and LOAD DATA of tables in Hive formats write all rows or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.node import NodeProcess

pytestmark = pytest.mark.spark

DYNAMIC = {
    "hive.exec.dynamic.partition.mode": "nonstrict",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
}
FORMATS = [
    "STORED AS TEXTFILE",
    "STORED AS SEQUENCEFILE",
    "STORED AS RCFILE",
    "STORED AS PARQUET",
    "STORED AS ORC",
    "USING hive OPTIONS (fileFormat 'avro')",
    "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE",
]

OTHER_SERDES = [FORMATS[1], FORMATS[2], FORMATS[6]]
"""Formats that differ from another one in Hive's classes only."""


def must_run(node: NodeProcess, session: str, text: str) -> dict[str, object]:
    statement = node.run(text, session, conf=DYNAMIC)
    assert statement["state"] == "success", statement
    return statement


@pytest.mark.parametrize(
    "clause",
    [
        pytest.param(clause, marks=[pytest.mark.matrix] if clause in OTHER_SERDES else [])
        for clause in FORMATS
    ],
)
def test_rows_are_added_and_replaced_in_every_format(
    node: NodeProcess, session: str, clause: str
) -> None:
    table = f"hive_{FORMATS.index(clause)}"
    must_run(node, session, f"CREATE TABLE {table} (id BIGINT, s STRING) {clause}")
    for verb, ids in (("INTO", range(4)), ("INTO", range(4, 6)), ("OVERWRITE", range(7, 9))):
        rows = f"SELECT id, NULLIF(CAST(id AS STRING), '5') FROM range({ids.start}, {ids.stop})"
        written = must_run(node, session, f"INSERT {verb} {table} {rows}")
        assert written["atomic"] is True
        if verb == "INTO" and ids.start:
            found = node.rows(f"SELECT id, s FROM {table} ORDER BY id", session)
            assert found == [[str(id_), None if id_ == 5 else str(id_)] for id_ in range(6)]
    assert node.rows(f"SELECT id, s FROM {table} ORDER BY id", session) == [["7", "7"], ["8", "8"]]
    assert not list((node.home / "warehouse" / table).glob(".headrace_*"))


def test_partitions_are_replaced_as_hive_replaces_them(node: NodeProcess, session: str) -> None:
    create = "CREATE TABLE hive_parts (id BIGINT) PARTITIONED BY (k INT, j STRING)"
    must_run(node, session, f"{create} STORED AS TEXTFILE")
    must_run(node, session, "INSERT INTO hive_parts VALUES (1, 1, 'a'), (2, 1, 'b')")
    must_run(node, session, "INSERT INTO hive_parts PARTITION (k = 2, j = 'x/y z') VALUES (3)")
    must_run(node, session, "INSERT INTO hive_parts PARTITION (k = 2, j) VALUES (4, 'dyn')")
    # Only the partitions with new rows are replaced.
    must_run(node, session, "INSERT OVERWRITE hive_parts VALUES (20, 1, 'b')")
    must_run(node, session, "INSERT OVERWRITE hive_parts PARTITION (k = 1, j = 'a') VALUES (10)")
    skipped = must_run(
        node,
        session,
        "INSERT OVERWRITE hive_parts PARTITION (k = 1, j = 'a') IF NOT EXISTS SELECT 99",
    )
    assert "already exists" in str(skipped["note"])
    # An empty partition stays in the catalog.
    empty = "INSERT OVERWRITE hive_parts PARTITION (k = 2, j = 'dyn') SELECT 1 WHERE false"
    assert must_run(node, session, empty)["atomic"] is True
    assert node.rows("SELECT id, k, j FROM hive_parts ORDER BY id", session) == [
        ["3", 2, "x/y z"],
        ["10", 1, "a"],
        ["20", 1, "b"],
    ]
    partitions = [row[0] for row in node.rows("SHOW PARTITIONS hive_parts", session)]
    assert partitions == ["k=1/j=a", "k=1/j=b", "k=2/j=dyn", "k=2/j=x%2Fy z"]


def test_strict_mode_of_hive_is_kept(node: NodeProcess, session: str) -> None:
    create = "CREATE TABLE hive_strict (id BIGINT) PARTITIONED BY (k INT) STORED AS TEXTFILE"
    must_run(node, session, create)
    refused = node.run("INSERT INTO hive_strict VALUES (1, 1)", session)
    assert refused["state"] == "failed"
    assert "strict mode" in refused["error"]["message"]


def test_files_are_loaded_once_and_moved_unless_they_are_local(
    node: NodeProcess, session: str, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, text in {"a.txt": "1\n2\n", "b.txt": "3\n", "_hidden": "9\n"}.items():
        (folder / name).write_text(text)
    must_run(node, session, "CREATE TABLE loaded (id BIGINT) STORED AS TEXTFILE")
    for _ in range(2):
        local = must_run(
            node, session, f"LOAD DATA LOCAL INPATH '{folder}/a.txt' INTO TABLE loaded"
        )
        assert local["atomic"] is True
    assert node.rows("SELECT id FROM loaded ORDER BY id", session) == [["1"], ["1"], ["2"], ["2"]]
    must_run(node, session, f"LOAD DATA INPATH '{folder}' OVERWRITE INTO TABLE loaded")
    assert node.rows("SELECT id FROM loaded ORDER BY id", session) == [["1"], ["2"], ["3"]]
    assert [path.name for path in folder.iterdir() if path.suffix != ".crc"] == ["_hidden"]


def test_a_file_is_loaded_into_a_partition(node: NodeProcess, session: str, tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("1\n")
    create = "CREATE TABLE loaded_parts (id BIGINT) PARTITIONED BY (k INT) STORED AS TEXTFILE"
    must_run(node, session, create)
    load = f"LOAD DATA LOCAL INPATH '{tmp_path}/r*.txt' INTO TABLE loaded_parts"
    must_run(node, session, f"{load} PARTITION (K = 7)")
    assert node.rows("SELECT id, k FROM loaded_parts", session) == [["1", 7]]


def test_no_file_is_loaded_into_a_table_of_another_format(
    node: NodeProcess, session: str, tmp_path: Path
) -> None:
    (tmp_path / "rows.txt").write_text("1\n")
    must_run(node, session, "CREATE TABLE load_parquet (id BIGINT) USING parquet")
    text = f"LOAD DATA LOCAL INPATH '{tmp_path}/rows.txt' INTO TABLE load_parquet"
    assert node.run(text, session)["state"] == "failed"
    assert node.rows("SELECT * FROM load_parquet", session) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "LOAD DATA LOCAL INPATH '{file}.missing' INTO TABLE load_refused PARTITION (k = 1)",
            "does not exist",
        ),
        ("LOAD DATA LOCAL INPATH '{file}' INTO TABLE load_refused", "no partition spec"),
        (
            "LOAD DATA LOCAL INPATH '{file}' INTO TABLE load_refused PARTITION (k = 1, j = 2)",
            "cannot be found",
        ),
    ],
)
def test_spark_reports_a_load_that_it_refuses(
    node: NodeProcess, session: str, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "rows.txt").write_text("1\n")
    create = "CREATE TABLE IF NOT EXISTS load_refused (id BIGINT) PARTITIONED BY (k INT)"
    must_run(node, session, f"{create} STORED AS TEXTFILE")
    refused = node.run(text.format(file=tmp_path / "rows.txt"), session)
    assert refused["state"] == "failed"
    assert message in refused["error"]["message"]


@pytest.mark.parametrize("column", ["a b", "Ä", "and", "1", "Day"])
@pytest.mark.parametrize("clause", ["USING parquet", "STORED AS ORC"])
def test_partitions_are_found_by_a_column_with_any_name(
    node: NodeProcess, session: str, column: str, clause: str
) -> None:
    """A metastore cannot filter by a column whose name is no identifier of its own."""
    table = f"odd_{column.encode().hex()}_{clause.split(maxsplit=1)[0].lower()}"
    rows = f"SELECT id, IF(id < 3, 'v', 'w') AS `{column}` FROM range(5)"
    must_run(node, session, f"CREATE TABLE {table} {clause} PARTITIONED BY (`{column}`) AS {rows}")
    found = node.rows(f"SELECT id FROM {table} WHERE `{column}` = 'w' ORDER BY id", session)

    assert found == [["3"], ["4"]]
    for verb, ids in (("INTO", [["3"], ["4"], ["7"]]), ("OVERWRITE", [["7"]])):
        written = must_run(node, session, f"INSERT {verb} {table} VALUES (7, 'w')")
        assert written["atomic"] is True
        rows = f"SELECT id FROM {table} WHERE `{column}` = 'w' ORDER BY id"
        assert node.rows(rows, session) == ids
    assert len(node.rows(f"SHOW PARTITIONS {table}", session)) == 2
