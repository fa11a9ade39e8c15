"""1,000 jobs that are due at once, on three nodes with PostgreSQL and one driver."""

from __future__ import annotations

import statistics
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import update
from tests.support.batch_jobs import insert_batch_jobs
from tests.support.postgres import running_server
from tests.support.waiting import wait_until

from benchmarks.measure import Sample
from benchmarks.peers.headrace_node import MAX_WAITING, NodeClient, node_process
from headrace.model.lifecycle import RunState
from headrace.model.run import FiringRules, JobRun
from headrace.model.schedule import Schedule
from headrace.store.clock import clock, read_clock
from headrace.store.database import Database
from headrace.store.jobs import runs
from headrace.store.tables import job_schedules

JOBS, NODES = 1_000, 3
_DAY = timedelta(days=1)
_LIMIT = 900.0
_OF_RUNS = ("schedule.", "operation.", "run.")


@dataclass(frozen=True)
class Lateness:
    """Seconds from the logical time of each run until it was stored, began, and succeeded."""

    stored: Sample
    begun: Sample
    succeeded: Sample
    transactions: float
    """Write transactions for each run, apart from those of its statement."""

    def describe(self) -> str:
        """Return the rows of a table: the median and the 99th percentile of each time."""
        rows = ["| from the logical time until | p50 s | p99 s |", "|---|--:|--:|"]
        for name, sample in (
            ("the run is stored", self.stored),
            ("its attempt begins", self.begun),
            ("it has succeeded", self.succeeded),
        ):
            rows.append(f"| {name} | {sample.median:.1f} | {find_p99(sample):.1f} |")
        return "\n".join(rows)


def find_p99(sample: Sample) -> float:
    """Return the 99th percentile of a sample."""
    return statistics.quantiles(sample.values, n=100)[-1]


def measure_lateness(folder: Path) -> Lateness:
    """Let all jobs be due at once. Raise RuntimeError unless each fires once and succeeds."""
    rules = FiringRules(schedule=Schedule(cron="0 0 * * *"))
    with ExitStack() as stack:
        server = stack.enter_context(running_server())
        url = server.url(server.new_database())
        settings = {
            "HEADRACE_STORE__URL": url,
            "HEADRACE_CATALOG__KIND": "memory",
            "HEADRACE_STATEMENTS__MAX_WAITING": str(MAX_WAITING),
        }
        clients = [
            stack.enter_context(node_process(folder / f"schedules-{number}", **settings))[0]
            for number in range(NODES)
        ]
        # The driver runs.
        answer = clients[0].call("POST", "/api/v1/statements", {"statement": "SELECT 1"})
        statement = clients[0].wait_for_success(answer)
        store = Database.open(url)
        stack.callback(store.close)
        with store.read() as tx:
            now = read_clock(tx.connection)
        insert_batch_jobs(
            store,
            rules,
            cursor=now + _DAY,
            names=[f"job{number}" for number in range(JOBS)],
            owner=statement["owner"],
        )
        before = _count_transactions(clients)
        at = _make_due(store, now - _DAY)
        wait_until(lambda: _have_ended(store), seconds=_LIMIT, what="all runs have ended", every=1)
        transactions = (_count_transactions(clients) - before) / JOBS
        return _to_lateness(_list_runs(store), at, transactions)


def _make_due(store: Database, cursor: datetime) -> datetime:
    """Let all jobs be due now, and return the time of the store."""
    with store.write("benchmark") as tx:
        tx.execute(update(job_schedules).values(cursor=cursor, next_at=clock()))
        return read_clock(tx.connection)


def _list_runs(store: Database) -> list[JobRun]:
    with store.read() as tx:
        return runs.page(tx, owners=None, limit=2 * JOBS)


def _have_ended(store: Database) -> bool:
    listed = _list_runs(store)
    return len(listed) >= JOBS and all(run.ended_at is not None for run in listed)


def _to_lateness(listed: list[JobRun], at: datetime, transactions: float) -> Lateness:
    states = Counter(run.state for run in listed)
    if states != {RunState.SUCCEEDED: JOBS} or len({run.job_id for run in listed}) != JOBS:
        raise RuntimeError(f"{JOBS} jobs have runs in these states: {states}")

    def since(times: list[datetime | None]) -> Sample:
        return Sample(sorted((time - at).total_seconds() for time in times if time is not None))

    return Lateness(
        stored=since([run.created_at for run in listed]),
        begun=since([run.started_at for run in listed]),
        succeeded=since([run.ended_at for run in listed]),
        transactions=transactions,
    )


def _count_transactions(clients: list[NodeClient]) -> float:
    """Return the write transactions of schedules and runs that the nodes have counted."""
    return sum(
        float(line.rpartition(" ")[2])
        for client in clients
        for line in client.text("/metrics").splitlines()
        if any(f'transaction="{name}' in line for name in _OF_RUNS)
    )
