"""Bringing a session back in a new driver: what fails is noted, and the rest goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.failures import failure_of
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.state import functions, namespace, resources, variables, views
from headrace.model.snapshot import EntryForm, Snapshot, SnapshotEntry

_LOG = logging.getLogger("headrace.state")


class SnapshotRestore:
    """One go at a snapshot."""

    def __init__(self, session: SparkSession, jvm: Py4JBridge, snapshot: Snapshot) -> None:
        self._session = session
        self._jvm = jvm
        self._snapshot = snapshot
        self._lost: dict[str, str] = {}

    def run(self) -> list[str]:
        """Says in words what is lost. Jars come first, the current database last."""
        jvm, snapshot = self._jvm, self._snapshot
        self._resources()
        self._settings()
        self._parts("variable", snapshot.variables, partial(variables.restore, jvm))
        self._parts("function", snapshot.functions, partial(functions.restore, jvm))
        to_all = partial(views.restore, jvm, is_global=True)
        self._parts("view", snapshot.global_views, to_all)
        to_session = partial(views.restore, jvm, is_global=False)
        self._parts("view", snapshot.views, to_session)
        self._place()
        return snapshot.unsaved + [f"{what}: {words}" for what, words in self._lost.items()]

    def _resources(self) -> None:
        for kind in resources.KINDS:
            for uri in getattr(self._snapshot, kind):
                what = f"{kind.removesuffix('s')} {uri}"
                self._try(what, partial(resources.restore, self._jvm, kind, uri))
                # Of a jar that it cannot add Spark only writes into its log.
                if uri not in resources.capture(self._jvm)[kind] and what not in self._lost:
                    self._lose(what, "Spark did not add it")

    def _settings(self) -> None:
        conf = self._session.conf
        for key, value in self._snapshot.conf.items():
            self._try(f"setting {key}", partial(conf.set, key, value))

    def _parts(
        self, kind: str, parts: list[SnapshotEntry], bring_back: Callable[[SnapshotEntry], None]
    ) -> None:
        for part in parts:
            by_sql = part.form is EntryForm.SQL
            act: Callable[[], object] = (
                partial(self._session.sql, part.body) if by_sql else partial(bring_back, part)
            )
            self._try(f"{kind} {part.name}", act)

    def _place(self) -> None:
        snapshot = self._snapshot
        what = f"current database {'.'.join([snapshot.catalog, *snapshot.namespace])}"
        act = partial(namespace.restore, self._session, snapshot.catalog, snapshot.namespace)
        self._try(what, act)

    def _try(self, what: str, act: Callable[[], object]) -> None:
        try:
            act()
        except (Py4JError, PySparkException) as error:
            self._lose(what, failure_of(error, "").message.partition("\n")[0])

    def _lose(self, what: str, words: str) -> None:
        _LOG.warning("lost: %s: %s", what, words)
        self._lost[what] = words
