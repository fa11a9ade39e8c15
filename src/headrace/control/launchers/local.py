"""Launcher of the backend `local`: drivers as processes of this host that outlive the node."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import headrace
from headrace.config.extras import require_extra
from headrace.config.profiles import Profile
from headrace.control.host.child_environment import child_environment
from headrace.control.host.java import JavaHome, find_java
from headrace.control.host.system_user import SystemUser, find_missing_requirement, open_home
from headrace.control.launchers import process_group
from headrace.control.launchers.base import (
    DriverExit,
    DriverStatus,
    Handle,
    LauncherHost,
    LaunchRequest,
)
from headrace.control.launchers.bootstrap_files import BootstrapFiles, TemporaryFolders
from headrace.control.launchers.process_group import (
    HOST_RESTARTED,
    ChildGroups,
    ProcessGroup,
    describe_exit,
)
from headrace.errors import LaunchFailed
from headrace.model.session import DriverLease

_POLL_SECONDS = 0.01
_LATER_OPTIMIZATION = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
"""Ten times the defaults for methods, and four times the default for loops.

At the start of Spark, the C2 compiler takes a third of the processor time, for code that hardly
runs again. A loop over the rows of a query reaches its threshold after some milliseconds.
"""


class LocalLauncher:
    """Starts `python -m headrace.driver` with the path of a bootstrap file."""

    backend = "local"

    def __init__(self, host: LauncherHost) -> None:
        self._bootstraps = BootstrapFiles(host.layout.drivers)
        self._temporary = TemporaryFolders(host.layout.temporary)
        self._children = ChildGroups()
        self._archives = host.archives
        self._working_directory = host.working_directory
        self._layout = host.layout
        self._smallest_uid = host.smallest_uid

    def start(self, request: LaunchRequest) -> Handle:
        name = request.name
        conf = {**self._temporary.spark_conf(name), **request.bootstrap.conf}
        bootstrap = request.bootstrap.model_copy(update={"conf": conf})
        _check_packages(request.profile)
        java = find_java()
        user = self._find_user(request)
        try:
            if user is not None:
                open_home(self._layout, request.folders)
                for folder in request.folders:
                    user.create_folder(folder)
            self._temporary.create(name, user)
            file = self._bootstraps.write(name, bootstrap, user)
            command = self.build_command(request.profile, file)
            if user is not None:
                own = [] if request.profile.python else [Path(headrace.__file__)]
                paths = (command[0], java.path / "bin" / "java", file)
                user.check_access([*paths, self._temporary.path(name), *request.folders, *own])
                command = user.command(command)
            group = self._children.start(
                request.lease,
                command,
                log=request.log,
                env=self._environment(request, java, user),
                cwd=self._working_directory,
            )
        except (LaunchFailed, OSError):
            self._remove_files(name)
            raise
        self._archives.create(java)
        return self._handle(group, name)

    def build_command(self, profile: Profile, bootstrap: Path) -> list[str]:
        """Return the command that starts a driver, with the path of its bootstrap file."""
        python = profile.python or sys.executable
        return [python, "-P", "-m", "headrace.driver", str(bootstrap)]

    def wait_for_jvm(self, handle: Handle, seconds: float) -> None:
        """Wait until a driver that has just started is connected to its JVM, or for `seconds`.

        The wait ends with the process of the driver.
        """
        # The driver writes the file for spark-submit, and removes it when the JVM has answered.
        file = self._bootstraps.properties_path(handle["name"])
        deadline = time.monotonic() + seconds
        for is_expected in (True, False):
            while file.exists() is not is_expected and time.monotonic() < deadline:
                if not self.poll(handle).alive:
                    return
                time.sleep(_POLL_SECONDS)

    def find(self, name: str, profile: Profile) -> Handle | None:  # noqa: ARG002 - one host for all
        # The driver has the bootstrap file among its arguments, its JVM the properties file.
        group = process_group.find(self._bootstraps.arguments(name))
        return None if group is None else self._handle(group, name)

    def poll(self, handle: Handle) -> DriverStatus:
        group = ProcessGroup.from_handle(handle)
        if self._bootstraps.host_has_restarted(handle["name"], group.host):
            return HOST_RESTARTED
        return self._children.poll(group)

    def kill(self, handle: Handle) -> None:
        group = ProcessGroup.from_handle(handle)
        if not self._bootstraps.host_has_restarted(handle["name"], group.host):
            process_group.kill(group)
        self._remove_files(handle["name"])

    def exits(self) -> list[DriverExit]:
        return [
            DriverExit(lease=lease, reason=describe_exit(status))
            for lease, status in self._children.collect_exits()
        ]

    def watch(self, lease: DriverLease, handle: Handle) -> None:
        self._children.watch(lease, ProcessGroup.from_handle(handle))

    def announce(self, addresses: list[str]) -> None:
        self._bootstraps.announce(addresses)

    def _remove_files(self, name: str) -> None:
        self._bootstraps.remove(name)
        self._temporary.remove(name)

    def _handle(self, group: ProcessGroup, name: str) -> Handle:
        return {"backend": self.backend, "name": name, **group.to_record()}

    def _find_user(self, request: LaunchRequest) -> SystemUser | None:
        """Return the user of the host as whom a driver runs; None: that of this process.

        Raises LaunchFailed if there is none, and never lets the driver run as another one.
        """
        if request.run_as is None:
            return None
        if missing := find_missing_requirement():
            raise LaunchFailed(f"A driver that runs as {request.run_as!r} needs {missing}.")
        return SystemUser.find(request.run_as, smallest_uid=self._smallest_uid)

    def _environment(
        self, request: LaunchRequest, java: JavaHome, user: SystemUser | None
    ) -> dict[str, str]:
        profile = request.profile
        of_node = child_environment(profile.inherit_env)
        inherited = {
            **(of_node if user is None else user.environment(of_node)),
            "JAVA_HOME": str(java.path),
            "PYSPARK_PYTHON": profile.python or sys.executable,
            # Spark's ports, including that of its UI, are reachable from this host only.
            "SPARK_LOCAL_IP": "127.0.0.1",
            # The JVM that only prints the command of the real one.
            "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        if user is not None:
            self._archives.share(java)
        options = [
            *(_LATER_OPTIMIZATION if request.optimize_later else ()),
            *self._archives.jvm_options(java),
        ]
        return self._temporary.environment(request.name, inherited, profile.env, options)


def _check_packages(profile: Profile) -> None:
    """Raise PackagesMissing if a driver could not import PySpark.

    Another Python, or a PYTHONPATH of the profile, can have packages that this process lacks.
    """
    if profile.python is None and "PYTHONPATH" not in profile.env:
        require_extra("spark", "A driver on this host")
