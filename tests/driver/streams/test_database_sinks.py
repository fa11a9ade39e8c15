"""Sinks in databases: what a batch that runs twice leaves in them."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from tests.support.postgres import Postgres
from tests.support.streams import StartRun, finish, forget_commits

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]


class Target:
    """A new PostgreSQL database, and the sink that writes to its table `numbers`."""

    def __init__(self, postgres: Postgres) -> None:
        database = postgres.new_database()
        self.url = f"postgresql://postgres@127.0.0.1:{postgres.port}/{database}"
        jdbc = f"jdbc:postgresql://127.0.0.1:{postgres.port}/{database}"
        self.sink = (
            f"CREATE SINK db TO jdbc OPTIONS ('url' = '{jdbc}', 'dbtable' = 'public.numbers',"
            " 'user' = 'postgres')"
        )

    def execute(self, text: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    def count(self) -> tuple[object, ...]:
        """Return the number of rows, and the number of different ones."""
        return self.execute("SELECT count(*), count(DISTINCT n) FROM numbers")[0]


@pytest.fixture
def target(postgres: Postgres) -> Target:
    return Target(postgres)


SAVE = "SAVE STREAM numbers TO db TRIGGER AVAILABLE NOW"


def test_a_batch_and_its_number_are_written_together(
    start: StartRun, numbers: str, target: Target
) -> None:
    run = start(SAVE, numbers, target.sink)
    finish(run)

    assert target.count() == (10, 10)
    assert target.execute("SELECT batch FROM headrace_ledger") == [(0,)]
    tables = target.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert sorted(name for (name,) in tables) == ["headrace_ledger", "numbers"]


def test_a_batch_that_runs_again_is_written_once(
    start: StartRun, numbers: str, target: Target, tmp_path: Path
) -> None:
    finish(start(SAVE, numbers, target.sink))
    forget_commits(tmp_path)
    finish(start(SAVE, numbers, target.sink, epoch=2))

    assert target.count() == (10, 10)


def test_a_batch_whose_transaction_failed_is_written_by_the_next_run(
    start: StartRun, numbers: str, target: Target
) -> None:
    from headrace.driver.streams.supervised_query import RunFailed

    target.execute("CREATE TABLE numbers (n INT CHECK (n < 5), even BOOLEAN)")
    with pytest.raises(RunFailed) as caught:
        finish(start(SAVE, numbers, target.sink))
    assert not caught.value.is_permanent
    assert "numbers_n_check" in caught.value.failure.message
    assert target.count() == (0, 0)
    target.execute("ALTER TABLE numbers DROP CONSTRAINT numbers_n_check")
    finish(start(SAVE, numbers, target.sink, epoch=2))

    assert target.count() == (10, 10)


def test_the_complete_mode_replaces_the_rows(
    start: StartRun, numbers: str, target: Target, tmp_path: Path
) -> None:
    counts = "CREATE STREAM counts AS SELECT count(*) AS n FROM numbers"
    save = "SAVE STREAM counts TO db TRIGGER AVAILABLE NOW OUTPUT MODE COMPLETE"
    finish(start(save, numbers, counts, target.sink))
    (tmp_path / "input" / "10.json").write_text('{"n": 10, "even": true}')
    finish(start(save, numbers, counts, target.sink))

    assert target.execute("SELECT n FROM numbers") == [(11,)]


def test_a_table_of_a_jdbc_catalog_gets_the_rows_by_insert(
    start: StartRun, numbers: str, target: Target
) -> None:
    target.execute("CREATE TABLE numbers (even BOOLEAN, n INT)")
    conf = {
        "spark.sql.catalog.base": (
            "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
        ),
        "spark.sql.catalog.base.url": f"jdbc:{target.url.replace('postgres@', '')}?user=postgres",
        "spark.sql.catalog.base.driver": "org.postgresql.Driver",
    }
    save = "SAVE STREAM numbers TO TABLE base.public.numbers TRIGGER AVAILABLE NOW"
    finish(start(save, numbers, conf=conf))

    assert target.count() == (10, 10)


def test_two_queries_share_a_ledger(start: StartRun, numbers: str, target: Target) -> None:
    finish(start(SAVE, numbers, target.sink))
    finish(start(f"{SAVE} IDENTIFIED BY other", numbers, target.sink))

    assert target.count() == (20, 10)
    assert len(target.execute("SELECT * FROM headrace_ledger")) == 2


def test_a_checkpoint_that_is_older_than_the_table_writes_nothing(
    start: StartRun, numbers: str, target: Target, tmp_path: Path
) -> None:
    from headrace.driver.streams.supervised_query import RunFailed

    finish(start(SAVE, numbers, target.sink))
    target.execute("UPDATE headrace_ledger SET batch = 7")
    forget_commits(tmp_path)
    with pytest.raises(RunFailed, match="the checkpoint is older than the table"):
        finish(start(SAVE, numbers, target.sink))

    assert target.count() == (10, 10)


def test_a_batch_that_is_planned_anew_does_not_count_as_written(
    start: StartRun, numbers: str, target: Target, tmp_path: Path
) -> None:
    """The checkpoint is one batch older than the table, and the new batch has other rows."""
    from headrace.driver.streams.supervised_query import RunFailed

    finish(start(SAVE, numbers, target.sink))
    forget_commits(tmp_path)
    for offsets in tmp_path.rglob("offsets/*"):
        offsets.unlink()
    with pytest.raises(RunFailed, match="the checkpoint is older than the table"):
        finish(start(SAVE, numbers, target.sink))

    assert target.count() == (10, 10)
