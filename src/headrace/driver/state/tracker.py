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
from headrace.driver.spark_version import session_state
from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.driver.spark_version.commit_protocol import without_selection
from headrace.driver.state.limits import limit_snapshot
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
        self._restore_entries(
            "variable", snapshot.variables, partial(session_state.restore_variable, jvm)
        )
        self._restore_entries(
            "function", snapshot.functions, partial(session_state.restore_function, jvm)
        )
        restore_global = partial(session_state.restore_view, jvm, is_global=True)
        self._restore_entries("view", snapshot.global_views, restore_global)
        restore_local = partial(session_state.restore_view, jvm, is_global=False)
        self._restore_entries("view", snapshot.views, restore_local)
        self._restore_namespace()
        return snapshot.unsaved + [f"{what}: {reason}" for what, reason in self._lost.items()]

    def _restore_resources(self) -> None:
        for kind in session_state.RESOURCE_KINDS:
            for uri in getattr(self._snapshot, kind):
                what = f"{kind.removesuffix('s')} {uri}"
                self._try(what, partial(session_state.restore_resource, self._jvm, kind, uri))
                # Spark raises no error for a jar that it cannot add, but only logs it.
                if (
                    uri not in session_state.capture_resources(self._jvm)[kind]
                    and what not in self._lost
                ):
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
        action = partial(
            session_state.restore_namespace, self._session, snapshot.catalog, snapshot.namespace
        )
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
        self._jvm = Py4JBridge(session)
        # The first plan of a session loads the extensions, which add settings and functions.
        self._jvm.session.sql("SELECT 1")
        self._initial_conf = self._read_conf()
        self._initial_resources = session_state.capture_resources(self._jvm)
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
        jvm, conf = self._jvm, self._read_conf()
        added = {
            kind: [uri for uri in uris if uri not in self._initial_resources[kind]]
            for kind, uris in session_state.capture_resources(jvm).items()
        }
        current_catalog, current_namespace = session_state.capture_namespace(jvm)
        function_entries, unsaved_functions = session_state.capture_functions(jvm)
        view_entries, unsaved_views = session_state.capture_views(jvm)
        global_view_entries, unsaved_global_views = session_state.capture_global_views(jvm)
        unsaved = unsaved_functions + unsaved_views + unsaved_global_views
        snapshot = Snapshot.model_construct(
            conf={
                key: value for key, value in conf.items() if self._initial_conf.get(key) != value
            },
            catalog=current_catalog,
            namespace=current_namespace,
            variables=session_state.capture_variables(jvm),
            functions=function_entries,
            views=view_entries,
            global_views=global_view_entries,
            unsaved=[entry for entry in unsaved if entry not in self._initial_unsaved],
            jars=added["jars"],
            files=added["files"],
            archives=added["archives"],
        )
        return limit_snapshot(snapshot)

    def restore(self, snapshot: Snapshot) -> list[str]:
        """Restore a snapshot, and return a description of each part that could not be restored."""
        lost = SnapshotRestore(self._session, self._jvm, snapshot).run()
        self._reported = self.capture()
        return lost

    def _read_conf(self) -> dict[str, str]:
        return without_selection(self._jvm.java_map(self._jvm.session.conf().getAllAsJava()))


def clone_session(session: SparkSession) -> SparkSession:
    """Return a session with the same state and its own settings, for a concurrent query.

    Spark's `cloneSession` copies neither variables nor the current catalog. Raises Py4JError.
    """
    original = Py4JBridge(session)
    with keep_private(session) as earlier_conf:
        clone = SparkSession(session.sparkContext, original.session.cloneSession())
        set_conf(clone, earlier_conf)
    jvm = Py4JBridge(clone)
    session_state.copy_variables(original, jvm)
    current = session_state.capture_namespace(original)
    if session_state.capture_namespace(jvm) != current:
        session_state.restore_namespace(clone, *current)
    return clone
