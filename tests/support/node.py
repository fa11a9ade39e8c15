"""A node that runs as a process of its own and starts real drivers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
from tests.support.node_client import ENDED, NodeClient
from tests.support.processes import end, processes_of
from tests.support.waiting import wait_until

from headrace.client.tls import ClientTls

__all__ = ["ENDED", "NodeProcess", "bearer"]


def bearer(home: Path) -> dict[str, str]:
    """Return the header with the token of the node of a home; no header if it needs no token."""
    description = json.loads((home / "node.json").read_text())
    token_file = home / "token"
    token = description.get("token") or (token_file.read_text() if token_file.exists() else None)
    return {"Authorization": f"Bearer {token}"} if token else {}


class NodeProcess(NodeClient):
    """`headrace serve` on a free port."""

    def __init__(
        self,
        home: Path,
        *,
        python: str = sys.executable,
        environment: dict[str, str] | None = None,
        port: int = 0,
        **settings: str,
    ) -> None:
        """Start the node. `settings` are environment variables without HEADRACE_: STORE__URL.

        Args:
            port: 0: a free one, and another one after each start.
        """
        self.home = home
        self._port = str(port)
        self._python = python
        # The tests are the operator, who may set every key.
        self._settings = {
            "HEADRACE_CONF_POLICY__DENY": "[]",
            "HEADRACE_CONF_POLICY__ALLOW": '["*"]',
        }
        self._settings |= {f"HEADRACE_{key}": value for key, value in settings.items()}
        self._settings |= environment or {}
        self.start()

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        self.home.mkdir(parents=True, exist_ok=True)
        file = self.home / "node.json"
        file.unlink(missing_ok=True)
        log_file = self.home / "node.log"
        log_file.touch(mode=0o600)
        home = str(self.home)
        with log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [self._python, "-m", "headrace.frontends", "--port", self._port, "--home", home],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "HEADRACE_EMBEDDED__LINGER": "0s", **self._settings},
                start_new_session=True,
            )

        def is_up() -> bool:
            assert self.process.poll() is None, (self.home / "node.log").read_text()
            return file.exists()

        wait_until(is_up, seconds=120, what="the node is up")
        self.address = json.loads(file.read_text())["address"]
        files = ("TLS__CA", "TLS__CLIENT_CERT", "TLS__CLIENT_KEY")
        values = [self._settings.get(f"HEADRACE_{name}") for name in files]
        tls = ClientTls(*(value and Path(value) for value in values))
        self.http = httpx.Client(
            base_url=self.address,
            headers=bearer(self.home),
            verify=tls.make_context() if tls.ca else True,
            timeout=120,
        )
        wait_until(self.is_ready, seconds=120, what="the node is ready")

    @property
    def client_environment(self) -> dict[str, str]:
        """Return the environment of a command that uses this node."""
        token = (self.home / "token").read_text()
        return {**os.environ, "HEADRACE_SERVER": self.address, "HEADRACE_TOKEN": token}

    def is_ready(self) -> bool:
        try:
            return self.http.get("/ready").is_success
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """Kill the process with SIGKILL, so that the node cannot clean up."""
        self.process.kill()
        self.process.wait()
        self.http.close()

    def stop(self) -> None:
        """Stop the node in order, with SIGTERM. Its drivers continue."""
        self.http.close()
        self.process.terminate()
        self.process.wait(timeout=120)

    def close(self) -> None:
        """Close every session and stop the node. Fail if a process of this home remains."""
        if self.process.poll() is None:
            for session in self._live_sessions():
                self.http.delete(f"/api/v1/sessions/{session}")
            wait_until(lambda: not self._live_sessions(), seconds=120, what="sessions have ended")
            self.stop()
        try:
            wait_until(lambda: not processes_of(self.home), seconds=120, what="all have ended")
        except AssertionError:
            end(processes_of(self.home))
            raise

    def _live_sessions(self) -> list[str]:
        query = {"state": ["not_started", "starting", "running", "closing"]}
        page = self.http.get("/api/v1/sessions", params=query).json()
        return [session["id"] for session in page["items"]]
