"""Tracks the state of a session, to report a snapshot whenever the state has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.conf_overrides import keep_private, set_conf
from headrace.driver.failures import describe_failure
from headrace.driver.spark_version.application import make_first_plan
from headrace.driver.spark_version.session_state import (
    RESOURCE_KINDS,
    RestorableState,
    restore_namespace,
)
from headrace.driver.state.limits import limit_snapshot
from headrace.model.session import EntryForm, Snapshot, SnapshotEntry
from headrace.model.text import MAX_SUMMARY, cut_text

_LOG = logging.getLogger("headrace.state")


class SnapshotRestore:
    """One restore of one snapshot. If a part fails, the other parts are restored all the same."""

    def __init__(self, session: SparkSession, state: RestorableState, snapshot: Snapshot) -> None:
        self._session = session
        self._state = state
        self._snapshot = snapshot
        self._lost: dict[str, str] = {}

    def run(self) -> list[str]:
        """Restore the snapshot, and return a description of each part that was lost.

        Jars come first: other parts may need their classes. The current database comes last,
        because a restored setting may define its catalog.
        """
        state, snapshot = self._state, self._snapshot
        self._restore_resources()
        self._restore_conf()
        self._restore_entries("variable", snapshot.variables, state.restore_variable)
        self._restore_entries("function", snapshot.functions, state.restore_function)
        restore_global = partial(state.restore_view, is_global=True)
        self._restore_entries("view", snapshot.global_views, restore_global)
        restore_local = partial(state.restore_view, is_global=False)
        self._restore_entries("view", snapshot.views, restore_local)
        self._restore_namespace()
        return snapshot.unsaved + [f"{what}: {reason}" for what, reason in self._lost.items()]

    def _restore_resources(self) -> None:
        for kind in RESOURCE_KINDS:
            for uri in getattr(self._snapshot, kind):
                what = f"{kind.removesuffix('s')} {uri}"
                self._try(what, partial(self._state.restore_resource, kind, uri))
                # Spark raises no error for a jar that it cannot add, but only logs it.
                if uri not in self._state.capture_resources()[kind] and what not in self._lost:
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
        action = partial(restore_namespace, self._session, snapshot.catalog, snapshot.namespace)
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


class SessionStateTracker:
    """Compares a session with its state at the start of its driver, and with the last report."""

    def __init__(self, session: SparkSession) -> None:
        """Record the state of the session, before the first statement that may change it."""
        self._session = session
        self._state = RestorableState(session)
        # Extensions add settings and functions.
        make_first_plan(session)
        self._initial_conf = self._state.read_conf()
        self._initial_resources = self._state.capture_resources()
        self._initial_unsaved: list[str] = []
        snapshot = self.capture()
        self._initial_unsaved = snapshot.unsaved
        self._reported = snapshot.model_copy(update={"unsaved": []})

    def capture_changes(self) -> Snapshot | None:
        """Return the state if it differs from the state that was last returned, else None.

        The first call compares with the state at the start. Raises Py4JError.
        """
        snapshot = self.capture()
        if snapshot == self._reported:
            return None
        self._reported = snapshot
        return snapshot

    def capture(self) -> Snapshot:
        """Return the current state, within the limits of a snapshot. Raises Py4JError."""
        current = self._state.capture()
        added = {
            kind: [
                uri for uri in getattr(current, kind) if uri not in self._initial_resources[kind]
            ]
            for kind in RESOURCE_KINDS
        }
        conf = {
            key: value
            for key, value in current.conf.items()
            if self._initial_conf.get(key) != value
        }
        unsaved = [entry for entry in current.unsaved if entry not in self._initial_unsaved]
        snapshot = current.model_copy(update={"conf": conf, "unsaved": unsaved, **added})
        return limit_snapshot(snapshot)

    def restore(self, snapshot: Snapshot) -> list[str]:
        """Restore a snapshot, and return a description of each part that could not be restored."""
        lost = SnapshotRestore(self._session, self._state, snapshot).run()
        self._reported = self.capture()
        return lost


def clone_session(session: SparkSession) -> SparkSession:
    """Return a session with the same state and its own settings, for a concurrent query.

    Spark's `cloneSession` copies neither variables nor the current catalog. Raises Py4JError.
    """
    original = RestorableState(session)
    with keep_private(session) as earlier_conf:
        clone = original.clone()
        set_conf(clone, earlier_conf)
    state = RestorableState(clone)
    state.copy_variables(original)
    current = original.capture_namespace()
    if state.capture_namespace() != current:
        restore_namespace(clone, *current)
    return clone
