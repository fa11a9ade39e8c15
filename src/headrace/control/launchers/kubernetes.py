"""Kubernetes, through what Spark's own spark-submit can ask and tell it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from headrace.control.launchers.cluster_managers import Application
from headrace.errors import BackendUnreachable

_CALL_SECONDS = 60.0
_PHASE = re.compile(r"^\s*phase: (\w+)", re.MULTILINE)
_NONE = "Application not found."
_OVER = {"Succeeded", "Failed"}


class Kubernetes:
    """Driver pods carry a name made of that of their launch."""

    def __init__(
        self, submit: Path, master: str, namespace: str, environment: Mapping[str, str]
    ) -> None:
        self._submit = submit
        self._master = master
        self._namespace = namespace
        self._environment = environment

    def find(self, name: str) -> Application | None:
        pod = f"{self._namespace}:{pod_of(name)}"
        told = self._call("--status", pod)
        phase = _PHASE.search(told)
        if phase is None:
            if _NONE in told:
                return None
            raise BackendUnreachable(f"{self._master} says nothing of {pod}: {told[-1000:]}")
        return Application(id=pod, alive=phase[1] not in _OVER, words=phase[1])

    def kill(self, application: Application) -> None:
        self._call("--kill", application.id)

    def _call(self, asked: str, pod: str) -> str:
        command = [str(self._submit), "--master", self._master, asked, pod]
        try:
            done = subprocess.run(
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
        return done.stdout.decode(errors="replace")


def pod_of(name: str) -> str:
    """The driver pod of a launch: Kubernetes takes no underscores."""
    return name.replace("_", "-")


def namespace_of(conf: Mapping[str, str]) -> str:
    """Where a profile's pods are."""
    return conf.get("spark.kubernetes.namespace", "default")
