"""Connections and cursors of PEP 249, over the HTTP API of a node.

A connection is a connection of Headrace: a Spark session of its own. A cursor runs one statement
at a time. Its rows are chunks of the stored result, so that any node returns them, also after
another node has ended.
"""

from __future__ import annotations

import secrets
import threading
import time as clock
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from headrace.client import listings
from headrace.client.dbapi_errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    ResultTruncated,
    Warning,  # noqa: A004 - the name of PEP 249
    failure_of,
    translated,
)
from headrace.client.http import LONGEST_POLL, Client
from headrace.client.parameters import Parameters, encode_parameters

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from headrace.client.arrow_rows import ArrowRows, Row

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "ResultTruncated",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
]

Json = dict[str, Any]
_FIRST_WAIT = 0.25
"""Seconds for which the answer to a submit waits: the id of a longer statement is known then."""
_ALL = 2**63

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - the name of PEP 249
    """Return the local date of a Unix time."""
    return date(*clock.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> time:  # noqa: N802 - the name of PEP 249
    """Return the local time of day of a Unix time."""
    return time(*clock.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802 - the name of PEP 249
    """Return the local time of a Unix time, without a zone."""
    return datetime(*clock.localtime(ticks)[:6])  # noqa: DTZ001


class TypeGroup:
    """A type object of PEP 249. It equals the `type_code` of each of its Spark SQL types."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other.partition("(")[0].partition(" ")[0] in self._names
        return self is other

    def __hash__(self) -> int:
        return id(self)


STRING = TypeGroup("string", "char", "varchar")
BINARY = TypeGroup("binary")
NUMBER = TypeGroup("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
DATETIME = TypeGroup("date", "time", "timestamp", "timestamp_ntz")
ROWID = TypeGroup()


class _Clients:
    """The clients of one connection. Each thread takes one for a request, and gives it back."""

    def __init__(self, find: Callable[[], Client]) -> None:
        self._find = find
        self._first: Client | None = None
        self._idle: list[Client] = []
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self) -> Iterator[Client]:
        """Yield a client that no other thread uses. Raises HeadraceError if no node is found."""
        client = self._take()
        try:
            yield client
        finally:
            self._idle.append(client)

    def close(self) -> None:
        """Close the idle clients."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()

    def _take(self) -> Client:
        with self._lock:
            if self._first is None:
                self._first = self._find()
                return self._first
            return self._idle.pop() if self._idle else self._first.copy()


class Connection:
    """A connection of PEP 249. Threads may share it; its statements run one after the other.

    Each statement is a transaction of its own: there is nothing to commit or to roll back.
    """

    DataError = DataError
    DatabaseError = DatabaseError
    Error = Error
    IntegrityError = IntegrityError
    InterfaceError = InterfaceError
    InternalError = InternalError
    NotSupportedError = NotSupportedError
    OperationalError = OperationalError
    ProgrammingError = ProgrammingError
    Warning = Warning
    autocommit = True

    def __init__(self, find_client: Callable[[], Client], spec: Mapping[str, Any]) -> None:
        """Create a connection, which is opened when it is needed.

        Args:
            find_client: Returns a client of the node to use.
            spec: Request body of `POST /api/v1/connections`.
        """
        self._clients = _Clients(find_client)
        self._spec = {key: value for key, value in spec.items() if value is not None}
        self._id: str | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        """Id of the connection, which is opened if it is not open."""
        with self._lock:
            if self._id is None:
                with self.client() as client:
                    self._id = str(client.open_connection(self._spec)["id"])
            return self._id

    @property
    def address(self) -> str:
        """Address of a node that this connection uses."""
        with self.client() as client:
            return client.address

    @contextmanager
    def client(self, statement_id: str | None = None) -> Iterator[Client]:
        """Yield a client of the node. The block raises the errors of PEP 249."""
        if self._is_closed:
            raise InterfaceError("The connection is closed.", code="connection_closed")
        with translated(statement_id), self._clients.borrow() as client:
            yield client

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        if self._is_closed:
            raise InterfaceError("The connection is closed.", code="connection_closed")
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Run a statement in a new cursor, and return the cursor."""
        return self.cursor().execute(operation, parameters)

    def check(self) -> None:
        """Raise OperationalError unless a node responds and the connection is open there."""
        known, opened = self._id, self.id
        if known is not None:
            with self.client() as client:
                client.get("connections", opened)

    def commit(self) -> None:
        """Do nothing: each statement has its effects when it ends."""

    def rollback(self) -> None:
        """Raise NotSupportedError: a statement that has ended cannot be rolled back."""
        raise NotSupportedError(
            "Each statement of Headrace is a transaction of its own. It cannot be rolled back.",
            code="no_transactions",
            sqlstate="0A000",
        )

    def close(self) -> None:
        """Close the connection. Its statements run on."""
        if self._is_closed:
            return
        try:
            if self._id is not None:
                # A connection that no node closes is closed after a time without statements.
                with suppress(Error), self.client() as client, client.retrying(0):
                    client.remove("connections", self._id)
        finally:
            self._is_closed = True
            self._clients.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Cursor:
    """A cursor of PEP 249: one statement after the other, and the rows of the last one."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        """Rows of a `fetchmany` without a size."""
        self._statement: Json | None = None
        """The statement as the API described it last."""
        self._rows: ArrowRows | None = None
        self._returned = 0
        self._owns_statement = False
        self._is_cancel_wanted = False
        self._total_written: int | None = None
        """Rows written by the statements of `executemany`."""
        self._is_closed = False

    # The statement.

    @property
    def statement_id(self) -> str | None:
        """Id of the statement, which any client can open. It is known while the statement runs."""
        return None if self._statement is None else str(self._statement["id"])

    @property
    def query(self) -> str | None:
        """The text of the statement."""
        return None if self._statement is None else str(self._statement["statement"])

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """The columns: name, Spark SQL type, and five values of PEP 249, or None.

        It is None before the end of the statement, and for a statement that returns no rows.
        """
        columns = self._result.get("schema") or None
        return None if columns is None else [_describe(column) for column in columns]

    @property
    def rowcount(self) -> int:
        """Rows of the result, or rows that the statement has written. -1 if it is not known."""
        if self._total_written is not None:
            return self._total_written
        written = self._result.get("rows_written")
        if written is not None:
            return int(written)
        return int(self._result["row_count"]) if self._result.get("schema") else -1

    @property
    def truncated(self) -> bool:
        """Whether a limit has cut off rows of the result."""
        return bool(self._result.get("truncated"))

    @property
    def rownumber(self) -> int | None:
        """Number of the rows that were fetched as tuples."""
        return None if self._statement is None else self._returned

    @property
    def lastrowid(self) -> None:
        """None: rows have no ids."""
        return

    def execute(
        self,
        operation: str,
        parameters: Parameters | None = None,
        *,
        conf: Mapping[str, str] | None = None,
        timeout: str | None = None,
    ) -> Self:
        """Run a statement, and wait for its end. Return the cursor.

        Ctrl-C cancels the statement.

        Args:
            operation: Text of one statement. Without parameters, it is sent as it is.
            parameters: A sequence for the markers `?`, or a mapping for `:name`.
            conf: Spark configuration for this statement alone.
            timeout: Longest time that it may run, for example `10m`.

        Raises:
            ProgrammingError: The statement is wrong, or is not permitted.
            OperationalError: It was cancelled, a limit was reached, or no node responds.
        """
        self._submit(operation, parameters, conf, timeout, wait=_FIRST_WAIT)
        self._wait()
        return self

    def execute_async(
        self,
        operation: str,
        parameters: Parameters | None = None,
        *,
        conf: Mapping[str, str] | None = None,
        timeout: str | None = None,
    ) -> Self:
        """Submit a statement, and return the cursor. A fetch waits for the end of the statement."""
        self._submit(operation, parameters, conf, timeout, wait=0)
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Self:
        """Run a statement once for each of the parameters. Return the cursor.

        Each run is a statement of Spark. To write many rows, use one statement with many rows.
        """
        total: int | None = 0
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
            total = None if total is None or self.rowcount < 0 else total + self.rowcount
        self._total_written = -1 if total is None else total
        return self

    def attach(self, statement_id: str) -> Self:
        """Continue with a statement of any client, by its id. Return the cursor.

        A fetch waits for its end. To close the cursor does not cancel it.
        """
        self._begin()
        with self.connection.client() as client:
            self._statement = client.statement(statement_id)
        return self

    def get_query_state(self) -> str:
        """Return the present state: `waiting`, `running`, `success`, `failed`, … ."""
        statement = self._require_statement()
        if _is_pending(statement):
            with self.connection.client(statement["id"]) as client:
                self._statement = statement = client.statement(statement["id"])
        return str(statement["state"])

    def is_query_pending(self) -> bool:
        """Return whether the statement has not ended."""
        self.get_query_state()
        return _is_pending(self._require_statement())

    def cancel(self) -> None:
        """Cancel the statement if it has not ended. Any thread may call this."""
        self._is_cancel_wanted = True
        statement = self._statement
        if statement is not None and _is_pending(statement):
            # A statement that has ended meanwhile stays as it is.
            with suppress(ProgrammingError), self.connection.client(statement["id"]) as client:
                client.cancel(statement["id"])

    def interrupt(self) -> None:
        """Cancel the statement if this cursor has started it and it still runs."""
        self._is_cancel_wanted = True
        if self._owns_statement and self._statement and _is_pending(self._statement):
            with suppress(Error):
                self.cancel()

    def close(self) -> None:
        """Close the cursor. A statement that it has started and that still runs is cancelled."""
        if self._is_closed:
            return
        try:
            self.interrupt()
        finally:
            self._is_closed = True

    # The rows.

    def fetchone(self) -> Row | None:
        """Return the next row; None at the end."""
        rows = self._take(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return up to `size` rows, by default `arraysize`; an empty list at the end."""
        return self._take(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """Return the remaining rows."""
        return self._take(_ALL)

    def fetch_arrow_table(self) -> pa.Table:
        """Return the remaining rows as a table of Arrow."""
        return self.fetch_record_batch().read_all()

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        """Return a reader of the remaining rows. It reads each chunk when it is needed."""
        return self._open().reader()

    def fetch_df(self) -> pd.DataFrame:
        """Return the remaining rows as a data frame of pandas."""
        _require("pandas")
        frame: pd.DataFrame = self.fetch_arrow_table().to_pandas()
        return frame

    def fetch_polars(self) -> pl.DataFrame:
        """Return the remaining rows as a data frame of polars. No value is copied as Python's."""
        frame: pl.DataFrame = _require("polars").DataFrame(self)
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the remaining rows by the PyCapsule interface, for polars, DuckDB and others."""
        return self.fetch_record_batch().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.fetchone, None)

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    # What the catalogs hold. The patterns are those of LIKE: `%` any text, `_` any character.

    def catalogs(self) -> Self:
        """List the catalogs: `catalog`."""
        return self.execute("SHOW CATALOGS")

    def schemas(self, catalog: str | None = None, schema: str | None = None) -> Self:
        """List schemas: `catalog, schema`.

        Args:
            catalog: Name of a catalog; default: the current one.
            schema: Pattern of names.
        """
        return self.execute(listings.list_text("SCHEMAS", catalog, SCHEMA=schema))

    def tables(
        self, catalog: str | None = None, schema: str | None = None, table: str | None = None
    ) -> Self:
        """List tables and views: `catalog, schema, name, type, comment`. `type` is TABLE or VIEW.

        A temporary view has an empty schema.
        """
        return self.execute(listings.list_text("TABLES", catalog, SCHEMA=schema, TABLE=table))

    def columns(
        self,
        catalog: str | None = None,
        schema: str | None = None,
        table: str | None = None,
        column: str | None = None,
    ) -> Self:
        """List columns, in the order of their tables.

        The columns of the result are `catalog, schema, table, name, position, type, nullable,
        comment`: `position` counts from 1, `type` is a Spark SQL type.
        """
        text = listings.list_text("COLUMNS", catalog, SCHEMA=schema, TABLE=table, COLUMN=column)
        listed = listings.describe_columns(self.execute(text).fetchall())
        from headrace.client.arrow_rows import rows_of_values  # noqa: PLC0415 - it is slow

        assert self._statement is not None
        schema_, self._rows = rows_of_values(listings.COLUMNS, listed)
        result = {**self._result, "schema": schema_, "row_count": len(listed)}
        self._statement = {**self._statement, "result": result}
        self._returned = 0
        return self

    # Calls of PEP 249 without effect.

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing: values have types."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing: no value is cut."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def _result(self) -> Json:
        return (self._statement or {}).get("result") or {}

    def _begin(self) -> None:
        """Leave the statement of the last `execute`."""
        if self._is_closed:
            raise InterfaceError("The cursor is closed.", code="cursor_closed")
        self.interrupt()
        self._statement = self._rows = self._total_written = None
        self._returned = 0
        self._owns_statement = self._is_cancel_wanted = False

    def _submit(
        self,
        operation: str,
        parameters: Parameters | None,
        conf: Mapping[str, str] | None,
        timeout: str | None,
        *,
        wait: float,
    ) -> None:
        self._begin()
        body: Json = {"statement": operation, "parameters": encode_parameters(parameters)}
        body |= {"connection": self.connection.id, "conf": dict(conf or {})}
        if timeout is not None:
            body["timeout"] = timeout
        key = secrets.token_hex(16)
        waiting = {**body, "wait_timeout": f"{wait:g}s"} if wait else body
        try:
            with self.connection.client() as client:
                self._statement = client.submit(waiting, key=key)
        except BaseException as error:
            if not isinstance(error, Exception):
                # Ctrl-C: the node may have the statement. The same key finds it.
                with suppress(Error), self.connection.client() as client:
                    client.cancel(client.submit(body, key=key)["id"])
            raise
        self._owns_statement = True
        if self._is_cancel_wanted:
            self.cancel()

    def _wait(self) -> None:
        """Wait for the end of the statement. Raise its error if it has not succeeded."""
        statement = self._require_statement()
        try:
            while _is_pending(statement):
                with self.connection.client(statement["id"]) as client:
                    statement = client.statement(statement["id"], wait=LONGEST_POLL)
                self._statement = statement
        except BaseException as error:
            if not isinstance(error, Exception):
                self.interrupt()
            raise
        if statement["state"] != "success":
            raise failure_of(statement)
        if self.truncated:
            warnings.warn(
                f"A limit has cut the result of {statement['id']} after"
                f" {self._result['row_count']} rows.",
                ResultTruncated,
                stacklevel=3,
            )

    def _open(self) -> ArrowRows:
        """Return the rows that have not been fetched. Wait for the end of the statement before."""
        if self._is_closed:
            raise InterfaceError("The cursor is closed.", code="cursor_closed")
        if self._rows is None:
            self._wait()
            statement = self._require_statement()
            if not self._result.get("schema"):
                raise ProgrammingError(
                    "The statement returns no rows.", code="no_rows", statement_id=statement["id"]
                )
            from headrace.client.arrow_rows import ArrowRows  # noqa: PLC0415 - it is slow

            def read_chunk(chunk: int) -> bytes:
                with self.connection.client(statement["id"]) as client:
                    return client.arrow_chunk(statement["id"], chunk)

            self._rows = ArrowRows(
                read_chunk,
                chunks=self._result["chunks"],
                row_count=self._result["row_count"],
                time_zone=self._result.get("time_zone"),
                statement_id=statement["id"],
            )
        return self._rows

    def _take(self, limit: int) -> list[Row]:
        rows = self._open().take(limit)
        self._returned += len(rows)
        return rows

    def _require_statement(self) -> Json:
        if self._statement is None:
            raise ProgrammingError("The cursor has run no statement.", code="no_statement")
        return self._statement


def _require(package: str) -> Any:
    """Import a package that only some programs need. Raise InterfaceError if it is missing."""
    try:
        return import_module(package)
    except ImportError as missing:
        raise InterfaceError(
            f"A data frame of {package} needs the package {package}, which is not installed.",
            code="packages_missing",
            hint=f"pip install {package}",
        ) from missing


def _is_pending(statement: Json) -> bool:
    return statement["ended_at"] is None


def _describe(column: Json) -> tuple[Any, ...]:
    """Return the description of a column, with the digits of a decimal."""
    precision = scale = None
    if column["type"].startswith("decimal("):
        precision, scale = map(int, column["type"][8:-1].split(","))
    return column["name"], column["type"], None, None, precision, scale, None
