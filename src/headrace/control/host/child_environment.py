"""The environment of child processes: drivers, spark-submit, the metastore and Java.

Users' SQL can read the environment of its driver. A child therefore inherits only the variables
that Java, Spark, Hadoop and Python need. Settings and credentials of the node are not among them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

CHILD_UMASK = 0o077
"""Only their owner can read the files that a child creates."""

_INHERITED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "TMPDIR"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "XDG_CACHE_HOME"),
        *("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
        *("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "YARN_CONF_DIR", "HIVE_CONF_DIR"),
        *("KRB5_CONFIG", "KRB5CCNAME", "KUBECONFIG"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONUNBUFFERED"),
        "PYTHONDONTWRITEBYTECODE",
    }
)
_INHERITED_PREFIXES = ("LC_", "SPARK_", "PYSPARK_")


def child_environment(
    inherit: Collection[str] = (), environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the variables of the node that a child process inherits.

    Args:
        inherit: Names of further variables that an operator passes to the child.
        environ: Environment of the node.
    """
    return {
        name: value
        for name, value in environ.items()
        if name in _INHERITED or name.startswith(_INHERITED_PREFIXES) or name in inherit
    }
