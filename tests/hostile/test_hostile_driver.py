"""A driver is a stranger with a valid token: nothing that it sends harms the node or others.

The node runs in a process of its own. Its file accesses and connections are recorded, and the rows
of the sessions B and C are compared before and after.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hostile.forgeries import Forger
from tests.support.made_results import stored_result
from tests.support.node_client import NodeClient
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.api.routes.driver_link import CALLS
from headrace.model.ids import new_id
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import LINK_PREFIX, Bootstrap
from headrace.model.transaction import Staged

ROOT = Path(__file__).parents[2]
CTAS = "CREATE TABLE t AS SELECT 1 AS a"
REFUSALS = {400, 401, 404, 409, 413}
EXAMPLES = 40
MEMORY = 400 * 1024 * 1024
_OF_OTHERS = {
    "sessions": "id IN ({})",
    "statements": "session_id IN ({})",
    "snapshots": "session_id IN ({})",
    "transactions": "session_id IN ({})",
    "pending_hook_calls": "session_id IN ({})",
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
        self.http = httpx.Client(base_url=self.address, trust_env=False, timeout=30)
        self._drivers: list[ScriptedDriver] = []
        self.others = self._make_others()
        self.dead = self._end(self.connect(self.session()))
        self.old = self._supersede()
        self.attacker = self.connect(self.session(parallelism=8))
        self.claimed: list[str] = []

    def connect(self, session_id: str, epoch: int = 1) -> ScriptedDriver:
        """Return the driver of a session, after its `hello`."""
        file = self.control / f"headrace-{session_id}-{epoch}.json"
        wait_until(file.exists, seconds=20, what="the driver is launched")
        driver = ScriptedDriver(Bootstrap.model_validate_json(file.read_text()))
        self._drivers.append(driver)
        assert driver.hello().applied
        return driver

    def top_up(self) -> None:
        """Give the attacker statements in flight, in a new session if the last one has ended."""
        if self.attacker._client.post("/renew", content=b"{}").status_code != 200:
            self.attacker = self.connect(self.session(parallelism=8))
            self.claimed = []
        session_id = self.attacker.bootstrap.session_id
        live = self._live(session_id)
        while len(live) < 3:
            text = CTAS if not live else "SELECT 1 AS x"
            live.append(str(self.submit(text, session=session_id)["id"]))
            self.attacker._client.post("/poll", content=b'{"wait_seconds": 0}')
        self.claimed = live

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

    def _live(self, session_id: str) -> list[str]:
        with sqlite3.connect(f"file:{self.home}/headrace.db?mode=ro", uri=True) as store:
            rows = store.execute(
                "SELECT id FROM statements WHERE session_id = ? AND ended_at IS NULL", (session_id,)
            )
            return [row[0] for row in rows]

    def _make_others(self) -> list[str]:
        """Start B, with a table that is being published, and C, with results and a query."""
        writing, reading = self.connect(self.session(name="B")), self.connect(self.session())
        b, c = writing.bootstrap.session_id, reading.bootstrap.session_id
        statement_id, transaction_id = self.submit(CTAS, session=b)["id"], new_id("tx")
        writing.claim()
        writing.report_start(statement_id)
        staged = Staged(
            kind="session", catalog="spark_catalog", identity="here", target="`d`.`t`", record={}
        )
        steps = (TransactionState.PREPARED, TransactionState.BEGUN, TransactionState.COMMITTING)
        for step in steps:
            assert writing.transact(transaction_id, statement_id, step, staged).applied
        inline = self.submit(session=c)["id"]
        reading.claim()
        reading.succeed(inline)
        stored = self.submit(session=c)["id"]
        location = reading.claim().result_location
        assert location is not None
        report = stored_result(Path(location), [("n", "long")], [[[1]]], chunk_limit=1)
        reading.succeed(stored, report)
        running = self.submit(session=c)["id"]
        reading.claim()
        reading.report_start(running)
        self.submit(session=c)
        return [b, c]

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


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = Target(tmp_path_factory.mktemp("hostile"))
    yield target
    target.close()


@pytest.fixture(autouse=True)
def _nothing_else_changes(target: Target) -> Iterator[None]:
    """Compare what the node must not touch before and after each attack."""
    others, bait, memory = target.read_others(), target.read_bait(), target.memory
    yield
    assert target.process.poll() is None
    assert target.http.get("/ready").status_code == 200
    assert target.serves_requests()
    assert target.read_others() == others
    assert target.read_bait() == bait
    assert target.read_accesses() == ""
    assert target.memory - memory < MEMORY


@pytest.fixture(scope="module")
def forger(target: Target) -> Forger:
    target.top_up()
    bait = target.bait
    texts = [
        *(str(bait / "result"), (bait / "inner").as_uri(), str(bait / "pipe"), "/etc/passwd"),
        *("http://127.0.0.1:9/x", "s3://bucket/x", f"{target.results}/../bait", "`d`.`t`", "here"),
    ]
    return Forger(target.list_ids(), texts)


@pytest.mark.parametrize("token", ["own", "dead session", "old epoch"])
@pytest.mark.parametrize("call", CALLS)
def test_forged_messages_change_nothing_of_others(
    target: Target, forger: Forger, call: str, token: str
) -> None:
    examples = EXAMPLES if token == "own" else EXAMPLES // 6

    @settings(max_examples=examples, database=None)
    @given(st.data())
    def attack(data: st.DataObject) -> None:
        if token == "own":
            target.top_up()
        driver = {"own": target.attacker, "dead session": target.dead}.get(token, target.old)
        message = data.draw(forger.message(CALLS[call].message))
        if "statement_id" in message and data.draw(st.booleans()):
            message["statement_id"] = data.draw(st.sampled_from(target.claimed or ["st_0"]))
        if call == "poll":
            message["wait_seconds"] = 0
        response = driver._client.post(f"/{call}", content=json.dumps(message).encode())
        assert response.status_code in REFUSALS | {200}, response.text
        if token != "own" and response.status_code == 200:
            assert response.json() == {"applied": False} or not response.json().get("applied", True)

    attack()


@pytest.mark.parametrize("call", CALLS)
def test_a_token_opens_no_other_session(target: Target, call: str) -> None:
    token = {"Authorization": f"Bearer {target.attacker.bootstrap.token}"}
    for session_id in (*target.others, target.dead.bootstrap.session_id, new_id("se")):
        for epoch in ("0", "1", "2", "-1", "9" * 5000, "1%00", "x"):
            path = f"{LINK_PREFIX}/{session_id}/{epoch}/{call}"
            assert target.http.post(path, content=b"{}", headers=token).status_code in REFUSALS


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe\0",
        b"[" * 1_000_000,
        b'{"a":' * 500_000,
        b'"' + b"x" * (17 << 20),
        b"[" + b"1," * 4_000_000 + b"1]",
        b'{"x": ' + b"9" * 1_000_000 + b"}",
    ],
    ids=lambda body: f"{body[:8]!r}-{len(body)}",
)
def test_bodies_that_are_no_messages_are_refused(target: Target, body: bytes) -> None:
    target.top_up()
    for call in CALLS:
        response = target.attacker._client.post(f"/{call}", content=body)
        assert response.status_code in REFUSALS


def test_truncated_and_endless_bodies_are_refused(target: Target) -> None:
    target.top_up()
    bootstrap = target.attacker.bootstrap
    url = urlsplit(target.address)
    head = (
        f"POST {LINK_PREFIX}/{bootstrap.session_id}/{bootstrap.epoch}/ended HTTP/1.1\r\n"
        f"Host: {url.netloc}\r\nAuthorization: Bearer {bootstrap.token}\r\n"
    )
    with socket.create_connection((url.hostname, url.port), 30) as truncated:
        truncated.sendall(f'{head}Content-Length: 1000\r\n\r\n{{"statement_id":'.encode())
    with socket.create_connection((url.hostname, url.port), 30) as endless:
        endless.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        block = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
        sent = 0
        try:
            while sent < 64:
                endless.sendall(block)
                sent += 1
        except OSError:
            pass  # The node has refused the body and closed the connection.
        try:
            answer = endless.recv(64)
        except OSError:
            answer = b""
    assert answer == b"" or b" 413 " in answer


def test_forged_files_of_a_result_are_not_followed(target: Target) -> None:
    """The attacker owns the directory of the result and replaces its files."""
    bait = target.bait
    manifest = json.loads((bait / "result" / "manifest.json").read_text())

    def write(place: Path, **changes: Any) -> None:
        forged = {**manifest, **changes}
        (place / "manifest.json").write_text(json.dumps(forged))

    def part(name: str, **changes: Any) -> list[Any]:
        return [{"name": name, "rows": [1], "bytes": [8], **changes}]

    forgeries = [
        lambda place: write(place, parts=part(f"{bait}/result/part-00000.arrow")),
        lambda place: write(place, parts=part("../../bait/result/part-00000.arrow")),
        lambda place: write(place, parts=part("part-00000.arrow", rows=[2**63])),
        lambda place: write(place, parts=part("part-00000.arrow", rows=[2**62])),
        lambda place: write(place, parts=part("part-00000.arrow", rows=[1] * 9, bytes=[0] * 9)),
        lambda place: write(place, chunk_limit=-1),
        lambda place: (place / "manifest.json").symlink_to(bait / "result" / "manifest.json"),
        lambda place: os.mkfifo(place / "manifest.json"),
        lambda place: (
            write(place),
            (place / "part-00000.arrow").symlink_to(bait / "result" / "part-00000.arrow"),
        ),
        lambda place: (write(place), os.mkfifo(place / "part-00000.arrow")),
        lambda place: (place.rmdir(), place.symlink_to(bait / "result")),
    ]
    for forge in forgeries:
        target.top_up()
        session_id = target.attacker.bootstrap.session_id
        for statement_id in target.claimed:
            target.attacker._client.post(
                "/ended", json={"statement_id": statement_id, "state": "failed"}
            )
        target.submit(session=session_id)
        assignment = target.attacker.claim()
        statement_id, place = assignment.statement_id, Path(str(assignment.result_location))
        place.mkdir()
        forge(place)
        report = stored_result(target.folder / new_id("x"), [("n", "long")], [[[1]]], chunk_limit=1)
        assert target.attacker.succeed(statement_id, report).applied
        for format_ in ("json", "arrow", "csv", "parquet"):
            path = f"/api/v1/statements/{statement_id}/result"
            response = target.http.get(path, params={"format": format_})
            assert response.status_code in {410, 502, 503}, response.text
