"""The StartJobRun request with which a driver is started on EMR Serverless."""

from __future__ import annotations

import ipaddress
import re
import shlex
from typing import Any
from urllib.parse import urlsplit

from headrace.config.profiles import Profile
from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.remote_artifacts import RemoteArtifacts
from headrace.errors import LaunchFailed
from headrace.model.messages import Bootstrap

_TIMEOUT_MINUTES = 7 * 24 * 60
"""Longest timeout that AWS accepts. Without a timeout, AWS ends a batch run after twelve hours."""
_DRIVER_ENV = "spark.emr-serverless.driverEnv."
_EXECUTOR_ENV = "spark.executorEnv."
_SERVICE_PREFIX = "spark.emr-serverless."
_PY_FILES = "spark.submit.pyFiles"
_SET_BY_SERVICE = {"spark.master", "spark.ui.port"}
# Default of spark.redaction.regex: keys that Spark hides in its own logs and UI.
_SECRET_KEY = re.compile("(?i)secret|password|token|access[.]?key")


def check_nodes_are_reachable(request: LaunchRequest) -> None:
    """Raise LaunchFailed if all node addresses are loopback addresses and the service is on AWS."""
    nodes = request.bootstrap.nodes
    service_is_local = _is_loopback(request.profile.endpoint_url)
    if not service_is_local and all(_is_loopback(node) for node in nodes):
        raise LaunchFailed(
            f"Drivers on emr-serverless cannot reach this node at {', '.join(nodes)}."
            " Set http.advertise to an address that the network of the application can reach."
        )


def remote_bootstrap(request: LaunchRequest) -> Bootstrap:
    """Return the bootstrap without the configuration that EMR Serverless sets itself.

    A key that the service sets is kept if the profile sets it explicitly.
    """
    conf = {
        key: value
        for key, value in request.bootstrap.conf.items()
        if key != _PY_FILES and (key not in _SET_BY_SERVICE or key in request.profile.conf)
    }
    return request.bootstrap.model_copy(update={"conf": conf})


def build_job_run(request: LaunchRequest, artifacts: RemoteArtifacts) -> dict[str, Any]:
    """Return the arguments of StartJobRun.

    Everyone who may read job runs in AWS can read the arguments. Configuration whose key looks like
    a secret is therefore in the bootstrap only, from which the driver sets all its configuration.
    The rest is in the arguments as well, because some keys have an effect only before the JVM
    starts.
    """
    profile, bootstrap = request.profile, remote_bootstrap(request)
    session_files = request.bootstrap.conf.get(_PY_FILES, "").split(",")
    py_files = [artifacts.package, *filter(None, session_files)]
    public_conf = {
        key: value
        for key, value in bootstrap.conf.items()
        if key.startswith(_SERVICE_PREFIX) or not _SECRET_KEY.search(key)
    }
    defaults = {
        "classification": "spark-defaults",
        "properties": {**_environment_conf(profile), **public_conf},
    }
    return {
        "applicationId": profile.application_id,
        "executionRoleArn": profile.execution_role_arn,
        "name": request.name,
        "clientToken": request.name,
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": artifacts.entry,
                "entryPointArguments": ["--handoff", artifacts.bootstrap],
                "sparkSubmitParameters": shlex.join(["--py-files", ",".join(py_files)]),
            }
        },
        "configurationOverrides": {
            "applicationConfiguration": [defaults],
            **_monitoring(profile),
        },
        "executionTimeoutMinutes": _TIMEOUT_MINUTES,
        "tags": {
            "headrace:session": bootstrap.session_id,
            "headrace:epoch": str(bootstrap.epoch),
        },
    }


def _environment_conf(profile: Profile) -> dict[str, str]:
    """Return the configuration that passes `env` and `python` of a profile to the service."""
    conf = {f"{_DRIVER_ENV}{name}": value for name, value in profile.env.items()}
    if profile.python is not None:
        conf[f"{_DRIVER_ENV}PYSPARK_DRIVER_PYTHON"] = profile.python
        conf[f"{_DRIVER_ENV}PYSPARK_PYTHON"] = profile.python
        conf[f"{_EXECUTOR_ENV}PYSPARK_PYTHON"] = profile.python
    return conf


def _monitoring(profile: Profile) -> dict[str, Any]:
    if profile.log_uri is None:
        return {}
    return {
        "monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": profile.log_uri}},
    }


def _is_loopback(address: str | None) -> bool:
    host = urlsplit(address or "").hostname
    if host is None:
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
