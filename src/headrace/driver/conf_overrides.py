"""Configuration of a Spark session that lasts for one statement or for a part of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def override_conf(session: SparkSession, overrides: dict[str, str]) -> Iterator[None]:
    """Set the configuration of a session, and restore the earlier one afterwards."""
    conf = session.conf
    previous: dict[str, str | None] = {key: conf.get(key, None) for key in overrides}
    try:
        for key, value in overrides.items():
            conf.set(key, value)
        yield
    finally:
        for key, old_value in previous.items():
            if old_value is None:
                conf.unset(key)
            else:
                conf.set(key, old_value)
