"""Checks of the configuration in a request for a session or statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from headrace.conf_policy import ConfPolicy
from headrace.errors import InvalidSetting, SettingDenied
from headrace.model.ctas_options import (
    ATOMICITY_KEY,
    TRIGGER_KEY,
    WRITES_ATOMICITY_KEY,
    Atomicity,
    Trigger,
)
from headrace.model.retry_policy import read_retry_policy
from headrace.model.session import SessionSpec

_SPARK_PREFIXES = ("spark.", "hive.")
_RETRY_PREFIX = "spark.headrace.retry."
_OPTIONS: dict[str, Callable[[str], object]] = {
    ATOMICITY_KEY: Atomicity.parse,
    WRITES_ATOMICITY_KEY: lambda value: Atomicity.parse(value, WRITES_ATOMICITY_KEY),
    TRIGGER_KEY: Trigger.parse,
}
"""Headrace's own options of sessions and statements, with the parser of each value."""


def check_conf(conf: Mapping[str, str], policy: ConfPolicy) -> None:
    """Check the configuration that a caller wants to set.

    Allowed are keys of Spark, and options of Headrace. Below `spark.headrace.`, only the keys of
    the retry policy are allowed.

    Raises:
        InvalidSetting: For a key that does not exist, or an invalid value of an option.
        SettingDenied: For a key that the policy reserves for the operator.
    """
    for key, value in conf.items():
        if key in _OPTIONS:
            _OPTIONS[key](value)
        elif not key.startswith(_SPARK_PREFIXES):
            raise InvalidSetting(
                f"Unknown setting {key!r}. Spark configuration begins with 'spark.' or 'hive.'; "
                f"the other settings are {', '.join(sorted(_OPTIONS))}."
            )
        if key.startswith("spark.headrace.") and not key.startswith(_RETRY_PREFIX):
            raise InvalidSetting(f"Only Headrace sets {key!r}.")
        _check_policy(key, policy)
    read_retry_policy({}, conf)


def check_session_conf(spec: SessionSpec, policy: ConfPolicy) -> None:
    """Check the configuration of a session, with its artifacts. Raise as `check_conf` does.

    spark-submit reads artifacts as the account of the node, so they are checked like the keys of
    Spark for which they stand.
    """
    check_conf({**artifact_conf(spec), **spec.conf}, policy)


def artifact_conf(spec: SessionSpec) -> dict[str, str]:
    """Return the keys of Spark for the jars, files and Python files of a session."""
    artifacts = {
        "spark.jars": spec.jars,
        "spark.files": spec.files,
        "spark.submit.pyFiles": spec.py_files,
    }
    return {key: ",".join(locations) for key, locations in artifacts.items() if locations}


def _check_policy(key: str, policy: ConfPolicy) -> None:
    if key in policy.force:
        raise SettingDenied(
            f"{key!r} has a value that the operator of the node has set for every session "
            "(conf_policy.force)."
        )
    denying = next((pattern for pattern in policy.deny if fnmatchcase(key, pattern)), None)
    if denying is None or any(fnmatchcase(key, pattern) for pattern in policy.allow):
        return
    raise SettingDenied(
        f"{key!r} is reserved for the operator of the node (pattern {denying!r} of "
        "conf_policy.deny).",
        hint="use a profile that sets the key, or ask the operator to list it in conf_policy.allow",
    )
