"""Temporary views of a session in the runs of a streaming query.

A run has a Spark session of its own, perhaps in another driver than the session in which the view
was created. The view is created again by SQL, with the names and the configuration of its creation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.conf_overrides import override_for_statement
from headrace.driver.ctas.view_query import read_scope, set_scope
from headrace.grammar.quoting import quote_name
from headrace.model.materialized_view import NameScope
from headrace.model.session import SessionView


def create_views(session: SparkSession, views: Iterable[SessionView]) -> None:
    """Create temporary views, in this order. Raise what Spark raises."""
    for view in views:
        columns = f" ({', '.join(map(quote_name, view.columns))})" if view.columns else ""
        text = f"CREATE OR REPLACE TEMPORARY VIEW {quote_name(view.name)}{columns} AS {view.query}"
        with (
            _scope_of(session, view),
            override_for_statement(session, _changed(session, view.conf)),
        ):
            session.sql(text)


@contextmanager
def _scope_of(session: SparkSession, view: SessionView) -> Iterator[None]:
    before = read_scope(session)
    scope = NameScope(catalog=view.catalog, namespace=view.namespace)
    if scope == before:
        yield
        return
    set_scope(session, scope)
    try:
        yield
    finally:
        set_scope(session, before)


def _changed(session: SparkSession, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration that differs from that of the session, as far as it can be set."""
    changed: dict[str, str] = {}
    for key, value in conf.items():
        with suppress(PySparkException):
            if session.conf.isModifiable(key) and session.conf.get(key, None) != value:
                changed[key] = value
    return changed
