"""What every node looks after, again and again: launches, lost drivers, expired results."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from headrace.control.expiry import Expiry
from headrace.control.retention import Retention
from headrace.control.sessions.forced_cancel import ForcedCancels
from headrace.control.sessions.launch import Launches
from headrace.control.sessions.takeover import Takeovers
from headrace.control.sessions.warm_pool import WarmPool
from headrace.control.statements.node_statements import NodeStatements
from headrace.errors import StoreUnavailable
from headrace.settings import Settings
from headrace.store import nodes, sessions
from headrace.store.database import Database

_LOG = logging.getLogger("headrace.sweep")
_RETENTION_SECONDS = 60.0


class Sweeper:
    """One thread of a node. A wake-up brings the next round forward."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        node_id: str,
        takeovers: Takeovers,
        launches: Launches,
        retention: Retention,
        expiry: Expiry,
        stuck: ForcedCancels,
        local_statements: NodeStatements,
        warm: WarmPool,
        after_round: Callable[[], None],
    ) -> None:
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._takeovers = takeovers
        self._launches = launches
        self._retention = retention
        self._expiry = expiry
        self._stuck = stuck
        self._locals = local_statements
        self._warm = warm
        self._after_round = after_round
        self._stopping = threading.Event()
        self._away = True
        self._adopted = False
        self._retained_at = 0.0
        self._thread = threading.Thread(target=self._run, name="headrace-sweep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the round in hand."""
        self._stopping.set()
        self._database.notifications.publish(["launch"])
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        period = self._settings.lease.sweep.total_seconds()
        with self._database.notifications.subscribe("launch") as launch:
            while not self._stopping.is_set():
                try:
                    self._round()
                    self._after_round()
                except StoreUnavailable as error:
                    if not self._away:
                        _LOG.error("the store does not answer: %s", error.message)
                    self._away = True
                except Exception:  # noqa: BLE001 - launches and leases must be looked after still
                    _LOG.exception("a sweep failed")
                launch.wait(period)

    def _round(self) -> None:
        lease = self._settings.lease.duration.total_seconds()
        with self._database.write() as tx:
            nodes.renew(tx, self._node_id, lease)
            if self._away:
                # Drivers could not reach a node meanwhile: each gets one full lease to come back.
                sessions.extend_all(tx, node=self._node_id, seconds=lease)
        if self._away:
            _LOG.info("the store answers")
            self._away = False
        if not self._adopted:
            self._launches.adopt()
            self._adopted = True
        self._takeovers.sweep()
        self._expiry.sweep()
        self._stuck.sweep()
        self._locals.run_due()
        self._warm.sweep()
        self._launches.start_pending()
        if time.monotonic() - self._retained_at > _RETENTION_SECONDS:
            self._retention.sweep()
            self._retained_at = time.monotonic()
