"""One Spark application for all tests of the driver's packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.kafka import kafka_jars
from tests.support.lakes import lake_extensions, lake_jars
from tests.support.mongodb import mongodb_jars
from tests.support.results import Writer
from tests.support.s3 import s3_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.spark import Spark


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start an application with two slots, in which each task has four attempts."""
    from pyspark.sql import SparkSession

    jars = [*lake_jars(), *kafka_jars(), *mongodb_jars(), *s3_jars()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = (
            SparkSession.builder.master("local[2,4]")
            .appName("headrace-driver-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.catalogImplementation", "in-memory")
            # As nodes configure drivers.
            .config("spark.sql.filesourceTableRelationCacheSize", "0")
            .config("spark.python.daemon.module", "headrace.driver.spark_version.python_daemon")
            .config("spark.jars", ",".join(map(str, jars)))
            # Iceberg's extension is not needed here, and it does not support SQL functions.
            .config("spark.sql.extensions", lake_extensions(lake_jars("delta")))
            .config("spark.sql.session.timeZone", "Asia/Kathmandu")
            .config("spark.sql.shuffle.partitions", "4")
            # To compile code takes longer than to interpret plans for a few rows.
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


@pytest.fixture(autouse=True)
def _patient_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read what Spark counts when it has counted all: a busy machine delivers events late."""
    monkeypatch.setattr("headrace.driver.spark_version.metrics._LISTENER_BUS_MILLIS", 60_000)
    monkeypatch.setattr("headrace.driver.spark_version.metrics._LAST_EVENTS_MILLIS", 60_000)
    monkeypatch.setattr("headrace.driver.spark_version.observed_rows._LISTENER_BUS_MILLIS", 60_000)


@pytest.fixture
def driver_spark(spark: SparkSession) -> Spark:
    """Wrap the session as the driver does, without the start of another one."""
    from headrace.config.conf_policy import ConfPolicy
    from headrace.control.conf import list_conf_rules
    from headrace.driver.conf_overrides import SettingRules
    from headrace.driver.jvm_start import ChildJvm
    from headrace.driver.query_sessions import QuerySessions
    from headrace.driver.spark import Spark
    from headrace.driver.spark_version.commit_protocol import CommitProtocol

    wrapper = Spark.__new__(Spark)
    wrapper.session = spark
    wrapper.query_sessions = QuerySessions(spark)
    # The JVM is a child of this process: it lives as long as the session.
    wrapper._process = ChildJvm(spark.sparkContext._gateway.proc)
    wrapper._commit_protocol = CommitProtocol(spark)
    wrapper._setting_rules = SettingRules(spark, list_conf_rules(ConfPolicy()))
    return wrapper


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "results")
