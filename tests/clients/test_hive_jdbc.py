"""Hive's drivers of JDBC: 2.3 from Spark's distribution, and 4.0."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.client_environments import (
    SLOW,
    VALUES,
    WRONG,
    ClientNode,
    JdbcClient,
    jdbc_jar,
    spark_class_path,
)
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.spark]

BINARY = "jdbc:hive2://{host}:{hive_port}/"
HTTP = "jdbc:hive2://{host}:{http_port}/;transportMode=http;httpPath=cliservice"
ZONE = "SET TIME ZONE 'America/New_York'"


def versions() -> dict[str, str]:
    """Return the class paths of the drivers."""
    return {"2.3": spark_class_path(), "4.0": jdbc_jar("hive-jdbc-4")}


def make_jdbc(client: str) -> JdbcClient:
    """Return a client by the version of its driver and its transport."""
    version, transport = client.split("-")
    return JdbcClient(versions()[version], HTTP if transport == "http" else BINARY)


@pytest.fixture(params=["2.3-binary", "2.3-http", "4.0-binary", "4.0-http"])
def jdbc(request: pytest.FixtureRequest) -> JdbcClient:
    return make_jdbc(request.param)


@pytest.fixture(params=["2.3", "4.0"])
def binary(request: pytest.FixtureRequest) -> JdbcClient:
    return JdbcClient(versions()[request.param], BINARY)


def test_a_password_and_a_token_sign_in(jdbc: JdbcClient, server: ClientNode) -> None:
    by_token = server.values | {"user": "token", "password": server.token}
    for values in (server.values, by_token):
        assert jdbc.run(values, "rows", "SELECT 1") == [[["java.lang.Integer", "1"]]]


def test_a_wrong_password_is_refused(jdbc: JdbcClient, server: ClientNode) -> None:
    message, _state = jdbc.fail(server.guess_password(), "rows", "SELECT 1")
    assert "unauthorized" in message or "401" in message


def test_tables_and_columns_are_listed(jdbc: JdbcClient, server: ClientNode) -> None:
    jdbc.run(
        server.values,
        "rows",
        "CREATE DATABASE IF NOT EXISTS jdbc_db",
        "CREATE TABLE IF NOT EXISTS jdbc_db.a_b (a INT, d DECIMAL(10,2)) USING parquet",
        "CREATE TABLE IF NOT EXISTS jdbc_db.axb (a INT) USING parquet",
        "CREATE OR REPLACE VIEW jdbc_db.seen AS SELECT * FROM jdbc_db.axb",
    )
    tables = jdbc.run(server.values, "tables", "jdbc_db", "%")
    kinds = [(row[2][1], row[3][1]) for row in tables]
    assert kinds == [("a_b", "TABLE"), ("axb", "TABLE"), ("seen", "VIEW")]
    escaped = jdbc.run(server.values, "tables", "jdbc_db", "a\\_b")
    assert [row[2][1] for row in escaped] == ["a_b"]
    columns = jdbc.run(server.values, "columns", "jdbc_db", "a\\_b")
    described = [[cell[1] for cell in row[3:7]] for row in columns]
    assert described == [["a", "4", "INT", "10"], ["d", "3", "DECIMAL(10,2)", "10"]]


@pytest.mark.parametrize(
    ("client", "rows"),
    # Hive's driver 2.3 asks for the state of the statement before each row: by HTTP it takes
    # minutes for a million rows, also with other servers.
    [("2.3-binary", 10**6), ("2.3-http", 10**5), ("4.0-binary", 10**6), ("4.0-http", 10**6)],
)
def test_many_rows_are_paged(
    client: str, rows: int, server: ClientNode, capsys: pytest.CaptureFixture[str]
) -> None:
    query = f"SELECT id FROM range({rows})"
    [[count, total, seconds]] = make_jdbc(client).run(server.values, "count", query, "10000")
    with capsys.disabled():
        print(f"\nHive's JDBC {client}: {rows:,} rows in {seconds:.1f} s")  # noqa: T201 - a figure
    assert (count, total) == (rows, rows * (rows - 1) // 2)


def test_a_statement_is_cancelled(jdbc: JdbcClient, server: ClientNode) -> None:
    known = {statement["id"] for statement in server.statements("-- jdbc")}
    process = jdbc.start(server.values, "cancel", f"{SLOW} -- jdbc")

    def running() -> list[str]:
        new = (each for each in server.statements("-- jdbc") if each["id"] not in known)
        return [each["id"] for each in new if each["state"] == "running"]

    [statement] = wait_until(running, seconds=60, what="the statement runs")
    printed, errors = process.communicate("\n", timeout=60)
    assert "ancel" in printed, printed + errors
    server.wait_for_cancel(statement)


def test_an_error_has_its_line_and_column(binary: JdbcClient, server: ClientNode) -> None:
    message, state = binary.fail(server.values, "rows", WRONG)
    assert "[UNRESOLVED_COLUMN" in message
    assert "line 2" in message
    assert state == "42703"


def test_settings_of_the_url_hold_for_the_connection(server: ClientNode) -> None:
    url = BINARY + "default?spark.sql.shuffle.partitions=3"
    client = JdbcClient(versions()["4.0"], url)
    [[_key, value]] = client.run(server.values, "rows", "SET spark.sql.shuffle.partitions")
    assert value[1] == "3"


def test_an_unknown_database_is_refused(server: ClientNode) -> None:
    client = JdbcClient(versions()["4.0"], BINARY + "no_such_database")
    message, _state = client.fail(server.values, "rows", "SELECT 1")
    assert "SCHEMA_NOT_FOUND" in message


def test_values_are_those_of_the_thrift_server(
    binary: JdbcClient, server: ClientNode, thrift_server: dict[str, Any]
) -> None:
    ours = binary.run(server.values, "rows", ZONE, VALUES)[-1]
    theirs = binary.run(thrift_server, "rows", ZONE, VALUES)[-1]
    assert ours == theirs


TIMES = """SELECT
  timestamp'2026-03-08T06:59:59Z' AS before_the_gap,
  timestamp'2026-03-08T07:00:00Z' AS after_the_gap,
  timestamp'2026-11-01T05:30:00Z' AS first_of_two,
  timestamp'2026-11-01T06:30:00Z' AS second_of_two,
  date'2026-03-08' AS day,
  timestamp_ntz'2026-07-15 12:00:00.5' AS local"""
"""Times around the two changes of the clocks in New York."""


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu", "Europe/London"])
def test_times_are_those_of_the_zone_of_the_session(
    binary: JdbcClient, server: ClientNode, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zone of the client's machine changes nothing. No day is off."""
    monkeypatch.setenv("TZ", zone)
    row = binary.run(server.values, "rows", ZONE, TIMES)[-1]
    assert [text for _type, text in row] == [
        "2026-03-08 01:59:59.0",
        "2026-03-08 03:00:00.0",
        "2026-11-01 01:30:00.0",
        "2026-11-01 01:30:00.0",
        "2026-03-08",
        "2026-07-15 12:00:00.5",
    ]


def test_settings_and_variables_of_a_url_hold_until_a_later_set(
    server: ClientNode,
) -> None:
    key = "spark.sql.shuffle.partitions"
    url = f"{BINARY}default?{key}=7#day=2026-01-31"
    for path in versions().values():
        rows = JdbcClient(path, url).run(
            server.values,
            "rows",
            *(f"SET {key}", "SELECT '${day}', '${hivevar:day}'"),
            *(f"SET {key}=5", "SET day=later", f"SET {key}", "SELECT '${day}'"),
        )
        texts = [[text for _type, text in row] for row in rows]
        assert texts[:2] == [[key, "7"], ["2026-01-31", "2026-01-31"]]
        assert texts[-2:] == [[key, "5"], ["later"]]
