"""What pandas, polars, DuckDB, ibis and SQLAlchemy do with a node. They run in their own Python.

HEADRACE_SERVER and HEADRACE_TOKEN name the node. `tests/clients/test_python_tools.py` runs it.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy as sa

import headrace

SERVER, TOKEN = os.environ["HEADRACE_SERVER"], os.environ["HEADRACE_TOKEN"]
PARIS = {"spark.sql.session.timeZone": "Europe/Paris"}
TYPES = """
SELECT id,
       CAST(id AS TINYINT) AS tiny,
       CAST(id AS SMALLINT) AS small,
       CAST(id AS INT) AS i,
       id = 1 AS flag,
       CAST(id AS FLOAT) / 2 AS f,
       double('NaN') AS nan,
       CAST('12345678901234567890.123456789012345678' AS DECIMAL(38,18)) AS d,
       'é%\\'' AS s,
       X'00ff' AS b,
       DATE'2026-03-29' AS day,
       TIMESTAMP'2026-03-29 03:30:00.000001' AS zoned,
       TIMESTAMP_NTZ'2026-03-29 02:30:00' AS local,
       INTERVAL '1 02:03:04.5' DAY TO SECOND AS span,
       INTERVAL '1-2' YEAR TO MONTH AS months,
       array(id, NULL) AS l,
       map('k', id) AS m,
       named_struct('x', id, 'y', array('a', NULL)) AS st
FROM range(1, 2)
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL
ORDER BY id NULLS LAST
"""
ROW = (
    *(1, 1, 1, 1, True, 0.5),
    Decimal("12345678901234567890.123456789012345678"),
    *("é%'", b"\x00\xff", date(2026, 3, 29)),
    datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=UTC),
    datetime(2026, 3, 29, 2, 30),  # noqa: DTZ001 - an hour that Paris does not have
    *(timedelta(days=1, hours=2, minutes=3, seconds=4.5), 14),
    *([1, None], {"k": 1}, {"x": 1, "y": ["a", None]}),
)
"""The first row without `nan`."""
MILLION = "SELECT id, CAST(id % 7 AS STRING) AS s FROM range(1000000)"
SUM = sum(range(1_000_000))
SLOW = "SELECT reflect('java.lang.Thread', 'sleep', 120000L) FROM range(0, 1, 1, 1)"


@pytest.fixture(scope="module")
def connection() -> Iterator[headrace.Connection]:
    with headrace.connect(conf=PARIS) as connection:
        yield connection


def engine_of(token: str, **options: Any) -> sa.Engine:
    scheme, _, host = SERVER.partition("://")
    assert scheme == "http"
    return sa.create_engine(f"headrace://token:{token}@{host}", **options)


@pytest.fixture(scope="module")
def engine() -> Iterator[sa.Engine]:
    engine = engine_of(TOKEN)
    yield engine
    engine.dispose()


@pytest.fixture
def table() -> str:
    return f"tools_{uuid.uuid4().hex[:8]}"


def without_nan(row: tuple[Any, ...]) -> tuple[Any, ...]:
    assert str(row[6]) == "nan"
    return (*row[:6], *row[7:])


def test_a_wrong_password_is_refused_and_a_right_one_is_not() -> None:
    with pytest.raises(headrace.OperationalError) as caught:
        headrace.connect(SERVER, user="token", password="wrong").execute("SELECT 1")
    assert caught.value.code == "unauthorized"
    with pytest.raises(sa.exc.OperationalError, match="unauthorized"):
        engine_of("wrong").connect()
    with headrace.connect(SERVER, user="token", password=TOKEN) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_tables_are_listed(connection: headrace.Connection, engine: sa.Engine, table: str) -> None:
    connection.execute(f"CREATE TABLE {table} (id BIGINT COMMENT 'key', m MAP<STRING,INT>)")
    inspector = sa.inspect(engine)
    assert table in inspector.get_table_names()
    assert "default" in inspector.get_schema_names()
    assert [column["name"] for column in inspector.get_columns(table)] == ["id", "m"]
    assert [row[2] for row in connection.cursor().tables(table=table)] == [table]


def test_tuples_have_the_values_of_all_types(connection: headrace.Connection) -> None:
    [row, nulls] = connection.execute(TYPES).fetchall()
    assert without_nan(row) == ROW
    assert set(nulls) == {None}
    assert str(row[11].tzinfo) == "Europe/Paris"


def test_arrow_and_duckdb_have_the_values_of_all_types(connection: headrace.Connection) -> None:
    typed = connection.execute(TYPES).fetch_arrow_table()
    assert typed.schema.field("d").type == pa.decimal128(38, 18)
    assert typed.schema.field("zoned").type == pa.timestamp("us", "Europe/Paris")
    [row, _] = duckdb.sql("SELECT d, b, local, l, st, span FROM typed ORDER BY id").fetchall()
    assert row == (*ROW[6:7], ROW[8], ROW[11], ROW[14], ROW[16], ROW[12])


def test_pandas_has_the_values_of_all_types(connection: headrace.Connection) -> None:
    frame = connection.execute(TYPES).fetch_df()
    assert frame["d"][0] == ROW[6]
    assert frame["zoned"][0] == pd.Timestamp(ROW[10])
    assert str(frame["zoned"].dt.tz) == "Europe/Paris"
    assert frame["local"][0] == pd.Timestamp(ROW[11])
    assert frame["span"][0] == pd.Timedelta(ROW[12])
    assert frame["l"][0].tolist()[0] == 1
    assert dict(frame["m"][0]) == {"k": 1}
    assert frame.isna().all(axis=1).tolist() == [False, True]


@pytest.mark.parametrize("fetch", [lambda cursor: cursor.fetch_polars(), pl.DataFrame])
def test_polars_has_the_values_of_all_types(
    connection: headrace.Connection, fetch: Callable[[headrace.Cursor], pl.DataFrame]
) -> None:
    frame = fetch(connection.execute(TYPES))
    assert frame.schema["d"] == pl.Decimal(38, 18)
    assert frame.schema["zoned"] == pl.Datetime("us", "Europe/Paris")
    assert frame.schema["local"] == pl.Datetime("us")
    row = frame.row(0)
    assert (row[7], *row[9:14]) == (ROW[6], *ROW[8:13])
    assert (row[15], row[17]) == (ROW[14], ROW[16])
    assert frame.null_count().row(0)[:15] == (1,) * 15


def test_polars_reads_a_query_by_dbapi_and_by_sqlalchemy(
    connection: headrace.Connection, engine: sa.Engine
) -> None:
    query = "SELECT id, CAST(id AS DECIMAL(38,18)) AS d, 'a%' AS s FROM range(10) ORDER BY id"
    for source in (connection, engine):
        frame = pl.read_database(query, source)
        assert frame.schema == {"id": pl.Int64, "d": pl.Decimal(38, 18), "s": pl.String}
        assert frame["id"].to_list() == list(range(10))
    batches = pl.read_database(query, connection, iter_batches=True, batch_size=4)
    assert [batch.height for batch in batches] == [4, 4, 2]


def test_polars_writes_a_table(engine: sa.Engine, table: str) -> None:
    frame = pl.DataFrame({"id": [1, 2, None], "s": ["a", None, "é"]})
    frame.write_database(table, engine, if_table_exists="append")
    read = pl.read_database(f"SELECT id, s FROM {table} ORDER BY id NULLS LAST", engine)
    assert read.rows() == [(1, "a"), (2, None), (None, "é")]


def test_pandas_reads_and_writes_a_table(
    connection: headrace.Connection, engine: sa.Engine, table: str
) -> None:
    frame = pd.DataFrame({"id": range(3), "day": pd.to_datetime(["2026-01-01"] * 3), "s": "a%b"})
    frame.to_sql(table, engine, index=False)
    frame.to_sql(table, engine, index=False, if_exists="append")
    frame.to_sql(table, engine, index=False, if_exists="append", method="multi")
    assert len(pd.read_sql_table(table, engine)) == 9
    query = sa.text(f"SELECT count(*) AS n FROM {table} WHERE s LIKE 'a%' AND id = :id")
    assert pd.read_sql(query, engine, params={"id": 1})["n"].tolist() == [3]
    frame.to_sql(table, engine, index=False, if_exists="replace")
    assert len(pd.read_sql(f"SELECT * FROM {table}", engine)) == 3
    parts = pd.read_sql("SELECT id FROM range(10)", engine, chunksize=4)
    assert [len(part) for part in parts] == [4, 4, 2]


def test_ibis_writes_sql_that_a_cursor_runs(connection: headrace.Connection, table: str) -> None:
    connection.execute(f"CREATE TABLE {table} AS SELECT id, id % 3 AS g FROM range(100)")
    orders = ibis.table({"id": "int64", "g": "int64"}, name=table)
    query = orders.filter(orders.id > 9).group_by("g").agg(n=ibis._.count()).order_by("g")
    rows = connection.execute(ibis.to_sql(query, dialect="pyspark")).fetch_polars()
    assert rows.rows() == [(0, 30), (1, 30), (2, 30)]


def test_a_million_rows_arrive_once(connection: headrace.Connection, engine: sa.Engine) -> None:
    cursor, total = connection.execute(MILLION), 0
    while rows := cursor.fetchmany(50_000):
        total += sum(row[0] for row in rows)
    assert total == SUM
    assert connection.execute(MILLION).fetch_polars()["id"].sum() == SUM
    assert (
        sum(batch.num_rows for batch in connection.execute(MILLION).fetch_record_batch()) == 10**6
    )
    with engine.connect().execution_options(stream_results=True, yield_per=50_000) as streamed:
        ids = (row[0] for row in streamed.execute(sa.text(MILLION)))
        assert sum(ids) == SUM
    parts = pd.read_sql(MILLION, engine, chunksize=200_000)
    assert sum(int(part["id"].sum()) for part in parts) == SUM


@pytest.mark.parametrize("by_sql", [True, False], ids=["CANCEL STATEMENT", "attach"])
def test_another_connection_cancels(connection: headrace.Connection, by_sql: bool) -> None:
    cursor = connection.cursor().execute_async(SLOW)
    with headrace.connect() as other:
        if by_sql:
            other.execute(f"CANCEL STATEMENT '{cursor.statement_id}'")
        else:
            other.cursor().attach(str(cursor.statement_id)).cancel()
    with pytest.raises(headrace.OperationalError) as caught:
        cursor.fetchall()
    assert caught.value.statement_id == cursor.statement_id
    assert cursor.get_query_state() == "cancelled"


def test_a_thread_cancels_a_query_of_sqlalchemy(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        driver_connection = connection.connection.driver_connection
        assert driver_connection is not None
        text = f"{SLOW} -- {uuid.uuid4().hex}"

        def cancel() -> None:
            with headrace.connect() as other, other.cursor() as cursor:
                while True:
                    with other.client() as client:
                        listed = client.statements(limit=5)["items"]
                    found = [each["id"] for each in listed if each["statement"] == text]
                    if found:
                        cursor.attach(found[0]).cancel()
                        return

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(sa.exc.OperationalError):
            connection.exec_driver_sql(text)
        thread.join()


def test_an_error_has_a_line_and_a_column(
    connection: headrace.Connection, engine: sa.Engine
) -> None:
    text = "SELECT 1,\n  nothing FROM range(1)"
    with pytest.raises(headrace.ProgrammingError) as caught:
        connection.execute(text)
    error = caught.value
    assert (error.condition, error.line, error.column) == (
        *("UNRESOLVED_COLUMN.WITH_SUGGESTION", 2, 3),
    )
    with pytest.raises(pd.errors.DatabaseError) as wrapped:
        pd.read_sql(text, engine)
    cause = wrapped.value.__cause__
    assert isinstance(cause, sa.exc.ProgrammingError)
    assert isinstance(cause.orig, headrace.ProgrammingError)
    assert (cause.orig.line, cause.orig.column) == (2, 3)


def test_a_statement_is_found_again_after_the_connection_is_lost() -> None:
    lost = headrace.connect()
    statement = str(lost.cursor().execute_async("SELECT sum(id) FROM range(1000)").statement_id)
    lost._clients.close()
    with headrace.connect() as connection:
        assert connection.cursor().attach(statement).fetchall() == [(499500,)]


@pytest.mark.parametrize(
    ("value", "text"),
    [([1, None], "array<bigint>"), ([], "array<void>"), ([["a"], []], "array<array<string>>")],
    ids=str,
)
def test_lists_are_arrays(connection: headrace.Connection, value: list[Any], text: str) -> None:
    assert connection.execute("SELECT typeof(?), ?", [value, value]).fetchall() == [(text, value)]


def test_the_pool_opens_a_new_connection_after_one_has_expired() -> None:
    for pre_ping in (True, False):
        engine = engine_of(TOKEN, pool_pre_ping=pre_ping, pool_size=1)
        with engine.connect() as connection:
            driver_connection = connection.connection.driver_connection
            assert driver_connection is not None
            expired = driver_connection.id
        with headrace.connect() as other, other.client() as client:
            client.remove("connections", expired)
        if not pre_ping:
            with engine.connect() as connection:
                with pytest.raises(sa.exc.OperationalError) as caught:
                    connection.exec_driver_sql("SELECT 1")
                assert caught.value.connection_invalidated
        with engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT 1").scalar() == 1
        engine.dispose()


COLUMN_TYPES = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 18)"),
    *("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "interval day to second"),
    *("interval year to month", "array<int>", "map<string,bigint>", "variant"),
    *("struct<x:int,`y z`:array<string>>", "STRING COLLATE UTF8_LCASE"),
]


@pytest.mark.filterwarnings("error")
def test_a_table_of_all_types_is_reflected(
    connection: headrace.Connection, engine: sa.Engine, table: str
) -> None:
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(COLUMN_TYPES))
    connection.execute(f"CREATE TABLE {table} ({columns}, c CHAR(3), v VARCHAR(5))")
    reflected = sa.Table(table, sa.MetaData(), autoload_with=engine)
    types = [column.type.compile(dialect=engine.dialect) for column in reflected.columns]
    assert types[: len(COLUMN_TYPES)] == COLUMN_TYPES
    columns_of = sa.inspect(engine).get_columns(table)
    assert [column["type"].length for column in columns_of[-2:]] == [3, 5]
    with engine.connect() as selected:
        assert selected.execute(sa.select(reflected)).all() == []


def test_names_with_other_characters_are_quoted_and_partitions_are_listed_once(
    engine: sa.Engine, table: str
) -> None:
    names = ["a-b", "a.b", "a`b", "select", "d y"]
    created = sa.Table(
        table,
        sa.MetaData(),
        *(sa.Column(name, sa.Integer, comment=name) for name in names),
        schema="spark_catalog.default",
        headrace_using="parquet",
        headrace_partitioned_by=["d y"],
    )
    with engine.begin() as connection:
        created.create(connection)
        connection.execute(created.insert(), [dict.fromkeys(names, 1)])
        assert connection.execute(sa.select(created.c["a.b"], created.c["a`b"])).all() == [(1, 1)]
    for schema in (None, "default", "spark_catalog.default"):
        columns = sa.inspect(engine).get_columns(table, schema=schema)
        assert [(each["name"], each["comment"]) for each in columns] == [(n, n) for n in names]


def test_percent_signs_reach_spark_as_they_are(engine: sa.Engine) -> None:
    like = sa.literal("ba").like("%a")
    with engine.connect() as connection:
        for query, parameters in (
            ("SELECT 'ba' LIKE '%a' AND '100%' = concat('100', '%')", ()),
            ("SELECT 'ba' LIKE '%a' AND '%s' = ?", ("%s",)),
        ):
            assert connection.exec_driver_sql(query, parameters).scalar() is True
        assert connection.execute(sa.text("SELECT 'ba' LIKE '%a'")).scalar() is True
        assert connection.execute(sa.text("SELECT 'ba%' LIKE :p"), {"p": "%a\\%"}).scalar() is True
        assert connection.execute(sa.select(like)).scalar() is True


def test_a_missing_table_is_missing_whatever_its_schema(
    connection: headrace.Connection, engine: sa.Engine, table: str
) -> None:
    connection.execute(f"CREATE TABLE {table} (id INT)")
    inspector = sa.inspect(engine)
    for schema in (None, "default", "spark_catalog.default", "`spark_catalog`.`default`"):
        assert inspector.has_table(table, schema=schema)
        assert not inspector.has_table("missing", schema=schema)
    for schema in ("missing", "spark_catalog.missing", "missing.default"):
        assert not inspector.has_table(table, schema=schema)
        with pytest.raises(sa.exc.NoSuchTableError):
            inspector.get_columns(table, schema=schema)
    assert not inspector.has_schema("missing")
