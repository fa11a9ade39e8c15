"""Bringing a session back in a new driver: what fails is noted, and the rest goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.failures import failure_of
from headrace.driver.state import functions, place, resources, variables, views
from headrace.driver.state.jvm import Jvm
from headrace.model.snapshot import Form, Part, Snapshot

_LOG = logging.getLogger("headrace.state")


class Restoration:
    """One go at a snapshot."""

    def __init__(self, session: SparkSession, jvm: Jvm, snapshot: Snapshot) -> None:
        self._session = session
        self._jvm = jvm
        self._snapshot = snapshot
        self._lost: dict[str, str] = {}

    def run(self) -> list[str]:
        """Says in words what is lost. Jars come first, the current database last."""
        jvm, snapshot = self._jvm, self._snapshot
        self._resources()
        self._settings()
        self._parts("variable", snapshot.variables, partial(variables.bring_back, jvm))
        self._parts("function", snapshot.functions, partial(functions.bring_back, jvm))
        to_all = partial(views.bring_back, jvm, is_global=True)
        self._parts("view", snapshot.global_views, to_all)
        to_session = partial(views.bring_back, jvm, is_global=False)
        self._parts("view", snapshot.views, to_session)
        self._place()
        return snapshot.unsaved + [f"{what}: {words}" for what, words in self._lost.items()]

    def _resources(self) -> None:
        for kind in resources.KINDS:
            for uri in getattr(self._snapshot, kind):
                what = f"{kind.removesuffix('s')} {uri}"
                self._try(what, partial(resources.bring_back, self._jvm, kind, uri))
                # Of a jar that it cannot add Spark only writes into its log.
                if uri not in resources.take(self._jvm)[kind] and what not in self._lost:
                    self._lose(what, "Spark did not add it")

    def _settings(self) -> None:
        conf = self._session.conf
        for key, value in self._snapshot.conf.items():
            self._try(f"setting {key}", partial(conf.set, key, value))

    def _parts(self, kind: str, parts: list[Part], bring_back: Callable[[Part], None]) -> None:
        for part in parts:
            by_sql = part.form is Form.SQL
            act: Callable[[], object] = (
                partial(self._session.sql, part.body) if by_sql else partial(bring_back, part)
            )
            self._try(f"{kind} {part.name}", act)

    def _place(self) -> None:
        catalog, namespace = self._snapshot.catalog, self._snapshot.namespace
        what = f"current database {'.'.join([catalog, *namespace])}"
        self._try(what, partial(place.bring_back, self._session, catalog, namespace))

    def _try(self, what: str, act: Callable[[], object]) -> None:
        try:
            act()
        except (Py4JError, PySparkException) as error:
            self._lose(what, failure_of(error, "").message.partition("\n")[0])

    def _lose(self, what: str, words: str) -> None:
        _LOG.warning("lost: %s: %s", what, words)
        self._lost[what] = words
