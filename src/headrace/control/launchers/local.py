"""Drivers as subprocesses of this host, each in a process group of its own: they outlive the node.

Beside each driver lies its bootstrap file, `drivers/<name>.json` in the home, mode 0600.
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.control.host.java import find_java
from headrace.control.launchers import process_group
from headrace.control.launchers.base import (
    DriverExit,
    DriverStatus,
    Handle,
    LaunchRequest,
    launch_name,
)
from headrace.control.launchers.bootstrap_files import BootstrapFiles
from headrace.control.launchers.environment import inherited_environment
from headrace.control.launchers.process_group import ChildGroups, Group, describe_exit
from headrace.errors import LaunchFailed
from headrace.settings import Profile


class LocalLauncher:
    """Starts `python -m headrace.driver`."""

    backend = "local"

    def __init__(self, home: Path) -> None:
        self._bootstraps = BootstrapFiles(home / "drivers")
        self._children = ChildGroups()

    def start(self, request: LaunchRequest) -> Handle:
        bootstrap = request.bootstrap
        file = self._bootstraps.write(request.name, bootstrap)
        python = request.profile.python or sys.executable
        command = [python, "-P", "-m", "headrace.driver", str(file)]
        driver = (bootstrap.session_id, bootstrap.epoch)
        try:
            group = self._children.start(
                driver, command, log=request.log, env=_environment(request)
            )
        except LaunchFailed:
            self._bootstraps.remove(request.name)
            raise
        return self._handle(group, request.name)

    def find(self, name: str, profile: Profile) -> Handle | None:  # noqa: ARG002 - one host, one place
        # The driver has the file's name among its arguments, its JVM the application's.
        marks = {str(self._bootstraps.file(name)), f"spark.app.name={name}"}
        group = process_group.find(marks)
        return None if group is None else self._handle(group, name)

    def poll(self, handle: Handle) -> DriverStatus:
        return self._children.poll(handle)

    def kill(self, handle: Handle) -> None:
        process_group.kill(handle)
        Path(handle["bootstrap"]).unlink(missing_ok=True)

    def exits(self) -> list[DriverExit]:
        ended = self._children.ended()
        for driver, _status in ended:
            self._bootstraps.remove(launch_name(*driver))
        return [
            DriverExit(session_id=session_id, epoch=epoch, reason=describe_exit(status))
            for (session_id, epoch), status in ended
        ]

    def announce(self, addresses: list[str]) -> None:
        self._bootstraps.announce(addresses)

    def _handle(self, group: Group, name: str) -> Handle:
        return {
            "backend": self.backend,
            **group,
            "bootstrap": str(self._bootstraps.file(name)),
        }


def _environment(request: LaunchRequest) -> dict[str, str]:
    return {
        **inherited_environment(),
        "JAVA_HOME": str(find_java().path),
        "PYSPARK_PYTHON": request.profile.python or sys.executable,
        # Spark's own ports, its UI among them, stay on this host.
        "SPARK_LOCAL_IP": "127.0.0.1",
        **request.profile.env,
    }
