"""The command line and the properties file with which spark-submit starts a driver.

Spark's configuration can hold secrets and goes into the properties file: other users of a host can
read the arguments of a process. The functions start nothing and write nothing.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.config.extras import install_command
from headrace.config.profiles import Profile
from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.driver_package import DriverPackage
from headrace.control.launchers.kubernetes import pod_name, pod_namespace
from headrace.errors import LaunchFailed

YARN = "yarn"


def find_spark_home(profile: Profile) -> Path:
    """Return the Spark whose spark-submit is used: SPARK_HOME of the profile, otherwise PySpark.

    Raises LaunchFailed if there is neither.
    """
    if home := profile.env.get("SPARK_HOME"):
        return Path(home)
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise LaunchFailed(
            "The backend spark-submit needs Spark, but PySpark is not installed on this node and"
            " the profile does not set SPARK_HOME.",
            hint=f"{install_command('spark')}, or set SPARK_HOME in the env of the profile",
        )
    return Path(package.origin).parent


def build_command(
    request: LaunchRequest,
    properties_file: Path,
    driver_package: DriverPackage,
    driver_arguments: list[str],
) -> list[str]:
    """Return the command that starts a driver.

    In cluster mode the driver's host needs no Headrace: the command sends the package along.
    """
    profile = request.profile
    package_options = []
    if profile.deploy_mode == "cluster":
        py_files = [str(driver_package.package)]
        # The option replaces the property that holds the Python files of the session.
        if session_files := request.bootstrap.conf.get("spark.submit.pyFiles"):
            py_files.append(session_files)
        package_options = ["--py-files", ",".join(py_files)]
    return [
        str(find_spark_home(profile) / "bin" / "spark-submit"),
        *("--master", profile.master),
        *("--deploy-mode", profile.deploy_mode),
        *("--name", request.name),
        "--load-spark-defaults",
        *("--properties-file", str(properties_file)),
        *package_options,
        str(driver_package.entry),
        *driver_arguments,
    ]


def build_conf(request: LaunchRequest) -> dict[str, str]:
    """Return the Spark configuration of the bootstrap, with the keys that the launch needs.

    The keys of YARN and Kubernetes override the configuration of the session.
    """
    profile = request.profile
    python = profile.python or sys.executable
    bootstrap_conf = {
        key: value for key, value in request.bootstrap.conf.items() if key.startswith("spark.")
    }
    return {
        "spark.pyspark.python": python,
        "spark.pyspark.driver.python": python,
        **bootstrap_conf,
        **_yarn_conf(request, bootstrap_conf),
        **_kubernetes_conf(request),
    }


def _yarn_conf(request: LaunchRequest, bootstrap_conf: Mapping[str, str]) -> dict[str, str]:
    if request.profile.master != YARN:
        return {}
    tags = [tag for tag in (bootstrap_conf.get("spark.yarn.tags"), request.name) if tag]
    conf = {"spark.yarn.tags": ",".join(tags)}
    if request.profile.deploy_mode == "cluster":
        python = request.profile.python or sys.executable
        conf |= {
            "spark.yarn.submit.waitAppCompletion": "false",
            # A second attempt could not start: the first one has read and deleted the bootstrap.
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
        }
    return conf


def _kubernetes_conf(request: LaunchRequest) -> dict[str, str]:
    if not request.profile.master.startswith("k8s://"):
        return {}
    if request.profile.deploy_mode == "client":
        return {"spark.kubernetes.executor.label.headrace-launch": request.name}
    return {
        # A session cannot choose its namespace: `find` searches the namespace of the profile.
        "spark.kubernetes.namespace": pod_namespace(request.profile.conf),
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.driver.pod.name": pod_name(request.name),
        "spark.kubernetes.driver.label.headrace-launch": request.name,
        "spark.kubernetes.executor.label.headrace-launch": request.name,
    }
