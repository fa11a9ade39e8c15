"""Checks of the configuration in a request for a session or statement."""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import InvalidSetting
from headrace.model.ctas_options import ATOMICITY_KEY, TRIGGER_KEY, Atomicity, Trigger

_SPARK_PREFIXES = ("spark.", "hive.")
_OPTIONS: dict[str, Callable[[str], object]] = {
    ATOMICITY_KEY: Atomicity.parse,
    TRIGGER_KEY: Trigger.parse,
}
"""Headrace's own options of sessions and statements, with the parser of each value."""


def check_conf(conf: dict[str, str]) -> None:
    """Raise InvalidSetting for a key that is not allowed, or an invalid value of an option.

    Allowed are keys of Spark, except those below `spark.headrace.`, and options of Headrace.
    """
    for key, value in conf.items():
        if key in _OPTIONS:
            _OPTIONS[key](value)
        elif not key.startswith(_SPARK_PREFIXES):
            raise InvalidSetting(
                f"Unknown setting {key!r}. Spark configuration begins with 'spark.' or 'hive.'; "
                f"the other settings are {', '.join(sorted(_OPTIONS))}."
            )
        if key.startswith("spark.headrace."):
            raise InvalidSetting(f"Only Headrace sets {key!r}.")
