"""The statements of a batch job on tables of every kind: a run that is made twice changes nothing.

The statements are those that a node makes of a manifest, and run as a driver runs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_lakes
from tests.support.ctas import CtasRun, fetch_rows
from tests.support.journal import JournalLink

from headrace.control.jobs.compile import choose_session, compile_batch
from headrace.deploy.definitions import NeededDefinitions
from headrace.deploy.manifest import JobManifest
from headrace.driver.spark_version.session_state import override_for_statement
from headrace.model.run import BatchStatement
from headrace.model.statement import Parameter

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]
EVERY_TABLE = for_lakes("parquet", "delta", "iceberg-base")
MERGEABLE = for_lakes("delta", "iceberg-base")
FIRST = datetime(2026, 3, 29, tzinfo=UTC)
DAY = timedelta(days=1)
SOURCE = (
    "SELECT * FROM VALUES"
    " (1, TIMESTAMP'2026-03-28 23:59:59.999999Z'), (2, TIMESTAMP'2026-03-29 00:00:00Z'),"
    " (3, TIMESTAMP'2026-03-29 23:59:59.999999Z'), (4, TIMESTAMP'2026-03-30 00:00:00Z')"
    " AS rows(id, at)"
)
DAILY = (
    f"SELECT id, at, :day AS day FROM ({SOURCE}) WHERE at >= :interval_start AND at < :interval_end"
)


class Job:
    """A batch job that writes to the table `t` of a namespace."""

    def __init__(self, namespace: LakeNamespace, sql: str, **keys: Any) -> None:
        self._namespace = namespace
        manifest = JobManifest.model_validate(
            {
                "name": "daily",
                "schedule": "manual",
                "target-table": namespace.table,
                "metadata-columns": False,
                "sql": sql,
            }
            | keys
        )
        session = choose_session(manifest, profile="default", py_files=[])
        batch = compile_batch(manifest, NeededDefinitions(), session)
        assert batch is not None
        self.statements = batch.statements

    def run(self, day: datetime) -> None:
        for statement in self.statements:
            self._run_statement(statement, day)

    def _run_statement(self, statement: BatchStatement, day: datetime) -> None:
        times = {"interval_start": day, "interval_end": day + DAY}
        parameters = [
            *(Parameter(name=k, value=v.isoformat(), type="TIMESTAMP") for k, v in times.items()),
            Parameter(name="day", value=f"{day:%Y-%m-%d}", type="DATE"),
        ]
        provider = {"delta": "delta"}.get(self._namespace.lake.name, "parquet")
        conf = {"spark.sql.sources.default": provider, **statement.conf}
        with override_for_statement(self._namespace.spark, conf):
            run = CtasRun(
                self._namespace.spark, statement.text, JournalLink(), parameters=parameters
            )
        assert run.plan.atomic in {True, None}

    def read(self, columns: str = "id, CAST(day AS STRING)") -> list[tuple[Any, ...]]:
        table = self._namespace.table
        self._namespace.spark.sql(f"REFRESH TABLE {table}")
        return fetch_rows(self._namespace.spark, f"SELECT {columns} FROM {table} ORDER BY 1, 2")


@pytest.fixture(params=["UTC", "America/St_Johns", "Pacific/Apia"])
def zone(request: pytest.FixtureRequest, namespace: LakeNamespace) -> Iterator[str]:
    """Set the time zone of the Spark session."""
    namespace.spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    namespace.spark.conf.unset("spark.sql.session.timeZone")


@for_lakes("parquet")
@pytest.mark.usefixtures("zone")
def test_an_interval_has_its_first_instant_and_not_its_last_in_every_time_zone(
    namespace: LakeNamespace,
) -> None:
    job = Job(namespace, DAILY)
    job.run(FIRST)
    assert job.read() == [(2, "2026-03-29"), (3, "2026-03-29")]


@EVERY_TABLE
def test_an_overwrite_replaces_the_partition_of_its_run_and_no_other(
    namespace: LakeNamespace,
) -> None:
    job = Job(namespace, DAILY, **{"write": "overwrite-partitions", "partition-by": ["day"]})
    days = [FIRST - DAY, FIRST, FIRST + DAY]
    for day in days:
        job.run(day)
    rows = [(1, "2026-03-28"), (2, "2026-03-29"), (3, "2026-03-29"), (4, "2026-03-30")]
    assert job.read() == rows
    # The mode belongs to the statement: another job of the session appends.
    appending = Job(namespace, DAILY)
    appending.run(FIRST)
    assert len(job.read()) == len(rows) + 2
    for day in reversed(days):
        job.run(day)
    assert job.read() == rows


@EVERY_TABLE
def test_an_overwrite_of_a_table_without_its_partitions_changes_nothing(
    namespace: LakeNamespace,
) -> None:
    Job(namespace, DAILY).run(FIRST)
    job = Job(namespace, DAILY, **{"write": "overwrite-partitions", "partition-by": ["day"]})
    with pytest.raises(Exception, match=r"(?i)partition.*`day`"):
        job.run(FIRST + DAY)
    assert job.read() == [(2, "2026-03-29"), (3, "2026-03-29")]


@MERGEABLE
def test_a_merge_finds_its_rows_again_also_by_keys_that_are_null(namespace: LakeNamespace) -> None:
    rows = "VALUES (1, 'a', :day), (NULL, 'b', :day), (1, NULL, :day) AS rows(id, kind, day)"
    job = Job(namespace, f"SELECT * FROM {rows}", write="merge on (id, kind)")
    job.run(FIRST)
    job.run(FIRST + DAY)
    assert job.read("id, kind, CAST(day AS STRING)") == [
        (None, "b", "2026-03-30"),
        (1, None, "2026-03-30"),
        (1, "a", "2026-03-30"),
    ]


@MERGEABLE
def test_rows_with_the_same_key_of_a_merge_are_refused_by_their_key(
    namespace: LakeNamespace,
) -> None:
    rows = "VALUES (1, 'a', :day), (7, 'b', :day), (7, 'c', :day) AS rows(id, s, day)"
    job = Job(namespace, f"SELECT * FROM {rows}", write="merge on (id)")
    with pytest.raises(Exception, match=r'same key of the merge: \{"id":7\}'):
        job.run(FIRST)
    assert job.read() == []
