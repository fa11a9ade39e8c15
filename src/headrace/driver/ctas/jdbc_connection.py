"""Connections to the PostgreSQL database of a JDBC catalog, opened the way Spark opens them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headrace.driver.spark_version.catalogs import RelationKind, TablePath
from headrace.driver.spark_version.connectors import find_catalog_connector
from headrace.driver.spark_version.errors import find_sql_state
from headrace.errors import CatalogError, TableAlreadyExists

_FIND_RELATION = """
SELECT relation.oid, relation.relkind FROM pg_class relation
JOIN pg_namespace namespace ON namespace.oid = relation.relnamespace
WHERE namespace.nspname = ? AND relation.relname = ?
"""
_FIND_COMMENT = """
SELECT relation.oid, obj_description(relation.oid, 'pg_class') FROM pg_class relation
JOIN pg_namespace namespace ON namespace.oid = relation.relnamespace
WHERE namespace.nspname = ? AND relation.relname = ?
"""
_LIST_COLUMNS = """
SELECT attribute.attname, format_type(attribute.atttypid, attribute.atttypmod)
FROM pg_attribute attribute
JOIN pg_class relation ON relation.oid = attribute.attrelid
JOIN pg_namespace namespace ON namespace.oid = relation.relnamespace
WHERE namespace.nspname = ? AND relation.relname = ?
    AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY attribute.attnum
"""
_IS_OWNED = """
SELECT pg_get_userbyid(relation.relowner) = CURRENT_USER, ''
FROM pg_class relation JOIN pg_namespace namespace ON namespace.oid = relation.relnamespace
WHERE namespace.nspname = ? AND relation.relname = ?
"""
_MAY_CREATE = "SELECT has_schema_privilege(?, 'CREATE'), ''"
_FIND_SCHEMA = "SELECT oid, 's' FROM pg_namespace WHERE nspname = ?"
_VIEW_KINDS = {"v", "m"}
"""Values of pg_class.relkind: view and materialized view."""
_DUPLICATE_STATES = {"42P07", "42710"}
"""SQLSTATEs duplicate_table and duplicate_object."""
_TRANSIENT_CLASSES = ("08", "40", "53", "57", "58", "XX")
"""Classes of SQLSTATE that are worth another attempt.

They are: connection exception, transaction rollback, insufficient resources, operator intervention,
system error, internal error. With any other state, PostgreSQL refuses the change for good.
"""


@dataclass(frozen=True, slots=True)
class DatabaseRelation:
    """A table or view in the database."""

    oid: str
    kind: RelationKind


class JdbcConnection:
    """Opens transactions in the database of one JDBC catalog."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        self._session = session
        self._catalog = catalog
        self.url = str(session.conf.get(f"spark.sql.catalog.{catalog}.url", ""))
        self.is_postgres = self.url.startswith("jdbc:postgresql:")
        # An option of the catalog overrides the URL. The user is empty if the database derives it.
        [in_url] = parse_qs(self.url.partition("?")[2]).get("user", [""])[-1:]
        self.user = str(session.conf.get(f"spark.sql.catalog.{catalog}.user", in_url))

    @cached_property
    def _connect(self) -> Callable[[], Any]:
        return find_catalog_connector(self._session, self._catalog, self.url)

    @contextmanager
    def open(self) -> Iterator[JdbcTransaction]:
        """Open a transaction that commits at the end of the block and rolls back on an error.

        Raises:
            TableAlreadyExists, CatalogError: the database refuses a change.
            RuntimeError: the database cannot be reached.
        """
        connection = self._connect()
        try:
            connection.setAutoCommit(False)
            yield JdbcTransaction(connection)
            connection.commit()
        except Py4JJavaError as error:
            raise _translate_error(error) from error
        finally:
            connection.close()


class JdbcTransaction:
    """One database transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def has_schema(self, schema: str) -> bool:
        return self._fetch_first(_FIND_SCHEMA, schema) is not None

    def find(self, path: TablePath) -> DatabaseRelation | None:
        """Return the table or view of that name, or None if there is none."""
        row = self._fetch_first(_FIND_RELATION, path.namespace[0], path.table)
        if row is None:
            return None
        oid, kind = row
        return DatabaseRelation(oid, "view" if kind in _VIEW_KINDS else "table")

    def find_comment(self, path: TablePath) -> str | None:
        """Return the comment of a table or view, or None if there is none."""
        row = self._fetch_first(_FIND_COMMENT, path.namespace[0], path.table)
        return None if row is None else row[1]

    def list_columns(self, path: TablePath) -> list[tuple[str, str]]:
        """Return name and type of each column of a table, in order."""
        return list(self._fetch(_LIST_COLUMNS, path.namespace[0], path.table))

    def may_create_in(self, schema: str) -> bool:
        """Return whether the user may create tables in a schema."""
        row = self._fetch_first(_MAY_CREATE, schema)
        return row is not None and row[0] == "t"

    def is_owned(self, path: TablePath) -> bool:
        """Return whether a table exists and belongs to the user of the connection."""
        row = self._fetch_first(_IS_OWNED, path.namespace[0], path.table)
        return row is not None and row[0] == "t"

    def create_like(self, path: TablePath, model: TablePath) -> None:
        """Create a table with the columns of another one, without indexes and defaults."""
        self._execute(f"CREATE TABLE {_quote_path(path)} (LIKE {_quote_path(model)})")

    def truncate(self, path: TablePath) -> None:
        """Remove all rows of a table. Partitions and child tables keep theirs, as with Spark."""
        self._execute(f"TRUNCATE TABLE ONLY {_quote_path(path)}")

    def copy_rows(self, source: TablePath, target: TablePath) -> int:
        """Insert all rows of a table into another one, and return their number."""
        columns = ", ".join(_quote_identifier(name) for name, _type in self.list_columns(source))
        insert = f"INSERT INTO {_quote_path(target)} ({columns})"
        rows = f"SELECT {columns} FROM {_quote_path(source)}"  # noqa: S608 - the names are quoted
        return int(self._connection.createStatement().executeLargeUpdate(f"{insert} {rows}"))

    def rename(self, path: TablePath, name: str) -> None:
        self._execute(f"ALTER TABLE {_quote_path(path)} RENAME TO {_quote_identifier(name)}")

    def drop(self, path: TablePath) -> None:
        """Drop a table. Do nothing if it does not exist."""
        self._execute(f"DROP TABLE IF EXISTS {_quote_path(path)}")

    def _fetch_first(self, query: str, *values: str) -> tuple[str, str] | None:
        return next(self._fetch(query, *values), None)

    def _fetch(self, query: str, *values: str) -> Iterator[tuple[str, str]]:
        statement = self._connection.prepareStatement(query)
        for position, value in enumerate(values, 1):
            statement.setString(position, value)
        rows = statement.executeQuery()
        while rows.next():
            yield rows.getString(1), rows.getString(2)

    def _execute(self, text: str) -> None:
        self._connection.createStatement().execute(text)


def _quote_path(path: TablePath) -> str:
    return f"{_quote_identifier(path.namespace[0])}.{_quote_identifier(path.table)}"


def _quote_identifier(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _translate_error(error: Py4JJavaError) -> Exception:
    """Return a Headrace error for a refusal, and a RuntimeError for an error worth a retry."""
    transient, refusal = RuntimeError(f"The database failed: {error}"), find_sql_state(error)
    if refusal is None:
        return transient
    state, message = refusal[0], refusal[1].partition("\n")[0]
    if state in _DUPLICATE_STATES:
        return TableAlreadyExists(f"The database refused the change: {message}")
    if state is not None and not state.startswith(_TRANSIENT_CLASSES):
        return CatalogError(f"The database refused the change: {message}")
    return transient
