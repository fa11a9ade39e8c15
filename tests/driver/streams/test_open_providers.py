"""Sources and sinks that Headrace does not list: by short name, by class, in Java and in Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamWriter,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)
from tests.support.mongodb import MongoServer, run_mongodb
from tests.support.streams import StartRun, finish

from headrace.driver.spark import DATA_SOURCE_GROUP, register_data_sources
from headrace.driver.streams.supervised_query import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


RATE = "org.apache.spark.sql.execution.streaming.sources.RatePerMicroBatchProvider"
NOOP = "org.apache.spark.sql.execution.datasources.noop.NoopDataSource"
ONCE = "TRIGGER AVAILABLE NOW"


class _TwoRows(SimpleDataSourceStreamReader):
    """Reads the numbers 0 and 1, once."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - PySpark's name
        return {"n": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        return iter([(n,) for n in range(start["n"], 2)]), {"n": 2}

    def readBetweenOffsets(  # noqa: N802 - PySpark's name
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        return iter([(n,) for n in range(start["n"], end["n"])])


class _Lines(DataSourceStreamWriter):
    """Writes each batch as lines of a file, which a commit completes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def write(self, iterator: Iterator[tuple[int]]) -> WriterCommitMessage:
        with open(f"{self._folder}/lines", "a") as file:  # noqa: PTH123
            file.writelines(f"{row[0]}\n" for row in iterator)
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage], batchId: int) -> None:  # noqa: N803
        with open(f"{self._folder}/batch-{batchId}", "w"):  # noqa: PTH123
            assert messages


class Numbers(DataSource):
    """A data source in Python, as a user writes one."""

    @classmethod
    def name(cls) -> str:
        return "acmeNumbers"

    def schema(self) -> str:
        return "n INT"

    def simpleStreamReader(self, schema: object) -> _TwoRows:  # noqa: N802
        return _TwoRows()

    def streamWriter(self, schema: object, overwrite: bool) -> _Lines:  # noqa: N802
        return _Lines(self.options["folder"])


@pytest.fixture
def stream_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Return a session of a driver in whose environment the package of `Numbers` is installed."""
    session = spark.newSession()
    # Spark's Python workers cannot import the modules of the tests.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    entry = EntryPoint("acme", f"{__name__}:Numbers", DATA_SOURCE_GROUP)
    broken = EntryPoint("broken", "no.such.module:Source", DATA_SOURCE_GROUP)
    monkeypatch.setattr("headrace.driver.spark.entry_points", lambda **_group: [broken, entry])
    register_data_sources(session)
    return session


@pytest.mark.timeout(300)
def test_a_python_data_source_is_read_and_written(start: StartRun, tmp_path: Path) -> None:
    stream = "CREATE STREAM numbers FROM acmeNumbers"
    save = f"SAVE STREAM numbers TO acmenumbers {ONCE} OPTIONS ('folder' = '{tmp_path}')"
    finish(start(save, stream))

    assert sorted((tmp_path / "lines").read_text().split()) == ["0", "1"]
    assert (tmp_path / "batch-0").exists()


@pytest.mark.parametrize(
    ("source", "sink"), [(RATE, NOOP), (f"`{RATE}`", f"`{NOOP}`"), (f"'{RATE}'", f"'{NOOP}'")]
)
def test_a_provider_is_named_by_its_class(start: StartRun, source: str, sink: str) -> None:
    stream = f"CREATE STREAM ticks FROM {source} OPTIONS ('rowsPerBatch' = '3')"
    run = start(f"SAVE STREAM ticks TO {sink} TRIGGER ONCE", stream)
    finish(run)

    assert [batch.input_rows for batch in run.read_new_batches(None)] == [3]


MISSING = {
    "pulsar": "spark.jars.packages",
    "kafkaa": "Did you mean kafka?",
    "com.acme.Provider": "spark.jars.packages",
}


@pytest.mark.parametrize("provider", MISSING)
@pytest.mark.parametrize("place", ["source", "sink"])
def test_a_provider_that_is_missing_is_the_error_of_spark_with_what_to_set(
    start: StartRun, numbers: str, provider: str, place: str
) -> None:
    stream = f"CREATE STREAM numbers FROM {provider}" if place == "source" else numbers
    sink = "noop" if place == "source" else provider
    with pytest.raises(RunFailed) as raised:
        start(f"SAVE STREAM numbers TO {sink}", stream)

    failure = raised.value.failure
    assert raised.value.is_permanent
    assert (failure.condition, failure.sqlstate) == ("DATA_SOURCE_NOT_FOUND", "42K02")
    assert f"no data source {provider} " in failure.message
    assert MISSING[provider] in failure.message
    assert ("TO TABLE com.acme.Provider" in failure.message) == (
        place == "sink" and provider == "com.acme.Provider"
    )


NO_PROVIDERS = [
    "java.lang.String",  # any class
    "java.util.List",  # an interface
    "org.apache.spark.sql.execution.datasources.FileFormat",  # a provider without an implementation
]


@pytest.mark.parametrize("provider", NO_PROVIDERS)
@pytest.mark.parametrize("place", ["source", "sink"])
def test_a_class_that_is_no_provider_fails_the_query_for_good(
    start: StartRun, numbers: str, provider: str, place: str
) -> None:
    stream = f"CREATE STREAM numbers FROM {provider}" if place == "source" else numbers
    sink = "noop" if place == "source" else provider
    with pytest.raises(RunFailed) as raised:
        start(f"SAVE STREAM numbers TO {sink}", stream)

    assert raised.value.is_permanent
    assert raised.value.failure.code == "invalid_stream"
    assert f"{provider} is a class, but no data source" in raised.value.failure.message


@pytest.fixture(scope="module")
def mongodb(spark: SparkSession) -> Iterator[MongoServer]:
    with run_mongodb(spark) as server:
        yield server


def mongodb_options(uri: str, collection: str) -> str:
    return (
        f"OPTIONS ('connection.uri' = '{uri}', 'database' = 'test', 'collection' = '{collection}')"
    )


@pytest.mark.mongodb
@pytest.mark.parametrize("sink", ["mongodb", "com.mongodb.spark.sql.connector.MongoTableProvider"])
def test_a_connector_that_is_not_listed_writes_what_it_writes_in_plain_spark(
    start: StartRun, numbers: str, mongodb: MongoServer, sink: str
) -> None:
    collection = sink.rpartition(".")[2]
    options = mongodb_options(mongodb.uri, collection)
    finish(start(f"SAVE STREAM numbers TO {sink} {ONCE} {options}", numbers))

    rows = sorted(mongodb.read(collection), key=lambda row: row["n"])
    assert rows == [{"n": n, "even": n % 2 == 0} for n in range(10)]


@pytest.mark.mongodb
def test_a_connector_continues_from_its_checkpoint(
    start: StartRun, numbers: str, mongodb: MongoServer, tmp_path: Path
) -> None:
    save = f"SAVE STREAM numbers TO mongodb {ONCE} {mongodb_options(mongodb.uri, 'later')}"
    finish(start(save, numbers))
    (tmp_path / "input" / "more.json").write_text('{"n": 10, "even": true}')
    finish(start(save, numbers, epoch=2))

    assert sorted(row["n"] for row in mongodb.read("later")) == list(range(11))


@pytest.mark.mongodb
def test_the_error_of_a_connector_is_its_own(start: StartRun, numbers: str) -> None:
    """Spark's error says only that the writing job has failed."""
    uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"
    options = mongodb_options(uri, "unreachable")

    def fail(epoch: int) -> RunFailed:
        with pytest.raises(RunFailed) as raised:
            run = start(f"SAVE STREAM numbers TO mongodb {ONCE} {options}", numbers, epoch=epoch)
            finish(run)
        return raised.value

    # The last attempt of a task may ask to commit before Spark knows that the one before it has
    # failed. Its error then says only that.
    errors = map(fail, range(1, 6))
    error = next(each for each in errors if "Commit denied" not in each.failure.message)
    failure = error.failure
    assert failure.condition == "_LEGACY_ERROR_TEMP_2070"
    assert failure.message.startswith("Writing job failed: com.mongodb.")
    assert "127.0.0.1:1" in failure.message
    assert "\tat " not in failure.message
    assert not error.is_permanent


@pytest.mark.mongodb
def test_the_error_of_a_connectors_source_is_its_own(start: StartRun) -> None:
    uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"
    stream = f"CREATE STREAM changes (n INT) FROM mongodb {mongodb_options(uri, 'unreachable')}"
    with pytest.raises(RunFailed) as raised:
        finish(start("SAVE STREAM changes TO noop", stream))

    failure = raised.value.failure
    assert failure.message.startswith("com.mongodb.spark.")
    assert failure.message.endswith(
        "MongoSparkException: Could not create the change stream cursor."
    )
    assert "127.0.0.1:1" in str(failure.trace)
    assert not raised.value.is_permanent
