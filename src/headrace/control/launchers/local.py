"""Launcher of the backend `local`: drivers as processes of this host that outlive the node."""

from __future__ import annotations

import sys
from dataclasses import asdict
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
from headrace.control.launchers.process_group import (
    ChildGroups,
    ProcessGroup,
    describe_exit,
    inherited_environment,
)
from headrace.errors import LaunchFailed
from headrace.home import HomeLayout
from headrace.settings import Profile


class LocalLauncher:
    """Starts `python -m headrace.driver` with the path of a bootstrap file."""

    backend = "local"

    def __init__(self, layout: HomeLayout) -> None:
        self._bootstraps = BootstrapFiles(layout.drivers)
        self._children = ChildGroups()

    def start(self, request: LaunchRequest) -> Handle:
        file = self._bootstraps.write(request.name, request.bootstrap)
        python = request.profile.python or sys.executable
        command = [python, "-P", "-m", "headrace.driver", str(file)]
        try:
            group = self._children.start(
                request.lease, command, log=request.log, env=_environment(request)
            )
        except LaunchFailed:
            self._bootstraps.remove(request.name)
            raise
        return self._handle(group, request.name)

    def find(self, name: str, profile: Profile) -> Handle | None:  # noqa: ARG002 - one host for all
        # The driver has the bootstrap file among its arguments, its JVM the application name.
        arguments = {str(self._bootstraps.path(name)), f"spark.app.name={name}"}
        group = process_group.find(arguments)
        return None if group is None else self._handle(group, name)

    def poll(self, handle: Handle) -> DriverStatus:
        return self._children.poll(ProcessGroup.from_handle(handle))

    def kill(self, handle: Handle) -> None:
        process_group.kill(ProcessGroup.from_handle(handle))
        Path(handle["bootstrap"]).unlink(missing_ok=True)

    def exits(self) -> list[DriverExit]:
        exits = self._children.collect_exits()
        for lease, _status in exits:
            self._bootstraps.remove(launch_name(lease))
        return [DriverExit(lease=lease, reason=describe_exit(status)) for lease, status in exits]

    def announce(self, addresses: list[str]) -> None:
        self._bootstraps.announce(addresses)

    def _handle(self, group: ProcessGroup, name: str) -> Handle:
        return {
            "backend": self.backend,
            **asdict(group),
            "bootstrap": str(self._bootstraps.path(name)),
        }


def _environment(request: LaunchRequest) -> dict[str, str]:
    return {
        **inherited_environment(),
        "JAVA_HOME": str(find_java().path),
        "PYSPARK_PYTHON": request.profile.python or sys.executable,
        # Spark's ports, including that of its UI, are reachable from this host only.
        "SPARK_LOCAL_IP": "127.0.0.1",
        **request.profile.env,
    }
