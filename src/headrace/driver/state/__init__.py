"""The state of a session: taken after each statement that may change it, rebuilt by a new driver.

How a kind of state is taken and how it is brought back stand side by side, a module for each.
docs/sessions.md says what outlives a driver and what does not.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.state import functions, namespace, resources, variables, views
from headrace.driver.state.restoration import SnapshotRestore
from headrace.model.snapshot import Snapshot


class SessionStateTracker:
    """Compares a session with what it was when its driver started."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._jvm = Py4JBridge(session)
        # Extensions bring settings with the first plan of a session, and functions of their own.
        self._jvm.session.sql("SELECT 1")
        self._conf = self._settings()
        self._resources = resources.capture(self._jvm)
        self._there: list[str] = []
        found = self.take()
        self._there = found.unsaved
        self._told = found.model_copy(update={"unsaved": []})

    def changed(self) -> Snapshot | None:
        """The state, where it is not what was told, or was there at the start. Raises Py4JError."""
        taken = self.take()
        if taken == self._told:
            return None
        self._told = taken
        return taken

    def take(self) -> Snapshot:
        """The state as it is. Raises Py4JError."""
        jvm, settings = self._jvm, self._settings()
        added = {
            kind: [one for one in found if one not in self._resources[kind]]
            for kind, found in resources.capture(jvm).items()
        }
        current_catalog, current_namespace = namespace.capture(jvm)
        own_functions, odd_functions = functions.capture(jvm)
        own_views, odd_views = views.capture(jvm)
        global_views, odd_globals = views.capture_global(jvm)
        return Snapshot(
            conf={key: value for key, value in settings.items() if self._conf.get(key) != value},
            catalog=current_catalog,
            namespace=current_namespace,
            variables=variables.capture(jvm),
            functions=own_functions,
            views=own_views,
            global_views=global_views,
            unsaved=[
                odd for odd in odd_functions + odd_views + odd_globals if odd not in self._there
            ],
            **added,
        )

    def restore(self, snapshot: Snapshot) -> list[str]:
        """Brings back what a snapshot holds; says in words what cannot be."""
        lost = SnapshotRestore(self._session, self._jvm, snapshot).run()
        self._told = self.take()
        return lost

    def branch(self) -> SparkSession:
        """A session of the same state, whose settings are its own: for a query beside others.

        Spark's own copy has neither the variables nor another current catalog. Raises Py4JError.
        """
        copied = SparkSession(self._session.sparkContext, self._jvm.session.cloneSession())
        jvm = Py4JBridge(copied)
        variables.copy(self._jvm, jvm)
        here = namespace.capture(self._jvm)
        if namespace.capture(jvm) != here:
            namespace.restore(copied, *here)
        return copied

    def _settings(self) -> dict[str, str]:
        return self._jvm.java_map(self._jvm.session.conf().getAllAsJava())
