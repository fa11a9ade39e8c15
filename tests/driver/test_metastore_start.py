"""The metastore of the host starts when a statement of the driver may need it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.support.journal import BOOTSTRAP
from tests.support.waiting import wait_until

from headrace.driver.jvm_start import MetastoreStart
from headrace.model.messages import Assignment
from headrace.model.result import ResultRequest


@pytest.fixture
def wanted(tmp_path: Path) -> Path:
    return tmp_path / "wanted"


@pytest.fixture
def start(wanted: Path) -> MetastoreStart:
    return MetastoreStart(BOOTSTRAP.model_copy(update={"wanted": str(wanted)}))


def make_assignment(text: str, *, is_query: bool = True) -> Assignment:
    return Assignment(
        statement_id="st_1",
        text=text,
        parameters=[],
        conf={},
        result_request=ResultRequest(),
        is_query=is_query,
        attempt=1,
    )


@pytest.mark.parametrize(
    ("text", "is_query"),
    [
        ("SELECT * FROM t", True),
        ("table t", True),
        ("WITH a AS (SELECT 1) SELECT * from a", True),
        ("SHOW SCHEMAS", True),
        ("DESC t", True),
        ("DROP VIEW v", False),
        ("SET x = 1", False),
    ],
)
def test_a_statement_that_may_need_the_catalog_starts_the_metastore(
    start: MetastoreStart, wanted: Path, text: str, is_query: bool
) -> None:
    start.start_for(make_assignment(text, is_query=is_query))
    assert wanted.exists()


@pytest.mark.parametrize("text", ["SELECT 1", "VALUES (1), (2)", "SELECT tables, fromage"])
def test_a_query_that_names_no_table_does_not_start_the_metastore(
    start: MetastoreStart, wanted: Path, text: str
) -> None:
    start.start_for(make_assignment(text))
    assert not wanted.exists()
    start.start()
    assert wanted.exists()


def test_the_metastore_starts_soon_without_any_statement(
    start: MetastoreStart, wanted: Path
) -> None:
    began = time.monotonic()
    start.start_soon()
    wait_until(wanted.exists)
    assert time.monotonic() - began > 0.5  # a query without a table may end before


def test_a_driver_without_a_metastore_on_its_host_starts_none(tmp_path: Path) -> None:
    start = MetastoreStart(BOOTSTRAP)
    start.start_soon()
    start.start()
    assert not list(tmp_path.iterdir())
