"""The setting `conf_policy`: Spark configuration that only the operator of a node sets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import chain

from pydantic import BaseModel, ConfigDict

from headrace.config.profiles import BACKENDS
from headrace.errors import SettingDenied

RESERVED_CONF = [
    # Where drivers run, and under which identity.
    "spark.master",
    "spark.submit.*",
    "spark.remote",
    "spark.connect.*",
    "spark.api.mode",
    "spark.kubernetes.*",
    "spark.kerberos.*",
    "spark.yarn.principal",
    "spark.yarn.keytab",
    "spark.yarn.stagingDir",
    "spark.yarn.config.*",
    "spark.hadoop.yarn.*",
    "spark.hadoop.fs.defaultFS",
    "spark.hadoop.hadoop.security.*",
    # Listening addresses, and who may use them.
    "spark.*.bindAddress",
    "spark.driver.host",
    "spark.driver.port",
    "spark.*blockManager.port",
    "spark.ui.*",
    "spark.authenticate*",
    "spark.network.crypto.*",
    "spark.ssl.*",
    "spark.*acls*",
    # Options and code of the processes that Spark starts.
    "spark.*.extraJavaOptions",
    "spark.*.defaultJavaOptions",
    "spark.*.extraClassPath",
    "spark.*.extraLibraryPath",
    "spark.*.userClassPathFirst",
    "spark.*.discoveryScript",
    "spark.plugins*",
    "spark.extraListeners",
    "spark.pyspark.*",
    "spark.executorEnv.*",
    "spark.yarn.appMasterEnv.*",
    *chain.from_iterable(backend.reserved_conf for backend in BACKENDS.values()),
    # Paths that spark-submit or Spark read and write as the account of the node.
    "spark.jars",
    "spark.jars.*",
    "spark.files",
    "spark.archives",
    "spark.yarn.jars",
    "spark.yarn.archive",
    "spark.yarn.dist.*",
    "spark.sql.hive.metastore.jars*",
    "spark.local.dir",
    "spark.metrics.conf*",
]


class ConfPolicy(BaseModel):
    """Which Spark configuration the callers of a node may set for sessions and statements.

    A pattern is a key in which `*` stands for any characters. The embedded node has no policy,
    because its user is its operator.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    deny: list[str] = RESERVED_CONF
    """Patterns of keys that only the operator sets, in a profile. A list in the settings replaces
    the default."""
    allow: list[str] = []
    """Patterns of keys that callers may set although `deny` matches them."""
    force: dict[str, str] = {}
    """Values for every session. They override those of profiles, and callers cannot change them."""

    @cached_property
    def rules(self) -> list[ConfRule]:
        """The rules of the policy. For each key, the first rule that matches it applies."""
        return _list_rules(self)


NO_CONF_POLICY = ConfPolicy(deny=[])
"""Every key is allowed."""

_HADOOP = "spark.hadoop."


class ConfRule(BaseModel):
    """A rule on the keys that callers may set, in a form that Python and Java apply alike."""

    model_config = ConfigDict(frozen=True)

    pattern: str
    """Regular expression that matches the whole of each key to which the rule applies."""
    code: str | None = None
    """Code of the error for these keys; None: they are allowed."""
    message: str = ""
    """Message of the error, in which `{key}` stands for the key."""
    hint: str = ""
    """What the caller can do."""

    def refusal(self, key: str) -> str:
        """Return the message of the error for a key."""
        return self.message.replace("{key}", key)


def _list_rules(policy: ConfPolicy) -> list[ConfRule]:
    forced = [
        ConfRule(
            pattern=_to_regex(key),
            code=SettingDenied.code,
            message="'{key}' has a value that the operator of the node has set for every session"
            " (conf_policy.force).",
        )
        for key in policy.force
    ]
    allowed = [ConfRule(pattern=_to_regex(pattern)) for pattern in policy.allow]
    denied = [
        ConfRule(
            pattern=_to_regex(pattern),
            code=SettingDenied.code,
            message="'{key}' is reserved for the operator of the node (pattern"
            f" {pattern!r} of conf_policy.deny).",
            hint="Use a profile that sets the key, or ask the operator to list it in"
            " conf_policy.allow.",
        )
        for pattern in policy.deny
    ]
    return [*forced, *allowed, *denied]


def find_refusal(key: str, rules: Iterable[ConfRule]) -> ConfRule | None:
    """Return the rule that forbids a key; None if the key is allowed."""
    rule = next((rule for rule in rules if re.fullmatch(rule.pattern, key)), None)
    return None if rule is None or rule.code is None else rule


def _to_regex(pattern: str) -> str:
    """Return the regular expression of a pattern.

    A property of Hadoop also matches under its own name: Spark passes every key of a session on to
    Hadoop's file systems, so that `SET fs.defaultFS` does what `spark.hadoop.fs.defaultFS` does.
    """
    name = pattern.removeprefix(_HADOOP)
    body = ".*".join(map(re.escape, name.split("*")))
    return f"(?s){body}" if name == pattern else rf"(?s)(?:spark\.hadoop\.)?{body}"
