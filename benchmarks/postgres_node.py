"""One node with PostgreSQL and no Spark: its load on the store while idle, and its capacity."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
from tests.support.postgres import running_server

from benchmarks import load
from benchmarks.measure import Sample
from benchmarks.peers.headrace_node import MAX_WAITING, NodeClient, node_process
from headrace.control.sessions.launch_request import hash_token
from headrace.driver.link import POLL_SECONDS
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState
from headrace.model.messages import LINK_PREFIX, Poll
from headrace.model.session import DriverLease, NewSession
from headrace.store.database import Database
from headrace.store.sessions import sessions, takeovers

SESSIONS = 1_000
_STATEMENTS = 16
WINDOW_SECONDS = 2 * POLL_SECONDS
_OWNER = "anonymous"
TOKEN = "token-of-the-benchmark"
_LEASE_SECONDS = 24 * 3600.0
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"


@dataclass(frozen=True)
class IdleLoad:
    """Transactions per second that PostgreSQL counts."""

    without_sessions: float
    with_sessions: float


@contextmanager
def _postgres_node(folder: Path) -> Iterator[tuple[NodeClient, str]]:
    with running_server() as server:
        url = server.url(server.new_database())
        settings = {"HEADRACE_STORE__URL": url, "HEADRACE_CATALOG__KIND": "memory"}
        settings["HEADRACE_STATEMENTS__MAX_WAITING"] = str(MAX_WAITING)
        with node_process(folder / "postgres", **settings) as (node, _process):
            yield node, url


def idle_load(folder: Path) -> IdleLoad:
    """Measure a node without work, then the same node while the drivers of idle sessions poll.

    The drivers renew no leases, which are writes: one for each driver in `lease.renew` (5 s).
    """
    with _postgres_node(folder / "idle") as (node, url):
        alone = _count_commits(url, WINDOW_SECONDS)
        database = Database.open(url)
        leases = [insert_running_session(database) for _number in range(SESSIONS)]
        database.close()
        polling = asyncio.run(_measure_polls(node.address, leases, url))
        return IdleLoad(alone, polling)


async def _measure_polls(address: str, leases: list[DriverLease], url: str) -> float:
    """Poll for all drivers at once, and measure when each has an open poll."""
    body = Poll(wait_seconds=POLL_SECONDS, in_flight=[], cancels_received=[]).model_dump_json()
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(
        base_url=address, headers=headers, limits=limits, timeout=2 * POLL_SECONDS
    ) as http:

        async def poll_on(lease: DriverLease, pause: float) -> None:
            # Real drivers have started at different times.
            await asyncio.sleep(pause)
            path = f"{LINK_PREFIX}/{lease.session_id}/{lease.epoch}/poll"
            while True:
                (await http.post(path, content=body)).raise_for_status()

        polls = [
            asyncio.create_task(poll_on(lease, number * POLL_SECONDS / len(leases)))
            for number, lease in enumerate(leases)
        ]
        await asyncio.sleep(POLL_SECONDS)
        commits = await asyncio.to_thread(_count_commits, url, WINDOW_SECONDS)
        failures = [poll.exception() for poll in polls if poll.done()]
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
    if failures and failures[0] is not None:
        raise failures[0]
    return commits


def _count_commits(url: str, seconds: float) -> float:
    """Return the transactions per second of the whole database during a window."""
    with psycopg.connect(url, autocommit=True) as connection:

        def read() -> int:
            row = connection.execute(_COMMITS).fetchone()
            assert row is not None
            return int(row[0])

        before, start = read(), time.monotonic()
        time.sleep(seconds)
        # The server adds the counts of a connection about once a second.
        return (read() - before) / (time.monotonic() - start)


def insert_running_session(database: Database) -> DriverLease:
    """Insert a session whose driver seems to run, with a lease of a day."""
    session_id = new_id("se")
    with database.write("benchmark") as tx:
        sessions.insert(tx, NewSession(id=session_id, owner=_OWNER), actor=_OWNER)
        epoch = takeovers.claim_launch(
            tx,
            session_id,
            node="bench",
            seconds=_LEASE_SECONDS,
            token_hash=hash_token(TOKEN),
        )
        assert epoch is not None
        assert sessions.transition(
            tx,
            session_id,
            SessionState.RUNNING,
            actor=_OWNER,
            epoch=epoch,
            lease_seconds=_LEASE_SECONDS,
        )
    return DriverLease(session_id, epoch)


def capacity(folder: Path) -> tuple[Sample, Sample]:
    """Measure status reads of ended statements, then submits to a session, per second.

    Nothing claims the submitted statements.
    """
    with _postgres_node(folder / "capacity") as (node, url):
        body = {"statement": "SHOW STREAMS"}
        ended = [node.call("POST", "/api/v1/statements", body)["id"] for _ in range(_STATEMENTS)]
        reads = load.status_reads(node, folder, ended)
        database = Database.open(url)
        session_id = insert_running_session(database).session_id
        database.close()
        return reads, load.submits(node, folder, session_id)
