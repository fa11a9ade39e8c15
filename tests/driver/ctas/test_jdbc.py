"""Tables of a JDBC catalog on PostgreSQL: a replaced table that other objects depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_lakes
from tests.support.ctas import ROWS, CtasRun, checksum, expected_checksum
from tests.support.journal import JournalLink

from headrace.errors import CatalogError, TableAlreadyExists
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.catalogs, for_lakes("jdbc")]


def test_a_table_that_a_view_depends_on_is_not_replaced(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    namespace.spark.sql(namespace.ctas(ROWS))
    url = database_url(namespace.spark)
    schema = namespace.name.partition(".")[2]
    execute(namespace.spark, url, f"CREATE VIEW {schema}.v AS TABLE {schema}.t")
    with pytest.raises(CatalogError, match="depend"):
        CtasRun(namespace.spark, namespace.ctas(ROWS, "CREATE OR REPLACE TABLE"), link)
    assert link.steps[-2:] == [TransactionState.ABORTING, TransactionState.ABORTED]
    assert checksum(namespace.spark, namespace.table) == expected_checksum(namespace.spark)
    with pytest.raises(TableAlreadyExists, match="it is a view"):
        CtasRun(namespace.spark, namespace.ctas(ROWS, name=f"{namespace.name}.v"), JournalLink())
    execute(namespace.spark, url, f"DROP VIEW {schema}.v")


def database_url(spark: SparkSession) -> str:
    """Return the JDBC URL of the catalog `pg`."""
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog("pg")
    options = catalog.getClass().getDeclaredField("options")
    options.setAccessible(True)
    url: str = options.get(catalog).url()
    return url


def execute(spark: SparkSession, url: str, text: str) -> None:
    """Run a statement as another user of the database."""
    connection = spark._jvm.java.sql.DriverManager.getConnection(url)
    connection.createStatement().execute(text)
    connection.close()
