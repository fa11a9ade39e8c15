"""Tools that people have, each with its own driver: on Headrace and on the Spark Thrift Server.

Both servers have the defaults of a user who starts them: a catalog in Derby, and no authentication.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyhive import hive
from tests.support.client_environments import (
    DBT,
    FLIGHT_SQL,
    MILLION,
    JdbcClient,
    PythonClient,
    jdbc_jar,
    make_client,
    running_thrift_server,
    spark_class_path,
)
from tests.support.ports import free_ports

from benchmarks.measure import Sample, interleaved
from benchmarks.peers.headrace_node import node_process
from benchmarks.peers.in_process import in_process
from benchmarks.peers.processes import CONF
from benchmarks.peers.thrift import ThriftClient

PLAIN, HEADRACE, THRIFT = "PySpark in process, `toArrow()`", "Headrace", "Spark Thrift Server"
PAGE = "10000"
"""Rows that the JDBC driver asks for at a time."""
_ADBC = """
import time
import adbc_driver_flightsql.dbapi as flight_sql

with flight_sql.connect(f"grpc://127.0.0.1:{port}", autocommit=True) as connection:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetch_arrow_table()
        start = time.perf_counter()
        cursor.execute(query)
        table = cursor.fetch_arrow_table()
        seen = [time.perf_counter() - start, table.num_rows]
"""
_SEED_ROWS, _MODELS, _VIEWS, _INCREMENTAL = 1000, 20, 4, 4


@dataclass(frozen=True)
class Servers:
    """Ports of both servers on the loopback interface."""

    hive: int
    flight: int
    thrift: int

    @property
    def by_thrift(self) -> Mapping[str, int]:
        """Ports that speak HiveServer2's protocol."""
        return {THRIFT: self.thrift, HEADRACE: self.hive}


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Start a node and the Spark Thrift Server, with the same Spark configuration."""
    hive_port, flight_port = free_ports(2)
    settings = {
        "HEADRACE_HIVESERVER2__PORT": str(hive_port),
        "HEADRACE_FLIGHT_SQL__PORT": str(flight_port),
        "HEADRACE_PROFILES": json.dumps({"default": {"conf": CONF}}),
    }
    with (
        node_process(folder / "headrace", **settings),
        running_thrift_server(folder / "peer") as peer,
    ):
        yield Servers(hive_port, flight_port, peer["hive_port"])


def select_one(ports: Servers, *, warm_up: int, rounds: int) -> dict[str, Sample]:
    """Return the times of `SELECT 1` by PyHive."""
    with ExitStack() as stack:
        clients = {
            name: stack.enter_context(closing(ThriftClient(partial(_connect, port))))
            for name, port in ports.by_thrift.items()
        }
        return interleaved(
            {name: client.select_one for name, client in clients.items()},
            warm_up=warm_up,
            rounds=rounds,
        )


def million_rows(ports: Servers, version: str, *, warm_up: int, rounds: int) -> dict[str, Sample]:
    """Return the times in which Hive's JDBC driver reads a million rows.

    Args:
        version: Of the driver. 2.3 asks for the state of the statement before each row.
    """
    jars = spark_class_path() if version == "2.3" else jdbc_jar(f"hive-jdbc-{version}")
    client = JdbcClient(jars, "jdbc:hive2://127.0.0.1:{port}/")

    def read(port: int) -> float:
        values = {"port": port, "user": "ada", "password": "any"}
        [[count, _sum, seconds]] = client.run(values, "count", MILLION, PAGE)
        assert count == 1_000_000
        return float(seconds)

    measurements = {name: partial(read, port) for name, port in ports.by_thrift.items()}
    return interleaved(measurements, warm_up=warm_up, rounds=rounds)


def arrow_rows(
    ports: Servers, folder: Path, query: str, *, warm_up: int, rounds: int
) -> dict[str, Sample]:
    """Return the times in which ADBC and PySpark itself make an Arrow table of a query."""
    client = PythonClient(make_client("flight-sql", *FLIGHT_SQL), "")

    def read() -> float:
        seconds, _rows = client.run(_ADBC, port=ports.flight, query=query)
        return float(seconds)

    with in_process(folder / "in-process") as spark:
        measurements = {PLAIN: partial(spark.to_arrow, query), HEADRACE: read}
        return interleaved(measurements, warm_up=warm_up, rounds=rounds)


def dbt_builds(ports: Servers, folder: Path, *, warm_up: int, rounds: int) -> dict[str, Sample]:
    """Return the times of `dbt build --full-refresh` of a project of 20 models."""
    program = make_client("dbt", *DBT).parent / "dbt"
    project = folder / "dbt"
    _write_project(project, ports.by_thrift)

    def build(target: str) -> float:
        options = ["--target", _target(target), "--project-dir", project]
        start = time.perf_counter()
        completed = subprocess.run(
            [program, "build", "--full-refresh", *options, "--profiles-dir", project],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - start
        if completed.returncode != 0:
            raise RuntimeError(f"dbt failed: {completed.stdout[-4000:]}")
        return seconds

    measurements = {name: partial(build, name) for name in ports.by_thrift}
    return interleaved(measurements, warm_up=warm_up, rounds=rounds)


def _connect(port: int) -> hive.Connection:
    return hive.connect("127.0.0.1", port, username="ada")


def _target(name: str) -> str:
    return name.replace(" ", "_").lower()


def _write_project(folder: Path, ports: Mapping[str, int]) -> None:
    """Write a project: a seed, views, tables, incremental models, and ten tests."""
    outputs = {
        _target(name): {
            "type": "spark",
            "method": "thrift",
            "user": "ada",
            "host": "127.0.0.1",
            "port": port,
            "schema": "bench",
            "threads": 4,
        }
        for name, port in ports.items()
    }
    tested = [
        {"name": f"m{number}", "columns": [{"name": "k", "data_tests": ["not_null"]}]}
        for number in range(_VIEWS, _VIEWS + 10)
    ]
    project = {"name": "bench", "version": "1.0", "profile": "bench"}
    project["models"] = {"bench": {"+materialized": "table"}}
    rows = (f"{number},{number % 10},{number * 1.5}" for number in range(_SEED_ROWS))
    # JSON is YAML.
    files = {
        "dbt_project.yml": json.dumps(project),
        "profiles.yml": json.dumps({"bench": {"target": _target(HEADRACE), "outputs": outputs}}),
        "models/schema.yml": json.dumps({"version": 2, "models": tested}),
        "seeds/raw.csv": "\n".join(["id,k,v", *rows]) + "\n",
    }
    files |= {f"models/m{number}.sql": _model(number) for number in range(_MODELS)}
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _model(number: int) -> str:
    """Return a model: first the views of the seed, then tables, last the incremental ones."""
    if number < _VIEWS:
        view = "{{ config(materialized='view') }}"
        return f"{view} SELECT id, k, v + {number} AS v FROM {{{{ ref('raw') }}}}"
    if number < _MODELS - _INCREMENTAL:
        source = f"{{{{ ref('m{number % _VIEWS}') }}}}"
        return f"SELECT k, count(*) AS n, sum(v) AS v FROM {source} GROUP BY k"
    incremental = "{{ config(materialized='incremental') }}"
    return f"{incremental} SELECT k, n, v FROM {{{{ ref('m{number - _INCREMENTAL}') }}}}"
