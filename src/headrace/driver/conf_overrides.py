"""Configuration of a Spark session that lasts for one statement or for a part of one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.setting_rules import load_session_conf

_LOCK = threading.Lock()
_private: dict[int, dict[str, str | None]] = {}
"""By the identity of a session: keys that its clones do not inherit, with their earlier values."""


@contextmanager
def override_for_statement(session: SparkSession, overrides: Mapping[str, str]) -> Iterator[None]:
    """Set the configuration of a session for one statement, and restore the earlier one afterwards.

    A key that the statement itself sets or resets keeps what the statement has done, as every SET.
    Raises PySparkException if Spark refuses a value.
    """
    if not overrides:
        yield
        return
    jvm, java = Py4JBridge(session), load_session_conf(session)
    keys, values = jvm.array(list(overrides)), jvm.array(list(overrides.values()))
    state = java.override(jvm.session, keys, values)
    try:
        yield
    finally:
        java.restore(jvm.session, state)


@contextmanager
def override_privately(session: SparkSession, overrides: Mapping[str, str]) -> Iterator[None]:
    """Set the configuration of a session for a part of a statement, but not for its clones.

    The earlier configuration is restored afterwards. Clones have it too (`keep_private`).
    """
    previous: dict[str, str | None] = {key: session.conf.get(key, None) for key in overrides}
    try:
        with _LOCK:
            _private[id(session)] = previous
            set_conf(session, overrides)
        yield
    finally:
        with _LOCK:
            set_conf(session, previous)
            del _private[id(session)]


@contextmanager
def keep_private(session: SparkSession) -> Iterator[Mapping[str, str | None]]:
    """Let no private key of a session change, and yield the values that a clone must get."""
    with _LOCK:
        yield _private.get(id(session), {})


def set_conf(session: SparkSession, values: Mapping[str, str | None]) -> None:
    """Set each key to its value, or unset it if the value is None."""
    for key, value in values.items():
        if value is None:
            session.conf.unset(key)
        else:
            session.conf.set(key, value)
