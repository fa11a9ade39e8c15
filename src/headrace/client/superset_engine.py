"""What Superset must know of Headrace. Superset loads it where both are installed.

The entry point is `superset.db_engine_specs`. Superset 6 has SQLAlchemy 1.4 and PyArrow 18.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import types
from sqlalchemy.engine import URL
from superset.constants import TimeGrain
from superset.db_engine_specs.base import BaseEngineSpec
from superset.sql.parse import SQLGLOT_DIALECTS

from headrace.client.dbapi_errors import ProgrammingError

# Superset parses each query. Without the dialect, it refuses names in backquotes.
SQLGLOT_DIALECTS.setdefault("headrace", SQLGLOT_DIALECTS["spark"])
_GRAINS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


class HeadraceEngineSpec(BaseEngineSpec):  # type: ignore[misc] # Superset has no types
    """Time grains, schemas, and a stop that cancels the statement."""

    engine = "headrace"
    engine_name = "Headrace"
    default_driver = "rest"
    sqlalchemy_uri_placeholder = "headrace://token:TOKEN@host:8040/database"
    supports_dynamic_schema = True
    has_query_id_before_execute = False
    _time_grain_expressions = {  # noqa: RUF012 - as Superset has it
        None: "{col}",
        **{TimeGrain[name]: f"date_trunc('{name}', {{col}})" for name in _GRAINS},
    }

    @classmethod
    def epoch_to_dttm(cls) -> str:
        """Return the text that makes a timestamp of seconds since 1970."""
        return "timestamp_seconds({col})"

    @classmethod
    def convert_dttm(
        cls,
        target_type: str,
        dttm: datetime,
        db_extra: dict[str, Any] | None = None,  # noqa: ARG003
    ) -> str | None:
        """Return a time as a literal of the type of a column."""
        kind = cls.get_sqla_column_type(target_type)
        if isinstance(kind, types.Date):
            return f"DATE'{dttm.date().isoformat()}'"
        if isinstance(kind, types.DateTime):
            word = "TIMESTAMP_NTZ" if "NTZ" in target_type.upper() else "TIMESTAMP"
            return f"{word}'{dttm.isoformat(sep=' ', timespec='microseconds')}'"
        return None

    @classmethod
    def adjust_engine_params(
        cls,
        uri: URL,
        connect_args: dict[str, Any],
        catalog: str | None = None,
        schema: str | None = None,
    ) -> tuple[URL, dict[str, Any]]:
        """Return the URL of connections that start in a schema."""
        if schema:
            own, _, _ = (uri.database or "").rpartition("/")
            uri = uri.set(database=f"{catalog or own}/{schema}".lstrip("/"))
        return uri, connect_args

    @classmethod
    def get_schema_from_engine_params(
        cls,
        sqlalchemy_uri: URL,
        connect_args: dict[str, Any],  # noqa: ARG003
    ) -> str | None:
        """Return the schema of a URL."""
        return (sqlalchemy_uri.database or "").rpartition("/")[2] or None

    @classmethod
    def execute(cls, cursor: Any, query: str, database: Any, **kwargs: Any) -> None:
        """Run a query. In SQL Lab, do not wait for its end: its id is needed to stop it."""
        if kwargs.get("async_"):
            cursor.execute_async(query)
        else:
            super().execute(cursor, query, database, **kwargs)

    @classmethod
    def get_cancel_query_id(cls, cursor: Any, query: Any) -> str | None:  # noqa: ARG003
        """Return the id of the statement."""
        statement: str | None = cursor.statement_id
        return statement

    @classmethod
    def cancel_query(cls, cursor: Any, query: Any, cancel_query_id: str) -> bool:  # noqa: ARG003
        """Cancel a statement by its id."""
        cursor.attach(cancel_query_id).cancel()
        return True

    @classmethod
    def fetch_data(cls, cursor: Any, limit: int | None = None) -> list[tuple[Any, ...]]:
        """Return the rows; none for a statement that returns none."""
        try:
            rows: list[tuple[Any, ...]] = super().fetch_data(cursor, limit)
        except ProgrammingError as error:
            if error.code == "no_rows":
                return []
            raise
        return rows
