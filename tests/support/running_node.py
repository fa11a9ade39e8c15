"""A real node within the test's process: its store, its sweeper, and HTTP on a free port."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from tests.support.scripted_driver import ScriptedDriver, ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.api.app import create_app
from headrace.control.node import Node
from headrace.settings import Settings
from headrace.store import events
from headrace.store.database import Database

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that serves, and the client that a test talks to it by."""

    node: Node
    launcher: ScriptedLauncher
    http: httpx.Client

    @property
    def address(self) -> str:
        return self.node.context.address

    @property
    def database(self) -> Database:
        return self.node.database

    def new_session(self, **body: Any) -> str:
        """Open a session whose driver has not started and return its id."""
        response = self.http.post("/api/v1/sessions", json=body)
        assert response.status_code == 201, response.text
        session_id: str = response.json()["id"]
        return session_id

    def driven_session(self, **body: Any) -> tuple[str, ScriptedDriver]:
        """Open a session and connect its driver."""
        session_id = self.new_session(**body)
        driver = self.launcher.connect_driver(session_id)
        assert driver.hello().applied
        return session_id, driver

    def submit(self, statement: str = "SELECT 1 AS x", **body: Any) -> Json:
        """Submit a statement and return it."""
        response = self.http.post("/api/v1/statements", json={"statement": statement, **body})
        assert response.status_code == 201, response.text
        return self._object(response)

    def statement(self, statement_id: str, **query: str) -> Json:
        """Return the current statement."""
        response = self.http.get(f"/api/v1/statements/{statement_id}", params=query)
        assert response.status_code == 200, response.text
        return self._object(response)

    @contextmanager
    def storing_nothing(self) -> Iterator[None]:
        """Fails when the block makes a session, or makes or changes a statement."""
        with self.database.read() as tx:
            before = events.last(tx)
        yield
        with self.database.read() as tx:
            made = events.read(tx, after=before, limit=1000)
        # Sessions of other tests may start meanwhile.
        assert [one for one in made if one.entity == "statement" or one.source is None] == []

    @staticmethod
    def _object(response: httpx.Response) -> Json:
        value: Json = response.json()
        return value


def settings_for(home: Path, **changes: Any) -> Settings:
    """Return settings of a node without a catalog and with long time limits, plus `changes`.

    Sections are merged with what is set here.
    """
    merged: Json = {"catalog": {"kind": "memory"}, "lease": {"duration": "10m"}}
    for name, value in changes.items():
        known = merged.get(name)
        merged[name] = {**known, **value} if isinstance(known, dict) else value
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("HEADRACE_"):
                patch.delenv(name)
        patch.setenv("HEADRACE_CONFIG", str(home / "none.toml"))
        return Settings(home=home, **merged)


@contextmanager
def running_node(
    settings: Settings, launcher: ScriptedLauncher | None = None
) -> Iterator[RunningNode]:
    """Run a server during the block."""
    launcher = launcher or ScriptedLauncher()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        node = Node(settings, address=address, embedded=False, launchers=[launcher])
        app = create_app(node)
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        node.start(request_stop=lambda: None)
        thread.start()
        try:
            wait_until(lambda: server.started, what="the node listens")
            with httpx.Client(
                base_url=address, trust_env=False, verify=False, timeout=30
            ) as client:
                yield RunningNode(node, launcher, client)
        finally:
            app.state.long_polls.release()
            server.should_exit = True
            launcher.close()
            thread.join(20)
            node.stop()
        assert not thread.is_alive()
