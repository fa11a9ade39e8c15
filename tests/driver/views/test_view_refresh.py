"""Queries that refresh a materialized view by themselves, run after run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError
from tests.driver.ctas.lake_namespace import LakeNamespace, for_lakes
from tests.support.ctas import fetch_rows
from tests.support.streams import LEASE, NO_SECRETS, QUERY_ID, find_no_other
from tests.support.view_link import ViewLink
from tests.support.waiting import wait_until

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.grammar.materialized_views import CreateMaterializedView
from headrace.grammar.parse import parse
from headrace.model.expectation import ExpectationCounts
from headrace.model.stream_query import DesiredQuery, QuerySpec, RefreshedView, Wanted

if TYPE_CHECKING:
    from headrace.driver.streams.spark_run import SparkRun

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]


class AutomaticView:
    """A view with the query that refreshes it, and the JSON files that a stream reads."""

    def __init__(self, namespace: LakeNamespace, link: ViewLink, folder: Path) -> None:
        self.namespace = namespace
        self.spark = namespace.spark
        # The catalog keeps names in lower case.
        self.name = f"{namespace.name}.Mixed"
        self.input = folder / "input"
        self.input.mkdir()
        self._link = link
        self._wal = folder / "wal"
        self._text = ""
        self._runs: list[SparkRun] = []
        self._grace = 0.0
        self._count = 0
        self.add_file()

    @property
    def definition(self) -> str:
        return f"CREATE STREAM numbers (n INT) FROM json OPTIONS ('path' = '{self.input}')"

    def add_file(self) -> None:
        """Add a file with ten numbers."""
        lines = [json.dumps({"n": n}) for n in range(self._count, self._count + 10)]
        hidden = self.input / f".{self._count}"
        hidden.write_text("\n".join(lines))
        hidden.rename(self.input / f"{self._count}.json")
        self._count += 10

    def create(self, query: str, properties: str = "", constraints: str = "") -> None:
        clause = self.namespace.lake.clause.split("PARTITIONED")[0]
        properties = f"WITH (auto_refresh = true{properties})"
        self._text = (
            f"CREATE MATERIALIZED VIEW {self.name} {constraints} {clause} {properties} AS {query}"
        )
        self._link.create(self._clone(), self._text, definitions=[self.definition])

    def start(self, *, interval: float | None = None, grace: float = 600.0) -> SparkRun:
        """Start a run of the query, which continues the runs before."""
        from headrace.driver.streams.spark_run import RunStarter

        assert self._link.rows is not None
        self._grace = grace
        command = parse(self._text).command
        assert isinstance(command, CreateMaterializedView)
        view = RefreshedView(
            id=self._link.view,
            rows=self._link.rows,
            interval_seconds=interval,
            grace_seconds=grace,
            expectations=command.expectations,
        )
        spec = QuerySpec(
            text=self._text,
            definitions=[self.definition],
            sink="materialized_view",
            checkpoint=str(self._wal),
            view=view,
        )
        desired = DesiredQuery(
            id=QUERY_ID, name="v", job_id="j", spec=spec, wanted=Wanted.RUNNING, generation=1
        )
        self._runs.append(RunStarter(self._clone, LEASE, find_no_other, NO_SECRETS).start(desired))
        return self._runs[-1]

    def read(self, columns: str) -> list[tuple[object, ...]]:
        return fetch_rows(self.spark, f"SELECT {columns} FROM {self.name}")

    def wait_for(self, columns: str, row: tuple[object, ...]) -> None:
        def has_row() -> bool:
            # Raises RunFailed if the query has failed.
            assert not self._runs[-1].wait()
            try:
                return self.read(columns) == [row]
            except Py4JError as error:
                # Without a grace period, a generation can be removed while it is read.
                if self._grace or "FILE_NOT_EXIST" not in str(error):
                    raise
                return False

        wait_until(has_row, seconds=180, what=f"{columns} is {row}", every=0.2)

    def close(self) -> None:
        """Stop the query, and drop the view."""
        for run in self._runs:
            run.stop()
        if self.namespace.lake.catalog == "spark_catalog":
            self.spark.sql(f"DROP VIEW IF EXISTS {self.name}")

    def _clone(self):  # type: ignore[no-untyped-def]
        from pyspark.sql import SparkSession

        jvm = Py4JBridge(self.spark)
        return SparkSession(self.spark.sparkContext, jvm.session.cloneSession())


@pytest.fixture
def view(namespace: LakeNamespace, link: ViewLink, tmp_path: Path) -> Iterator[AutomaticView]:
    view = AutomaticView(namespace, link, tmp_path)
    yield view
    view.close()


@for_lakes("parquet", "delta", "iceberg-base")
def test_rows_of_a_stream_are_appended_once(view: AutomaticView) -> None:
    view.create("SELECT n, n * 2 AS twice FROM numbers")
    empty = view.read("count(*)")
    run = view.start()
    read, written = run.lineage
    assert (read.key, read.columns) == (f"file:{view.input}", ["n"])
    assert written.key == view.name.replace("`", "").casefold()
    view.wait_for("count(*), count(DISTINCT n)", (10, 10))
    run.stop()
    view.add_file()
    view.start()
    view.wait_for("count(*), count(DISTINCT n)", (20, 20))

    assert empty == [(0,)]
    assert view.read("sum(twice)") == [(380,)]


@for_lakes("parquet", "delta", "iceberg-base")
def test_an_aggregation_of_a_stream_is_written_as_a_whole(view: AutomaticView) -> None:
    view.create("SELECT n % 2 AS odd, count(*) AS c FROM numbers GROUP BY n % 2")
    run = view.start(grace=0.0)
    view.wait_for("count(*), sum(c)", (2, 10))
    run.stop()
    view.add_file()
    view.start(grace=0.0)
    view.wait_for("count(*), sum(c)", (2, 20))

    if view.namespace.lake.catalog == "spark_catalog":
        wait_until(lambda: len(view.namespace.tables) == 2, what="one generation is left")


@for_lakes("parquet", "iceberg-base")
def test_a_query_of_tables_runs_at_an_interval(view: AutomaticView) -> None:
    source = f"{view.namespace.name}.source"
    view.spark.sql(f"CREATE TABLE {source} AS SELECT 1L AS n")
    view.create(f"SELECT count(*) AS c FROM {source}", ", refresh_interval = '1s'")
    first = view.read("c")
    view.start(interval=1.0)
    view.spark.sql(f"INSERT INTO {source} VALUES (2)")
    view.wait_for("c", (2,))

    assert first == [(1,)]


SMALL = "(CONSTRAINT small EXPECT (n < 15) ON VIOLATION DROP ROW)"


def wait_for_counts(run: SparkRun, rows_in: int) -> tuple[int, int, int]:
    """Return the rows read, dropped and written of the batch that has read this number of rows."""
    found: list[ExpectationCounts] = []

    def has_counts() -> bool:
        assert not run.wait()
        for batch in run.read_new_batches(None):
            counts = batch.expectation_counts
            if counts is not None and counts.rows_in == rows_in:
                found.append(counts)
        return bool(found)

    wait_until(has_counts, seconds=180, what=f"a batch of {rows_in} rows is counted", every=0.2)
    [small] = found[-1].expectations
    assert small.violations == found[-1].rows_dropped
    return found[-1].rows_in, found[-1].rows_dropped, found[-1].rows_written or 0


@for_lakes("parquet", "delta", "iceberg-base")
def test_rows_that_violate_an_expectation_are_dropped_and_counted_in_each_batch(
    view: AutomaticView,
) -> None:
    view.create("SELECT n FROM numbers", constraints=SMALL)
    run = view.start()
    assert wait_for_counts(run, 10) == (10, 0, 10)
    run.stop()
    view.add_file()
    run = view.start()
    view.wait_for("count(*), max(n)", (15, 14))
    assert wait_for_counts(run, 10) == (10, 5, 5)


@for_lakes("parquet", "delta", "iceberg-base")
def test_the_groups_of_an_aggregation_are_counted_with_each_generation(
    view: AutomaticView,
) -> None:
    view.add_file()
    view.create("SELECT n FROM numbers GROUP BY n", constraints=SMALL)
    run = view.start()
    view.wait_for("count(*), max(n)", (15, 14))
    assert wait_for_counts(run, 20) == (20, 5, 15)


@for_lakes("parquet", "delta", "iceberg-base")
def test_the_refreshes_of_a_query_of_tables_are_counted(view: AutomaticView) -> None:
    source = f"{view.namespace.name}.source"
    view.spark.sql(f"CREATE TABLE {source} AS SELECT id AS n FROM range(10)")
    view.create(f"SELECT n FROM {source}", ", refresh_interval = '1s'", SMALL)
    run = view.start(interval=1.0)
    view.spark.sql(f"INSERT INTO {source} SELECT id FROM range(10, 20)")
    view.wait_for("count(*), max(n)", (15, 14))
    assert wait_for_counts(run, 20) == (20, 5, 15)


@for_lakes("parquet", "iceberg-base")
@pytest.mark.parametrize(
    ("query", "interval"),
    [
        ("SELECT n FROM numbers", None),
        ("SELECT n FROM numbers GROUP BY n", None),
        ("SELECT n FROM {source}", 1.0),
    ],
    ids=["rows", "groups", "tables"],
)
def test_a_row_that_fails_the_update_ends_the_query_and_the_view_keeps_its_rows(
    view: AutomaticView, query: str, interval: float | None
) -> None:
    from headrace.driver.streams.supervised_query import RunFailed

    source = f"{view.namespace.name}.source"
    view.spark.sql(f"CREATE TABLE {source} AS SELECT id AS n FROM range(10)")
    constraint = SMALL.replace("DROP ROW", "FAIL UPDATE")
    properties = "" if interval is None else ", refresh_interval = '1s'"
    view.create(query.format(source=source), properties, constraint)
    run = view.start(interval=interval)
    view.wait_for("count(*), max(n)", (10, 9))
    view.add_file()
    view.spark.sql(f"INSERT INTO {source} SELECT id FROM range(10, 20)")
    with pytest.raises(RunFailed) as caught:
        wait_until(run.wait, seconds=180, what="the run fails")

    assert caught.value.is_permanent
    assert caught.value.failure.code == "expectation_failed"
    assert "`small`" in caught.value.failure.message
    assert view.read("count(*), max(n)") == [(10, 9)]


@for_lakes("parquet")
def test_files_of_a_lost_driver_do_not_stop_the_next_generation(
    view: AutomaticView, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.driver.ctas.view_switch import ViewSwitch

    view.create("SELECT count(*) AS c FROM numbers")
    switch: Callable[..., None] = ViewSwitch.switch_to
    failures = iter([True])

    def fail_once(self: ViewSwitch, table: object) -> None:
        if next(failures, False):
            raise OSError("the driver dies here")
        switch(self, table)

    monkeypatch.setattr(ViewSwitch, "switch_to", fail_once)
    run = view.start(grace=0.0)
    with pytest.raises(Exception, match="the driver dies here"):
        wait_until(run.wait, seconds=60, what="the run fails")
    directory = view.namespace._directory / "__mv_mixed_3"
    directory.mkdir()
    (directory / "part-0.parquet").write_text("half")
    view.start(grace=0.0)
    view.wait_for("c", (10,))


@for_lakes("parquet")
def test_a_query_without_its_rows_fails_for_good(view: AutomaticView) -> None:
    from headrace.driver.streams.supervised_query import RunFailed

    view.create("SELECT n FROM numbers")
    view.spark.sql(f"DROP VIEW {view.name}")
    with pytest.raises(RunFailed) as caught:
        view.start()

    assert caught.value.is_permanent
    assert "Drop the view and create it again" in caught.value.failure.message


@for_lakes("parquet")
def test_a_replaced_generation_stays_for_the_grace_period_after_the_switch(
    view: AutomaticView, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.driver.streams import view_refresh

    view.create("SELECT count(*) AS c FROM numbers")
    run = view.start(grace=60.0)
    view.wait_for("c", (10,))
    run.stop()
    # The first generation was replaced a moment ago. The second one is replaced later.
    now = time.time()
    monkeypatch.setattr(view_refresh, "time", SimpleNamespace(time=lambda: now + 25))
    view.add_file()
    run = view.start(grace=60.0)
    view.wait_for("c", (20,))
    wait_until(lambda: len(view.namespace.tables) == 4, what="two generations are replaced")
    run.stop()
    monkeypatch.setattr(view_refresh, "time", SimpleNamespace(time=lambda: now + 75))
    view.add_file()
    view.start(grace=60.0)
    view.wait_for("c", (30,))

    wait_until(
        lambda: view.namespace.tables == ["__mv_mixed_2", "__mv_mixed_3", "__mv_mixed_4", "mixed"],
        what="only the first generation is dropped",
    )


@for_lakes("iceberg-base")
@pytest.mark.parametrize("query", ["SELECT n FROM numbers", "SELECT count(*) AS n FROM numbers"])
def test_a_query_does_not_write_to_a_table_that_has_taken_the_name_of_its_view(
    view: AutomaticView, query: str
) -> None:
    from headrace.driver.streams.supervised_query import RunFailed

    view.create(query)
    view.spark.sql(f"DROP TABLE {view.name}")
    view.spark.sql(f"CREATE TABLE {view.name} USING iceberg AS SELECT 7L AS n")
    with pytest.raises(RunFailed) as caught:
        view.start()

    assert caught.value.is_permanent
    assert "does not belong to the materialized view" in caught.value.failure.message
    assert view.read("n") == [(7,)]
