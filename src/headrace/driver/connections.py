"""The Spark sessions of connections: several clients of one owner share the driver.

The state of a connection is in the store. A driver keeps the Spark session of a connection between
two statements, with the id of the statement whose changes it has reported last. If the store names
another statement, a report was lost or another driver has run one: then the driver opens a new
session with the state of the store.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.failures import describe_failure
from headrace.driver.secret_values import SecretValues
from headrace.driver.spark import Spark
from headrace.driver.spark_version.session_state import (
    read_namespace,
    restore_namespace,
    set_initial_conf,
)
from headrace.errors import ConnectionNotFound, CurrentDatabaseUnavailable, InvalidSetting
from headrace.grammar.lexer import code_tokens
from headrace.grammar.metadata import split_namespace
from headrace.model.connection import ConnectionSpec, ConnectionState
from headrace.model.messages import Assignment

_MAX_KEPT = 500
"""Connections whose Spark session is kept."""
_UNSAVED_SECONDS = 8 * 3600.0
"""As long as `sessions.connection_idle_timeout`, after which a connection is closed."""
_WORDS_OF_USE = 10
"""Tokens of a USE that are searched for the dot between a catalog and a database."""
_IDLE_SECONDS = 300.0
"""A session that is unused for longer is dropped: its client may have closed the connection."""


class ConnectionSource(Protocol):
    """Where the states of connections come from: the link to a node."""

    def open_connection(self, statement_id: str) -> ConnectionState | None:
        """Return the connection of a statement in flight; None if it does not exist any more."""


@dataclass(eq=False)
class ConnectionSession:
    """The Spark session of a connection, for one statement at a time."""

    id: str
    spark: Spark
    changed_by: str | None
    """The statement whose changes were reported last; None: the state is that of the start."""
    lost: list[str] = field(default_factory=list)
    """Descriptions of what could not be restored, for the note of the next statement."""
    has_database: bool = True
    """Whether its current catalog and database are those of the connection."""
    unused_since: float = 0.0

    def take_lost(self) -> list[str]:
        """Return what could not be restored. Only the first call does."""
        lost, self.lost = self.lost, []
        return lost


class ConnectionSessions:
    """The Spark sessions of one driver, by connection. Thread-safe."""

    def __init__(
        self, spark: Spark, link: ConnectionSource, *, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        self._spark = spark
        self._link = link
        self._idle_seconds = idle_seconds
        self._kept: OrderedDict[str, ConnectionSession] = OrderedDict()
        """The sessions that no statement uses, the longest unused one first."""
        self._lock = threading.Lock()

    def take(self, assignment: Assignment, secrets: SecretValues) -> ConnectionSession:
        """Return the session of a statement's connection. The statement alone uses it.

        Raises:
            ConnectionNotFound: The connection does not exist any more.
            CurrentDatabaseUnavailable: Its current database cannot be made current, and the
                statement does not choose another one.
            InvalidSetting: Spark refuses a setting with which the client has connected.
            KnownFailure: Such a setting refers to a secret that cannot be used.
        """
        assigned = assignment.connection
        assert assigned is not None
        with self._lock:
            kept = self._kept.pop(assigned.id, None)
        if kept is not None and kept.changed_by == assigned.changed_by:
            return kept
        state = self._link.open_connection(assignment.statement_id)
        if state is None:
            raise ConnectionNotFound(
                f"The connection {assigned.id} was closed, and its state is gone. Connect again."
            )
        return self._open(state, secrets, assignment.text)

    def keep(self, session: ConnectionSession) -> None:
        """Keep a session for the next statement of its connection."""
        session.unused_since = time.monotonic()
        with self._lock:
            self._kept[session.id] = session
            self._kept.move_to_end(session.id)
            if len(self._kept) > _MAX_KEPT:
                others = [key for key in self._kept if key != session.id]
                saved = (key for key in others if _is_saved(self._kept[key]))
                del self._kept[next(saved, others[0])]

    def drop_unused(self) -> None:
        """Drop the sessions that were unused for some minutes, if the store has all their state.

        Drop the others after some hours.
        """
        now = time.monotonic()
        latest = now - self._idle_seconds
        with self._lock:
            for session in list(self._kept.values()):
                if session.unused_since > latest:
                    break
                if _is_saved(session) or session.unused_since < now - _UNSAVED_SECONDS:
                    del self._kept[session.id]

    def _open(self, state: ConnectionState, secrets: SecretValues, text: str) -> ConnectionSession:
        """Open the session of a connection for a statement with this text."""
        self._spark.prepare_changes()
        spark = self._spark.with_own_session()
        # Spark looks for a variable among the settings, and puts its value into texts: it is no
        # place for a secret.
        conf = {**state.spec.variables, **secrets.resolve_conf(state.spec.conf)}
        _set_conf(spark.session, conf)
        opened = ConnectionSession(state.id, spark, state.changed_by)
        if state.snapshot is None:
            error = _enter_first(spark.session, state.spec)
        else:
            tracker = spark.track_state()
            opened.lost = tracker.restore(secrets.resolve_snapshot(state.snapshot))
            error = tracker.lost_namespace
        if error is None:
            return opened
        catalog = state.spec.catalog if state.snapshot is None else state.snapshot.catalog
        has_catalog = catalog in {None, read_namespace(spark.session)[0]}
        if not _chooses_database(text, has_catalog=has_catalog):
            raise _explain(error, state)
        opened.has_database = False
        # Also if the statement chooses the database that happens to be current now.
        spark.track_state().report_next()
        return opened


def _is_saved(session: ConnectionSession) -> bool:
    """Return whether the store has all the state of a session."""
    return not session.spark.has_unreported_state


def _set_conf(session: SparkSession, conf: dict[str, str]) -> None:
    """Set the configuration with which the client has connected."""
    try:
        set_initial_conf(session, conf)
    except PySparkException as error:
        message = describe_failure(error, "").message
        raise InvalidSetting(f"Spark refuses a setting of the connection: {message}") from error


def _enter_first(
    session: SparkSession, spec: ConnectionSpec
) -> PySparkException | Py4JError | None:
    """Make the first catalog and database of a connection current. Return the error, or None."""
    if spec.catalog is None and spec.database is None:
        return None
    try:
        catalog = spec.catalog or read_namespace(session)[0]
        namespace = [] if spec.database is None else split_namespace(spec.database)
        restore_namespace(session, catalog, namespace)
    except (PySparkException, Py4JError) as error:
        return error
    return None


def _explain(
    error: PySparkException | Py4JError, state: ConnectionState
) -> CurrentDatabaseUnavailable:
    """Return the error of a statement that would run in another database than its connection."""
    reason = describe_failure(error, "")
    names = (
        [state.spec.catalog, state.spec.database]
        if state.snapshot is None
        else [state.snapshot.catalog, *state.snapshot.namespace]
    )
    place = ".".join(name for name in names if name)
    refusal = CurrentDatabaseUnavailable(
        f"The current database of the connection, {place}, cannot be used: {reason.message}"
        " Choose another one with USE catalog.database or SET CATALOG, or connect again."
    )
    return refusal.with_condition(reason.condition, reason.sqlstate)


def _chooses_database(text: str, *, has_catalog: bool) -> bool:
    """Return whether a statement is a USE or a SET CATALOG.

    Args:
        has_catalog: Whether the current catalog is that of the connection. If not, USE must name a
            catalog: a database of the same name in another catalog is another one.
    """
    words = [token.word for token in islice(code_tokens(text), _WORDS_OF_USE)]
    if words[:2] == ["SET", "CATALOG"]:
        return words[2:3] != ["="]
    return words[:1] == ["USE"] and (has_catalog or "." in words)
