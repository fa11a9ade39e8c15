"""Stores that released versions have left, as SQL.

`python -m tests.support.recorded_store` adds one: run it at the commit of a release. Each later
version must be able to upgrade the store and to show what is in it: tests/control/test_upgrades.py.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import update
from tests.support.deployed_job import DeployedJob
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.postgres import find_programs, running_server
from tests.support.running_query import RunningQuery
from tests.support.simulated_jobs import SimulatedJobs
from tests.support.store import migrate
from tests.support.views import ViewWriter

from headrace import __version__
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState, StreamState
from headrace.model.stream_query import QueryProgress
from headrace.store import tables

RECORDS = Path(__file__).parent / "recorded_stores"
"""A folder for each version with `sqlite.sql`, `postgresql.sql`, and what the API has shown."""

LISTS = {
    "statements": ("id", "kind", "statement"),
    "sessions": ("id", "name", "kind", "profile"),
    "streams": ("id", "name", "sink", "sql"),
    "transactions": ("id", "state", "target"),
    "jobs": ("id", "name", "version"),
    "deployments": ("id", "state"),
    "events": ("id", "entity", "entity_id", "from", "to"),
}
"""Names of the API's lists, with fields that no upgrade changes."""

_HOST = {
    "name": "node.example",
    "machine": "0" * 32,
    "boot": "00000000-0000-0000-0000-000000000000",
    "pid_namespace": "pid:[1]",
    "network_namespace": "net:[1]",
}
_PROGRESS = QueryProgress(
    batch=7,
    at="2026-11-22T00:00:00.000Z",
    input_rows=10,
    input_rate=1.0,
    process_rate=2.0,
    milliseconds=5,
)
_SESSION_LINES = ("SET ", "SELECT pg_catalog.set_config", "\\", "--")
"""Beginnings of lines of pg_dump that are for psql, or for another version of the server."""


def read_lists(node: InProcessNode) -> dict[str, list[dict[str, Any]]]:
    """Return what the API of a node shows of each object."""
    return {
        name: [{field: item.get(field) for field in fields} for item in _read_pages(node, name)]
        for name, fields in LISTS.items()
    }


def load_sqlite(version: str, file: Path) -> str:
    """Write the store of a version to a new file, and return its URL."""
    with sqlite3.connect(file) as connection:
        connection.executescript((RECORDS / version / "sqlite.sql").read_text())
    connection.close()
    return f"sqlite:///{file}"


def load_postgres(version: str, url: str) -> str:
    """Write the store of a version to an empty database, and return the URL."""
    with psycopg.connect(url) as connection:
        connection.execute((RECORDS / version / "postgresql.sql").read_bytes())
    return url


def _read_pages(node: InProcessNode, name: str) -> Iterable[dict[str, Any]]:
    key = "after" if name == "events" else "before"
    items: list[dict[str, Any]] = []
    query: dict[str, Any] = {}
    while True:
        page = node.http.get(f"/api/v1/{name}", params=query).raise_for_status().json()
        items += page["items"]
        following = page.get("next")
        if not page["items"] or following is None or following == query.get(key):
            return items
        query[key] = following


def _fill(url: str, home: Path) -> dict[str, Any]:
    """Let nodes work with the store until each of its tables has rows; return what they show."""
    drivers = SimulatedJobs()
    with serve_node(make_settings(home / "jobs", store={"url": url}), drivers) as node:
        job = DeployedJob(node, drivers, home / "state")
        job.deploy()
        job.deploy(trigger="2 seconds")
    grace = {"grace": "100ms"}
    settings = make_settings(home / "node", store={"url": url}, materialized_views=grace)
    with serve_node(settings) as node:
        session, driver = node.start_session(name="etl", conf={"spark.sql.ansi.enabled": "true"})
        for text in ("SELECT 1", "SELECT nothing"):
            statement = node.submit(text, session=session)["id"]
            assert driver.claim().statement_id == statement
            driver.report_start(statement)
            if text == "SELECT 1":
                driver.succeed(statement)
            else:
                failure = Failure(code="analysis_error", message="The column is unknown.")
                driver.report_end(statement, StatementState.FAILED, failure=failure)
        node.http.post(
            "/api/v1/statements",
            json={
                "statement": "SELECT :a",
                "session": session,
                "parameters": [{"name": "a", "value": "1"}],
                "wait_timeout": "0s",
            },
            headers={"Idempotency-Key": "retried"},
        ).raise_for_status()
        stream = node.submit("CREATE STREAM clicks FROM rate", kind="batch")
        batch = node.launcher.connect_driver(stream["session_id"])
        batch.hello()
        batch.claim()
        assert batch.succeed(stream["id"]).applied
        RunningQuery(node).report(StreamState.RUNNING, last_batch=7, progress=[_PROGRESS])
        ViewWriter(node).make().refresh()
        with node.database.write("test") as tx:
            for table in (tables.nodes, tables.sessions):
                tx.execute(update(table).values(host=_HOST))
        return read_lists(node)


def _record(folder: Path) -> None:
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as home, running_server() as server:
        file = Path(home) / "headrace.db"
        migrate(f"sqlite:///{file}")
        shown = {"sqlite": _fill(f"sqlite:///{file}", Path(home))}
        with sqlite3.connect(file) as connection:
            _write(folder / "sqlite.sql", connection.iterdump(), home)
        url = server.url(server.new_database())
        migrate(url)
        shown["postgresql"] = _fill(url, Path(home) / "cluster")
        command = [find_programs() / "pg_dump", "--inserts", "--no-owner", "--dbname", url]
        dump = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        )
        lines = dump.stdout.splitlines()
        _write(
            folder / "postgresql.sql",
            (line for line in lines if line and not line.startswith(_SESSION_LINES)),
            home,
        )
        (folder / "shown.json").write_text(_clean(json.dumps(shown, indent=1), home) + "\n")


def _write(file: Path, lines: Iterable[str], home: str) -> None:
    file.write_text(_clean("\n".join(lines), home) + "\n")


def _clean(text: str, home: str) -> str:
    """Replace the folder and the host of the recording."""
    host, example = (json.dumps(name) for name in (socket.gethostname(), "node.example"))
    return text.replace(home, "/srv/headrace").replace(host, example)


if __name__ == "__main__":
    _record(RECORDS / __version__)
