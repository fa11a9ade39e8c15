"""Client of Kubernetes that runs Spark's own spark-submit with `--status` and `--kill`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from headrace.control.launchers.cluster_managers import Application
from headrace.errors import BackendUnreachable

_CALL_SECONDS = 60.0
_PHASE = re.compile(r"^\s*phase: (\w+)", re.MULTILINE)
# Printed by org.apache.spark.deploy.k8s.submit.K8SSparkSubmitOperation.
_NOT_FOUND = "Application not found."
_ENDED = {"Succeeded", "Failed"}
_MESSAGE_LENGTH = 1000


class Kubernetes:
    """The driver pods in one namespace of a cluster. Implements `ClusterManager`."""

    def __init__(
        self, spark_submit: Path, master: str, namespace: str, environment: Mapping[str, str]
    ) -> None:
        self._spark_submit = spark_submit
        self._master = master
        self._namespace = namespace
        self._environment = environment

    def find(self, name: str) -> Application | None:
        pod = f"{self._namespace}:{pod_name(name)}"
        output = self._run("--status", pod)
        phase = _PHASE.search(output)
        if phase is None:
            if _NOT_FOUND in output:
                return None
            raise BackendUnreachable(
                f"{self._master} did not report the state of the pod {pod}:"
                f" {output[-_MESSAGE_LENGTH:]}"
            )
        return Application(id=pod, alive=phase[1] not in _ENDED, message=phase[1])

    def kill(self, application: Application) -> None:
        self._run("--kill", application.id)

    def _run(self, option: str, pod: str) -> str:
        """Run spark-submit for a pod, given as `namespace:name`, and return its output."""
        command = [str(self._spark_submit), "--master", self._master, option, pod]
        try:
            process = subprocess.run(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_CALL_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BackendUnreachable(f"{self._master} does not answer: {error}") from error
        return process.stdout.decode(errors="replace")


def pod_name(name: str) -> str:
    """Return the name of the driver pod of a launch. Kubernetes does not allow underscores."""
    return name.replace("_", "-")


def pod_namespace(conf: Mapping[str, str]) -> str:
    """Return the namespace in which the pods of a profile run."""
    return conf.get("spark.kubernetes.namespace", "default")
