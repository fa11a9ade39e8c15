"""Fixtures of tests of jobs: those of streams, and queries with the rows of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.driver.streams.conftest import numbers
from tests.support.streams import LEASE, NO_SECRETS, find_no_other, make_desired

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.model.job import JobRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.streams.supervised_query import Run

__all__ = ["numbers"]

StartJob = Callable[..., "Run"]
"""Type of the fixture `start_job`."""


@pytest.fixture
def clone_session(spark: SparkSession) -> Callable[[], SparkSession]:
    from pyspark.sql import SparkSession

    return lambda: SparkSession(spark.sparkContext, Py4JBridge(spark).session.cloneSession())


@pytest.fixture
def start_job(
    clone_session: Callable[[], SparkSession], tmp_path: Path
) -> Iterator[Callable[..., Run]]:
    """Return a function that starts a run of a job: `start_job(save, *definitions, sql=…)`."""
    from headrace.driver.streams.spark_run import RunStarter

    started: list[Run] = []

    def start_job(
        save: str,
        *definitions: str,
        checkpoint: str = "",
        conf: dict[str, str] | None = None,
        **rows: Any,
    ) -> Run:
        desired = make_desired(save, definitions, tmp_path, conf or {})
        changes: dict[str, Any] = {"rows": JobRows(**rows)}
        if checkpoint:
            changes["checkpoint"] = checkpoint
        spec = desired.spec.model_copy(update=changes)
        started.append(
            RunStarter(clone_session, LEASE, find_no_other, NO_SECRETS).start(
                desired.model_copy(update={"spec": spec})
            )
        )
        return started[-1]

    yield start_job
    for run in started:
        run.stop()
