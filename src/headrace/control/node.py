"""A node's life: what it holds, how it starts, and how it ends."""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry

from headrace import __version__
from headrace.control.driver_link.service import DriverLinkService
from headrace.control.expiry import Expiry
from headrace.control.host.idle_shutdown import IdleShutdown
from headrace.control.host.metastore import Metastore
from headrace.control.launchers import installed
from headrace.control.launchers.base import Launcher
from headrace.control.launchers.registry import LauncherRegistry
from headrace.control.metrics import StoreMetrics
from headrace.control.periodic_tasks import Sweeper
from headrace.control.retention import Retention
from headrace.control.sessions.forced_cancel import ForcedCancels
from headrace.control.sessions.launch import Launches
from headrace.control.sessions.service import Sessions, close_session
from headrace.control.sessions.takeover import Takeovers
from headrace.control.sessions.warm_pool import WarmPool
from headrace.control.statements.node_statements import NodeStatements
from headrace.control.statements.submission import Submissions
from headrace.errors import StoreUnavailable
from headrace.model.ids import new_id
from headrace.model.lifecycle import NodeState, SessionState
from headrace.model.session import Session
from headrace.private_files import write_private
from headrace.settings import Settings
from headrace.store import nodes, sessions
from headrace.store.database import Database

_LOG = logging.getLogger("headrace.node")
_CLOSE_SECONDS = 15.0


class Node:
    """One server process. It answers for everything in its store."""

    def __init__(
        self,
        settings: Settings,
        *,
        address: str,
        embedded: bool,
        launchers: Sequence[Launcher] = (),
    ) -> None:
        """Opens and migrates the store; drivers are started by `launchers`, default Headrace's own.

        Raises StoreInUse, StoreUnavailable, SchemaTooNew, InvalidSetting.
        """
        self.settings = settings
        self.address = address
        self.embedded = embedded
        self.id = _node_id(settings.home)
        self.token = secrets.token_urlsafe(32) if embedded else settings.token
        self.database = Database.open(
            settings.store_url,
            pool_size=settings.store.pool_size,
            connect_timeout=settings.store.connect_timeout.total_seconds(),
        )
        self.database.migrate()
        self._locals = NodeStatements(self.database, settings, node_id=self.id)
        self.link = DriverLinkService(self.database, settings, self._locals)
        self.sessions = Sessions(self.database, settings)
        self.submissions = Submissions(self.database, settings, self._locals)
        self.metrics = CollectorRegistry()
        StoreMetrics(self.database, self.metrics)
        self._backends = LauncherRegistry(launchers or installed.launchers(settings), self.metrics)
        self._takeovers = Takeovers(
            self.database, settings, node_id=self.id, backends=self._backends
        )
        self._metastore = _metastore(settings)
        self.launches = self._make_launches()
        self._commands = IdleShutdown(settings.home, settings.embedded.linger.total_seconds())
        self._sweeper = self._make_sweeper()
        self._end: Callable[[], None] = lambda: None

    def start(self, *, end: Callable[[], None]) -> None:
        """Registers the node and begins to sweep; `end` asks the server to stop."""
        self._end = end
        with self.database.write() as tx:
            nodes.register(
                tx,
                self.id,
                address=self.address,
                version=__version__,
                seconds=self.settings.lease.duration.total_seconds(),
            )
        self.database.listen()
        self._backends.announce([self.address])
        self._sweeper.start()
        write_private(self._node_file, json.dumps(self._described()))
        _LOG.info("node %s serves %s from %s", self.id, self.address, self.database.dialect)

    def stop(self) -> None:
        """Ends what lives in this process; drivers live on, unless the node is embedded."""
        self._node_file.unlink(missing_ok=True)
        self._sweeper.stop()
        try:
            if self.embedded:
                self._close_everything()
            with self.database.write() as tx:
                nodes.transition(tx, self.id, NodeState.GONE, actor=self.id)
        except StoreUnavailable as error:
            _LOG.error("the store does not answer at the end: %s", error.message)
        self._takeovers.stop()
        if self._metastore is not None:
            self._metastore.stop() if self.embedded else self._metastore.release()
        self.database.close()

    def _make_launches(self) -> Launches:
        return Launches(
            self.database,
            self.settings,
            node_id=self.id,
            address=self.address,
            backends=self._backends,
            takeovers_=self._takeovers,
            metastore=self._metastore,
        )

    def _make_sweeper(self) -> Sweeper:
        database, settings = self.database, self.settings
        return Sweeper(
            database,
            settings,
            node_id=self.id,
            takeovers=self._takeovers,
            launches=self.launches,
            retention=Retention(database),
            expiry=Expiry(database, node_id=self.id),
            stuck=ForcedCancels(database, settings, self._takeovers),
            local_statements=self._locals,
            warm=WarmPool(database, settings, node_id=self.id),
            after_round=self._end_if_unused,
        )

    @property
    def _node_file(self) -> Path:
        return self.settings.home.absolute() / "node.json"

    def _described(self) -> dict[str, str | int | bool | None]:
        return {
            "address": self.address,
            "token": self.token,
            "pid": os.getpid(),
            "node_id": self.id,
            "version": __version__,
            "embedded": self.embedded,
        }

    def _end_if_unused(self) -> None:
        if self.embedded and self._commands.gone(self.database):
            _LOG.info("no command uses this node any more: it ends")
            self._end()

    def _close_everything(self) -> None:
        """Ends the drivers of an embedded node. Sessions with a name are rebuilt when needed."""
        with self.database.write() as tx:
            live = sessions.live(tx)
            kept = [one for one in live if one.name is not None and _outlives(one)]
            for session in live:
                if session not in kept and session.state is not SessionState.CLOSING:
                    close_session(tx, session, actor=self.id)
        for session in kept:
            self._takeovers.declare_lost(session.id, session.epoch, "its node has ended")
        deadline = time.monotonic() + _CLOSE_SECONDS
        while time.monotonic() < deadline and any(map(self._is_there, self._driven())):
            time.sleep(0.1)
        for session in self._driven():
            self._takeovers.declare_lost(session.id, session.epoch, "its node has ended")

    def _driven(self) -> list[Session]:
        """Sessions that a driver answers for."""
        with self.database.read() as tx:
            return [one for one in sessions.live(tx) if one.lease_until is not None]

    def _is_there(self, session: Session) -> bool:
        return session.handle is not None and self._backends.poll(session.handle).alive


def _outlives(session: Session) -> bool:
    """Whether a session can be rebuilt without its driver."""
    return session.driver is None or bool(session.driver.get("keeps_tables"))


def _node_id(home: Path) -> str:
    file = home.absolute() / "node-id"
    if not file.exists():
        write_private(file, new_id("no"))
    return file.read_text().strip()


def _metastore(settings: Settings) -> Metastore | None:
    if settings.catalog.kind != "managed":
        return None
    return Metastore(
        settings.home,
        warehouse=settings.warehouse,
        linger_seconds=settings.embedded.linger.total_seconds(),
    )
