"""Configuration of a Spark session that lasts for a part of a statement, and what SQL may SET."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.config.conf_policy import ConfRule
from headrace.driver.spark_version.session_state import install_rules
from headrace.model.headrace_options import CONF_OPTIONS


class SettingRules:
    """The rules of one Spark application. Thread-safe."""

    def __init__(self, session: SparkSession, rules: Sequence[ConfRule]) -> None:
        self._session = session
        self._rules = rules
        self._lock = threading.Lock()
        self._is_active = False

    def activate(self) -> None:
        """Apply the rules to the session and to its later clones. Raises Py4JError.

        Call this before each statement that may SET something. It takes a tenth of a second at the
        first call, which a session of queries saves.
        """
        with self._lock:
            if not self._is_active:
                apply_rules(self._session, self._rules)
                self._is_active = True


def apply_rules(session: SparkSession, rules: Sequence[ConfRule]) -> None:
    """Let Spark check the options of Headrace, and refuse SET as the rules say."""
    options = {
        key: (option.type.pattern, f"Allowed values: {option.type.allowed}.", option.doc)
        for key, option in CONF_OPTIONS.items()
    }
    install_rules(session, options, [(rule.pattern, _describe(rule)) for rule in rules])


def _describe(rule: ConfRule) -> str:
    """Return the message of the Java exception, in the form that `failures` reads."""
    if rule.code is None:
        return ""
    return f"[{rule.code} {{key}}] {rule.message} {rule.hint}".rstrip()


_LOCK = threading.Lock()
_private: dict[int, dict[str, str | None]] = {}
"""By the identity of a session: keys that its clones do not inherit, with their earlier values."""


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
