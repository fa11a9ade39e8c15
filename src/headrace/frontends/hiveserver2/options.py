"""The configuration with which a client opens a session, most of it from its JDBC URL."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.connection import ConnectionSpec

_CONF_PREFIX = "set:hiveconf:"
_VARIABLE_PREFIX = "set:hivevar:"
_DATABASE, _CATALOG = "use:database", "use:catalog"
_FOREIGN = ("hive.", "kyuubi.", "mapred.", "mapreduce.", "tez.")
"""Beginnings of the keys of other servers, which clients and tools send without being asked."""


def read_configuration(configuration: Mapping[str, str]) -> ConnectionSpec:
    """Return the specification of the session that a client opens."""
    conf = {}
    for key, value in configuration.items():
        name = key.removeprefix(_CONF_PREFIX)
        if key.startswith(_VARIABLE_PREFIX) or key.startswith("use:"):
            continue
        if not name.startswith(_FOREIGN) and not key.startswith("set:") or key != name:
            if not name.startswith(_FOREIGN):
                conf[name] = value
    database = configuration.get(_DATABASE)
    return ConnectionSpec(
        catalog=configuration.get(_CATALOG) or None,
        database=None if database in {None, "", "default"} else database,
        conf=conf,
    )
