"""The state of a session: captured when it has changed, restored by the next driver.

A snapshot travels in the report of a statement. A variable can hold a value of any size, and a node
accepts reports of 16 MiB, so a part that is too large is listed as unsaved instead.
docs/guides/sessions.md lists what outlives a driver and what does not.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.failures import describe_failure
from headrace.driver.spark_version.application import make_first_plan
from headrace.driver.spark_version.session_state import (
    RESOURCE_KINDS,
    RestorableState,
    restore_namespace,
)
from headrace.model.session import MAX_PARTS, EntryForm, Snapshot, SnapshotEntry
from headrace.model.text import MAX_SUMMARY, cut_text, limit_descriptions

_LOG = logging.getLogger("headrace.state")


class SnapshotRestore:
    """One restore of one snapshot. If a part fails, the other parts are restored all the same."""

    def __init__(self, session: SparkSession, state: RestorableState, snapshot: Snapshot) -> None:
        self._session = session
        self._state = state
        self._snapshot = snapshot
        self._lost: dict[str, str] = {}
        self.lost_namespace: PySparkException | Py4JError | None = None
        """Why the current catalog or database could not be restored; None: it was."""

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
        present = self._state.capture_resources()
        for kind in RESOURCE_KINDS:
            for uri in getattr(self._snapshot, kind):
                if uri in present[kind]:
                    continue
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
        self.lost_namespace = self._try(what, action)

    def _try(self, what: str, action: Callable[[], object]) -> PySparkException | Py4JError | None:
        """Restore a part. Return the error of Spark if it is lost, else None."""
        try:
            action()
        except (Py4JError, PySparkException) as error:
            reason = describe_failure(error, "").message.partition("\n")[0]
            self._add_lost(what, cut_text(reason, MAX_SUMMARY))
            return error
        return None

    def _add_lost(self, what: str, reason: str) -> None:
        _LOG.warning("not restored: %s: %s", what, reason)
        self._lost[what] = reason


class SessionStateTracker:
    """Compares a session with its state at the start of its driver, and with the last report."""

    def __init__(self, session: SparkSession, *, shares_application: bool = False) -> None:
        """Record the state of the session, before the first statement that may change it.

        Args:
            shares_application: Whether other sessions of the application have states of their own.
                Global temporary views belong to all of them, and are in the state of none.
        """
        self._session = session
        self._shares_application = shares_application
        self._state = RestorableState(session)
        self.lost_namespace: PySparkException | Py4JError | None = None
        """Why `restore` could not make the current database current again; None: it could."""
        self.has_unreported = False
        """Whether the session has state that no report has: it would be lost with the session."""
        # Extensions add settings and functions.
        make_first_plan(session)
        self._initial_conf = self._state.read_conf()
        self._initial_resources = self._state.capture_resources()
        self._initial_unsaved: list[str] = []
        snapshot = self.capture()
        self._initial_unsaved = snapshot.unsaved
        self._reported: Snapshot | None = snapshot.model_copy(update={"unsaved": []})

    def report_next(self) -> None:
        """Let the next call of `capture_changes` return the state even if it has not changed."""
        self._reported = None

    def capture_changes(self) -> Snapshot | None:
        """Return the state if it differs from the state that was last returned, else None.

        The first call compares with the state at the start. Raises Py4JError.
        """
        self.has_unreported = True
        snapshot = self.capture()
        self.has_unreported = bool(snapshot.unsaved)
        if snapshot == self._reported:
            return None
        self._reported = snapshot
        return snapshot

    def capture(self) -> Snapshot:
        """Return the current state, within the limits of a snapshot. Raises Py4JError."""
        current = self._state.capture(with_global_views=not self._shares_application)
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
        if self._shares_application:
            snapshot = snapshot.model_copy(update={"global_views": []})
        restore = SnapshotRestore(self._session, self._state, snapshot)
        lost = restore.run()
        self.lost_namespace = restore.lost_namespace
        # Another session may have added them before: they are a part of this state all the same.
        self._initial_resources = {
            kind: [uri for uri in uris if uri not in getattr(snapshot, kind)]
            for kind, uris in self._initial_resources.items()
        }
        self._reported = self.capture()
        return lost


PART_LIMIT = 4 * 1024 * 1024
"""Largest number of bytes of one setting, variable, function or view in JSON."""
TOTAL_LIMIT = 8 * 1024 * 1024
"""Largest number of bytes of all these parts in JSON."""

_KINDS = {
    "variables": "variable",
    "functions": "function",
    "views": "view",
    "global_views": "view",
}
"""Lists of entries in a snapshot, with the word for one entry."""
_RESOURCES = {"jars": "jar", "files": "file", "archives": "archive"}
"""Lists of resources in a snapshot, with the word for one resource."""

T = TypeVar("T")


def limit_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without the parts that are too large, which it lists as unsaved.

    Args:
        snapshot: A snapshot of any size, which `model_construct` has made.
    """
    budget = _Budget()
    conf = dict(budget.limit("setting", snapshot.conf.items(), lambda item: item))
    entries: dict[str, list[SnapshotEntry]] = {
        field: budget.limit(kind, getattr(snapshot, field), _texts_of)
        for field, kind in _KINDS.items()
    }
    resources: dict[str, list[str]] = {
        field: budget.limit(kind, getattr(snapshot, field), lambda uri: [uri])
        for field, kind in _RESOURCES.items()
    }
    return Snapshot(
        catalog=snapshot.catalog,
        namespace=snapshot.namespace,
        conf=conf,
        **entries,
        **resources,
        unsaved=limit_descriptions(snapshot.unsaved + budget.refused),
    )


def _texts_of(entry: SnapshotEntry) -> Sequence[str | None]:
    view = None if entry.view is None else entry.view.model_dump_json()
    return entry.name, entry.body, entry.default, view


class _Budget:
    """The bytes that the parts of a snapshot may still take."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        """Descriptions of the parts that were not accepted."""
        self._remaining = TOTAL_LIMIT

    def limit(
        self, kind: str, parts: Iterable[T], texts_of: Callable[[T], Sequence[str | None]]
    ) -> list[T]:
        """Return the parts that are accepted.

        Args:
            kind: What each part is.
            texts_of: Returns the texts of a part, the name first.
        """
        kept = list[T]()
        for part in parts:
            texts = texts_of(part)
            what = f"{kind} {texts[0]}"
            if len(kept) == MAX_PARTS:
                self._refuse(what, f"a snapshot holds at most {MAX_PARTS:,} parts of a kind")
            elif self._accepts(what, texts):
                kept.append(part)
        return kept

    def _accepts(self, what: str, texts: Sequence[str | None]) -> bool:
        """Return whether a part is accepted, and describe it if it is not."""
        size = len(json.dumps(texts))
        if size <= min(PART_LIMIT, self._remaining):
            self._remaining -= size
            return True
        reason = (
            f"it is larger than {PART_LIMIT >> 20} MiB"
            if size > PART_LIMIT
            else f"the state of the session is larger than {TOTAL_LIMIT >> 20} MiB"
        )
        self._refuse(what, reason)
        return False

    def _refuse(self, what: str, reason: str) -> None:
        self.refused.append(f"{cut_text(what, MAX_SUMMARY)}: {reason}")
