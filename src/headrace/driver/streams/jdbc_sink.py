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
import threading
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.streams.invalid_stream import InvalidStream
from headrace.driver.streams.jdbc_staging import Connections, StagingTables, with_driver
from headrace.grammar.parse import parse
from headrace.grammar.stream_clauses import OutputMode
from headrace.grammar.stream_statements import SaveStream
from headrace.model.stream_query import DesiredQuery

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
