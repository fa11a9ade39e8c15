"""The configuration with which a client opens a session, most of it from its JDBC URL."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.connection import ConnectionSpec

_PREFIXES = ("set:hiveconf:", "set:hivevar:", "set:system:")
_DATABASE, _CATALOG = "use:database", "use:catalog"
_FOREIGN = ("hive.", "kyuubi.", "mapred.", "mapreduce.", "tez.", "use:", "set:")
"""Beginnings of the keys of other servers, which clients and tools send without being asked."""
_DEFAULT = "default"


def read_configuration(configuration: Mapping[str, str]) -> ConnectionSpec:
    """Return what a client wants of its connection. Keys of other servers have no effect."""
    conf = {}
    for key, value in configuration.items():
        name = key
        for prefix in _PREFIXES:
            name = name.removeprefix(prefix)
        if name and not name.startswith(_FOREIGN):
            conf[name] = value
    database = configuration.get(_DATABASE)
    return ConnectionSpec(
        catalog=configuration.get(_CATALOG) or None,
        database=None if database in {None, "", _DEFAULT} else database,
        conf=conf,
    )
