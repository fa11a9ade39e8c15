"""A real node as a process of its own, with whatever drivers it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from tests.support.processes import end, processes_of
from tests.support.waiting import wait_until

ENDED = {"success", "failed", "timeout", "cancelled"}


class NodeProcess:
    """`headrace serve` on a free port."""

    def __init__(
        self, home: Path, *, environment: dict[str, str] | None = None, **settings: str
    ) -> None:
        """Start a node with `settings` as environment variables, for example STORE__URL."""
        self.home = home
        self._settings = {f"HEADRACE_{key}": value for key, value in settings.items()}
        self._settings |= environment or {}
        self.start()

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        self.home.mkdir(parents=True, exist_ok=True)
        file = self.home / "node.json"
        file.unlink(missing_ok=True)
        with (self.home / "node.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace.api", "--port", "0", "--home", str(self.home)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "HEADRACE_EMBEDDED__LINGER": "0s", **self._settings},
                start_new_session=True,
            )

        def is_up() -> bool:
            assert self.process.poll() is None, (self.home / "node.log").read_text()
            return file.exists()

        wait_until(is_up, seconds=60, what="the node is up")
        self.address = json.loads(file.read_text())["address"]
        self.http = httpx.Client(base_url=self.address, timeout=120)
        wait_until(self.is_ready, seconds=60, what="the node is ready")

    def is_ready(self) -> bool:
        try:
            return self.http.get("/ready").is_success
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """SIGKILL: the node gets no chance to say goodbye."""
        self.process.kill()
        self.process.wait()
        self.http.close()

    def stop(self) -> None:
        """SIGTERM, and the end in order."""
        self.http.close()
        self.process.terminate()
        self.process.wait(timeout=30)

    def session(self, **fields: Any) -> str:
        """Open a session and return its id."""
        answer = self.http.post("/api/v1/sessions", json=fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def submit(self, text: str, session: str | None = None, **fields: Any) -> dict[str, Any]:
        """Submit a statement and return the response of the node."""
        body = {"statement": text, **fields} | ({"session": session} if session else {})
        answer = self.http.post("/api/v1/statements", json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def run(self, text: str, session: str | None = None, **fields: Any) -> dict[str, Any]:
        """Submit a statement and wait for a terminal state."""
        statement = self.submit(text, session, wait_timeout="60s", **fields)
        while statement["state"] not in ENDED:
            statement = self.statement(statement["id"], wait_timeout="60s")
        return statement

    def rows(self, text: str, session: str | None = None, **fields: Any) -> list[list[Any]]:
        """Run a statement that must succeed and return its rows, with inexact numbers as text."""
        statement = self.run(text, session, **fields)
        assert statement["state"] == "success", statement
        rows: list[list[Any]] = []
        chunk: int | None = 0
        while chunk is not None:
            page = self.result(statement["id"], chunk=chunk)
            rows += page["rows"]
            chunk = page["next_chunk"]
        return rows

    def statement(self, statement_id: str, **query: Any) -> dict[str, Any]:
        answer = self.http.get(f"/api/v1/statements/{statement_id}", params=query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def result(self, statement_id: str, **query: Any) -> dict[str, Any]:
        answer = self.http.get(f"/api/v1/statements/{statement_id}/result", params=query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def session_state(self, session: str) -> str:
        return str(self.http.get(f"/api/v1/sessions/{session}").json()["state"])

    def wait_running(self, session: str, *, seconds: float = 120) -> None:
        """Until the session's driver is up."""

        def is_running() -> bool:
            state = self.session_state(session)
            if state in {"failed", "dead"}:
                raise AssertionError(self.http.get(f"/api/v1/sessions/{session}/log").text)
            return state == "running"

        wait_until(is_running, seconds=seconds, what=f"session {session} runs")

    def close(self) -> None:
        """Close every session, stop the node and delete its home."""
        if self.process.poll() is None:
            for one in self._live_sessions():
                self.http.delete(f"/api/v1/sessions/{one}")
            wait_until(lambda: not self._live_sessions(), seconds=60, what="sessions have ended")
            self.stop()
        try:
            wait_until(lambda: not processes_of(self.home), seconds=30, what="all have ended")
        except AssertionError:
            end(processes_of(self.home))
            raise

    def _live_sessions(self) -> list[str]:
        query = {"state": ["not_started", "starting", "running", "closing"]}
        page = self.http.get("/api/v1/sessions", params=query).json()
        return [one["id"] for one in page["items"]]
