"""Fixtures of tests that run streaming queries in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.streams import LEASE, NO_SECRETS, NUMBERS, StartRun, find_no_other, make_desired

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.model.job import JobRows
from headrace.model.materialized_view import NameScope
from headrace.model.messages import AnnounceWrites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.streams.spark_run import SparkRun


@pytest.fixture
def numbers(tmp_path: Path) -> str:
    """Return the definition of a stream of the numbers 0 to 9, in two files."""
    folder = tmp_path / "input"
    folder.mkdir()
    for begin in (0, 5):
        lines = [json.dumps({"n": n, "even": n % 2 == 0}) for n in range(begin, begin + 5)]
        (folder / f"{begin}.json").write_text("\n".join(lines))
    return NUMBERS.format(input=folder)


@pytest.fixture
def stream_session(spark: SparkSession) -> SparkSession:
    """Return the session that the sessions of the runs are like."""
    return spark


@pytest.fixture
def announced() -> list[AnnounceWrites]:
    """Return the announced writes of all runs of the test."""
    return []


@pytest.fixture
def start(
    stream_session: SparkSession, tmp_path: Path, announced: list[AnnounceWrites]
) -> Iterator[StartRun]:
    """Return a function that starts a run: `start(save, *definitions)`. It stops at the end."""
    from pyspark.sql import SparkSession

    from headrace.driver.streams.spark_run import RunStarter

    def clone() -> SparkSession:
        jvm = Py4JBridge(stream_session)
        return SparkSession(stream_session.sparkContext, jvm.session.cloneSession())

    started: list[SparkRun] = []

    def start(
        text: str,
        *definitions: str,
        epoch: int = 1,
        conf: dict[str, str] | None = None,
        scope: NameScope | None = None,
        rows: JobRows | None = None,
        last_batch: int | None = None,
        folder: Path = tmp_path,
        find_marked: Any = find_no_other,
        **changes: Any,
    ) -> SparkRun:
        desired = make_desired(text, definitions, folder, conf or {})
        spec = desired.spec.model_copy(update={"scope": scope, "rows": rows})
        starter = RunStarter(
            clone,
            replace(LEASE, epoch=epoch),
            find_marked,
            NO_SECRETS,
            announce_writes=announced.append,
        )
        update = {"spec": spec, "last_batch": last_batch, **changes}
        started.append(starter.start(desired.model_copy(update=update)))
        return started[-1]

    yield start
    for run in started:
        run.stop()
