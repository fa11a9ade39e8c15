"""Sources and sinks in Spark: what a run reads, and what it leaves in the sink."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.support.streams import NUMBERS, StartRun, finish, read_rows
from tests.support.waiting import wait_until

from headrace.driver.streams.supervised_query import RunFailed
from headrace.model.job import JobRows
from headrace.model.materialized_view import NameScope
from headrace.model.stream_history import BatchPart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rows_of_a_stream_arrive_in_files(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    finish(
        start("SAVE STREAM numbers TO parquet TRIGGER AVAILABLE NOW PARTITIONED ON (even)", numbers)
    )

    written = tmp_path / "default"
    assert spark.read.parquet(str(written)).count() == 10
    assert {path.name for path in written.glob("even=*")} == {"even=true", "even=false"}


def test_a_second_run_continues_from_the_checkpoint(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    save = "SAVE STREAM numbers TO json TRIGGER AVAILABLE NOW"
    finish(start(save, numbers))
    (tmp_path / "input" / "10.json").write_text('{"n": 10, "even": true}')
    run = start(save, numbers)
    finish(run)

    rows = read_rows(spark.read.json(str(tmp_path / "default")))
    assert sorted(row["n"] for row in rows) == list(range(11))
    assert [batch.batch for batch in run.read_new_batches(None)] == [1]


def test_only_the_batches_after_a_number_are_read(
    start: StartRun, numbers: str, tmp_path: Path
) -> None:
    (tmp_path / "input" / "10.json").write_text('{"n": 10, "even": true}')
    single = numbers.replace("OPTIONS (", "OPTIONS ('maxFilesPerTrigger' = '1', ")
    run = start("SAVE STREAM numbers TO noop TRIGGER AVAILABLE NOW", single)
    finish(run)

    batches = run.read_new_batches(0)
    assert [batch.batch for batch in batches] == [1, 2]
    # Every part that Spark reports is one that a node keeps.
    for batch in batches:
        assert {"add_batch", "wal_commit", "query_planning"} <= batch.parts.keys()
        assert batch.parts.keys() <= set(BatchPart)
        assert sum(batch.parts.values()) <= batch.milliseconds + len(BatchPart)


def test_rows_later_than_the_watermark_are_counted_in_their_batch(
    start: StartRun, tmp_path: Path
) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    for number, hours in enumerate([[12], [13], [9, 9, 14]]):
        file = folder / f"{number}.json"
        rows = [{"t": f"2026-01-01T{hour:02}:00:00Z", "n": n} for n, hour in enumerate(hours)]
        file.write_text("\n".join(map(json.dumps, rows)))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    arriving = (
        "CREATE STREAM arriving (t TIMESTAMP, n INT) FROM json"
        f" OPTIONS ('maxFilesPerTrigger' = '1', 'path' = '{folder}')"
    )
    distinct = (
        "CREATE STREAM seen AS SELECT DISTINCT t, n FROM arriving"
        " WATERMARK t DELAY OF INTERVAL 5 MINUTES"
    )
    run = start("SAVE STREAM seen TO noop TRIGGER AVAILABLE NOW", arriving, distinct)
    finish(run)

    late = {batch.batch: batch.late_rows for batch in run.read_new_batches(None)}
    assert {batch: rows for batch, rows in late.items() if rows} == {2: 2}


def test_streams_are_built_on_streams(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    finish(
        start(
            "SAVE STREAM `even numbers` TO files TRIGGER ONCE",
            numbers,
            "CREATE STREAM `even numbers` AS SELECT n FROM numbers WHERE even",
            f"CREATE SINK files (n BIGINT) TO json OPTIONS ('path' = '{tmp_path}/named')",
        )
    )

    rows = read_rows(spark.read.json(str(tmp_path / "named")))
    assert sorted(row["n"] for row in rows) == [0, 2, 4, 6, 8]


def test_declared_columns_are_selected_and_cast(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    finish(start("SAVE STREAM numbers(n STRING) TO parquet TRIGGER AVAILABLE NOW", numbers))

    written = spark.read.parquet(str(tmp_path / "default"))
    assert written.schema.simpleString() == "struct<n:string>"


def test_the_configuration_of_the_statement_holds_for_every_run(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    zone = "CREATE STREAM zone AS SELECT current_timezone() AS zone FROM numbers"
    save = "SAVE STREAM zone TO json TRIGGER AVAILABLE NOW"
    finish(start(save, numbers, zone, conf={"spark.sql.session.timeZone": "Asia/Tokyo"}))

    rows = read_rows(spark.read.json(str(tmp_path / "default")))
    assert {row["zone"] for row in rows} == {"Asia/Tokyo"}
    assert spark.conf.get("spark.sql.session.timeZone") != "Asia/Tokyo"


def test_the_memory_sink_is_a_view_of_the_session(
    start: StartRun, spark: SparkSession, numbers: str
) -> None:
    run = start("SAVE STREAM numbers TO memory IDENTIFIED BY seen TRIGGER AVAILABLE NOW", numbers)
    finish(run)

    assert spark.table("seen").count() == 10
    spark.catalog.dropTempView("seen")


@pytest.mark.parametrize("mode", ["COMPLETE", "UPDATE"])
def test_aggregates_need_a_mode_other_than_append(
    start: StartRun, spark: SparkSession, numbers: str, mode: str
) -> None:
    counts = "CREATE STREAM counts AS SELECT even, count(*) AS c FROM numbers GROUP BY even"
    save = f"SAVE STREAM counts TO memory IDENTIFIED BY c_{mode} TRIGGER ONCE OUTPUT MODE {mode}"
    finish(start(save, numbers, counts))

    counted = {row["even"]: row["c"] for row in read_rows(spark.table(f"c_{mode}"))}
    assert counted == {False: 5, True: 5}
    spark.catalog.dropTempView(f"c_{mode}")
    with pytest.raises(RunFailed, match="Invalid streaming output mode: append") as caught:
        start("SAVE STREAM counts TO memory IDENTIFIED BY none", numbers, counts)
    assert caught.value.is_permanent


def test_a_table_of_files_gets_the_rows_beside_those_of_inserts(
    start: StartRun, spark: SparkSession, numbers: str
) -> None:
    spark.sql("CREATE TABLE stream_target (even BOOLEAN, n INT) USING parquet")
    try:
        spark.sql("INSERT INTO stream_target VALUES (true, 100)")
        finish(start("SAVE STREAM numbers TO TABLE stream_target TRIGGER AVAILABLE NOW", numbers))

        rows = read_rows(spark.table("stream_target"))
        assert sorted(row["n"] for row in rows) == [*range(10), 100]
    finally:
        spark.sql("DROP TABLE stream_target")


def test_a_missing_table_is_created_with_its_partitions(
    start: StartRun, spark: SparkSession, numbers: str
) -> None:
    save = "SAVE STREAM numbers TO TABLE stream_new TRIGGER AVAILABLE NOW PARTITIONED ON (even)"
    try:
        finish(start(save, numbers))

        assert spark.table("stream_new").count() == 10
        described = read_rows(spark.sql("DESCRIBE TABLE stream_new"))
        assert "# Partition Information" in {row["col_name"] for row in described}
    finally:
        spark.sql("DROP TABLE IF EXISTS stream_new")


def test_a_table_of_files_is_read_as_a_stream(start: StartRun, spark: SparkSession) -> None:
    spark.sql("CREATE TABLE stream_source (a INT) USING parquet")
    try:
        spark.sql("INSERT INTO stream_source VALUES (1), (2)")
        finish(start("SAVE STREAM stream_source TO memory IDENTIFIED BY copied TRIGGER ONCE"))

        assert spark.table("copied").count() == 2
    finally:
        spark.catalog.dropTempView("copied")
        spark.sql("DROP TABLE stream_source")


@pytest.mark.parametrize(
    ("save", "definitions", "message"),
    [
        ("SAVE STREAM nosuch TO noop", (), "`nosuch` is neither a stream"),
        (
            "SAVE STREAM numbers TO noop PARTITIONED ON (x)",
            (NUMBERS,),
            "PARTITIONED ON names the column x",
        ),
        ("SAVE STREAM numbers(x INT) TO noop", (NUMBERS,), "`x`"),
        (
            "SAVE STREAM s TO noop",
            ("CREATE STREAM s AS SELECT 1 AS a",),
            "The query of the stream s reads no stream",
        ),
    ],
)
def test_a_query_that_cannot_start_fails_for_good(
    start: StartRun, tmp_path: Path, save: str, definitions: tuple[str, ...], message: str
) -> None:
    with pytest.raises(RunFailed) as caught:
        start(save, *(text.format(input=tmp_path) for text in definitions))

    assert message in caught.value.failure.message
    assert caught.value.is_permanent


def test_a_failed_batch_is_a_failure_that_a_restart_may_repair(
    start: StartRun, numbers: str
) -> None:
    bad = "CREATE STREAM bad AS SELECT raise_error('broken row') AS e FROM numbers"
    run = start("SAVE STREAM bad TO noop", numbers, bad)
    with pytest.raises(RunFailed) as caught:
        finish(run)

    failure = caught.value.failure
    assert (failure.condition, caught.value.is_permanent) == ("USER_RAISED_EXCEPTION", False)
    assert failure.message == "broken row"


@pytest.mark.parametrize("trigger", ["", " TRIGGER 1 HOUR"])
def test_a_query_that_other_code_has_stopped_between_two_batches_is_started_again(
    start: StartRun, numbers: str, trigger: str
) -> None:
    run = start(f"SAVE STREAM numbers TO noop{trigger}", numbers)
    wait_until(lambda: run.read_new_batches(None), what="a batch is complete")
    wait_until(lambda: not run._query.status["isTriggerActive"], what="no batch runs")
    run.stop()
    with pytest.raises(RunFailed, match="Code in the driver stopped the query") as caught:
        finish(run)

    assert (caught.value.failure.code, caught.value.is_permanent) == ("stream_stopped", False)


def test_a_query_whose_application_was_stopped_is_left_to_the_next_driver(
    start: StartRun, numbers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.driver.streams.spark_run import SparkRun

    run = start("SAVE STREAM numbers TO noop", numbers)
    assert isinstance(run, SparkRun)
    run.stop()
    stopped = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))
    monkeypatch.setattr(run._session.sparkContext, "_jsc", stopped)
    # The supervisor neither counts this as a failure, nor reports an end.
    with pytest.raises(ConnectionError, match="application was stopped"):
        finish(run)


@pytest.mark.parametrize("trigger", ["", " TRIGGER 1 HOUR"])
def test_a_query_whose_checkpoint_another_run_takes_over_fails_with_that_reason(
    start: StartRun, numbers: str, trigger: str
) -> None:
    save = f"SAVE STREAM numbers TO noop{trigger}"
    first = start(save, numbers)
    wait_until(lambda: first.read_new_batches(None), what="a batch is complete")
    second = start(save, numbers)
    with pytest.raises(RunFailed, match=second.run_id) as caught:
        finish(first)

    assert (caught.value.failure.code, caught.value.is_permanent) == ("checkpoint_taken_over", True)


def test_a_changed_query_fails_for_good_on_an_old_checkpoint(start: StartRun, numbers: str) -> None:
    save = "SAVE STREAM s TO noop TRIGGER AVAILABLE NOW"
    finish(start(save, numbers, "CREATE STREAM s AS SELECT n FROM numbers"))
    both = "CREATE STREAM s AS SELECT a.n FROM numbers a JOIN numbers b ON a.n = b.n"
    with pytest.raises(RunFailed) as caught:
        finish(start(save, numbers, both))

    assert caught.value.is_permanent


def test_a_run_resolves_names_in_the_scope_of_the_query(
    start: StartRun, spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql("CREATE DATABASE scoped")
    try:
        spark.sql("CREATE TABLE scoped.source USING parquet AS SELECT 7 AS n")
        scope = NameScope(catalog="spark_catalog", namespace=["scoped"])
        finish(start("SAVE STREAM source TO json TRIGGER AVAILABLE NOW", scope=scope))
        rows = read_rows(spark.read.json(str(tmp_path / "default")))
    finally:
        spark.sql("DROP DATABASE scoped CASCADE")

    assert rows == [{"n": 7}]


def test_temporary_views_that_a_stream_reads_are_found(spark: SparkSession, numbers: str) -> None:
    from headrace.driver.spark_version.plans import find_temporary_views
    from headrace.driver.streams.sources import register_streams

    defined = register_streams(spark, [numbers])
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW mine AS SELECT 1 AS n")
    try:
        frame = spark.sql(
            "SELECT * FROM numbers WHERE n IN (SELECT n FROM mine) OR n = (SELECT max(n) FROM mine)"
        )
        assert find_temporary_views(frame, defined) == ["mine"]
        assert find_temporary_views(spark.sql("SELECT * FROM numbers"), defined) == []
    finally:
        for name in ("mine", "numbers"):
            spark.catalog.dropTempView(name)


@pytest.mark.parametrize(
    "rows",
    [
        JobRows(setup=["SET spark.sql.shuffle.partitions = 5"]),
        JobRows(setup=["SET a.b = 5", "SET spark.sql.shuffle.partitions = ${a.b}"]),
        JobRows(
            code="spark.sql('SET spark.sql.shuffle.partitions = 5')\n"
            "execution_output = spark.table('numbers')"
        ),
    ],
)
def test_a_job_keeps_what_its_statements_set_although_its_own_conf_names_the_key(
    start: StartRun, spark: SparkSession, numbers: str, tmp_path: Path, rows: JobRows
) -> None:
    save = "SAVE STREAM numbers TO noop TRIGGER AVAILABLE NOW"
    key, conf = "spark.sql.shuffle.partitions", spark.conf.get
    before = conf(key)
    finish(start(save, numbers, conf={key: "3"}, rows=rows))

    # Spark writes the configuration of each batch to the checkpoint.
    [_version, metadata, *_offsets] = (
        (tmp_path / "wal-numbers" / "offsets" / "0").read_text().splitlines()
    )
    assert json.loads(metadata)["conf"][key] == "5"
    assert conf(key) == before
