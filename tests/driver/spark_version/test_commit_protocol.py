"""Concurrent writes to one table, with the commit protocol of Headrace."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tests.support.ctas import database_directory, fetch_rows
from tests.support.files import find_matching
from tests.support.waiting import wait_until

from headrace.driver.spark_version import commit_protocol
from headrace.driver.spark_version.commit_protocol import CommitProtocol, isolates_appends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.finding("B21")]

SPARKS_PROTOCOL = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
_COUNT = "SELECT count(*), sum(id) FROM t"


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session with the protocol and a database of its own, with the table `t`."""
    session = spark.newSession()
    CommitProtocol(session).activate()
    name = f"d_{secrets.token_hex(4)}"
    session.sql(f"CREATE DATABASE {name}")
    session.sql(f"USE {name}")
    session.sql("CREATE TABLE t (id BIGINT, k BIGINT) USING parquet PARTITIONED BY (k)")
    yield session
    session.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture
def table(session: SparkSession) -> Path:
    """Return the directory of `t`."""
    return database_directory(session) / "t"


@contextmanager
def halted_insert(session: SparkSession, table: Path, gate: Path) -> Iterator[Future[object]]:
    """Start an INSERT of the ids 0 to 9. Its last task waits until the file `gate` exists.

    The block begins when another task has written its rows.
    """

    def wait_for_gate(number: int) -> int:
        while number >= 5 and not gate.exists():
            time.sleep(0.02)
        return number

    session.udf.register("wait_for_gate", wait_for_gate, "bigint")
    text = "INSERT INTO t SELECT wait_for_gate(id), id % 2 FROM range(0, 10, 1, 2)"
    before = list_files(table)
    with ThreadPoolExecutor(1) as executor:
        insert = executor.submit(session.sql, text)
        try:
            wait_until(
                lambda: (
                    insert.done() or any("task_" in path for path in list_files(table) - before)
                ),
                seconds=60,
                what="the first task of the INSERT is committed",
            )
            assert not insert.done(), insert.result()
            yield insert
        finally:
            gate.touch()


def list_files(table: Path) -> set[str]:
    """Return the paths of all Parquet files below a table, staged files included."""
    return {str(path.relative_to(table)) for path in find_matching(table, "*.parquet")}


def list_entries(table: Path) -> set[str]:
    """Return the names in the directory of a table, without those of checksum files."""
    return {path.name for path in table.iterdir() if path.suffix != ".crc"}


def test_an_insert_keeps_its_rows_when_another_insert_commits_first(
    session: SparkSession, table: Path, tmp_path: Path
) -> None:
    assert isolates_appends(session)
    with halted_insert(session, table, tmp_path / "gate") as insert:
        session.sql("INSERT INTO t SELECT id, id % 2 FROM range(100, 110, 1, 1)")
    insert.result()
    assert fetch_rows(session, _COUNT) == [(20, 45 + 1045)]
    assert list_entries(table) == {"_SUCCESS", "k=0", "k=1"}


def test_an_insert_keeps_its_rows_when_another_insert_fails(
    session: SparkSession, table: Path, tmp_path: Path
) -> None:
    failing = "INSERT INTO t SELECT raise_error('half-way'), 0 FROM range(0, 1, 1, 1)"
    with (
        halted_insert(session, table, tmp_path / "gate") as insert,
        pytest.raises(PySparkException, match="half-way"),
    ):
        session.sql(failing)
    insert.result()
    assert fetch_rows(session, _COUNT) == [(10, 45)]


def test_an_insert_fails_without_rows_when_another_program_removes_its_staging_directory(
    session: SparkSession, table: Path, tmp_path: Path
) -> None:
    with halted_insert(session, table, tmp_path / "gate") as insert:
        for name in list_entries(table):
            shutil.rmtree(table / name)
    with pytest.raises(Py4JJavaError, match="nother program has removed"):
        insert.result()
    assert fetch_rows(session, _COUNT) == [(0, None)]


def test_a_dynamic_overwrite_replaces_only_its_partitions(
    session: SparkSession, table: Path
) -> None:
    session.sql("INSERT INTO t SELECT id, id % 3 FROM range(9)")
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    session.sql("INSERT OVERWRITE t SELECT 100L, 1L")
    rows = fetch_rows(session, "SELECT id FROM t ORDER BY id")
    assert [row[0] for row in rows] == [0, 2, 3, 5, 6, 8, 100]
    assert list_entries(table) == {"_SUCCESS", "k=0", "k=1", "k=2"}


def test_a_committer_of_the_user_is_not_replaced(session: SparkSession) -> None:
    session.conf.set(
        "spark.sql.sources.outputCommitterClass",
        "org.apache.hadoop.mapreduce.lib.output.PartialFileOutputCommitter",
    )
    assert not isolates_appends(session)


def test_a_reset_does_not_deselect_the_protocol(session: SparkSession) -> None:
    protocol = CommitProtocol(session)
    protocol.activate()
    session.sql("RESET")
    assert not isolates_appends(session)
    protocol.activate()
    assert isolates_appends(session)


def test_the_protocol_of_spark_stays_where_the_class_cannot_be_loaded(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = spark.newSession()
    monkeypatch.setattr(commit_protocol, "_CLASS", "headrace.NoSuchProtocol")
    CommitProtocol(session).activate()
    assert session.conf.get("spark.sql.sources.commitProtocolClass") == SPARKS_PROTOCOL
