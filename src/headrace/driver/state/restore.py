"""Restores a snapshot in the session of a new driver."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.failures import describe_failure
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.state import functions, namespace, resources, variables, views
from headrace.model.session import EntryForm, Snapshot, SnapshotEntry
from headrace.model.text import MAX_SUMMARY, cut_text

_LOG = logging.getLogger("headrace.state")


class SnapshotRestore:
    """One restore of one snapshot. If a part fails, the other parts are restored all the same."""

    def __init__(self, session: SparkSession, jvm: Py4JBridge, snapshot: Snapshot) -> None:
        self._session = session
        self._jvm = jvm
        self._snapshot = snapshot
        self._lost: dict[str, str] = {}

    def run(self) -> list[str]:
        """Restore the snapshot, and return a description of each part that was lost.

        Jars come first: other parts may need their classes. The current database comes last,
        because a restored setting may define its catalog.
        """
        jvm, snapshot = self._jvm, self._snapshot
        self._restore_resources()
        self._restore_conf()
        self._restore_entries("variable", snapshot.variables, partial(variables.restore, jvm))
        self._restore_entries("function", snapshot.functions, partial(functions.restore, jvm))
        restore_global = partial(views.restore, jvm, is_global=True)
        self._restore_entries("view", snapshot.global_views, restore_global)
        restore_local = partial(views.restore, jvm, is_global=False)
        self._restore_entries("view", snapshot.views, restore_local)
        self._restore_namespace()
        return snapshot.unsaved + [f"{what}: {reason}" for what, reason in self._lost.items()]

    def _restore_resources(self) -> None:
        for kind in resources.KINDS:
            for uri in getattr(self._snapshot, kind):
                what = f"{kind.removesuffix('s')} {uri}"
                self._try(what, partial(resources.restore, self._jvm, kind, uri))
                # Spark raises no error for a jar that it cannot add, but only logs it.
                if uri not in resources.capture(self._jvm)[kind] and what not in self._lost:
                    self._add_lost(what, "Spark did not add it")

    def _restore_conf(self) -> None:
        conf = self._session.conf
        for key, value in self._snapshot.conf.items():
            self._try(f"setting {key}", partial(conf.set, key, value))

    def _restore_entries(
        self, kind: str, entries: list[SnapshotEntry], restore: Callable[[SnapshotEntry], None]
    ) -> None:
        for entry in entries:
            is_sql = entry.form is EntryForm.SQL
            action: Callable[[], object] = (
                partial(self._session.sql, entry.body) if is_sql else partial(restore, entry)
            )
            self._try(f"{kind} {entry.name}", action)

    def _restore_namespace(self) -> None:
        snapshot = self._snapshot
        what = f"current database {'.'.join([snapshot.catalog, *snapshot.namespace])}"
        action = partial(namespace.restore, self._session, snapshot.catalog, snapshot.namespace)
        self._try(what, action)

    def _try(self, what: str, action: Callable[[], object]) -> None:
        try:
            action()
        except (Py4JError, PySparkException) as error:
            reason = describe_failure(error, "").message.partition("\n")[0]
            self._add_lost(what, cut_text(reason, MAX_SUMMARY))

    def _add_lost(self, what: str, reason: str) -> None:
        _LOG.warning("not restored: %s: %s", what, reason)
        self._lost[what] = reason
