"""Profiles that start drivers on the test clusters with little memory and few cores."""

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
"""Value with characters that a Java properties file must escape, in `spark.test.odd`."""
_LOOPBACK = "127.0.0.1"
# The JVM's second compiler does not pay off for programs this short.
_SHORT_LIVED_JVM = {
    "SPARK_LOCAL_IP": _LOOPBACK,
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def standalone_profile(cluster: StandaloneCluster, executors_python: str) -> dict[str, Any]:
    """Return a profile for client mode on a standalone cluster."""
    return {
        "backend": "spark-submit",
        "master": cluster.master,
        "cluster_url": cluster.url,
        "start_timeout": "600s",
        "env": _SHORT_LIVED_JVM,
        "conf": {
            **_small_conf(),
            "spark.cores.max": "2",
            "spark.driver.host": _LOOPBACK,
            "spark.pyspark.python": executors_python,
        },
    }


def yarn_profile(cluster: YarnCluster, executors_python: str) -> dict[str, Any]:
    """Return a profile for client mode on YARN."""
    return {
        "backend": "spark-submit",
        "master": "yarn",
        "cluster_url": cluster.url,
        "env": {**_SHORT_LIVED_JVM, "HADOOP_CONF_DIR": str(cluster.conf)},
        "conf": {
            **_small_conf(),
            **_yarn_conf(),
            "spark.driver.host": _LOOPBACK,
            "spark.yarn.am.memory": "512m",
            "spark.pyspark.python": executors_python,
        },
    }


def yarn_cluster_profile(cluster: YarnCluster, python: str) -> dict[str, Any]:
    """Return a profile for cluster mode on YARN, with one interpreter for all processes."""
    client = yarn_profile(cluster, python)
    return {
        **client,
        "deploy_mode": "cluster",
        "python": python,
        "conf": {
            **_small_conf(),
            **_yarn_conf(),
            "spark.driver.memory": "800m",
        },
    }


def bare_python(folder: Path) -> str:
    """Write an interpreter that can import the dependencies of Headrace but not Headrace.

    Headrace is an editable install, which only the module `site` makes importable.
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
    """Return the environment variable of a node that holds profiles."""
    return {"PROFILES": json.dumps(profiles)}


def _small_conf() -> dict[str, str]:
    return {
        "spark.test.odd": ODD,
        "spark.executor.memory": "600m",
        "spark.sql.shuffle.partitions": "4",
        **{f"spark.executorEnv.{name}": value for name, value in _SHORT_LIVED_JVM.items()},
    }


def _yarn_conf() -> dict[str, str]:
    package = importlib.util.find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    return {
        "spark.yarn.jars": f"local:{Path(package.origin).parent}/jars/*",
        "spark.executor.instances": "1",
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in _SHORT_LIVED_JVM.items()},
    }
