"""Names and locations in Spark's session catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.session_state import override_for_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(("persistent", "expected"), [(True, "mixed"), (False, "MiXed")])
def test_only_a_metastore_puts_tables_into_directories_in_lower_case(
    spark: SparkSession, persistent: bool, expected: str
) -> None:
    # A thread that has run a statement of another session keeps that session as the active one.
    Py4JBridge(spark.newSession()).activate()
    catalog = V1Catalog(spark)
    catalog.persistent = persistent
    with override_for_statement(spark, {"spark.sql.caseSensitive": "true"}):
        location = catalog.default_location(TablePath("spark_catalog", ("default",), "MiXed"))
    assert location.rpartition("/")[2] == expected
