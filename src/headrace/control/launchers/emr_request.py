"""What EMR Serverless is asked for when a driver is started there."""

from __future__ import annotations

import ipaddress
import re
import shlex
from typing import Any
from urllib.parse import urlsplit

from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.remote_artifacts import RemoteArtifacts
from headrace.errors import LaunchFailed
from headrace.model.messages import Bootstrap
from headrace.settings import Profile

_HANDOFF = "--handoff"
_LONGEST_MINUTES = 7 * 24 * 60
"""AWS ends a batch run after twelve hours unless told otherwise, and takes no more than this."""
_DRIVER_ENV = "spark.emr-serverless.driverEnv."
_EXECUTOR_ENV = "spark.executorEnv."
_SERVICE = "spark.emr-serverless."
_PY_FILES = "spark.submit.pyFiles"
_OF_THE_SERVICE = {"spark.master", "spark.ui.port"}
# What Spark itself keeps out of its logs and pages (its default of spark.redaction.regex).
_REDACTED = re.compile("(?i)secret|password|token|access[.]?key")


def refuse_unreachable(request: LaunchRequest) -> None:
    """Raises LaunchFailed where a driver on AWS could not reach the node."""
    nodes = request.bootstrap.nodes
    here = _on_this_host(request.profile.endpoint_url)
    if not here and all(_on_this_host(node) for node in nodes):
        raise LaunchFailed(
            f"Drivers on emr-serverless cannot reach this node by {', '.join(nodes)}."
            " Set http.advertise to an address that the application's network reaches."
        )


def bootstrap_to_send(request: LaunchRequest) -> Bootstrap:
    """Without what is the service's to say."""
    conf = request.bootstrap.conf
    kept = {
        key: value
        for key, value in conf.items()
        if key != _PY_FILES and (key not in _OF_THE_SERVICE or key in request.profile.conf)
    }
    return request.bootstrap.model_copy(update={"conf": kept})


def job_run(request: LaunchRequest, baggage: RemoteArtifacts) -> dict[str, Any]:
    """The arguments of StartJobRun. Whoever may look at job runs in AWS sees all of it.

    The driver sets its whole configuration itself. It is told here as well, as some of it counts
    only before the JVM starts; what looks like a secret is left to the driver.
    """
    profile, sent = request.profile, bootstrap_to_send(request)
    of_session = request.bootstrap.conf.get(_PY_FILES, "").split(",")
    py_files = [baggage.package, *filter(None, of_session)]
    visible = {
        key: value
        for key, value in sent.conf.items()
        if key.startswith(_SERVICE) or not _REDACTED.search(key)
    }
    defaults = {
        "classification": "spark-defaults",
        "properties": {**_environment(profile), **visible},
    }
    return {
        "applicationId": profile.application_id,
        "executionRoleArn": profile.execution_role_arn,
        "name": request.name,
        "clientToken": request.name,
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": baggage.entry,
                "entryPointArguments": [_HANDOFF, baggage.bootstrap],
                "sparkSubmitParameters": shlex.join(["--py-files", ",".join(py_files)]),
            }
        },
        "configurationOverrides": {
            "applicationConfiguration": [defaults],
            **_monitoring(profile),
        },
        "executionTimeoutMinutes": _LONGEST_MINUTES,
        "tags": {
            "headrace:session": sent.session_id,
            "headrace:epoch": str(sent.epoch),
        },
    }


def _environment(profile: Profile) -> dict[str, str]:
    """A profile's `env` and `python`, as the service takes them."""
    found = {f"{_DRIVER_ENV}{name}": value for name, value in profile.env.items()}
    if profile.python is not None:
        found[f"{_DRIVER_ENV}PYSPARK_DRIVER_PYTHON"] = profile.python
        found[f"{_DRIVER_ENV}PYSPARK_PYTHON"] = profile.python
        found[f"{_EXECUTOR_ENV}PYSPARK_PYTHON"] = profile.python
    return found


def _monitoring(profile: Profile) -> dict[str, Any]:
    if profile.log_uri is None:
        return {}
    return {
        "monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": profile.log_uri}},
    }


def _on_this_host(address: str | None) -> bool:
    host = urlsplit(address or "").hostname
    if host is None:
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
