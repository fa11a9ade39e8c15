"""A spare driver warms up without a trace in the session that it will be."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.driver.spark import Spark
from headrace.driver.state import SessionStateTracker
from headrace.driver.warm_up import warm_up
from headrace.model.messages import Bootstrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def bootstrap(results: Path) -> Bootstrap:
    return Bootstrap(
        session_id="se_1",
        epoch=1,
        token=None,
        nodes=[],
        conf={},
        warm=True,
        results=str(results),
        inline_limit=2**20,
        chunk_limit=2**20,
        lease_seconds=1,
        renew_seconds=1,
        orphan_seconds=1,
    )


def test_it_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = Spark.__new__(Spark)
    held.session = spark
    state = SessionStateTracker(spark)
    with caplog.at_level(logging.INFO, "headrace.driver"):
        warm_up(held, bootstrap(tmp_path / "results"))
    assert "warmed up in" in caplog.text
    assert state.changed() is None
    assert not list(tmp_path.rglob("*.arrow"))


def test_what_does_not_work_is_left_for_a_statement_to_fail_by(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = Spark.__new__(Spark)
    held.session = spark
    (tmp_path / "file").touch()
    warm_up(held, bootstrap(tmp_path / "file"))
    assert "not warmed up: Cannot write the result" in caplog.text
