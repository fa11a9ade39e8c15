"""Connections to the PostgreSQL of a JDBC catalog, as Spark itself makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from headrace.driver.ctas.base import TablePath
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.errors import CatalogError, TableAlreadyExists

_FIND = """
SELECT relation.oid, relation.relkind FROM pg_class relation
JOIN pg_namespace namespace ON namespace.oid = relation.relnamespace
WHERE namespace.nspname = ? AND relation.relname = ?
"""
_SCHEMA = "SELECT oid, 's' FROM pg_namespace WHERE nspname = ?"
_VIEWS = {"v", "m"}
_DUPLICATE = {"42P07", "42710"}
_REFUSALS = ("42", "2B", "55", "0A")
"""Classes of SQLSTATE with which PostgreSQL refuses: a rule, dependents, a lock, what it cannot."""


@dataclass(frozen=True, slots=True)
class DatabaseRelation:
    """What has a name in the database."""

    oid: str
    kind: str
    """`table` or `view`."""


class JdbcConnection:
    """What connects to the database of one catalog."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        self._session = session
        self._catalog = catalog
        self.url = str(session.conf.get(f"spark.sql.catalog.{catalog}.url", ""))

    @cached_property
    def _factory(self) -> Any:
        jvm = Py4JBridge(self._session)
        plugin = jvm.catalog(self._catalog)
        dialects = jvm.singleton("org.apache.spark.sql.jdbc.JdbcDialects")
        return dialects.get(self.url).createConnectionFactory(jvm.field(plugin, "options"))

    @contextmanager
    def open(self) -> Iterator[JdbcTransaction]:
        """One transaction: committed at the end of the block, and not after an error.

        Raises TableAlreadyExists and CatalogError for what the database refuses, and RuntimeError
        where it cannot be asked.
        """
        java = self._factory.apply(-1)
        try:
            java.setAutoCommit(False)
            yield JdbcTransaction(java)
            java.commit()
        except Py4JJavaError as error:
            raise _refusal(error) from error
        finally:
            java.close()


class JdbcTransaction:
    """A transaction of the database."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def has_schema(self, schema: str) -> bool:
        return self._one(_SCHEMA, schema) is not None

    def find(self, path: TablePath) -> DatabaseRelation | None:
        found = self._one(_FIND, path.namespace[0], path.table)
        if found is None:
            return None
        oid, kind = found
        return DatabaseRelation(oid, "view" if kind in _VIEWS else "table")

    def rename(self, path: TablePath, name: str) -> None:
        self._change(f"ALTER TABLE {_quoted(path)} RENAME TO {_name(name)}")

    def drop(self, path: TablePath) -> None:
        """Nothing where there is none."""
        self._change(f"DROP TABLE IF EXISTS {_quoted(path)}")

    def _one(self, query: str, *values: str) -> tuple[str, str] | None:
        statement = self._java.prepareStatement(query)
        for at, value in enumerate(values, 1):
            statement.setString(at, value)
        rows = statement.executeQuery()
        return (rows.getString(1), rows.getString(2)) if rows.next() else None

    def _change(self, text: str) -> None:
        self._java.createStatement().execute(text)


def _quoted(path: TablePath) -> str:
    return f"{_name(path.namespace[0])}.{_name(path.table)}"


def _name(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _refusal(error: Py4JJavaError) -> Exception:
    """What the database says no to; anything else may be otherwise the next time."""
    java, unknown = error.java_exception, RuntimeError(f"The database does not answer: {error}")
    try:
        state, told = java.getSQLState(), str(java.getMessage()).partition("\n")[0]
    except Py4JError:
        return unknown
    if state in _DUPLICATE:
        return TableAlreadyExists(f"The database refuses: {told}")
    if state is not None and state.startswith(_REFUSALS):
        return CatalogError(f"The database refuses: {told}")
    return unknown
