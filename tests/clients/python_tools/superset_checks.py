"""What Superset's own classes do with a node. They run in the Python of Superset.

HEADRACE_SERVER and HEADRACE_TOKEN name the node. `tests/clients/test_python_tools.py` runs it.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from flask_appbuilder import Model
from superset.app import create_app

import headrace

SERVER, TOKEN = os.environ["HEADRACE_SERVER"], os.environ["HEADRACE_TOKEN"]
SLOW = "SELECT reflect('java.lang.Thread', 'sleep', 120000L) AS `a b` FROM range(0, 1, 1, 1)"


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with create_app().app_context():
        from superset import db
        from superset.models.core import Database

        Model.metadata.create_all(db.engine)
        database = Database(database_name="headrace")
        database.set_sqlalchemy_uri(SERVER.replace("http://", f"headrace://token:{TOKEN}@"))
        db.session.add(database)
        db.session.commit()
        yield database


@pytest.fixture(scope="module")
def table(database: Any) -> str:
    name = f"superset_{uuid.uuid4().hex[:8]}"
    with headrace.connect() as connection:
        connection.execute("CREATE DATABASE IF NOT EXISTS superset_s")
        connection.execute(
            f"CREATE TABLE superset_s.{name} AS SELECT id, CAST(id AS DECIMAL(38,18)) AS d,"
            " timestamp_ntz'2026-01-31 10:20:30' AS t, DATE'2026-01-31' AS day FROM range(9)"
        )
    return name


def test_superset_knows_the_engine(database: Any) -> None:
    from superset.db_engine_specs import get_available_engine_specs

    available = {spec: drivers for spec, drivers in get_available_engine_specs().items() if drivers}
    assert available[database.db_engine_spec] == {"rest"}
    assert database.db_engine_spec.engine_name == "Headrace"
    assert database.backend == "headrace"


def test_schemas_tables_and_columns_are_listed(database: Any, table: str) -> None:
    from superset.sql.parse import Table

    assert {"default", "superset_s"} <= set(database.get_all_schema_names())
    tables = database.get_all_table_names_in_schema(None, "superset_s")
    assert table in {each[0] for each in tables}
    columns = database.get_columns(Table(table, "superset_s"))
    assert [each["column_name"] for each in columns] == ["id", "d", "t", "day"]
    assert database.get_default_schema(None) == "default"


def test_a_query_runs_in_the_schema_that_is_selected(database: Any, table: str) -> None:
    frame = database.get_df(f"SELECT count(*) AS `a b` FROM {table}", schema="superset_s")
    assert frame["a b"].tolist() == [9]
    frame = database.get_df("SELECT '100%' LIKE '100%' AS x, 'a' AS y, NULL AS z")
    assert frame.values.tolist() == [[True, "a", None]]


def test_charts_group_by_each_time_grain(database: Any, table: str) -> None:
    spec = database.db_engine_spec
    grains = spec.get_time_grain_expressions()
    columns = [expression.format(col="t") for expression in grains.values()]
    query = f"SELECT {', '.join(columns)} FROM superset_s.{table} LIMIT 1"
    [row] = database.get_df(query).values.tolist()
    by_name = dict(zip(grains, map(str, row), strict=True))
    assert (by_name["P1M"][:19], by_name["P1W"][:10]) == ("2026-01-01 00:00:00", "2026-01-26")
    limit = datetime(2026, 1, 31, 10, 20)  # noqa: DTZ001
    for column, kind in (("t", "TIMESTAMP_NTZ"), ("t", "TIMESTAMP"), ("day", "DATE")):
        literal = spec.convert_dttm(kind, limit)
        where = f"SELECT count(*) AS n FROM superset_s.{table} WHERE {column} >= {literal}"
        assert database.get_df(where)["n"].tolist() == [9]
    seconds = spec.epoch_to_dttm().format(col="0")
    assert database.get_df(f"SELECT {seconds} AS x")["x"][0].timestamp() == 0


def lab_query(database: Any, sql: str) -> Any:
    from superset import db
    from superset.models.sql_lab import Query

    query = Query(database=database, sql=sql, client_id=uuid.uuid4().hex[:11], schema="superset_s")
    db.session.add(query)
    db.session.commit()
    return query


def test_sql_lab_runs_queries_and_statements_without_rows(database: Any, table: str) -> None:
    spec = database.db_engine_spec
    for text, rows in (
        (f"SELECT id FROM {table} ORDER BY id LIMIT 2", [(0,), (1,)]),
        (f"CREATE TABLE {table}_copy AS SELECT * FROM {table}", []),
    ):
        query = lab_query(database, text)
        with database.get_raw_connection(schema="superset_s") as connection:
            cursor = connection.cursor()
            spec.execute_with_cursor(cursor, text, query)
            assert spec.fetch_data(cursor) == rows


def test_the_stop_of_sql_lab_cancels_the_statement(database: Any) -> None:
    from superset.constants import QUERY_CANCEL_KEY
    from superset.sql_lab import cancel_query

    query = lab_query(database, SLOW)
    with database.get_raw_connection() as connection:
        cursor = connection.cursor()
        started = time.monotonic()
        database.db_engine_spec.execute_with_cursor(cursor, SLOW, query)
        assert query.extra[QUERY_CANCEL_KEY] == cursor.statement_id
        failed: list[Exception] = []

        def fetch() -> None:
            try:
                cursor.fetchall()
            except headrace.Error as error:
                failed.append(error)

        thread = threading.Thread(target=fetch)
        thread.start()
        assert cancel_query(query)
        thread.join(60)
        assert [type(error) for error in failed] == [headrace.OperationalError]
        assert cursor.get_query_state() == "cancelled"
        assert time.monotonic() - started < 60


def test_an_error_has_its_place(database: Any) -> None:
    with pytest.raises(headrace.ProgrammingError) as caught:
        database.get_df("SELECT\n nothing")
    assert caught.value.line is not None
