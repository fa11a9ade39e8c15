"""Sinks in databases: what a batch that runs twice leaves in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.support.postgres import Postgres
from tests.support.stream_expectations import CHECKS, FAILING, job_rows, summarize
from tests.support.streams import QUERY_ID, StartRun, finish, forget_commits

from headrace.driver.streams.jdbc_sink import JdbcSink, JdbcSinkWriter
from headrace.driver.streams.sink_writer import Target as SinkTarget
from headrace.driver.streams.supervised_query import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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

    @property
    def tables(self) -> set[object]:
        """Names of all tables in the schema of the sink."""
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        return {name for (name,) in self.execute(query)}


@pytest.fixture
def target(postgres: Postgres) -> Target:
    return Target(postgres)


SAVE = "SAVE STREAM numbers TO db TRIGGER AVAILABLE NOW"
OWN = {"headrace_ledger", "numbers"}
"""Tables that stay after a batch."""
STAGED = f"headrace_batch_{QUERY_ID[-12:]}"
STEPS = ["_save", "_commit", "_drop_staging"]
"""Steps of a batch in which a driver can be killed."""


class Killed(Exception):
    """Stands for a kill: nothing after it runs, no clean-up either."""


def kill_before(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Let each batch end before a step, without the clean-up that a kill prevents."""

    def die(*_arguments: object) -> None:
        raise Killed

    if step == "_save":
        # Between the staged rows and the creation of the target.
        save = JdbcSink._save

        def save_staged_only(sink: JdbcSink, rows: DataFrame, table: str, mode: str) -> None:
            if mode == "ignore":
                raise Killed
            save(sink, rows, table, mode)

        monkeypatch.setattr(JdbcSink, "_save", save_staged_only)
    else:
        monkeypatch.setattr(JdbcSink, step, die)
    monkeypatch.setattr(JdbcSink, "_drop_staging", die if step == "_drop_staging" else _skip)


def _skip(*_arguments: object) -> None:
    """Do nothing."""


def run_until_killed(
    monkeypatch: pytest.MonkeyPatch, start: StartRun, step: str, *texts: str
) -> None:
    """Run a query whose driver is killed before a step, and check that it has left a table."""
    from headrace.driver.streams.supervised_query import RunFailed

    with monkeypatch.context() as patch:
        kill_before(patch, step)
        with pytest.raises(RunFailed):
            finish(start(*texts))


@pytest.mark.parametrize("step", STEPS)
def test_the_next_driver_drops_what_a_killed_one_has_staged(
    start: StartRun, numbers: str, target: Target, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    run_until_killed(monkeypatch, start, step, SAVE, numbers, target.sink)
    assert target.tables - OWN == {f"{STAGED}_1"}
    # A driver drops nothing of a later one, which has fenced it, and nothing of another query.
    others = {f"{STAGED}_3", f"{STAGED}x", "headrace_batch_2_1"}
    for other in others:
        target.execute(f"CREATE TABLE {other} (n INT)")
    finish(start(SAVE, numbers, target.sink, epoch=2))

    assert target.tables == OWN | others
    assert target.count() == (10, 10)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("table", ["public.numbers", "numbers", '"s 1".numbers'])
def test_an_intent_drops_what_killed_drivers_of_an_ended_query_have_staged(
    start: StartRun,
    numbers: str,
    target: Target,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    table: str,
    spark: SparkSession,
) -> None:
    target.execute('CREATE SCHEMA "s 1"')
    sink = target.sink.replace("public.numbers", table)
    run_until_killed(monkeypatch, start, step, SAVE, numbers, sink)
    staged = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'headrace_batch%'"
    assert target.execute(staged) == [(1,)]
    jdbc = target.sink.partition("'url' = '")[2].partition("'")[0]
    ended = SinkTarget(
        provider="jdbc",
        name="db",
        options={"URL": jdbc, "dbTable": table, "user": "postgres"},
        path=None,
        partitioned_on=(),
        columns=None,
    )
    JdbcSinkWriter(ended).clear(spark, QUERY_ID)

    assert target.execute(staged) == [(0,)]


def test_a_batch_and_its_number_are_written_together(
    start: StartRun, numbers: str, target: Target
) -> None:
    run = start(SAVE, numbers, target.sink)
    finish(run)

    assert target.count() == (10, 10)
    assert target.execute("SELECT batch FROM headrace_ledger") == [(0,)]
    assert target.tables == OWN


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


def test_expectations_are_counted_once_and_a_batch_that_fails_leaves_the_table_as_it_is(
    start: StartRun, numbers: str, target: Target, tmp_path: Path
) -> None:
    run = start(SAVE, numbers, target.sink, rows=job_rows(CHECKS))
    finish(run)
    assert summarize(run) == {0: (10, 3, 7, [(3, 0), (2, 1)])}
    written = run.lineage[-1]
    assert written.location is not None
    assert written.location.startswith("jdbc:postgresql://127.0.0.1:")
    assert (written.name, written.columns) == ("public.numbers", ["n", "even"])
    # The ledger has the batch: its rows are not computed again.
    forget_commits(tmp_path)
    again = start(SAVE, numbers, target.sink, rows=job_rows(CHECKS))
    finish(again)
    assert summarize(again) == {0: None}
    (tmp_path / "input" / "null.json").write_text('{"n": null, "even": true}')
    with pytest.raises(RunFailed, match="`numbered` by at least 1 row"):
        finish(start(SAVE, numbers, target.sink, rows=job_rows(FAILING)))
    assert target.count() == (7, 7)
