"""impyla, the client of Impala and Hive that Ibis and Airflow use."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.client_environments import (
    MILLION,
    MILLION_SUM,
    SLOW,
    VALUES,
    WRONG,
    ClientNode,
    PythonClient,
    make_client,
)

pytestmark = [pytest.mark.clients, pytest.mark.spark]

PRELUDE = """
from contextlib import closing

from impala.dbapi import connect as connect_impala
from impala.error import OperationalError

def connect(**changes):
    options = dict(host=host, port=hive_port, user=user, password=password)
    return connect_impala(**(options | {"auth_mechanism": "PLAIN"} | changes))

def connect_http(**changes):
    options = dict(host=host, port=http_port, user=user, password=password)
    options |= {"use_http_transport": True, "http_path": "cliservice", "auth_mechanism": "LDAP"}
    return connect_impala(**(options | changes))

def run(connection, text):
    # A cursor that the garbage collector closes may do so within another call, and hangs.
    with closing(connection.cursor()) as cursor:
        cursor.execute(text)
        return cursor.fetchall() if cursor.has_result_set else None

def refused(call):
    try:
        run(call(), "SELECT 1")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
"""


@pytest.fixture(scope="module")
def impyla() -> PythonClient:
    return PythonClient(make_client("impyla", "impyla==0.24.0"), PRELUDE)


def test_a_password_and_a_token_sign_in(impyla: PythonClient, server: ClientNode) -> None:
    seen = impyla.run(
        """
        by_token = {"user": "token", "password": token}
        jwt = {"user": None, "password": None, "auth_mechanism": "JWT", "jwt": token}
        ask = "SELECT 1 /* impyla signs in */"
        seen = [
            run(connect(), ask),
            run(connect(**by_token), ask),
            run(connect_http(), ask),
            run(connect_http(**by_token), ask),
            run(connect_http(**jwt), ask),
        ]
        """,
        **server.values,
    )
    assert seen == 5 * [[[1]]]
    assert len(server.statements("impyla signs in")) == 5


def test_a_wrong_password_is_refused(impyla: PythonClient, server: ClientNode) -> None:
    binary, http = impyla.run(
        "seen = [refused(call) for call in (connect, connect_http)]",
        **server.guess_password(),
    )
    assert "unauthorized" in binary
    assert "401" in http


def test_databases_tables_and_columns_are_listed(impyla: PythonClient, server: ClientNode) -> None:
    seen = impyla.run(
        """
        connection = connect()
        run(connection, "CREATE DATABASE IF NOT EXISTS impyla_db")
        run(connection, "CREATE TABLE impyla_db.a_b (a INT, d DECIMAL(10,2)) USING parquet")
        run(connection, "CREATE TABLE impyla_db.axb (a INT) USING parquet")
        cursor = connection.cursor()
        def listed(call, *arguments, **options):
            getattr(cursor, call)(*arguments, **options)
            return cursor.fetchall()
        seen = {
            "databases": [row[0] for row in listed("get_databases")],
            "tables": [row[2:4] for row in listed("get_tables", database_name="impyla_db")],
            "schema": cursor.get_table_schema(r"a\\_b", "impyla_db"),
            "exists": [cursor.table_exists("a_b", "impyla_db"), cursor.database_exists("nope")],
        }
        """,
        **server.values,
    )
    assert "impyla_db" in seen["databases"]
    assert seen["tables"] == [["a_b", "TABLE"], ["axb", "TABLE"]]
    assert seen["schema"] == [["a", "INT"], ["d", "DECIMAL(10,2)"]]
    assert seen["exists"] == [True, False]


@pytest.mark.parametrize("connect", ["connect", "connect_http"])
def test_a_million_rows_are_paged(impyla: PythonClient, server: ClientNode, connect: str) -> None:
    seen = impyla.run(
        """
        cursor = globals()[connect_by]().cursor()
        cursor.arraysize = 50_000
        cursor.execute(text)
        count = total = 0
        while rows := cursor.fetchmany(50_000):
            count += len(rows)
            total += sum(row[0] for row in rows)
        seen = [count, total]
        """,
        **server.values,
        connect_by=connect,
        text=MILLION,
    )
    assert seen == [1_000_000, MILLION_SUM]


def test_a_statement_is_cancelled(impyla: PythonClient, server: ClientNode) -> None:
    seen = impyla.run(
        """
        cursor = connect().cursor()
        cursor.execute_async(text)
        while cursor.status() != "RUNNING_STATE":
            pass
        seen = cursor.get_log()
        cursor.cancel_operation()
        """,
        **server.values,
        text=f"{SLOW} -- impyla",
    )
    [statement] = server.statements("-- impyla")
    assert statement["id"] in seen
    server.wait_for_cancel(statement["id"])


def test_an_error_has_its_line_and_column(impyla: PythonClient, server: ClientNode) -> None:
    error = impyla.run(
        """
        try:
            run(connect(), text)
        except OperationalError as error:
            seen = str(error)
        """,
        **server.values,
        text=WRONG,
    )
    assert "[UNRESOLVED_COLUMN" in error
    assert "line 2" in error


def read_values(impyla: PythonClient, values: dict[str, Any]) -> Any:
    """Return the row of VALUES as impyla reads it: types of columns, types and texts of values.

    Intervals are left out: impyla does not know the ids that the Thrift Server sends for them.
    """
    return impyla.run(
        """
        # Each cursor of impyla is a session.
        cursor = connect().cursor()
        cursor.execute("SET TIME ZONE 'America/New_York'")
        cursor.execute(text)
        [row] = cursor.fetchall()
        seen = {
            column[0]: [*column[1:6], type(value).__name__, repr(value)]
            for column, value in zip(cursor.description, row)
        }
        """,
        **values,
        text=f"SELECT * EXCEPT (months, seconds) FROM ({VALUES})",
    )


def test_intervals_arrive_as_text(impyla: PythonClient, server: ClientNode) -> None:
    text = f"SELECT months, seconds FROM ({VALUES})"
    seen = impyla.run("seen = run(connect(), text)", **server.values, text=text)
    assert seen == [["1-2", "-1 02:03:04.500000000"]]


def test_values_are_those_of_the_thrift_server(
    impyla: PythonClient, server: ClientNode, thrift_server: dict[str, Any]
) -> None:
    assert read_values(impyla, server.values) == read_values(impyla, thrift_server)
