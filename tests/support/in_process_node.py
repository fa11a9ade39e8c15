"""A node in the process of the test, with scripted drivers; its database can be read directly."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, update
from tests.support.node_client import Json, NodeClient
from tests.support.run_cleanup import run_folder
from tests.support.scripted_driver import ScriptedDriver, ScriptedLauncher
from tests.support.store import migrate, set_present_since
from tests.support.waiting import wait_until

from headrace.config.settings import Settings
from headrace.control.node import Node
from headrace.frontends.app import create_app
from headrace.frontends.http.server import HttpServer
from headrace.frontends.http.tls import ServerTls
from headrace.frontends.servers import Server, Servers
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.tables import events as event_table
from headrace.store.tables import sessions as session_table


class InProcessNode(NodeClient):
    """A node that serves HTTP on a free port, and the launcher of its drivers."""

    def __init__(self, node: Node, launcher: ScriptedLauncher, http: httpx.Client) -> None:
        self.node = node
        self.launcher = launcher
        self.http = http

    @property
    def address(self) -> str:
        return self.node.context.address

    @property
    def database(self) -> Database:
        return self.node.database

    def start_session(self, **fields: Any) -> tuple[str, ScriptedDriver]:
        """Create a session, connect its driver, and return both. The session is running."""
        session_id = self.session(**fields)
        driver = self.launcher.connect_driver(session_id)
        assert driver.hello().applied
        return session_id, driver

    def fail_session(self, session_id: str, driver: ScriptedDriver) -> None:
        """Let a session fail because its driver says that Spark did not start."""
        assert driver.report_spark_failure().applied
        wait_until(lambda: self.session_state(session_id) == "failed", what="the session fails")

    def let_judge(self) -> None:
        """Let the node judge drivers, as one that has been present for a lease.

        The first sweep of the node must have begun.
        """
        with self.database.write("test.judge") as tx:
            set_present_since(tx, self.node.id, clock(-3600))

    def expire_lease(self, session_id: str, *, epoch: int = 1) -> None:
        """End the lease of a driver, of its start or of its takeover, unless the epoch is over.

        With a short lease, a driver would also be lost while the process of the tests is paused.
        """
        self.let_judge()
        with self.database.write("test.expire") as tx:
            own = (session_table.c.id == session_id, session_table.c.epoch == epoch)
            driven = update(session_table).where(*own, session_table.c.lease_until.is_not(None))
            tx.execute(driven.values(lease_until=clock(-3600)))

    @contextmanager
    def expect_no_changes(self) -> Iterator[None]:
        """Fail if the block creates a session, or creates or changes a statement."""
        # Readers of the log do not see new events while a transaction of another test is open.
        rows = select(event_table.c.entity, event_table.c.source, event_table.c.actor)
        with self.database.read() as tx:
            before = tx.execute(select(func.coalesce(func.max(event_table.c.id), 0))).scalar_one()
        yield
        with self.database.read() as tx:
            new_rows = tx.execute(rows.where(event_table.c.id > before)).all()
        # Background work may still start or end sessions of earlier tests. Its actor is the node:
        # a lease of ten minutes may end, and with it the statements of a driver.
        assert [
            row
            for row in new_rows
            if row.source is None or (row.entity == "statement" and row.actor != self.node.id)
        ] == []


@contextmanager
def watch_polls(node: InProcessNode) -> Iterator[threading.Event]:
    """Yield an event that is set whenever the node has read the store for a poll."""
    link, answered = node.node.driver_link, threading.Event()
    poll = link.poll

    def poll_and_set(*arguments: Any) -> Any:
        polled = poll(*arguments)
        answered.set()
        return polled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link, "poll", poll_and_set)
        yield answered


ARTIFACTS_ALLOWED = {"allow": ["spark.jars", "spark.files", "spark.submit.pyFiles"]}
"""Conf policy of a node whose callers may name jars, files and Python files for their sessions."""

StartNode = Callable[..., InProcessNode]
"""Type of the fixture `start_node`."""


def make_settings(home: Path, **changes: Any) -> Settings:
    """Return settings of a node without a catalog, with time limits that outlast a slow test.

    The node needs no token, unless the changes contain one.

    Args:
        changes: Sections of the settings; they are merged with the defaults of this function.
    """
    lease = {"duration": "10m", "cancel_grace": "10m"}
    http = {"auth": "token" in changes}
    # All tests of a process share a node, and leave sessions in it.
    limits = {"sessions": None, "sessions_per_user": None}
    policy = {"allow": ["spark.a", "spark.b", "spark.x", "spark.y"]}
    merged: Json = {"catalog": {"kind": "memory"}, "lease": lease, "http": http, "limits": limits}
    merged["conf_policy"] = policy
    merged["store"] = {"connect_timeout": "30s"}
    for name, value in changes.items():
        section = merged.get(name)
        merged[name] = {**section, **value} if isinstance(section, dict) else value
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("HEADRACE_"):
                patch.delenv(name)
        patch.setenv("HEADRACE_CONFIG", str(home / "none.toml"))
        return Settings(home=home, **merged)


def _create_store(settings: Settings) -> None:
    """Give a new home a migrated store: a copy takes less time than the statements."""
    if settings.store.url is None:
        store = settings.home / "headrace.db"
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not store.exists():
            shutil.copy(_migrated_store(), store)


@functools.cache
def _migrated_store() -> Path:
    """Return a migrated file that this process copies."""
    file = run_folder() / f"migrated-{os.getpid()}.db"
    migrate(f"sqlite:///{file}")
    return file


@contextmanager
def serve_node(
    settings: Settings,
    launcher: ScriptedLauncher | None = None,
    *,
    others: Sequence[ScriptedLauncher] = (),
    embedded: bool = False,
    more_servers: Callable[[Node], Sequence[Server]] = lambda _node: (),
) -> Iterator[InProcessNode]:
    """Start a node, serve it during the block, and stop it.

    Args:
        launcher: Launcher of the backend `local`; None: a new one.
        others: Launchers of other backends.
        more_servers: Returns the servers of the node besides that of HTTP.
    """
    launcher = launcher or ScriptedLauncher()
    _create_store(settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        scheme = "http" if settings.tls.cert is None else "https"
        address = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        tls = None if settings.tls.cert is None else ServerTls(settings.tls, address)
        node = Node(settings, address=address, embedded=embedded, launchers=[launcher, *others])
        http = HttpServer(create_app(node, tls), settings.http, listener, tls)
        servers = Servers(node, [http, *more_servers(node)], loop_factory=http.loop_factory)
        thread = threading.Thread(target=servers.run, daemon=True)
        node.start(request_stop=lambda: None)
        thread.start()
        try:
            assert servers.started.wait(60), "the node does not listen"
            node.announce()
            headers = {"Authorization": f"Bearer {node.token}"} if embedded else {}
            verify = node.context.client_tls.make_context() if tls else False
            with httpx.Client(
                base_url=address, headers=headers, trust_env=False, verify=verify, timeout=120
            ) as client:
                yield InProcessNode(node, launcher, client)
        finally:
            servers.request_stop()
            for each in (launcher, *others):
                each.close()
            thread.join(60)
            node.stop()
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessNode]:
    """Serve a node on SQLite for the whole run; every test has sessions of its own in it."""
    with serve_node(make_settings(tmp_path_factory.mktemp("node"))) as node:
        yield node


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[StartNode]:
    """Return a function that starts a node: `start_node(lease={"sweep": "1h"})`."""
    with ExitStack() as stack:

        def start(
            launcher: ScriptedLauncher | None = None, *, as_embedded: bool = False, **changes: Any
        ) -> InProcessNode:
            settings = make_settings(tmp_path / "node", **changes)
            return stack.enter_context(serve_node(settings, launcher, embedded=as_embedded))

        yield start
