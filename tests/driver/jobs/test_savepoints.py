"""Savepoints of real checkpoints: copied, verified, restored, and continued by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.streams import read_rows

from headrace.errors import SavepointBroken
from headrace.model.job_messages import RestoreSavepoint, TakeSavepoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
STATE_STORE = "spark.sql.streaming.stateStore"
PROVIDER = f"{STATE_STORE}.providerClass"
STATE_STORES = {
    "hdfs": {PROVIDER: HDFS},
    "rocksdb": {PROVIDER: ROCKSDB},
    # What the properties of Flink become. One is the smallest number of batches.
    "rocksdb-changelog": {
        PROVIDER: ROCKSDB,
        f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "1",
    },
}


class Aggregation:
    """A stateful query over files, which runs until it has read all of them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark.newSession()
        self._folder = folder
        (folder / "input").mkdir()
        self._files = 0

    def configure(self, conf: dict[str, str]) -> None:
        for key, value in conf.items():
            self._spark.conf.set(key, value)

    def add_file(self) -> None:
        self._files += 1
        rows = "\n".join(f'{{"n": {n}}}' for n in range(10))
        (self._folder / "input" / f"{self._files}.json").write_text(rows)

    def run(self, checkpoint: Path) -> dict[str, int]:
        """Run to the end of the files, and return the rows of the last batch that wrote any."""
        counts: dict[str, int] = {}

        def keep(batch, _number: int) -> None:  # type: ignore[no-untyped-def]
            counts.update({str(row["parity"]): row["c"] for row in read_rows(batch)})

        frame = self._spark.readStream.schema("n long").json(str(self._folder / "input"))
        grouped = frame.selectExpr("n % 2 AS parity").groupBy("parity").count()
        query = (
            grouped.withColumnRenamed("count", "c")
            .writeStream.outputMode("complete")
            .foreachBatch(keep)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return counts


@pytest.fixture
def aggregation(spark: SparkSession, tmp_path: Path) -> Aggregation:
    return Aggregation(spark, tmp_path)


@pytest.fixture
def saved(spark: SparkSession, aggregation: Aggregation, tmp_path: Path) -> Path:
    """Return the directory of a savepoint of ten numbers."""
    from headrace.driver.jobs.savepoints import take_savepoint

    aggregation.add_file()
    aggregation.run(tmp_path / "run1")
    take_savepoint(spark, _take(tmp_path))
    return tmp_path / "sp1"


@pytest.mark.parametrize("conf", STATE_STORES.values(), ids=STATE_STORES)
def test_a_restored_run_continues_with_the_state(
    spark: SparkSession, aggregation: Aggregation, tmp_path: Path, conf: dict[str, str]
) -> None:
    from headrace.driver.jobs.savepoints import restore_savepoint, take_savepoint

    aggregation.configure(conf)
    for _batch in range(3):
        aggregation.add_file()
        first = aggregation.run(tmp_path / "run1")
    content = take_savepoint(spark, _take(tmp_path))
    restore_savepoint(spark, _restore(tmp_path))
    aggregation.add_file()
    restored = aggregation.run(tmp_path / "run2")
    clean = aggregation.run(tmp_path / "run3")

    assert first == {"0": 15, "1": 15}
    assert restored == {"0": 20, "1": 20}
    assert clean == {"0": 20, "1": 20}
    assert content.is_clean
    assert content.last_batches == {"": 2}
    assert content.files > 3


@pytest.mark.parametrize(
    ("before", "after"), [("hdfs", "rocksdb-changelog"), ("rocksdb-changelog", "hdfs")]
)
def test_a_run_with_another_state_store_continues_with_the_store_of_its_checkpoint(
    spark: SparkSession, aggregation: Aggregation, tmp_path: Path, before: str, after: str
) -> None:
    from headrace.driver.jobs.savepoints import restore_savepoint, take_savepoint

    aggregation.configure(STATE_STORES[before])
    aggregation.add_file()
    aggregation.run(tmp_path / "run1")
    take_savepoint(spark, _take(tmp_path))
    restore_savepoint(spark, _restore(tmp_path))
    aggregation.configure(STATE_STORES[after])
    aggregation.add_file()
    # The driver restarts on the checkpoint itself, a redeployment on the restored savepoint.
    runs = [aggregation.run(tmp_path / run) for run in ("run1", "run2")]
    aggregation.add_file()
    runs.append(aggregation.run(tmp_path / "run2"))

    assert runs == [{"0": 10, "1": 10}, {"0": 10, "1": 10}, {"0": 15, "1": 15}]
    stores = {file.suffix for file in (tmp_path / "run2" / "state").rglob("*.*") if file.is_file()}
    has_rocksdb = bool(stores & {".zip", ".changelog"})
    assert has_rocksdb is (before != "hdfs"), stores


def test_a_run_without_the_state_counts_anew(aggregation: Aggregation, tmp_path: Path) -> None:
    aggregation.add_file()
    aggregation.run(tmp_path / "run1")
    (tmp_path / "input" / "1.json").unlink()
    aggregation.add_file()

    assert aggregation.run(tmp_path / "run1") == {"0": 10, "1": 10}
    assert aggregation.run(tmp_path / "clean") == {"0": 5, "1": 5}


def test_a_repeated_copy_returns_the_first_one(
    spark: SparkSession, aggregation: Aggregation, saved: Path, tmp_path: Path
) -> None:
    from headrace.driver.jobs.savepoints import take_savepoint

    before = (saved / "_metadata").read_text()
    aggregation.add_file()
    aggregation.run(tmp_path / "run1")
    content = take_savepoint(spark, _take(tmp_path))

    assert content.last_batches == {"": 0}
    assert (saved / "_metadata").read_text() == before


def test_a_copy_without_its_metadata_is_made_again(
    spark: SparkSession, saved: Path, tmp_path: Path
) -> None:
    from headrace.driver.jobs.savepoints import restore_savepoint, take_savepoint

    (saved / "_metadata").unlink()
    with pytest.raises(SavepointBroken, match="no valid _metadata"):
        restore_savepoint(spark, _restore(tmp_path))
    assert take_savepoint(spark, _take(tmp_path)).files > 3
    restore_savepoint(spark, _restore(tmp_path))


@pytest.mark.parametrize("damage", ["shorter", "altered", "missing"])
def test_a_damaged_savepoint_is_not_restored(
    spark: SparkSession, saved: Path, tmp_path: Path, damage: str
) -> None:
    from headrace.driver.jobs.savepoints import restore_savepoint

    file = saved / "offsets" / "0"
    text = file.read_text()
    # Hadoop's local file system has checksums of its own, which a copy by other means lacks.
    (saved / "offsets" / ".0.crc").unlink()
    if damage == "missing":
        file.unlink()
    else:
        file.write_text(text[:-1] if damage == "shorter" else text[:-1] + "x")

    with pytest.raises(SavepointBroken, match="offsets/0"):
        restore_savepoint(spark, _restore(tmp_path))


def test_a_job_without_a_checkpoint_has_nothing_to_save(
    spark: SparkSession, tmp_path: Path
) -> None:
    from headrace.driver.jobs.savepoints import take_savepoint

    content = take_savepoint(spark, _take(tmp_path))

    assert content.files == 0
    assert not (tmp_path / "sp1").exists()


def test_a_savepoint_tells_whether_the_last_batch_was_committed(
    spark: SparkSession, aggregation: Aggregation, tmp_path: Path
) -> None:
    from headrace.driver.jobs.savepoints import take_savepoint

    aggregation.add_file()
    aggregation.run(tmp_path / "run1")
    (tmp_path / "run1" / "commits" / "0").unlink()

    content = take_savepoint(spark, _take(tmp_path))
    assert not content.is_clean
    assert (content.last_batches, content.planned_batches) == ({}, {"": 0})


def test_a_checkpoint_is_found_where_spark_could_continue(
    spark: SparkSession, aggregation: Aggregation, tmp_path: Path
) -> None:
    from headrace.driver.jobs.savepoints import StateFiles, has_checkpoint

    aggregation.add_file()
    aggregation.run(tmp_path / "run1")
    files = StateFiles(spark)

    assert has_checkpoint(files, str(tmp_path / "run1"), [""])
    assert not has_checkpoint(files, str(tmp_path / "run1"), ["other"])
    assert not has_checkpoint(files, str(tmp_path / "run2"), [""])


def _take(folder: Path) -> TakeSavepoint:
    return TakeSavepoint(
        checkpoint=str(folder / "run1"), queries=[""], savepoint=str(folder / "sp1")
    )


def _restore(folder: Path) -> RestoreSavepoint:
    return RestoreSavepoint(savepoint=str(folder / "sp1"), checkpoint=str(folder / "run2"))
