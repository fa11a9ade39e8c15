"""Checks of the configuration in a request for a session or statement, and in profiles."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.config.conf_policy import ConfPolicy, ConfRule, find_refusal, is_launch_key
from headrace.config.settings import Settings
from headrace.errors import InvalidRequest, InvalidSetting, SettingDenied
from headrace.grammar.secret_references import check_has_no_reference, list_in_conf
from headrace.model.connection import ConnectionSpec
from headrace.model.headrace_options import (
    CONF_OPTIONS,
    OWN_PREFIXES,
    check_conf_option,
    describe_unknown,
    is_own_key,
    list_keys,
)
from headrace.model.retry_policy import read_retry_policy
from headrace.model.session import SessionSpec

_SPARK_PREFIXES = ("spark.", "hive.")


def check_conf(conf: Mapping[str, str], policy: ConfPolicy) -> None:
    """Check the configuration that a caller wants to set.

    Allowed are the keys of Spark that the policy lists, and the options of Headrace with their
    values.

    Raises:
        InvalidSetting: For a key that does not exist, or an invalid value of an option.
        SettingDenied: For a key that the policy does not list, or reserves for the operator.
        InvalidSecretReference: For a malformed reference to a secret.
        SecretMisplaced: For a reference in an option of Headrace.
    """
    list_in_conf(conf)
    for key, value in conf.items():
        if is_own_key(key):
            check_conf_option(key, value)
        elif not key.startswith(_SPARK_PREFIXES):
            raise InvalidSetting(
                f"Unknown setting {key!r}. Spark configuration begins with 'spark.' or 'hive.'."
                f" {describe_unknown(key, CONF_OPTIONS)}"
            )
        refusal = find_refusal(key, policy.request_rules)
        if refusal is not None:
            raise SettingDenied(refusal.refusal(key), hint=refusal.hint or None)
    read_retry_policy({}, conf)


def check_session_conf(spec: SessionSpec, policy: ConfPolicy) -> None:
    """Check the configuration of a session, with its artifacts. Raise as `check_conf` does.

    spark-submit reads artifacts as the account of the node, so they are checked like the keys of
    Spark for which they stand.
    """
    check_conf({**artifact_conf(spec), **spec.conf}, policy)


def check_connection_conf(spec: ConnectionSpec, policy: ConfPolicy) -> None:
    """Check the configuration and the variables of a connection. Raise as `check_conf` does.

    Raise InvalidSetting for a key that acts only when a driver starts: the driver of a connection
    serves all connections of its owner.
    """
    check_conf(spec.conf, policy)
    # Spark keeps variables among the settings of a session.
    for name, value in spec.variables.items():
        refusal = find_refusal(name, policy.rules)
        if refusal is not None:
            raise SettingDenied(refusal.refusal(name), hint=refusal.hint or None)
        check_has_no_reference(value, "A variable")
    for key in filter(is_launch_key, spec.conf):
        raise InvalidSetting(
            f"'{key}' acts only when a driver starts, and the connections of an owner share one.",
            hint="Leave the key out, let the operator set it in the profile, or run the statements"
            " in a session of your own.",
        )


def check_profiles(settings: Settings) -> None:
    """Check the options of Headrace in the profiles. Raise InvalidSetting for an invalid one."""
    forced = {"conf_policy.force": settings.conf_policy.force}
    profiles = {f"profiles.{name}.conf": each.conf for name, each in settings.profiles.items()}
    for place, conf in (profiles | forced).items():
        try:
            list_in_conf(conf)
            for key, value in conf.items():
                if is_own_key(key):
                    check_conf_option(key, value)
            read_retry_policy({}, conf)
        except InvalidRequest as error:
            raise InvalidSetting(f"{place}: {error.message}", hint=error.hint) from error


def list_conf_rules(policy: ConfPolicy) -> list[ConfRule]:
    """Return the rules on the keys that statements may SET: what `check_conf` checks of keys.

    A key of Headrace that does not exist would have no effect, so that it is refused. Spark itself
    accepts every other key.
    """
    known = "|".join(map(re.escape, CONF_OPTIONS))
    prefixes = "|".join(map(re.escape, OWN_PREFIXES))
    own = ConfRule(
        pattern=f"(?s)(?!(?:{known})(?![\\s\\S]))(?i:{prefixes}).*",
        code=InvalidSetting.code,
        message=f"{{key}} is not an option of Headrace. Options: {list_keys(CONF_OPTIONS)}.",
    )
    return [own, *policy.rules]


def artifact_conf(spec: SessionSpec) -> dict[str, str]:
    """Return the keys of Spark for the jars, files and Python files of a session."""
    artifacts = {
        "spark.jars": spec.jars,
        "spark.files": spec.files,
        "spark.submit.pyFiles": spec.py_files,
    }
    return {key: ",".join(locations) for key, locations in artifacts.items() if locations}
