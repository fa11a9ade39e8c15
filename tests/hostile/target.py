"""The node that is attacked, the sessions of others in it, and the session of the attacker."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
from tests.support.made_results import stored_result
from tests.support.node_client import NodeClient
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.model.ids import new_id
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import Bootstrap
from headrace.model.transaction import Staged, TableWrite

ROOT = Path(__file__).parents[2]
CTAS = "CREATE TABLE t AS SELECT 1 AS a"
_STEPS = (TransactionState.PREPARED, TransactionState.BEGUN, TransactionState.COMMITTING)
_OF_OTHERS = {
    "sessions": "id IN ({})",
    "statements": "session_id IN ({})",
    "snapshots": "session_id IN ({})",
    "transactions": "session_id IN ({})",
    "pending_hook_calls": "session_id IN ({})",
    "table_writes": "session_id IN ({})",
    "results": "statement_id IN (SELECT id FROM statements WHERE session_id IN ({}))",
    "events": "entity_id IN ({0}) OR entity_id IN"
    " (SELECT id FROM statements WHERE session_id IN ({0}) UNION"
    " SELECT id FROM transactions WHERE session_id IN ({0}))",
}


class Target(NodeClient):
    """The attacked node, the sessions B and C of others, and the session A of the attacker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.results, self.bait = folder / "home", folder / "results", folder / "bait"
        self.control = folder / "control"
        for path in (self.home, self.results, self.control, self.bait / "inner"):
            path.mkdir(parents=True)
        (self.bait / "inner" / "data.parquet").write_text("of others")
        stored_result(self.bait / "result", [("n", "long")], [[[1]]], chunk_limit=1)
        os.mkfifo(self.bait / "pipe")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.hostile.node_process"),
                *map(str, (self.home, self.results, self.control)),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
        )
        ready = self.control / "ready.json"
        wait_until(ready.exists, seconds=60, what="the node serves")
        self.address: str = json.loads(ready.read_text())
        self.http = httpx.Client(base_url=self.address, trust_env=False, timeout=60)
        self._drivers: list[ScriptedDriver] = []
        self.others = self._make_others()
        self.dead = self._end(self.connect(self.session()))
        self.old = self._supersede()
        self.make_orphan("here")
        self.attacker = self.connect(self.session(parallelism=8))
        self.claimed: list[str] = []

    def connect(self, session_id: str, epoch: int = 1) -> ScriptedDriver:
        """Return the driver of a session, after its `hello`."""
        file = self.control / f"headrace-{session_id}-{epoch}.json"
        wait_until(file.exists, seconds=60, what="the driver is launched")
        driver = ScriptedDriver(Bootstrap.model_validate_json(file.read_text()))
        self._drivers.append(driver)
        assert driver.hello().applied
        return driver

    def top_up(self) -> None:
        """Give the attacker statements in flight, in a new session if the last one has ended."""
        if not self._may_act(self.attacker):
            self.attacker = self.connect(self.session(parallelism=8))
            self.claimed = []
        session_id = self.attacker.bootstrap.session_id
        live = self._live(session_id)
        while len(live) < 3:
            text = CTAS if not live else "SELECT 1 AS x"
            live.append(str(self.submit(text, session=session_id)["id"]))
            self.attacker._client.post("/poll", content=b'{"wait_seconds": 0}')
        self.claimed = live

    def make_orphan(self, identity: str) -> str:
        """Let a driver exit with a table that it has begun, and return the transaction's id."""
        driver = self.connect(self.session())
        statement_id = self._begin_table(driver, identity, _STEPS[:2])
        driver.goodbye()
        self.http.post(f"/api/v1/statements/{statement_id}/cancel").raise_for_status()

        def orphaned() -> list[Any]:
            page = self.http.get("/api/v1/transactions", params={"orphaned": True}).json()
            return [row["id"] for row in page["items"] if row["statement_id"] == statement_id]

        wait_until(lambda: orphaned() != [], seconds=20, what="the transaction is orphaned")
        return str(orphaned()[0])

    def read_others(self) -> dict[str, list[Any]]:
        """Return all rows of the sessions B and C."""
        names = ", ".join(f"'{session_id}'" for session_id in self.others)
        with sqlite3.connect(f"file:{self.home}/headrace.db?mode=ro", uri=True) as store:
            return {
                table: sorted(
                    store.execute(f"SELECT * FROM {table} WHERE {chosen.format(names)}"), key=repr
                )
                for table, chosen in _OF_OTHERS.items()
            }

    def read_bait(self) -> dict[str, Any]:
        """Return every file outside the home and the results location."""
        return {
            str(path): (path.lstat().st_mode, path.lstat().st_mtime_ns, path.lstat().st_size)
            for path in sorted(self.bait.rglob("*"))
        }

    def read_accesses(self) -> str:
        """Return what the node has touched outside the home and the results location."""
        log = self.control / "accesses.log"
        return log.read_text() if log.exists() else ""

    def list_ids(self) -> list[str]:
        """Return the ids of rows of all sessions."""
        with sqlite3.connect(f"file:{self.home}/headrace.db?mode=ro", uri=True) as store:
            tables = ("sessions", "statements", "transactions")
            return [row[0] for table in tables for row in store.execute(f"SELECT id FROM {table}")]

    def serves_requests(self) -> bool:
        """Return whether lists can be read, and a statement can be submitted."""
        lists = ("statements", "sessions", "transactions", "events", "nodes")
        answers = [self.http.get(f"/api/v1/{name}", params={"limit": 1000}) for name in lists[:3]]
        answers += [self.http.get(f"/api/v1/{name}") for name in lists[3:]]
        answers.append(self.http.post("/api/v1/statements", json={"statement": "SELECT 1"}))
        return all(answer.is_success for answer in answers)

    @property
    def memory(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def close(self) -> None:
        for driver in self._drivers:
            driver.close()
        self.http.close()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def _may_act(self, driver: ScriptedDriver) -> bool:
        """Return whether the session still runs with this driver.

        The store is read, because the node answers a renewal only after it has gathered others.
        """
        query = "SELECT count(*) FROM sessions WHERE id = ? AND epoch = ? AND state = 'running'"
        bootstrap = driver.bootstrap
        with sqlite3.connect(f"file:{self.home}/headrace.db?mode=ro", uri=True) as store:
            [(count,)] = store.execute(query, (bootstrap.session_id, bootstrap.epoch))
        return bool(count)

    def _live(self, session_id: str) -> list[str]:
        with sqlite3.connect(f"file:{self.home}/headrace.db?mode=ro", uri=True) as store:
            rows = store.execute(
                "SELECT id FROM statements WHERE session_id = ? AND ended_at IS NULL", (session_id,)
            )
            return [row[0] for row in rows]

    def _make_others(self) -> list[str]:
        """Start B, with a table that is being published, and C, with results and an INSERT."""
        writing, reading = self.connect(self.session(name="B")), self.connect(self.session())
        b, c = writing.bootstrap.session_id, reading.bootstrap.session_id
        self._begin_table(writing, "here", _STEPS)
        inline = self.submit(session=c)["id"]
        reading.claim()
        reading.succeed(inline)
        stored = self.submit(session=c)["id"]
        location = reading.claim().result_location
        assert location is not None
        report = stored_result(Path(location), [("n", "long")], [[[1]]], chunk_limit=1)
        reading.succeed(stored, report)
        running = self.submit("INSERT INTO t SELECT 1", session=c)["id"]
        reading.claim()
        reading.report_start(running)
        write = TableWrite(location="file:/warehouse/t", table="`d`.`t`", overwrite=False)
        assert reading.begin_write(running, [write]).granted
        self.submit(session=c)
        return [b, c]

    def _begin_table(
        self, driver: ScriptedDriver, identity: str, steps: Sequence[TransactionState]
    ) -> str:
        """Let a driver begin the table of a statement, and return the id of the statement."""
        session_id, transaction_id = driver.bootstrap.session_id, new_id("tx")
        statement_id = str(self.submit(CTAS, session=session_id)["id"])
        driver.claim()
        driver.report_start(statement_id)
        staged = Staged(
            kind="session", catalog="spark_catalog", identity=identity, target="`d`.`t`", record={}
        )
        for step in steps:
            assert driver.transact(transaction_id, statement_id, step, staged).applied
        return statement_id

    def _end(self, driver: ScriptedDriver) -> ScriptedDriver:
        """Let a session end while its driver still has its token."""
        self.submit(CTAS, session=driver.bootstrap.session_id)
        driver.claim()
        driver.report_spark_failure()
        path = f"/api/v1/sessions/{driver.bootstrap.session_id}"
        wait_until(
            lambda: self.http.get(path).json()["state"] == "failed", what="the session has failed"
        )
        return driver

    def _supersede(self) -> ScriptedDriver:
        """Return a driver whose epoch the next launch of its session has superseded."""
        old = self.connect(self.session())
        session_id = old.bootstrap.session_id
        old.goodbye()
        self.submit(session=session_id)
        self.connect(session_id, epoch=3)
        return old
