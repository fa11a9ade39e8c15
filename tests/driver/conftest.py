"""One Spark session for all tests of the driver's rooms."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.lakes import lake_extensions, lake_jars
from tests.support.results import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two slots, and four attempts for each task."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = (
            SparkSession.builder.master("local[2,4]")
            .appName("headrace-driver-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.catalogImplementation", "in-memory")
            .config("spark.jars", ",".join(map(str, lake_jars())))
            # Iceberg's own is not needed here, and knows no functions of SQL.
            .config("spark.sql.extensions", lake_extensions(lake_jars("delta")))
            .config("spark.sql.session.timeZone", "Asia/Kathmandu")
            .config("spark.sql.shuffle.partitions", "4")
            # Compiling takes longer than these few rows.
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            .config("spark.sql.geospatial.enabled", "true")
            .config("spark.sql.scripting.enabled", "true")
            .config("spark.sql.timeType.enabled", "true")
            .config("spark.sql.preserveCharVarcharTypeInfo", "true")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            session.stop()


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "results")
