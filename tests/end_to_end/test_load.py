r"""`headrace load` and the documented options of Spark, with a real node and a real driver."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result
from tests.support.node import NodeProcess

from headrace.cli.load import loader
from headrace.cli.main import headrace as program

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
_COLUMNS = """
  b BOOLEAN, i INT, l BIGINT, f FLOAT, x DOUBLE, d DECIMAL(38,10), s STRING, v VARCHAR(20),
  raw BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, ds INTERVAL DAY TO SECOND,
  ym INTERVAL YEAR TO MONTH, a ARRAY<BINARY>, m MAP<INT, STRUCT<p: DATE, q: ARRAY<STRING>>>,
  st STRUCT<p: STRING, `q r`: MAP<STRING, DOUBLE>>"""
_VALUES = r"""
  SELECT true, -1, 9223372036854775807, float(1.1), double('NaN'), 1.5, '', '', X'CAFE',
    DATE'0001-01-01', TIMESTAMP'2024-02-29 12:34:56.000001Z', TIMESTAMP_NTZ'1900-01-01 00:00:00',
    INTERVAL '1 02:03:04.5' DAY TO SECOND, INTERVAL '-1-2' YEAR TO MONTH, array(X'00', NULL, X''),
    map(1, named_struct('p', DATE'2024-02-29', 'q', array('', NULL, '"'))),
    named_struct('p', '', 'q r', map('', double('-Infinity'), 'k', NULL))
  UNION ALL
  SELECT false, NULL, NULL, NULL, 0.1, -0.0000000001,
    r' a "quoted", \N \n text' || chr(10) || 'é😀 ', 'NULL', X'', DATE'9999-12-31',
    TIMESTAMP'0001-01-02 00:00:00Z', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999',
    INTERVAL '-0.000001' SECOND, INTERVAL '0' MONTH, array(), map(), NULL
  UNION ALL
  SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL"""
Run = Callable[..., Result]


@pytest.fixture
def run(node: NodeProcess, session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `headrace …` in the session, in the folder of the test."""
    monkeypatch.chdir(tmp_path)

    def run_command(command: str, *arguments: str) -> Result:
        line = [command, *arguments, "--session", session]
        return CliRunner().invoke(program, line, env=node.client_environment)

    return run_command


@pytest.fixture
def typed(node: NodeProcess, session: str) -> str:
    """Return a table with a column of every type that a table of Parquet can have."""
    node.rows(f"CREATE TABLE IF NOT EXISTS typed ({_COLUMNS}) USING parquet", session)
    if node.rows("SELECT count(*) FROM typed", session) == [["0"]]:
        assert node.rows(f"INSERT INTO typed {_VALUES}", session) == []
    return "typed"


def rows_of(node: NodeProcess, session: str, table: str) -> list[list[Any]]:
    return sorted(node.rows(f"TABLE {table}", session), key=str)


@pytest.mark.parametrize(
    "format_",
    [
        *("csv", "jsonl", "parquet", "arrow"),
        # These have the writer and the reader of values of another format.
        *(pytest.param(name, marks=pytest.mark.matrix) for name in ("tsv", "json", "arrows")),
    ],
)
def test_every_value_of_every_type_survives_a_file(
    node: NodeProcess, session: str, run: Run, typed: str, tmp_path: Path, format_: str
) -> None:
    text = run("sql", f"TABLE {typed}", "--format", format_)
    assert text.exit_code == 0, text.stderr
    (tmp_path / f"f.{format_}").write_bytes(text.stdout_bytes)
    copy = f"typed_{format_}"
    node.rows(f"CREATE TABLE {copy} ({_COLUMNS}) USING parquet", session)
    loaded = run("load", f"f.{format_}", "--into", copy)
    assert (loaded.exit_code, loaded.stderr.splitlines()[-1:]) == (
        0,
        [f"3 rows loaded into {copy}."],
    )
    assert rows_of(node, session, copy) == rows_of(node, session, typed)


def test_a_new_table_has_the_inferred_types_and_appends_keep_them(
    node: NodeProcess, session: str, run: Run, tmp_path: Path
) -> None:
    select = (
        "SELECT 1 AS id, 1.5::DOUBLE AS price, 'a \"b\"' AS name, DATE '2024-02-29' AS day, "
        "TIMESTAMP '2024-02-29 10:00:00' AS at, [1, 2] AS tags, {'p': true} AS flags"
    )
    duckdb.sql(f"COPY ({select}) TO '{tmp_path}/f.parquet'")
    duckdb.sql(f"COPY ({select}) TO '{tmp_path}/f.json'")
    assert "tags   array<int>" in run("load", "f.parquet", "--into", "inferred").stderr
    assert run("load", "f.json", "f.parquet", "--into", "inferred").exit_code == 0
    row = ["1", 1.5, 'a "b"', "2024-02-29", "2024-02-29T10:00:00.000000", [1, 2], {"p": True}]
    read = node.rows("TABLE inferred", session)
    assert [[str(row[0]), *row[1:]] for row in read] == [row] * 3


def test_rows_that_do_not_fit_are_named_and_none_is_loaded(
    node: NodeProcess, session: str, run: Run, tmp_path: Path
) -> None:
    node.rows("CREATE TABLE strict (id INT, v VARCHAR(3), m MAP<STRING, ARRAY<DATE>>)", session)
    lines = [
        '{"id": 1, "v": "abc", "m": {"k": ["2024-02-29"]}}',
        '{"id": 2147483648}',
        '{"v": "abcd"}',
        '{"m": {"k": ["2024-02-29", "2023-02-29"]}}',
        '{"id": 2}',
    ]
    (tmp_path / "f.jsonl").write_text("\n".join(lines))
    result = run("load", "f.jsonl", "--into", "strict")
    assert result.exit_code == 2
    assert [line for line in result.stderr.splitlines() if not line.startswith("Statement")] == [
        "f.jsonl:2: column id: '2147483648' is not int",
        "f.jsonl:3: column v: 'abcd' is not a text of 3 characters",
        'f.jsonl:4: column m: \'{"k":["2024-02-29","2023-02-29"]}\' is not map<string,array<date>>',
        "error: 3 rows do not fit strict. No row was loaded.",
    ]
    (tmp_path / "off.csv").write_text("id\nx\n")
    node.rows("SET spark.sql.ansi.enabled=false", session)
    assert run("load", "off.csv", "--into", "strict").exit_code == 2
    node.rows("RESET spark.sql.ansi.enabled", session)
    assert node.rows("SELECT count(*) FROM strict", session) == [["0"]]


@pytest.mark.parametrize("is_local", [True, False])
def test_a_large_file_is_loaded_whole_and_nothing_else_remains(
    node: NodeProcess,
    session: str,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_local: bool,
) -> None:
    if not is_local:
        monkeypatch.setattr(loader, "_LOCAL_HOSTS", frozenset())
    table = f"large_{'local' if is_local else 'remote'}"
    (tmp_path / "f.csv").write_text("n,t\n" + "".join(f"{n},'x{n}\n" for n in range(60_000)))
    assert run("load", "f.csv", "--into", table).exit_code == 0
    query = f"SELECT count(*), sum(n), count(DISTINCT t) FROM {table}"
    assert node.rows(query, session) == [["60000", str(60_000 * 59_999 // 2), "60000"]]
    with (tmp_path / "f.csv").open("a") as file:
        file.write("bad,x\n")
    result = run("load", "f.csv", "--into", table)
    assert "f.csv:60002: column n: 'bad' is not bigint" in result.stderr
    assert node.rows(f"SELECT count(*) FROM {table}", session) == [["60000"]]
    assert node.rows("SHOW TABLES LIKE 'headrace_load_*'", session) == []


def test_the_documented_options_of_spark_read_every_text_of_our_csv(
    node: NodeProcess, session: str, run: Run, tmp_path: Path
) -> None:
    page = (ROOT / "docs/guides/load-data.md").read_text()
    match = re.search(r"USING csv\s+OPTIONS \((path '/data/sales[^)]*)\)", page)
    assert match is not None
    options = re.sub(r"path '[^']*'", f"path '{tmp_path}/f.csv'", match[1])
    name = f"texts_{time.monotonic_ns()}"
    node.rows(
        f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM VALUES (1, '', ' \"x\", '), "
        "(2, NULL, '\"'), (3, r'\\n', 'a\r\nb\n'), (4, r'\"\\', NULL), (5, 'NA', 'é,') "
        "AS t(id, a, b)",
        session,
    )
    text = run("sql", f"TABLE {name}", "--format", "csv")
    (tmp_path / "f.csv").write_bytes(text.stdout_bytes)
    view = f"{name}_file"
    node.rows(
        f"CREATE TEMPORARY VIEW {view} (id INT, a STRING, b STRING) USING csv OPTIONS ({options})",
        session,
    )
    assert rows_of(node, session, view) == rows_of(node, session, name)
    for each in (name, view):
        node.rows(f"DROP VIEW {each}", session)
