"""The rules on what SQL may SET in the sessions of a driver.

The JVM applies the rules, so that they also hold for EXECUTE IMMEDIATE and in scripts. Python code
of users, which runs inside the driver, can get around them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from headrace.config.conf_policy import ConfRule
from headrace.driver.java_source import compile_java
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.model.session_options import CONF_OPTIONS


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
    jvm, java = Py4JBridge(session), load_session_conf(session)
    options = CONF_OPTIONS.values()
    java.register(
        jvm.array(list(CONF_OPTIONS)),
        jvm.array([option.type.pattern for option in options]),
        jvm.array([f"Allowed values: {option.type.allowed}." for option in options]),
        jvm.array([option.doc for option in options]),
    )
    java.install(
        jvm.session,
        jvm.array([rule.pattern for rule in rules]),
        jvm.array([_describe(rule) for rule in rules]),
    )


def load_session_conf(session: SparkSession) -> Any:
    """Return the Java object that works on the configuration of sessions."""
    return compile_java(Py4JBridge(session).root, "headrace.driver", "SessionConf")


def _describe(rule: ConfRule) -> str:
    """Return the message of the Java exception, in the form that `failures` reads."""
    if rule.code is None:
        return ""
    return f"[{rule.code} {{key}}] {rule.message} {rule.hint}".rstrip()
