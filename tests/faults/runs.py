"""`make chaos`, second part: a batch job whose node, driver or store is lost at a step of a run.

python -m tests.faults.runs 200              200 histories of a new seed
python -m tests.faults.runs 200 1234         the same histories as every run with this seed
python -m tests.faults.runs 1 1234.17        history 17 of this seed again, alone
python -m tests.faults.runs 1 1234.86-199    histories 86 to 199 of this seed
python -m tests.faults.runs --sqlite 200     200 histories on one embedded node with SQLite

Each history fires a job for two logical times. Its tables must then hold the rows of an undisturbed
run: each logical time is applied once.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import update
from tests.faults.cluster import Catalog, find_drivers
from tests.faults.history_client import HistoryClient
from tests.faults.invariants import find_violations
from tests.faults.lane import ChaosLane, Deployment, LaneKind
from tests.faults.plan import Fault
from tests.faults.points import read_points
from tests.support import short_lived_java
from tests.support.batch_jobs import insert_batch_job, make_daily
from tests.support.identities import LOCAL_OWNER
from tests.support.processes import end, processes_of
from tests.support.waiting import wait_until

from headrace.errors import StoreUnavailable
from headrace.model.lifecycle import JobState, RunState
from headrace.model.run import (
    BatchSpec,
    BatchStatement,
    CatchUp,
    FiringRules,
    JobRun,
    RunRetries,
)
from headrace.model.schedule import Schedule
from headrace.store.clock import clock, read_clock
from headrace.store.database import Database
from headrace.store.jobs import jobs, runs, schedules
from headrace.store.tables import job_schedules

T = TypeVar("T")
_DAY = timedelta(days=1)
_TIMES = 2
"""Logical times for which the job of a history fires."""
_ROWS = 4
_TABLES = (
    "CREATE TABLE IF NOT EXISTS run_rows (job STRING, at TIMESTAMP, n BIGINT) USING parquet",
    """CREATE TABLE IF NOT EXISTS run_totals (rows BIGINT, total BIGINT, job STRING, day STRING)
    USING parquet PARTITIONED BY (job, day)""",
)
_APPEND = (
    "INSERT INTO run_rows SELECT :query_name, :run_time, id FROM range(0, 4, 1, 2)"
    " WHERE reflect('java.lang.Thread', 'sleep', 100L) IS NULL OR id >= 0"
)
_CREATE = (
    "CREATE TABLE IF NOT EXISTS {copy} USING parquet AS"
    " SELECT n FROM run_rows WHERE job = :query_name AND at = :run_time"
)
_OVERWRITE = (
    "INSERT OVERWRITE run_totals"
    " SELECT count(*), sum(n), :query_name, date_format(:run_time, 'yyyy-MM-dd') FROM run_rows"
    " WHERE job = :query_name AND at = :run_time"
)
_DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
_END_SECONDS = 240.0

_NODE_STEPS = {
    "store schedule.fire": 1,
    "store operation.claim": 2,
    "store run.step": 4 * _TIMES,
    "store statement.submit": 3 * _TIMES,
    "store link.started": 3 * _TIMES,
    "store link.begin_write": 3 * _TIMES,
    "store link.transact": 6 * _TIMES,
    "store link.ended": 3 * _TIMES,
}
"""Transactions of a run, and how often the two runs pass each."""
_DRIVER_STEPS = {
    "link loop:started": 3 * _TIMES,
    "link locks:begin_write": 3 * _TIMES,
    "link transaction:transact": 6 * _TIMES,
    "link loop:ended": 3 * _TIMES,
}
STEPS = _NODE_STEPS | _DRIVER_STEPS
_NODE_ACTIONS = ("kill", "kill", "kill_all", "kill_drivers")
_STORE_ACTIONS = {
    Deployment.POSTGRES: ("cut", "cut", "lose_answer"),
    # SQLite is a file: there is no connection to cut.
    Deployment.SQLITE: ("lose_answer",),
}
_DRIVER_ACTIONS = ("kill", "kill_jvm", "kill_all")


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The fault of one history, determined by its seed and the deployment."""

    seed: str
    fault: Fault | None
    is_backfill: bool = False
    """Whether a user runs the logical times. Otherwise, the schedule fires them."""
    restarts_at_once: bool = True
    """Whether a killed node starts again at once. Otherwise, the other node continues."""

    def __str__(self) -> str:
        begin = "backfill" if self.is_backfill else "schedule"
        restart = "" if self.restarts_at_once else ", the other node continues"
        return f"{begin}: {self.fault or 'no fault'}{restart}"


def make_history(seed: str, deployment: Deployment = Deployment.POSTGRES) -> RunHistory:
    """Return the history of a seed. The histories of a run take the steps in turn."""
    run, _, number = seed.partition(".")
    steps = list(STEPS.items())
    random.Random(run).shuffle(steps)
    point, passages = steps[int(number) % len(steps)]
    chance = random.Random(seed)
    if point in _DRIVER_STEPS:
        side, action = chance.choice(["before", "after"]), chance.choice(_DRIVER_ACTIONS)
    else:
        action = chance.choice((*_NODE_ACTIONS, *_STORE_ACTIONS[deployment]))
        sides = ["after"] if action == "lose_answer" else ["before", "before_commit", "after"]
        side = chance.choice(sides)
    return RunHistory(
        seed,
        Fault(point, side, action, chance.randint(1, passages)),
        is_backfill=point != "store schedule.fire" and chance.random() < 0.3,
        # There is no other node on SQLite.
        restarts_at_once=deployment is Deployment.SQLITE or chance.random() < 0.5,
    )


def list_seeds(count: int, seed: str) -> list[str]:
    """Return the seeds of `count` histories, or those of the histories that the seed names."""
    run, _, numbers = seed.partition(".")
    if not numbers:
        return [f"{run}.{number}" for number in range(count)]
    first, _, last = numbers.partition("-")
    return [f"{run}.{number}" for number in range(int(first), int(last or first) + 1)]


class RunPlayer(HistoryClient):
    """Plays histories of runs in a lane, one after the other."""

    def __init__(self, lane: ChaosLane) -> None:
        super().__init__(lane, "runs")
        self.passages: list[dict[str, Any]] = []
        """The passages of the last history: see `Plan`."""
        # `only_reads` takes no lock on a SQLite file, which the node has locked. SQLite itself
        # serialises the few writes of the test with those of the node.
        self._store = Database.open(lane.nodes[0].store_url, only_reads=True)
        for text in _TABLES:
            self._query(text)

    def play(self, history: RunHistory) -> list[str]:
        """Play a history, and return what differs from an undisturbed run."""
        name = f"job_{history.seed.replace('.', '_')}"
        job_id, cursor = self._insert_job(name)
        if history.is_backfill:
            interval = {"from": cursor.isoformat(), "to": (cursor + _TIMES * _DAY).isoformat()}
            answer = self._request(
                "POST", f"/jobs/{name}/backfills", json={**interval, "parallel": _TIMES}
            )
            assert answer.is_success, answer.text
        self._lane.plan.write([] if history.fault is None else [history.fault])
        if not history.is_backfill:
            self._call_store(lambda: self._make_due(job_id))
        try:
            self._await_end(job_id, history)
        finally:
            self.passages = self._lane.plan.read_passages()
            self._lane.plan.write([])
            self._lane.ensure_nodes()
        return [*self._check_runs(job_id, cursor), *self._check_tables(name, cursor)]

    def close(self) -> None:
        """Close the store of the test."""
        self._store.close()

    def _insert_job(self, name: str) -> tuple[str, datetime]:
        """Insert a job that does not fire yet. Return its id, and the cursor of its schedule."""
        texts = [_APPEND, _CREATE.format(copy=f"copy_{name}"), _OVERWRITE]

        def insert() -> tuple[str, datetime]:
            with self._store.read() as tx:
                cron, last = make_daily(read_clock(tx.connection))
            rules = FiringRules(schedule=Schedule(cron=cron), catch_up=CatchUp.ALL)
            batch = BatchSpec(
                rules=rules,
                statements=[BatchStatement(text=text, conf=_DYNAMIC) for text in texts],
                conf={"headrace.writes.atomicity": "require"},
                retries=RunRetries(max_attempts=5, min_backoff=timedelta(milliseconds=100)),
            )
            cursor = last - _TIMES * _DAY
            job_id = insert_batch_job(
                self._store, rules, cursor=cursor, name=name, owner=LOCAL_OWNER, batch=batch
            )
            self._set_state(job_id, JobState.RUNNING)
            return job_id, cursor

        return self._call_store(insert)

    def _set_state(self, job_id: str, state: JobState) -> None:
        with self._store.write("test") as tx:
            job = jobs.lock(tx, job_id)
            assert job is not None
            jobs.transition(tx, job, state, actor="test")

    def _make_due(self, job_id: str) -> None:
        with self._store.write("test") as tx:
            change = update(job_schedules).where(job_schedules.c.job_id == job_id)
            tx.execute(change.values(next_at=clock()))

    def _call_store(self, call: Callable[[], T]) -> T:
        """Call the store until it answers: a fault also cuts the connections of the test."""
        while True:
            try:
                return call()
            except StoreUnavailable:
                time.sleep(0.05)

    def _await_end(self, job_id: str, history: RunHistory) -> None:
        def have_ended() -> bool:
            alive = [node for node in self._lane.nodes if not node.has_ended()]
            if history.restarts_at_once or not alive:
                self._lane.ensure_nodes()
            listed = self._list_runs(job_id)
            return len(listed) >= _TIMES and all(run.ended_at for run in listed)

        wait_until(have_ended, seconds=_END_SECONDS, what="all runs have ended", every=0.1)

    def _list_runs(self, job_id: str) -> list[JobRun]:
        def read() -> list[JobRun]:
            with self._store.read() as tx:
                return runs.page(tx, owners=None, job_id=job_id, limit=100)[::-1]

        return self._call_store(read)

    def _check_runs(self, job_id: str, cursor: datetime) -> list[str]:
        def stop() -> None:
            with self._store.write("test") as tx:
                schedules.pause(tx, job_id)
            self._set_state(job_id, JobState.STOPPED)

        self._call_store(stop)
        expected = [(cursor + number * _DAY, RunState.SUCCEEDED) for number in (1, 2)]
        listed = [(run.times.logical_time, run.state) for run in self._list_runs(job_id)]
        return [] if listed == expected else [f"The runs are {self._list_runs(job_id)}."]

    def _check_tables(self, name: str, cursor: datetime) -> list[str]:
        days = [f"{cursor + number * _DAY:%Y-%m-%d}" for number in (1, 2)]
        expected = {
            f"SELECT date_format(at, 'yyyy-MM-dd'), n FROM run_rows WHERE job = '{name}'": [
                [day, str(n)] for day in days for n in range(_ROWS)
            ],
            f"SELECT day, rows, total FROM run_totals WHERE job = '{name}'": [
                [day, str(_ROWS), str(sum(range(_ROWS)))] for day in days
            ],
            f"SELECT n FROM copy_{name}": [[str(n)] for n in range(_ROWS)],
        }
        return [
            f"{query}: {rows}"
            for query, wanted in expected.items()
            if (rows := sorted(self._query(query))) != wanted
        ]

    def _query(self, text: str) -> list[list[Any]]:
        statement = self._submit(text, session=None)
        self._wait_ended(statement)
        ended = self._get_statement(statement)
        assert ended["state"] == "success", ended
        rows: list[list[Any]] = self._request("GET", f"/statements/{statement}/result").json()[
            "rows"
        ]
        return rows


@dataclass
class RunReport:
    """The outcomes of all histories."""

    actions: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Counts of faults that happened, by action, side and point."""
    count: int = 0
    violations: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set by a signal: no further history begins."""


def play_all(
    folder: Path, catalog: Catalog, deployment: Deployment, seeds: list[str], report: RunReport
) -> None:
    """Play the histories of seeds in a lane. A lane whose history does not end is replaced."""
    histories = [make_history(seed, deployment) for seed in seeds]
    kind = LaneKind(deployment)
    number = 0
    while histories and not report.stopping.is_set():
        number += 1
        lane = ChaosLane(folder / f"lane{number}", catalog, read_points(), number=number, kind=kind)
        with closing(lane), closing(RunPlayer(lane)) as player:
            _play_in_lane(player, histories, report)
            report.violations += find_violations(lane.read_rows())


def _play_in_lane(player: RunPlayer, histories: list[RunHistory], report: RunReport) -> None:
    while histories and not report.stopping.is_set():
        history, begin = histories.pop(0), time.monotonic()
        try:
            violations, is_at_rest = player.play(history), True
        except AssertionError as error:
            violations, is_at_rest = [str(error)], False
        for passage in player.passages:
            if passage["action"]:
                report.actions[passage["action"], passage["side"], passage["point"]] += 1
        report.count += 1
        report.violations += [f"{history.seed}: {each}" for each in violations]
        print(f"{history.seed}  {time.monotonic() - begin:5.1f} s  {history}", flush=True)
        for each in violations:
            print(f"{history.seed}  VIOLATION  {each}", flush=True)
        if not is_at_rest:
            return


def main(arguments: list[str]) -> int:
    """Return 1 if a logical time was not applied once."""
    short_lived_java.apply()
    parser = argparse.ArgumentParser()
    parser.add_argument("--sqlite", action="store_true")
    parser.add_argument("count", type=int)
    parser.add_argument("seed", nargs="?", default=str(random.randrange(10**6)))
    options = parser.parse_args(arguments)
    deployment = Deployment.SQLITE if options.sqlite else Deployment.POSTGRES
    print(f"seed {options.seed}, {deployment}", flush=True)
    seeds = list_seeds(options.count, options.seed)
    folder = Path(tempfile.mkdtemp(prefix="headrace-runs-", dir="/tmp"))
    report, begin = RunReport(), time.monotonic()
    # An interrupted run prints the report of the histories that have ended.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: report.stopping.set())
    with closing(Catalog(folder / "catalog")) as catalog:
        try:
            play_all(folder, catalog, deployment, seeds, report)
        finally:
            end({driver.process for driver in find_drivers(folder)} | processes_of(folder))
    _print_report(report, time.monotonic() - begin)
    if report.violations:
        print(f"The logs and stores are kept in {folder}.")
    else:
        shutil.rmtree(folder)
    return int(bool(report.violations))


def _print_report(report: RunReport, seconds: float) -> None:
    print(f"\n{report.count} histories of {_TIMES} runs in {seconds:.0f} s")
    print(f"{sum(report.actions.values())} faults:")
    for (action, side, point), count in sorted(report.actions.items()):
        print(f"{count:5}  {action:12} {side:13} {point}")
    print(f"{len(report.violations)} violations")
    for violation in report.violations:
        print(violation)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
