"""The Spark sessions of connections: several clients of one owner share the driver."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict

from pyspark.errors import PySparkException

from headrace.driver.secret_values import SecretValues
from headrace.driver.spark import Spark
from headrace.driver.spark_version.session_state import restore_namespace
from headrace.errors import InvalidSetting
from headrace.grammar.metadata import split_namespace
from headrace.model.connection import ConnectionState

_LOG = logging.getLogger("headrace.driver")
_MAX_OPEN = 500
"""Connections whose Spark session is kept. That of another one is restored from the store."""
_CATALOG = "spark_catalog"


class ConnectionSessions:
    """The Spark sessions of one driver, by connection. Thread-safe.

    The statements of a connection run one after the other, so that no session is opened twice.
    """

    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self._open: OrderedDict[str, Spark] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, connection: ConnectionState, secrets: SecretValues) -> Spark:
        """Return the Spark of a connection, with a session that is opened if it is not known.

        Raises InvalidSetting if Spark refuses what the client has said when it connected, and
        Py4JError.
        """
        with self._lock:
            known = self._open.get(connection.id)
            if known is not None:
                self._open.move_to_end(connection.id)
                return known
        self._spark.prepare_changes()
        opened = self._spark.with_own_session()
        _apply(opened, connection)
        if connection.snapshot is not None:
            snapshot = secrets.resolve_snapshot(connection.snapshot)
            lost = opened.track_state().restore(snapshot)
            if lost:
                _LOG.warning("connection %s: not restored: %s", connection.id, "; ".join(lost))
        with self._lock:
            self._open[connection.id] = opened
            while len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)
        return opened


def _apply(spark: Spark, connection: ConnectionState) -> None:
    """Set what the client has said when it connected."""
    spec = connection.spec
    try:
        # Spark looks for a variable among the settings.
        for key, value in {**spec.variables, **spec.conf}.items():
            spark.session.conf.set(key, value)
        if spec.catalog is not None or spec.database is not None:
            namespace = [] if spec.database is None else split_namespace(spec.database)
            restore_namespace(spark.session, spec.catalog or _CATALOG, namespace)
    except PySparkException as error:
        raise InvalidSetting(f"Spark refuses the connection: {error}") from None
