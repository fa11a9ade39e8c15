"""Profiles that start drivers on the clusters of the tests, sparing of memory and cores."""

from __future__ import annotations

import importlib.util
import json
import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests.support.standalone import StandaloneCluster
from tests.support.yarn import YarnCluster

Profiles = dict[str, dict[str, Any]]
ODD = r"C:\new = größer: #1!"
"""What a Java properties file can hold only with care; it is `spark.headrace.odd` everywhere."""
_LOOPBACK = "127.0.0.1"
# Programs this short are not worth the JVM's second compiler.
_BRIEF = {
    "SPARK_LOCAL_IP": _LOOPBACK,
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def standalone_profile(cluster: StandaloneCluster, executors_python: str) -> dict[str, Any]:
    """Client mode on a standalone cluster."""
    return {
        "backend": "spark-submit",
        "master": cluster.master,
        "cluster_url": cluster.url,
        "start_timeout": "600s",
        "env": _BRIEF,
        "conf": {
            **_small(),
            "spark.cores.max": "2",
            "spark.driver.host": _LOOPBACK,
            "spark.pyspark.python": executors_python,
        },
    }


def yarn_profile(cluster: YarnCluster, executors_python: str) -> dict[str, Any]:
    """Client mode on YARN."""
    return {
        "backend": "spark-submit",
        "master": "yarn",
        "cluster_url": cluster.url,
        "env": {**_BRIEF, "HADOOP_CONF_DIR": str(cluster.conf)},
        "conf": {
            **_small(),
            **_on_yarn(),
            "spark.driver.host": _LOOPBACK,
            "spark.yarn.am.memory": "512m",
            "spark.pyspark.python": executors_python,
        },
    }


def yarn_cluster_profile(cluster: YarnCluster, python: str) -> dict[str, Any]:
    """Cluster mode on YARN; the whole application has this interpreter."""
    client = yarn_profile(cluster, python)
    return {
        **client,
        "deploy_mode": "cluster",
        "python": python,
        "conf": {
            **_small(),
            **_on_yarn(),
            "spark.driver.memory": "800m",
        },
    }


def bare_python(folder: Path) -> str:
    """An interpreter that has what Headrace stands on, and no Headrace: its install is editable,
    and only `site` follows that.
    """
    program = folder / "python"
    packages = sysconfig.get_path("purelib")
    program.write_text(
        "#!/bin/sh\n"
        f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}"\n'
        f'exec {sys.executable} -S "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


def as_settings(profiles: Profiles) -> dict[str, str]:
    """Profiles as a node's environment has them."""
    return {"PROFILES": json.dumps(profiles)}


def _small() -> dict[str, str]:
    return {
        "spark.headrace.odd": ODD,
        "spark.executor.memory": "600m",
        "spark.sql.shuffle.partitions": "4",
        **{f"spark.executorEnv.{name}": one for name, one in _BRIEF.items()},
    }


def _on_yarn() -> dict[str, str]:
    package = importlib.util.find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    return {
        "spark.yarn.jars": f"local:{Path(package.origin).parent}/jars/*",
        "spark.executor.instances": "1",
        **{f"spark.yarn.appMasterEnv.{name}": one for name, one in _BRIEF.items()},
    }
