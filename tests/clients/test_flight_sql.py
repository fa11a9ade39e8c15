"""ADBC's driver for Flight SQL, alone and under polars, pandas and DuckDB; JDBC's driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.support.client_environments import (
    FLIGHT_SQL,
    ROOT,
    ClientNode,
    PythonClient,
    make_client,
)
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.spark]

PRELUDE = """
import decimal, threading
import adbc_driver_flightsql.dbapi as flight_sql

def connect(username=None, password_=None, **options):
    signed_in = {"username": username or user, "password": password_ or password}
    if "adbc.flight.sql.authorization_header" in options:
        signed_in = {}
    url = f"grpc://{host}:{flight_port}"
    return flight_sql.connect(url, signed_in | options, autocommit=True)

def run(connection, text, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return cursor.fetch_arrow_table().to_pylist()

def refused(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
"""


@pytest.fixture(scope="module")
def adbc() -> PythonClient:
    return PythonClient(make_client("flight-sql", *FLIGHT_SQL), PRELUDE)


def test_a_password_and_a_token_sign_in(adbc: PythonClient, server: ClientNode) -> None:
    seen = adbc.run(
        """
        ask = "SELECT 1 AS n /* adbc signs in */"
        bearer = {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
        long = {"adbc.flight.sql.rpc.call_header.x-long": "x" * 60_000}
        cookies = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}
        rows = [
            run(connect(), ask),
            run(connect("token", token), ask),
            run(connect(**bearer), ask),
            run(connect(**bearer, **cookies), ask),
            run(connect(**long), ask),
        ]
        seen = [rows, refused(lambda: connect(password_="wrong"))]
        """,
        **server.values,
    )
    rows, error = seen
    assert rows == [[{"n": 1}]] * 5
    assert "unauthorized" in error
    assert "ProgrammingError" in error


def test_a_connection_keeps_its_state_and_shares_it_with_no_other(
    adbc: PythonClient, server: ClientNode
) -> None:
    seen = adbc.run(
        """
        bearer = {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
        first, second, third = connect(**bearer), connect(), connect()
        run(first, "CREATE DATABASE IF NOT EXISTS flight_state")
        run(first, "USE flight_state")
        run(first, "CREATE TEMPORARY VIEW mine AS SELECT 5 AS n")
        third.adbc_current_db_schema = "flight_state"
        ask = "SELECT current_schema() AS s"
        seen = [
            run(first, ask), run(first, "SELECT * FROM mine"), run(second, ask), run(third, ask),
            refused(lambda: run(second, "SELECT * FROM mine")),
            refused(lambda: setattr(second, "adbc_current_catalog", "nowhere")),
            [third.adbc_current_catalog, third.adbc_current_db_schema],
        ]
        for connection in (first, second, third):
            connection.close()
        """,
        **server.values,
    )
    assert seen[:2] == [[{"s": "flight_state"}], [{"n": 5}]]
    assert seen[2:4] == [[{"s": "default"}], [{"s": "flight_state"}]]
    assert "TABLE_OR_VIEW_NOT_FOUND" in seen[4]
    assert "invalid value" in seen[5]
    assert seen[6] == ["spark_catalog", "flight_state"]


def test_ddl_and_dml_run_once_and_parameters_are_bound(
    adbc: PythonClient, server: ClientNode
) -> None:
    seen = adbc.run(
        """
        connection = connect()
        with connection.cursor() as cursor:
            cursor.execute("CREATE OR REPLACE TABLE flight_dml (n INT, d DECIMAL(38,18), s STRING)"
                           " USING delta")
            cursor.execute("INSERT INTO flight_dml VALUES (1, 1.5, 'x')")
            rows = [(2, decimal.Decimal("2.5"), "é"), (3, None, None)]
            cursor.executemany("INSERT INTO flight_dml VALUES (?, ?, ?)", rows)
            inserted = cursor.rowcount
            cursor.executemany("DELETE FROM flight_dml WHERE n = ?", [(3,)])
            deleted = cursor.rowcount
            cursor.adbc_prepare("CREATE TABLE flight_never (n INT)")
        never = run(connection, "SHOW TABLES LIKE 'flight_never'")
        rows = run(connection, "SELECT * FROM flight_dml WHERE n >= ? ORDER BY n", (1,))
        seen = [inserted, deleted, never, rows]
        run(connection, "DROP TABLE flight_dml")
        """,
        **server.values,
    )
    inserted, deleted, never, rows = seen
    assert (inserted, deleted, never) == (2, 1, [])
    assert [(row["n"], row["s"]) for row in rows] == [(1, "x"), (2, "é")]
    assert len(server.statements("INSERT INTO flight_dml VALUES (1")) == 1


def test_errors_show_code_position_and_statement(adbc: PythonClient, server: ClientNode) -> None:
    seen = adbc.run(
        """
        connection = connect()
        seen = [
            refused(lambda: run(connection, "SELECT 1,\\n  nope")),
            refused(lambda: run(connection, "SELEC 1")),
            refused(lambda: run(connection, "SELECT 1/0")),
            refused(lambda: run(connection, "SELECT '" + "x" * 100_000 + "' + nope")),
        ]
        """,
        **server.values,
    )
    assert "ProgrammingError" in seen[0]
    assert "UNRESOLVED_COLUMN" in seen[0]
    assert "(line 2, column 3) (statement st_" in seen[0]
    assert "PARSE_SYNTAX_ERROR" in seen[1]
    assert "DIVIDE_BY_ZERO" in seen[2]
    assert "statement st_" in seen[3]
    assert max(map(len, seen)) < 1200


def test_objects_are_listed_at_all_depths(adbc: PythonClient, server: ClientNode) -> None:
    seen = adbc.run(
        """
        connection = connect()
        run(connection, "CREATE DATABASE IF NOT EXISTS flight_list")
        run(connection, "CREATE OR REPLACE TABLE flight_list.delta (n INT NOT NULL) USING delta")
        run(connection, "CREATE TABLE IF NOT EXISTS flight_list.plain (n INT) USING parquet")
        seen = {}
        for depth in ("catalogs", "db_schemas", "tables", "all"):
            found = connection.adbc_get_objects(
                depth=depth, catalog_filter="spark_catalog", db_schema_filter="flight_list"
            )
            seen[depth] = found.read_all().to_pylist()
        schema = connection.adbc_get_table_schema("delta", db_schema_filter="flight_list")
        seen["schema"] = [[field.name, str(field.type), field.nullable] for field in schema]
        seen["types"] = connection.adbc_get_table_types()
        seen["vendor"] = connection.adbc_get_info()["vendor_name"]
        run(connection, "DROP DATABASE flight_list CASCADE")
        """,
        **server.values,
    )
    for depth in ("catalogs", "db_schemas", "tables", "all"):
        assert [each["catalog_name"] for each in seen[depth]] == ["spark_catalog"]
    [schema] = seen["all"][0]["catalog_db_schemas"]
    columns = {
        table["table_name"]: [column["column_name"] for column in table["table_columns"]]
        for table in schema["db_schema_tables"]
    }
    assert columns == {"delta": ["n"], "plain": ["n"]}
    assert seen["schema"] == [["n", "int32", False]]
    assert (seen["types"], seen["vendor"]) == (["TABLE", "VIEW"], "Headrace")


def test_every_type_arrives(adbc: PythonClient, server: ClientNode) -> None:
    seen = adbc.run(
        """
        [row] = run(connect(), '''SELECT CAST(1.5 AS DECIMAL(38,18)) d,
            TIMESTAMP'2026-01-02 03:04:05.000006+02:00' t, TIMESTAMP_NTZ'2026-01-02 03:04:05' n,
            X'00ff' b, array(1, null) a, map('k', 1) m, struct(1 x, 'y' y) s,
            INTERVAL '1' YEAR y, INTERVAL '1 02:03:04' DAY TO SECOND i, CAST(NULL AS INT) z,
            DATE'2026-01-01' dt, TIME'01:02:03' tm, true tf, 1.5D f''')
        row["t"] = row["t"].isoformat()
        seen = {key: str(value) for key, value in row.items()}
        """,
        **server.values,
    )
    assert seen == {
        "d": "1.500000000000000000",
        "t": "2026-01-02T01:04:05.000006+00:00",
        "n": "2026-01-02 03:04:05",
        "b": "b'\\x00\\xff'",
        "a": "[1, None]",
        "m": "[('k', 1)]",
        "s": "{'x': 1, 'y': 'y'}",
        "y": "12",
        "i": "1 day, 2:03:04",
        "z": "None",
        "dt": "2026-01-01",
        "tm": "01:02:03",
        "tf": "True",
        "f": "1.5",
    }


def test_a_cancel_stops_the_statement(adbc: PythonClient, server: ClientNode) -> None:
    slow = "SELECT count(*) AS adbc_slow FROM range(100000000000) WHERE sin(id) > 2"
    seen = adbc.run(
        """
        connection = connect()
        with connection.cursor() as cursor:
            threading.Timer(3, cursor.adbc_cancel).start()
            seen = refused(lambda: cursor.execute(text))
        """,
        text=slow,
        **server.values,
    )
    assert "CANCELLED" in seen

    def is_cancelled() -> bool:
        # The analysis of the prepared statement has ended.
        states = {each["statement"]: each["state"] for each in server.statements("adbc_slow")}
        return states[slow] == "cancelled"

    wait_until(is_cancelled, seconds=30, what="the statement is cancelled")


def test_rows_are_polled_with_incremental_execution(adbc: PythonClient, server: ClientNode) -> None:
    seen = adbc.run(
        """
        with connect().cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.statement.exec.incremental": "true"})
            found = []
            text = "SELECT count(*) AS n FROM range(400000000) WHERE sin(id) > 2"
            while True:
                partitions, _schema = cursor.adbc_execute_partitions(text)
                if not partitions:
                    break
                for partition in partitions:
                    cursor.adbc_read_partition(partition)
                    found += cursor.fetchall()
            seen = found
        """,
        **server.values,
    )
    assert seen == [[0]]


def test_polars_pandas_and_duckdb_read_a_million_rows(
    adbc: PythonClient, server: ClientNode
) -> None:
    seen = adbc.run(
        """
        import duckdb, pandas, polars
        connection = connect()
        text = "SELECT id, id % 3 AS k FROM range(1000000)"
        frame = polars.read_database(text, connection)
        batches = polars.read_database(text, connection, iter_batches=True, batch_size=100_000)
        bound = polars.read_database(
            "SELECT ? AS n", connection, execute_options={"parameters": [5]}
        )
        with connection.cursor() as cursor:
            cursor.execute(text)
            reader = cursor.fetch_record_batch()
            grouped = duckdb.sql("SELECT k, count(*) FROM reader GROUP BY k ORDER BY k").fetchall()
        pandas_rows = len(pandas.read_sql(text, connection))
        seen = [frame["id"].sum(), sum(batch.height for batch in batches), bound.item(),
                grouped, pandas_rows]
        """,
        **server.values,
    )
    assert seen == [
        499_999_500_000,
        1_000_000,
        5,
        [[0, 333_334], [1, 333_333], [2, 333_333]],
        1_000_000,
    ]


def test_the_driver_of_jdbc_connects(server: ClientNode) -> None:
    [jar] = (ROOT / ".tools" / "jdbc").glob("flight-sql-jdbc-driver-*.jar")
    url = f"jdbc:arrow-flight-sql://127.0.0.1:{server.flight_port}/?useEncryption=false"
    program = Path(__file__).with_name("FlightProgram.java")
    command = ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", jar, program]
    completed = subprocess.run(
        [*command, url, server.user, server.password],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines() == [
        *("true", "0", "false 1", "1 1.500000000000000000"),
        *("true flight_jdbc t false", "1.500000000000000000", "1 2 0", "0", "true", "1000000"),
    ]
