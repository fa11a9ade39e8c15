"""The setting `conf_policy`: Spark configuration that only the operator of a node sets."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

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
    "spark.emr-serverless.*",
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


NO_CONF_POLICY = ConfPolicy(deny=[])
"""Every key is allowed."""
