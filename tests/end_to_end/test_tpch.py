"""The 22 queries of TPC-H return the same rows through Headrace as in PySpark without it."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.node import NodeProcess
from tests.support.outcome import run_to_outcome
from tests.support.plain_spark import PlainSpark

pytestmark = pytest.mark.spark

QUERIES = sorted((Path(__file__).parent / "tpch").glob("q*.sql"))
TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]
SCALE = "0.02"

ORDER_MAY_TIE = {"q03", "q05", "q10", "q11", "q18"}
"""Queries whose ORDER BY does not fully determine the order of rows."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generate one Parquet file for each table with the generator of the specification."""
    folder = tmp_path_factory.mktemp("tpch")
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    subprocess.run([program, "parquet", "-q", "-s", SCALE, "-o", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def warehouse(
    node: NodeProcess, drivers: tuple[str, str], plain: PlainSpark, data: Path
) -> Iterator[str]:
    """Yield a session whose current database has the data as external tables, as PySpark has."""
    session = drivers[0]
    statements = [
        "CREATE DATABASE tpch",
        "USE tpch",
        *(f"CREATE TABLE {name} USING parquet LOCATION '{data / name}.parquet'" for name in TABLES),
    ]
    for statement in statements:
        wait_for_outcome = plain.start(statement)
        node.rows(statement, session)
        assert wait_for_outcome().error is None
    yield session
    for statement in ("USE default", "DROP DATABASE tpch CASCADE"):
        plain.run(statement)
        node.rows(statement, session)


def test_all_22_queries_exist() -> None:
    assert [query.stem for query in QUERIES] == [f"q{number:02}" for number in range(1, 23)]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.stem)
def test_a_query_returns_the_same_rows_as_plain_spark(
    node: NodeProcess, warehouse: str, plain: PlainSpark, query: Path
) -> None:
    text = query.read_text()
    wait_for_outcome = plain.start(text)
    result = run_to_outcome(node, text, warehouse)
    expected = wait_for_outcome()
    assert expected.error is None, expected.message
    assert any(value is not None for row in expected.rows for value in row), (
        "The query returns no value, so the comparison is void."
    )
    assert result.error is None, result.message
    assert result.schema == expected.schema
    if query.stem in ORDER_MAY_TIE:
        assert result.sorted_rows == expected.sorted_rows
    else:
        assert result.rows == expected.rows
