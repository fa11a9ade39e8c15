"""A driver of the warm pool warms up without changing the session that a user gets later."""

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


def test_a_warm_up_changes_no_session_state_and_leaves_no_files(
    driver_spark: Spark, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = SessionStateTracker(spark)
    with caplog.at_level(logging.INFO, "headrace.driver"):
        warm_up(driver_spark, bootstrap(tmp_path / "results"))
    assert "warmed up in" in caplog.text
    assert state.capture_changes() is None
    assert not list(tmp_path.rglob("*.arrow"))


def test_a_failed_warm_up_is_only_logged(
    driver_spark: Spark, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    warm_up(driver_spark, bootstrap(tmp_path / "file"))
    assert "warm-up failed: Cannot write the result" in caplog.text
