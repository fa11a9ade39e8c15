"""The configuration with which a client opens a session, most of it from its JDBC URL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.frontends.hiveserver2.handles import ClientOption
from headrace.model.connection import ConnectionSpec
from headrace.model.headrace_options import is_own_key

_PREFIXES = ("set:hiveconf:", "set:hivevar:", "set:system:")
"""Prefixes of keys. The key behind one may be that of a setting, or the name of a variable."""
_DATABASE, _CATALOG = "use:database", "use:catalog"
_FOREIGN = ("hive.", "kyuubi.", "mapred.", "mapreduce.", "tez.", "use:", "set:")
"""Beginnings of the keys of other servers, which clients and tools send without being asked."""
_DEFAULT = "default"
_OPTIONS = {
    ("headrace.join_running", "true"): ClientOption.JOIN,
    ("headrace.hive_show", "true"): ClientOption.HIVE_SHOW,
    ("kyuubi.operation.result.format", "arrow"): ClientOption.ARROW,
}
"""Settings of a session that this front end reads itself, with the value that turns them on."""
_OWN = frozenset(key for key, _value in _OPTIONS)


def read_configuration(configuration: Mapping[str, str]) -> tuple[ConnectionSpec, ClientOption]:
    """Return what a client wants of its connection. Keys of other servers have no effect."""
    options = ClientOption.NONE
    for name, value in _list_settings(configuration):
        options |= _OPTIONS.get((name, value.lower()), ClientOption.NONE)
    database = configuration.get(_DATABASE)
    conf = read_conf(configuration)
    # A key without a prefix names a setting: it may be misspelt.
    variables = [name for name in conf if name not in configuration and _is_variable(name)]
    spec = ConnectionSpec(
        catalog=configuration.get(_CATALOG) or None,
        database=None if database in {None, "", _DEFAULT} else database,
        variables={name: conf.pop(name) for name in variables},
        conf=conf,
    )
    return spec, options


def read_conf(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of Spark that a client has sent, with variables."""
    return {
        name: value
        for name, value in _list_settings(configuration)
        if name and name not in _OWN and not name.startswith(_FOREIGN)
    }


def _is_variable(name: str) -> bool:
    """Return whether a key is the name of a variable, which Hive and Spark do not know."""
    return bool(name) and not is_own_key(name) and not name.startswith(("spark.", *_FOREIGN))


def _list_settings(configuration: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the keys without their prefixes, and the values."""
    for key, value in configuration.items():
        name = key
        for prefix in _PREFIXES:
            name = name.removeprefix(prefix)
        yield name, value
