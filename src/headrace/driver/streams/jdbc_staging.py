"""The staging tables of JDBC sinks, in the databases of users.

A table is named after its query and the epoch of its driver: `headrace_batch_<query>_<epoch>`. The
name of the query is unique, so that a driver finds what earlier drivers of the query have left.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.py4j_bridge import Py4JBridge

_LOG = logging.getLogger("headrace.driver.streams")
_OPTIONS = "org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions"
_DIALECTS = "org.apache.spark.sql.jdbc.JdbcDialects"
_PREFIX = "headrace_batch_"
_QUERY_DIGITS = 12
"""The last digits of an id of a query, which are random."""
_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "h2": "org.h2.Driver",
}
"""Class of the driver for each kind of URL."""


def with_driver(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options by key in lower case, with the usual driver of the database if none.

    Java's DriverManager does not find a driver that spark.jars or ADD JAR has added.
    """
    options = {key.lower(): value for key, value in options.items()}
    database = options["url"].removeprefix("jdbc:").partition(":")[0]
    known = _DRIVERS.get(database.lower())
    return options if known is None else {"driver": known} | options


class Connections:
    """Opens transactions in the database of a sink, as Spark opens its own connections."""

    def __init__(self, session: SparkSession, options: Mapping[str, str]) -> None:
        """Load the driver of the database. Raises Py4JJavaError if its class is missing.

        Args:
            options: See `with_driver`.
        """
        jvm = Py4JBridge(session)
        jdbc_options = jvm.type(_OPTIONS)(jvm.mapping(dict(options)))
        dialect = jvm.singleton(_DIALECTS).get(options["url"])
        self._factory = dialect.createConnectionFactory(jdbc_options)

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Open a transaction that commits at the end of the block and rolls back on an error."""
        connection = self._factory.apply(-1)
        try:
            connection.setAutoCommit(False)
            yield connection
            connection.commit()
        finally:
            connection.close()


class StagingTables:
    """The staging tables of one query. Every call may raise Py4JJavaError."""

    def __init__(self, table: str, query_id: str) -> None:
        """Name the tables.

        Args:
            table: The table of the sink, as SQL. The staging tables are in its schema.
            query_id: Headrace's id of the query, which is never reused.
        """
        schema, dot, _name = table.rpartition(".")
        self._schema = f"{schema}{dot}"
        self._prefix = f"{_PREFIX}{query_id.removeprefix('sq_')[-_QUERY_DIGITS:]}_"

    def name(self, epoch: int) -> str:
        """Return the name of the table of a driver, as SQL."""
        return f"{self._schema}{self._prefix}{epoch}"

    def drop(self, connection: Any, epoch: int) -> None:
        """Drop the table of a driver, which exists."""
        connection.createStatement().execute(f"DROP TABLE {self.name(epoch)}")

    def drop_all(self, connection: Any, *, up_to: int | None = None) -> None:
        """Drop the tables of several drivers.

        Args:
            up_to: Epoch of the last of these drivers; None: drop the tables of all drivers.
        """
        for epoch in self._list_epochs(connection):
            if up_to is None or epoch <= up_to:
                self.drop(connection, epoch)
                _LOG.info("dropped the staging table %s of a lost driver", self.name(epoch))

    def _list_epochs(self, connection: Any) -> list[int]:
        metadata = connection.getMetaData()
        # SQL has no case in names without quotes, and databases store them in one of two cases.
        pattern = f"{self._prefix}%"
        if metadata.storesUpperCaseIdentifiers():
            pattern = pattern.upper()
        rows = metadata.getTables(None, None, pattern, None)
        epochs = set()
        while rows.next():
            # An underscore in a pattern stands for any character.
            match = re.fullmatch(rf"{self._prefix}(\d+)", rows.getString("TABLE_NAME").lower())
            if match is not None and rows.getString("TABLE_TYPE").endswith("TABLE"):
                epochs.add(int(match[1]))
        return sorted(epochs)


def drop_all_staging(session: SparkSession, options: Mapping[str, str], query_id: str) -> None:
    """Drop the staging tables of all drivers of a query that has ended. Raises Py4JJavaError.

    Args:
        options: Options of the sink.
    """
    options = with_driver(options)
    with Connections(session, options).open() as connection:
        StagingTables(options["dbtable"], query_id).drop_all(connection)
