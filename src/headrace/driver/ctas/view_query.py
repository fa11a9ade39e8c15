"""The query of a materialized view, and the session in which it is resolved."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import TablePath
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.state import namespace
from headrace.grammar.materialized_views import CreateMaterializedView
from headrace.model.materialized_view import NameScope, ViewRows


def blank_before_query(text: str, command: CreateMaterializedView) -> str:
    """Return the query of a CREATE MATERIALIZED VIEW, at its position in the text.

    All that precedes it is blank, so that positions in Spark's errors refer to the user's text.
    """
    begin = text.rindex(command.query)
    blank = "".join(character if character == "\n" else " " for character in text[:begin])
    return blank + command.query


def read_scope(session: SparkSession) -> NameScope:
    """Return the current catalog and namespace of a session."""
    catalog, current = namespace.capture(Py4JBridge(session))
    return NameScope(catalog=catalog, namespace=current)


def set_scope(session: SparkSession, scope: NameScope) -> None:
    """Set the current catalog and namespace of a session. Raises what Spark raises."""
    Py4JBridge(session).activate()
    namespace.restore(session, scope.catalog, scope.namespace)


def open_query(session: SparkSession, text: str, command: CreateMaterializedView) -> DataFrame:
    """Return the rows of the query of a view. Raises what Spark raises."""
    return session.sql(blank_before_query(text, command))


def path_of(rows: ViewRows) -> TablePath:
    """Return the path of a view."""
    catalog, *levels, name = rows.path
    return TablePath(catalog, tuple(levels), name)
