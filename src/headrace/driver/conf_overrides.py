"""Configuration of a Spark session that lasts for one statement or for a part of one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

_LOCK = threading.Lock()
_private: dict[int, dict[str, str | None]] = {}
"""By the identity of a session: keys that its clones do not inherit, with their earlier values."""


@contextmanager
def override_conf(
    session: SparkSession, overrides: Mapping[str, str], *, is_private: bool = False
) -> Iterator[None]:
    """Set the configuration of a session, and restore the earlier one afterwards.

    Args:
        is_private: Whether clones of the session keep the earlier configuration (`keep_private`).
    """
    previous: dict[str, str | None] = {key: session.conf.get(key, None) for key in overrides}
    try:
        with _LOCK:
            if is_private:
                _private[id(session)] = previous
            set_conf(session, overrides)
        yield
    finally:
        with _LOCK:
            set_conf(session, previous)
            if is_private:
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
