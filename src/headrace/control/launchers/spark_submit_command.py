"""What spark-submit is given for one driver: command, properties file, environment. Pure.

Nothing secret is an argument: Spark's configuration goes into the properties file.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.driver_package import DriverPackage
from headrace.control.launchers.kubernetes import namespace_of, pod_of
from headrace.errors import LaunchFailed
from headrace.settings import Profile

YARN = "yarn"
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def spark_home(profile: Profile) -> Path:
    """The Spark whose spark-submit is used: that of the profile, else PySpark's own.

    Raises LaunchFailed.
    """
    if home := profile.env.get("SPARK_HOME"):
        return Path(home)
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise LaunchFailed(
            "The backend spark-submit needs Spark, and none was found.",
            hint="pip install 'headrace[spark]', or set SPARK_HOME in the profile's env",
        )
    return Path(package.origin).parent


def command(
    request: LaunchRequest, properties: Path, parcel: DriverPackage, told: list[str]
) -> list[str]:
    """`told` are the driver's own arguments."""
    profile = request.profile
    packed = []
    if profile.deploy_mode == "cluster":
        theirs = request.bootstrap.conf.get("spark.submit.pyFiles")
        packed = ["--py-files", ",".join([str(parcel.package), *([theirs] if theirs else [])])]
    return [
        str(spark_home(profile) / "bin" / "spark-submit"),
        *("--master", profile.master),
        *("--deploy-mode", profile.deploy_mode),
        *("--name", request.name),
        "--load-spark-defaults",
        *("--properties-file", str(properties)),
        *packed,
        str(parcel.entry),
        *told,
    ]


def conf(request: LaunchRequest) -> dict[str, str]:
    """The bootstrap's configuration and what the way of launching asks for, which comes last."""
    profile = request.profile
    python = profile.python or sys.executable
    given = {key: one for key, one in request.bootstrap.conf.items() if key.startswith("spark.")}
    pythons = {"spark.pyspark.python": python, "spark.pyspark.driver.python": python}
    return {**pythons, **given, **_on_yarn(request, given), **_on_kubernetes(request)}


def properties_text(properties: Mapping[str, str]) -> str:
    """A Java properties file."""
    return "".join(f"{_key(key)}={_escaped(one)}\n" for key, one in properties.items())


def _on_yarn(request: LaunchRequest, given: Mapping[str, str]) -> dict[str, str]:
    if request.profile.master != YARN:
        return {}
    tags = [tag for tag in (given.get("spark.yarn.tags"), request.name) if tag]
    found = {"spark.yarn.tags": ",".join(tags)}
    if request.profile.deploy_mode == "cluster":
        python = request.profile.python or sys.executable
        found |= {
            "spark.yarn.submit.waitAppCompletion": "false",
            # Another attempt would find its bootstrap gone.
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
        }
    return found


def _on_kubernetes(request: LaunchRequest) -> dict[str, str]:
    if not request.profile.master.startswith("k8s://"):
        return {}
    if request.profile.deploy_mode == "client":
        return {"spark.kubernetes.executor.label.headrace-launch": request.name}
    return {
        # Not the session's choice: the driver must be found again.
        "spark.kubernetes.namespace": namespace_of(request.profile.conf),
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.driver.pod.name": pod_of(request.name),
        "spark.kubernetes.driver.label.headrace-launch": request.name,
        "spark.kubernetes.executor.label.headrace-launch": request.name,
    }


def _key(key: str) -> str:
    escaped = _escaped(key)
    for special in " =:#!":
        escaped = escaped.replace(special, f"\\{special}")
    return escaped


def _escaped(text: str) -> str:
    escaped = "".join(_ESCAPES.get(letter, letter) for letter in text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
