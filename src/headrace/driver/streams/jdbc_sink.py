"""The JDBC sink: one database transaction writes the rows of a batch and the number of the batch.

The executors first write the rows to a staging table, in parallel. The transaction then records the
number in a ledger and copies the rows. A batch that is already in the ledger is skipped, so that a
batch which runs twice, even in two drivers at once, is written once.

Each driver has a staging table of its own, so that a fenced driver that still runs cannot change
the rows of its successor. A batch drops its table at its end, also after an error. What a killed
driver has left is dropped at the start of the next run, or after the end of the query by an intent.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.driver.failures import InvalidStream
from headrace.driver.spark_version.connectors import find_jdbc_connector
from headrace.driver.streams.file_sink import find_last_planned
from headrace.driver.streams.sink_writer import SinkRun, SinkWriter, make_writer
from headrace.grammar.parse import parse
from headrace.grammar.stream_clauses import OutputMode
from headrace.grammar.stream_statements import SaveStream
from headrace.model.stream_query import DesiredQuery

_LOG = logging.getLogger("headrace.driver.streams")
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
        self._connect = find_jdbc_connector(session, options)

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Open a transaction that commits at the end of the block and rolls back on an error."""
        connection = self._connect()
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


LEDGER = "headrace_ledger"
"""Table with the last batch of each query, in the default schema of the connection."""
_CREATE_LEDGER = (
    f"CREATE TABLE IF NOT EXISTS {LEDGER}"
    " (query_id VARCHAR(64) NOT NULL PRIMARY KEY, batch BIGINT NOT NULL)"
)
_LAST_BATCH = f"SELECT batch FROM {LEDGER} WHERE query_id = ?"  # noqa: S608 - a constant
_ADVANCE = f"UPDATE {LEDGER} SET batch = ? WHERE query_id = ? AND batch < ?"  # noqa: S608
_BEGIN = (
    f"INSERT INTO {LEDGER} (query_id, batch) SELECT ?, ?"  # noqa: S608 - a constant
    f" WHERE NOT EXISTS (SELECT 1 FROM {LEDGER} WHERE query_id = ?)"
)
_START_SECONDS = 60.0
"""Longest time from the first batch to the id of the query, which Spark returns after the start."""


class JdbcSink:
    """Writes the batches of one query."""

    def __init__(
        self,
        options: Mapping[str, str],
        desired: DesiredQuery,
        epoch: int,
        *,
        planned: int | None,
    ) -> None:
        """Create a sink for one run.

        Args:
            planned: Last batch for which the checkpoint has offsets at the start of the run.
        """
        self._options = with_driver(options)
        self._table = self._options["dbtable"]
        self._desired = desired
        self._epoch = epoch
        self._staging = StagingTables(self._table, desired.id)
        self._planned = -1 if planned is None else planned
        self._query_id = ""
        self._is_bound = threading.Event()

    def clear(self, session: SparkSession) -> None:
        """Drop what earlier runs of the query have left, before the first batch of this run."""
        with Connections(session, self._options).open() as connection:
            self._staging.drop_all(connection, up_to=self._epoch)

    def bind(self, query_id: str) -> None:
        """Set Spark's id of the query. It is the same as long as the checkpoint exists."""
        self._query_id = query_id
        self._is_bound.set()

    def write(self, batch: DataFrame, number: int) -> None:
        """Write a batch, unless it is written already. Raises what Spark and the database raise."""
        if not self._is_bound.wait(_START_SECONDS):
            raise RuntimeError("the query did not start")
        connections = Connections(batch.sparkSession, self._options)
        with connections.open() as connection:
            last = self._read_last(connection)
        # A batch that this run has planned anew has other rows than the one in the table.
        if last > number or last == number > self._planned:
            raise InvalidStream(
                f"The table {LEDGER} has batch {last} of this query, and batch {number} is to be"
                f" written to {self._table}: the checkpoint is older than the table. Restore the"
                " checkpoint, or start the query with a new one."
            )
        if last == number:
            return
        try:
            self._write_new(connections, batch, number)
        except Exception:
            # The error of the batch is the one to report. The next run drops the table.
            with contextlib.suppress(Py4JError, PySparkException):
                self._drop_staging(connections)
            raise
        self._drop_staging(connections)

    def _write_new(self, connections: Connections, batch: DataFrame, number: int) -> None:
        staging = self._staging.name(self._epoch)
        self._save(batch, staging, "overwrite")
        # Spark creates a missing table with the types of its dialect.
        self._save(batch.limit(0), self._table, "ignore")
        with connections.open() as connection:
            self._commit(connection, batch, number, staging)

    def _drop_staging(self, connections: Connections) -> None:
        with connections.open() as connection:
            self._staging.drop(connection, self._epoch)

    def _read_last(self, connection: Any) -> int:
        connection.createStatement().execute(_CREATE_LEDGER)
        statement = connection.prepareStatement(_LAST_BATCH)
        statement.setString(1, self._query_id)
        rows = statement.executeQuery()
        return int(rows.getLong(1)) if rows.next() else -1

    def _commit(self, connection: Any, batch: DataFrame, number: int, staging: str) -> None:
        """Record and copy a batch in the transaction of the connection."""
        advance = connection.prepareStatement(_ADVANCE)
        advance.setLong(1, number)
        advance.setString(2, self._query_id)
        advance.setLong(3, number)
        if advance.executeUpdate() == 0:
            begin = connection.prepareStatement(_BEGIN)
            begin.setString(1, self._query_id)
            begin.setLong(2, number)
            begin.setString(3, self._query_id)
            if begin.executeUpdate() == 0:
                # Another driver has written the batch in the meantime.
                return
        command = parse(self._desired.spec.text).command
        assert isinstance(command, SaveStream)
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in batch.columns)
        statement = connection.createStatement()
        if command.output_mode is OutputMode.COMPLETE:
            statement.execute(f"DELETE FROM {self._table}")  # noqa: S608 - the user's own table
        statement.execute(
            f"INSERT INTO {self._table} ({columns}) SELECT {columns} FROM {staging}"  # noqa: S608
        )

    def _save(self, rows: DataFrame, table: str, mode: str) -> None:
        rows.write.format("jdbc").options(**{**self._options, "dbtable": table}).mode(mode).save()


class JdbcSinkWriter(SinkWriter):
    """Writes each batch and its number in one transaction of a database."""

    def check(self, rows: DataFrame) -> None:
        _check_driver(rows.sparkSession, with_driver(self.target.options))

    def encode(self, rows: DataFrame) -> tuple[DataFrame, dict[str, str]]:
        return rows, with_driver(self.target.options)

    def prepare(self, rows: DataFrame, run: SinkRun) -> Callable[[], StreamingQuery]:
        session, writer = rows.sparkSession, make_writer(rows, run)

        def start() -> StreamingQuery:
            planned = find_last_planned(session, run.desired.spec)
            sink = JdbcSink(self.target.options, run.desired, run.epoch, planned=planned)
            sink.clear(session)
            query = writer.foreachBatch(run.errors.watch(sink.write)).start()
            sink.bind(query.id)
            return query

        return start

    def clear(self, session: SparkSession, query_id: str) -> None:
        """Drop the staging tables of all drivers of the query. Raises Py4JJavaError."""
        options = with_driver(self.target.options)
        with Connections(session, options).open() as connection:
            StagingTables(options["dbtable"], query_id).drop_all(connection)


def _check_driver(session: SparkSession, options: Mapping[str, str]) -> None:
    """Raise InvalidStream if the session lacks the class of a database's driver.

    Args:
        options: Options of the sink, see `with_driver`.
    """
    try:
        Connections(session, options)
    except Py4JJavaError as error:
        database = ":".join(options["url"].split(":")[:2])
        needed = options.get("driver")
        reason = f"the class {needed} is missing" if needed else "no driver accepts the URL"
        advice = "" if needed else " Name the class of the driver with the option driver."
        raise InvalidStream(
            f"The session cannot write to {database}, because {reason}.{advice} Add the jar of the"
            " database's driver to spark.jars, or its package to spark.jars.packages, in the"
            " configuration of the profile or of a new session."
        ) from error
