"""`headrace.connect` and SQLAlchemy, with a node and a driver of Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from tests.support.node import NodeProcess

import headrace
from headrace.client.sqlalchemy_dialect import SqlType

pytestmark = pytest.mark.spark
registry.register("headrace", "headrace.client.sqlalchemy_dialect", "HeadraceDialect")


@pytest.fixture(scope="module")
def connection(node: NodeProcess) -> Iterator[headrace.Connection]:
    token = (node.home / "token").read_text()
    with headrace.connect(node.address, token=token) as connection:
        yield connection


@pytest.fixture(scope="module")
def engine(node: NodeProcess) -> Iterator[sa.Engine]:
    token = (node.home / "token").read_text()
    url = node.address.replace("http://", f"headrace://token:{token}@")
    engine = sa.create_engine(url, pool_pre_ping=True)
    yield engine
    engine.dispose()


@pytest.fixture
def table() -> str:
    return f"py_{uuid.uuid4().hex[:8]}"


LOCAL = datetime(2026, 3, 29, 2, 30, 0, 1)  # noqa: DTZ001 - a time without a zone


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "void"),
        (True, "boolean"),
        (7, "int"),
        (2**63 - 1, "bigint"),
        (0.1, "double"),
        (float("inf"), "double"),
        ("it's \\ 5% ? :x é\U0001f600", "string"),
        (Decimal("-1.50"), "decimal(3,2)"),
        (Decimal(10**37), "decimal(38,0)"),
        (date(1, 1, 1), "date"),
        (LOCAL, "timestamp_ntz"),
        (datetime(2026, 3, 29, 2, 30, tzinfo=UTC), "timestamp"),
        (b"\x00\xff'\\", "binary"),
        (timedelta(days=-1, microseconds=1), "interval day to second"),
        ([1, None], "array<bigint>"),
        ([date(2026, 1, 1)], "array<date>"),
    ],
    ids=str,
)
def test_a_parameter_comes_back_as_it_was(
    connection: headrace.Connection, value: Any, kind: str
) -> None:
    for text, parameters in (("SELECT ? AS v", [value]), ("SELECT :v AS v", {"v": value})):
        cursor = connection.execute(text, parameters)
        assert cursor.description is not None
        assert (cursor.fetchall(), cursor.description[0][1]) == ([(value,)], kind)


def test_many_parameters_are_bound_in_their_order(
    connection: headrace.Connection, table: str
) -> None:
    connection.execute(f"CREATE TABLE {table} (n BIGINT, d DATE, p DECIMAL(10,2))")
    rows = [(n, date(2026, 1, 1) + timedelta(days=n), Decimal(n) / 4) for n in range(100)]
    text = f"INSERT INTO {table} VALUES " + ", ".join("(?, ?, ?)" for _ in rows)
    assert connection.execute(text, [value for row in rows for value in row]).rowcount == 100
    assert connection.execute(f"SELECT * FROM {table} ORDER BY n").fetchall() == rows


def test_a_connection_keeps_its_state_and_shares_the_tables(
    node: NodeProcess, connection: headrace.Connection, table: str
) -> None:
    created = connection.execute(f"CREATE TABLE {table} AS SELECT id FROM range(5)")
    assert (created.rowcount, created.description) == (5, None)
    connection.execute(f"CREATE TEMPORARY VIEW v_{table} AS SELECT 7 AS x")
    token = (node.home / "token").read_text()
    with headrace.connect(node.address, token=token) as other:
        assert other.execute(f"SELECT count(*) FROM {table}").fetchone() == (5,)
        with pytest.raises(headrace.ProgrammingError) as caught:
            other.execute(f"SELECT *\nFROM v_{table}")
    error = caught.value
    assert (error.condition, error.sqlstate) == ("TABLE_OR_VIEW_NOT_FOUND", "42P01")
    assert (error.line, error.column) == (2, 6)
    assert connection.execute(f"SELECT x FROM v_{table}").fetchall() == [(7,)]
    listed = connection.cursor().tables(schema="default", table=table).fetchall()
    assert [row[2:4] for row in listed] == [(table, "TABLE")]
    [column] = connection.cursor().columns(table=table).fetchall()
    assert column[2:7] == (table, "id", 1, "bigint", True)


def test_a_large_result_is_read_in_chunks(connection: headrace.Connection) -> None:
    cursor = connection.execute("SELECT id, uuid() AS u FROM range(500000)")
    assert [row[0] for row in cursor.fetchmany(3)] == [0, 1, 2]
    table = cursor.fetch_arrow_table()
    assert table.num_rows == 499_997
    assert min(table.column("id").to_pylist()) == 3


def test_a_statement_is_cancelled(connection: headrace.Connection) -> None:
    cursor = connection.cursor()
    slow = "SELECT reflect('java.lang.Thread', 'sleep', 60000L) FROM range(0, 1, 1, 1)"
    cursor.execute_async(slow)
    cursor.cancel()
    with pytest.raises(headrace.OperationalError) as caught:
        cursor.fetchall()
    assert cursor.get_query_state() == "cancelled"
    assert caught.value.statement_id == cursor.statement_id


def test_sqlalchemy_creates_reflects_and_reads_a_table(engine: sa.Engine, table: str) -> None:
    created = sa.Table(
        table,
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("n", sa.Numeric(10, 2), comment="it's \\ a number"),
        sa.Column("at", sa.DateTime),
        sa.Column("zoned", sa.DateTime(timezone=True), index=True),
        sa.Column("b", sa.LargeBinary),
        sa.Column("m", SqlType("map<string,int>")),
        comment="a 'table'",
    )
    zoned = datetime(2026, 1, 1, tzinfo=UTC)
    row = (1, Decimal("1.50"), LOCAL, zoned, b"\xff", None)
    with engine.begin() as connection:
        created.create(connection)
        names = [column.name for column in created.columns]
        rows = [{**dict(zip(names, row, strict=True)), "id": n} for n in range(300)]
        # A map has no parameter, so that its column is left out.
        connection.execute(created.insert(), [{**each, "m": None} for each in rows])
        query = sa.select(created).order_by(created.c.id).limit(1).offset(1)
        assert connection.execute(query).all() == [row]
        count = sa.select(sa.func.count()).select_from(created)
        assert connection.execute(count).scalar() == 300
    inspector = sa.inspect(engine)
    assert inspector.has_table(table)
    assert not inspector.has_table(table.replace("_", "x"))
    assert inspector.get_table_comment(table) == {"text": "a 'table'"}
    assert inspector.get_pk_constraint(table)["constrained_columns"] == []
    assert inspector.get_foreign_keys(table) == inspector.get_indexes(table) == []
    reflected = {each["name"]: each for each in inspector.get_columns(table)}
    assert reflected["n"]["comment"] == "it's \\ a number"
    assert (reflected["n"]["type"].precision, reflected["n"]["type"].scale) == (10, 2)  # type: ignore[attr-defined]
    assert [reflected[name]["type"].timezone for name in ("at", "zoned")] == [False, True]  # type: ignore[attr-defined]
    assert reflected["m"]["type"].sql == "map<string,int>"  # type: ignore[attr-defined]
    with pytest.raises(sa.exc.NoSuchTableError):
        inspector.get_columns(f"{table}_missing")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT '100%', '%s' LIKE '%\\\\%s'").all() != []


def test_the_pool_replaces_a_connection_that_the_node_has_closed(
    node: NodeProcess, engine: sa.Engine
) -> None:
    with engine.connect() as connection:
        opened = connection.connection.driver_connection
        assert opened is not None
        connection_id = opened.id
    node.http.delete(f"/api/v1/connections/{connection_id}")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1


def test_pandas_reads_and_writes_frames(engine: sa.Engine, table: str) -> None:
    frame = pd.DataFrame(
        {
            "n": [1, 2, None],
            "s": ["a", None, "é%"],
            "t": pd.to_datetime(["2026-01-01", "2026-01-02", None]),
        }
    )
    frame.to_sql(table, engine, index=False)
    frame.to_sql(table, engine, index=False, if_exists="append")
    read = pd.read_sql(f"SELECT * FROM {table} ORDER BY n NULLS LAST", engine)
    assert read["n"].tolist()[:4] == [1, 1, 2, 2]
    assert read["s"].isna().sum() == 2
    assert read["t"].iloc[0] == pd.Timestamp("2026-01-01")
