"""A store that is restored on another PostgreSQL server, with the commands of the guide."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from tests.support.node import NodeProcess
from tests.support.node_client import Json
from tests.support.postgres import PostgresServer, running_server, use_transaction_ids
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"
DATABASE = "headrace"


@pytest.fixture
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """Yield a server with an empty store of the role headrace, and an empty server.

    The first server has numbered many more transactions than the second, as after years of use.
    """
    with running_server() as original, running_server() as other:
        for server in (original, other):
            run_on(server, ["createuser", DATABASE])
        run_on(original, ["createdb", "--owner", DATABASE, DATABASE])
        use_transaction_ids(original.url(), beyond=other.url())
        yield original, other


def run_on(server: PostgresServer, command: list[str], folder: Path | None = None) -> None:
    """Run one of PostgreSQL's programs against a server, in a folder."""
    path = os.pathsep.join([str(server.programs), os.environ["PATH"]])
    address = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres"}
    run = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **address, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def guide_commands(heading: str) -> list[list[str]]:
    """Return the commands in the first block of code below a heading of the guide."""
    section = GUIDE.read_text().partition(f"\n### {heading}\n")[2]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert block is not None, heading
    return [line.split() for line in block.group(1).splitlines()]


def start_node(home: Path, server: PostgresServer) -> NodeProcess:
    """Start a node whose store is the database headrace of a server, as the role headrace."""
    url = server.url(DATABASE).replace("postgres@", f"{DATABASE}@")
    return NodeProcess(home, STORE__URL=url, CATALOG__KIND="memory", LEASE__RENEW="1s")


def run_statements(node: NodeProcess, count: int) -> set[str]:
    """Run statements that need no driver. Return their ids."""
    return {node.run("SHOW STREAMS")["id"] for _ in range(count)}


def read_after(http: httpx.Client, cursor: str | None, *, limit: int) -> list[Json]:
    """Return a page of events after a cursor, oldest first."""
    query = {"limit": limit} | ({} if cursor is None else {"after": cursor})
    response = http.get("/api/v1/events", params=query)
    assert response.status_code == 200, response.text
    return list(response.json()["items"])


def read_until(node: NodeProcess, cursor: str | None, expected: set[str]) -> list[Json]:
    """Read on from a cursor, in small pages, until the end of each expected statement is read."""
    events: list[Json] = []

    def has_all() -> bool:
        while page := read_after(node.http, events[-1]["cursor"] if events else cursor, limit=3):
            events.extend(page)
        return expected <= {event["entity_id"] for event in events if event["to"] == "success"}

    wait_until(has_all, what="all expected events are read")
    return events


def follow_until(node: NodeProcess, cursor: str, expected: set[str]) -> list[str]:
    """Follow the stream of events from a cursor; return the cursors until all has been read."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": cursor}
    cursors: list[str] = []
    missing = set(expected)
    with node.http.stream("GET", "/api/v1/events", headers=headers, timeout=60) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                cursors.append(event["cursor"])
                missing -= {event["entity_id"]} if event["to"] == "success" else set()
            if not missing:
                return cursors
    raise AssertionError("the stream has ended")


def test_readers_of_events_continue_after_dump_and_restore(
    tmp_path: Path, servers: tuple[PostgresServer, PostgresServer]
) -> None:
    original, other = servers
    with ExitStack() as nodes:
        first = start_node(tmp_path / "first", original)
        nodes.callback(first.close)
        dumped = run_statements(first, 4)
        before = read_until(first, None, dumped)
        in_the_middle = before[len(before) // 2]["cursor"]
        [dump] = guide_commands("Back up")
        run_on(original, dump, tmp_path)
        lost = run_statements(first, 3)
        past_the_dump = read_until(first, before[-1]["cursor"], lost)[-1]["cursor"]

    for command in guide_commands("Restore"):
        run_on(other, command, tmp_path)
    second = start_node(tmp_path / "second", other)
    try:
        later = run_statements(second, 4)
        everything = read_until(second, None, later)
        cursors = [event["cursor"] for event in everything]
        restored, new = everything[: len(before)], everything[len(before) :]

        assert restored == before
        assert later <= {event["entity_id"] for event in new}
        assert len(set(cursors)) == len(cursors)
        # A reader that has read half of the restored events receives the other half, then the new.
        middle = cursors.index(in_the_middle)
        assert read_until(second, in_the_middle, later) == everything[middle + 1 :]
        followed = follow_until(second, in_the_middle, later)
        assert followed == cursors[middle + 1 :][: len(followed)]
        # A reader that has read events which the dump does not contain receives all new events.
        assert read_until(second, past_the_dump, later) == new
        assert not any(second.http.get(f"/api/v1/statements/{each}").is_success for each in lost)
    finally:
        second.close()
