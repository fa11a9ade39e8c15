"""PyHive, which Superset, Redash and dbt use."""

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
from pyhive import exc, hive

def connect(**changes):
    options = dict(host=host, port=hive_port, username=user, password=password, auth="LDAP")
    return hive.connect(**(options | changes))

def connect_http(**changes):
    options = dict(scheme="http", host=host, port=http_port, username=user, password=password)
    return hive.connect(**(options | {"auth": "BASIC"} | changes))

def run(connection, text):
    cursor = connection.cursor()
    cursor.execute(text)
    return cursor.fetchall() if cursor.description else None

def refused(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
"""


@pytest.fixture(scope="module")
def pyhive() -> PythonClient:
    python = make_client("pyhive", "pyhive[hive-pure-sasl]==0.7.0", "thrift==0.16.0")
    return PythonClient(python, PRELUDE)


def test_a_password_and_a_token_sign_in(pyhive: PythonClient, server: ClientNode) -> None:
    seen = pyhive.run(
        """
        ask = "SELECT 1 /* pyhive signs in */"
        seen = [
            run(connect(), ask),
            run(connect(username="token", password=token), ask),
            run(connect_http(), ask),
            run(connect_http(username="token", password=token), ask),
        ]
        """,
        **server.values,
    )
    assert seen == 4 * [[[1]]]
    assert len(server.statements("pyhive signs in")) == 4


def test_a_wrong_password_is_refused(pyhive: PythonClient, server: ClientNode) -> None:
    binary, http = pyhive.run(
        "seen = [refused(call) for call in (connect, connect_http)]",
        **server.guess_password(),
    )
    assert "unauthorized" in binary
    # PyHive does not look at the status of HTTP.
    assert http is not None


def test_tables_are_listed_and_statements_run_once(
    pyhive: PythonClient, server: ClientNode
) -> None:
    seen = pyhive.run(
        """
        connection = connect()
        run(connection, "CREATE DATABASE IF NOT EXISTS pyhive_db")
        run(connection, "CREATE TABLE pyhive_db.pyhive_t (a INT) USING parquet")
        other = connect(database="pyhive_db")
        # Python clients number every call with 0: equal calls are two statements.
        for _ in range(2):
            cursor = connection.cursor()
            cursor.execute("INSERT INTO pyhive_db.pyhive_t VALUES (%s)", (7,))
            cursor.close()
            cursor.close()
        seen = {
            "tables": run(other, "SHOW TABLES"),
            "rows": run(other, "SELECT * FROM pyhive_t"),
            "percent": run(other, "SELECT 'a' LIKE '%a'"),
        }
        """,
        **server.values,
    )
    assert seen == {
        "tables": [["pyhive_db", "pyhive_t", False]],
        "rows": [[7], [7]],
        "percent": [[True]],
    }


@pytest.mark.parametrize("connect", ["connect", "connect_http"])
def test_a_million_rows_are_paged(pyhive: PythonClient, server: ClientNode, connect: str) -> None:
    seen = pyhive.run(
        """
        cursor = globals()[connect_by]().cursor(arraysize=50_000)
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


def test_a_statement_is_cancelled_and_its_log_ends(
    pyhive: PythonClient, server: ClientNode
) -> None:
    state, log = pyhive.run(
        """
        from TCLIService.ttypes import TOperationState
        cursor = connect().cursor()
        cursor.execute(text, async_=True)
        while cursor.poll().operationState != TOperationState.RUNNING_STATE:
            pass
        log = cursor.fetch_logs()
        cursor.cancel()
        running = (TOperationState.PENDING_STATE, TOperationState.RUNNING_STATE)
        while (state := cursor.poll().operationState) in running:
            pass
        seen = [TOperationState._VALUES_TO_NAMES[state], log]
        """,
        **server.values,
        text=f"{SLOW} -- pyhive",
    )
    assert state == "CANCELED_STATE"
    [statement] = server.statements("-- pyhive")
    assert statement["id"] in log[0]
    server.wait_for_cancel(statement["id"])


def test_an_error_has_its_line_and_column(pyhive: PythonClient, server: ClientNode) -> None:
    error = pyhive.run(
        """
        try:
            run(connect(), text)
        except exc.OperationalError as error:
            status = error.args[0].status
            seen = [status.sqlState, status.errorMessage]
        """,
        **server.values,
        text=WRONG,
    )
    state, message = error
    assert state == "42703"
    assert message.startswith("[UNRESOLVED_COLUMN")
    assert "line 2" in message


def test_a_catalog_before_the_database_is_refused_with_a_hint(
    pyhive: PythonClient, server: ClientNode
) -> None:
    error = pyhive.run(
        'seen = refused(lambda: connect(database="spark_catalog.default"))', **server.values
    )
    assert "spark_catalog.default" in error
    assert "SCHEMA_NOT_FOUND" in error


def test_quotes_and_long_texts_arrive(pyhive: PythonClient, server: ClientNode) -> None:
    text = "a'b\\c%d\n\u00e9\u4e2d" + "x" * 300_000
    seen = pyhive.run(
        """
        cursor = connect().cursor()
        cursor.execute("SELECT %s AS a, length(%s) AS b", (text, text))
        [[value, length]] = cursor.fetchall()
        seen = [value == text, length]
        """,
        **server.values,
        text=text,
    )
    assert seen == [True, len(text)]


def read_values(pyhive: PythonClient, values: dict[str, Any]) -> Any:
    """Return the row of VALUES as PyHive reads it: types of columns, types and texts of values."""
    return pyhive.run(
        """
        connection = connect()
        run(connection, "SET TIME ZONE 'America/New_York'")
        cursor = connection.cursor()
        cursor.execute(text)
        [row] = cursor.fetchall()
        # Clients of PyHive's version of the protocol know no intervals: here they are strings.
        seen = {
            column[0]: [
                column[1].replace("INTERVAL_DAY_TIME", "STRING").replace(
                    "INTERVAL_YEAR_MONTH", "STRING"
                ),
                type(value).__name__,
                repr(value),
            ]
            for column, value in zip(cursor.description, row)
        }
        """,
        **values,
        text=VALUES,
    )


def test_values_are_those_of_the_thrift_server(
    pyhive: PythonClient, server: ClientNode, thrift_server: dict[str, Any]
) -> None:
    assert read_values(pyhive, server.values) == read_values(pyhive, thrift_server)


@pytest.mark.parametrize("count", [1, 7, 8, 9])
def test_a_null_at_the_end_is_read(pyhive: PythonClient, server: ClientNode, count: int) -> None:
    seen = pyhive.run(
        "seen = run(connect(), text)",
        **server.values,
        text=f"SELECT IF(id = {count - 1}, NULL, id) FROM range(0, {count}, 1, 1)",
    )
    assert seen == [*([number] for number in range(count - 1)), [None]]


def test_trees_of_superset_and_redash_have_tables_where_a_session_asks_for_hives_columns(
    pyhive: PythonClient, server: ClientNode
) -> None:
    """Superset takes the first column of SHOW, and Redash the names of Hive's columns."""
    seen = pyhive.run(
        """
        connection = connect(configuration={"headrace.hive_show": "true"})
        run(connection, "CREATE DATABASE IF NOT EXISTS tree")
        run(connection, "CREATE TABLE IF NOT EXISTS tree.t (a INT, b INT) USING parquet")
        run(connection, "CREATE OR REPLACE VIEW tree.v AS SELECT 1 AS c")

        def dicts(text):
            cursor = connection.cursor()
            cursor.execute(text)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor.fetchall()]

        superset = [
            sorted(row[0] for row in run(connection, "SHOW TABLES IN `tree`")),
            [row[0] for row in run(connection, "SHOW VIEWS IN `tree`")],
        ]
        redash = {
            table["tab_name"]: [
                column["field"]
                for column in dicts(f"show columns in tree.{table['tab_name']}")
            ]
            for schema in dicts("show schemas")
            if schema["database_name"] == "tree"
            for table in dicts(f"show tables in {schema['database_name']}")
        }
        seen = [superset, redash]
        """,
        **server.values,
    )
    assert seen == [[["t", "v"], ["v"]], {"t": ["a", "b"], "v": ["c"]}]
