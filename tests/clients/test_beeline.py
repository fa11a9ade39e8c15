"""Beeline 2.3.10, which every distribution of Spark has, over both transports."""

from __future__ import annotations

import json
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.client_environments import (
    PAIR_TOKEN,
    SLOW,
    VALUES,
    WRONG,
    ClientNode,
    jdbc_jar,
    running_beeline,
    running_pair,
)
from tests.support.nginx import running_nginx
from tests.support.ports import free_port, reserved_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.spark]

BINARY = "jdbc:hive2://{host}:{hive_port}/"
HTTP = "jdbc:hive2://{host}:{http_port}/;transportMode=http;httpPath=cliservice"


@pytest.fixture(params=[BINARY, HTTP], ids=["binary", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    url: str = request.param
    return url


def run(url: str, values: dict[str, Any], *texts: str) -> tuple[int, list[str], str]:
    """Return the exit status, the lines and the messages of beeline."""
    options = [word for text in texts for word in ("-e", text)]
    sign_in = (url.format_map(values), values["user"], values["password"])
    with running_beeline(*sign_in, *options) as process:
        printed, messages = process.communicate(timeout=200)
    # Beeline writes its prompt before the first row of a statement.
    lines = [line.rpartition(". > ")[2] for line in printed.splitlines()]
    return process.returncode, lines, messages


def test_a_password_and_a_token_sign_in(transport: str, server: ClientNode) -> None:
    by_token = server.values | {"user": "token", "password": server.token}
    for values in (server.values, by_token):
        status, lines, messages = run(transport, values, "SELECT 1 AS x")
        assert (status, lines) == (0, ["x", "1"]), messages


def test_a_wrong_password_is_refused(transport: str, server: ClientNode) -> None:
    status, lines, messages = run(transport, server.guess_password(), "SELECT 1 AS x")
    assert (status != 0, lines) == (True, []), messages
    assert "unauthorized" in messages or "401" in messages


def test_tables_are_listed(transport: str, server: ClientNode) -> None:
    status, lines, messages = run(
        transport,
        server.values,
        "CREATE DATABASE IF NOT EXISTS beeline_db",
        "CREATE TABLE IF NOT EXISTS beeline_db.t (a INT) USING parquet",
        "USE beeline_db",
        "SHOW TABLES",
    )
    assert (status, lines[-1]) == (0, "beeline_db,t,false"), messages


def test_an_error_has_its_line_and_column(transport: str, server: ClientNode) -> None:
    status, _lines, messages = run(transport, server.values, WRONG)
    assert status != 0
    assert "[UNRESOLVED_COLUMN" in messages
    assert "line 2" in messages


def test_ctrl_c_cancels(transport: str, server: ClientNode) -> None:
    known = {statement["id"] for statement in server.statements("/* beeline */")}
    url = transport.format_map(server.values)
    text = f"{SLOW} /* beeline */"
    with running_beeline(url, server.user, server.password, "-e", text) as process:

        def running() -> list[str]:
            new = (each for each in server.statements("/* beeline */") if each["id"] not in known)
            return [each["id"] for each in new if each["state"] == "running"]

        [statement] = wait_until(running, seconds=60, what="the statement runs")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    server.wait_for_cancel(statement)


def test_what_ends_without_success_is_a_failure_of_beeline(
    transport: str, server: ClientNode
) -> None:
    """Its exit status tells a scheduler whether to continue."""
    known = {statement["id"] for statement in server.statements("SELECT 'ended'")}
    url = transport.format_map(server.values)
    options = ("-e", f"SELECT 'ended', * FROM ({SLOW})")
    with running_beeline(url, server.user, server.password, *options) as process:

        def running() -> list[str]:
            new = (each for each in server.statements("SELECT 'ended'") if each["id"] not in known)
            return [each["id"] for each in new if each["state"] == "running"]

        [statement] = wait_until(running, seconds=60, what="the statement runs")
        server.http.post(f"/api/v1/statements/{statement}/cancel").raise_for_status()
        printed, messages = process.communicate(timeout=60)
    assert process.returncode != 0, messages
    assert "ended" not in printed


def test_a_statement_goes_on_when_its_client_is_killed(server: ClientNode) -> None:
    known = {statement["id"] for statement in server.statements("/* killed */")}
    text = "SELECT count(*) FROM range(10) WHERE reflect('java.lang.Thread', 'sleep', 300L) IS NULL"
    url = HTTP.format_map(server.values)
    text += " /* killed */"
    with running_beeline(url, server.user, server.password, "-e", text) as process:

        def started() -> list[str]:
            new = (each for each in server.statements("/* killed */") if each["id"] not in known)
            return [each["id"] for each in new if each["state"] == "running"]

        [statement] = wait_until(started, seconds=60, what="the statement runs")
        process.kill()
    found = server.http.get(f"/api/v1/statements/{statement}", params={"wait_timeout": "60s"})
    assert found.json()["state"] == "success"


def test_values_are_those_of_the_thrift_server(
    server: ClientNode, thrift_server: dict[str, Any], tmp_path: Path
) -> None:
    zone = "SET TIME ZONE 'America/New_York'"
    _, ours, messages = run(BINARY, server.values, zone, VALUES)
    _, theirs, _ = run(BINARY, thrift_server, zone, VALUES)
    assert ours == theirs, messages


def has_unread_bytes(port: int) -> bool:
    """Return whether a connection to this port has bytes that its process has not read."""
    connections = map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(
        int(local.partition(":")[2], 16) == port and int(queues.partition(":")[2], 16) > 0
        for _, local, _, state, queues, *_ in connections
        if state == "01"
    )


@pytest.mark.postgres
@pytest.mark.nginx
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("driver", "rows"),
    # Hive's driver 2.3 asks for the state of the statement before it returns a row.
    [("2.3", 100_000), ("4.0", 5_000_000)],
)
def test_every_row_arrives_once_when_a_node_behind_nginx_is_killed(
    driver: str,
    rows: int,
    postgres_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    port = free_port()
    hosts = json.dumps([f"127.0.0.1:{port}"])
    url = HTTP.format(host="127.0.0.1", http_port=port)
    options = ("--incremental=true", "-e", f"SELECT id FROM range({rows})")
    jar = jdbc_jar("hive-jdbc-4") if driver == "4.0" else ""
    arrived = bytearray(rows)
    with running_pair(tmp_path, postgres_url, HTTP__ALLOWED_HOSTS=hosts) as nodes:
        addresses = [node.address.removeprefix("http://") for node in nodes]
        with (
            reserved_port() as closed,
            running_nginx(tmp_path / "nginx", [*addresses, f"127.0.0.1:{closed}"], port),
            running_beeline(url, "token", PAIR_TOKEN, *options, driver=jar) as process,
        ):
            begin = time.monotonic()
            assert process.stdout is not None
            for line in process.stdout:
                number = line.rpartition(". > ")[2].strip()
                if not number.isdecimal():
                    continue
                arrived[int(number)] += 1
                if int(number) % (rows // 4) == rows // 20:
                    if int(number) == rows // 20:
                        # The first time, a call is on its way to the node.
                        nodes[0].process.send_signal(signal.SIGSTOP)
                        address = urlsplit(nodes[0].address).port or 0
                        wait_until(partial(has_unread_bytes, address), what="a call is on its way")
                    nodes[0].kill()
                    nodes[0].start()
            status = process.wait(60)
            seconds = time.monotonic() - begin
            assert process.stderr is not None
            messages = process.stderr.read()
    with capsys.disabled():
        print(f"\nBeeline with {driver}: {rows:,} rows, 4 kills: {seconds:.0f} s")  # noqa: T201
    lost_calls = (tmp_path / "nginx" / "error.log").read_text().count("while reading response")
    assert (status, arrived.count(1)) == (0, rows), messages
    assert lost_calls > 0
