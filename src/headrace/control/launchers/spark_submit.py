"""Drivers started by Spark's own spark-submit, for every master that Spark has.

In client mode the driver is a process group of this host, under the JVM of spark-submit. In cluster
mode spark-submit only hands the application in, and the driver runs where the cluster puts it.
docs/backends.md says what travels how.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.control.host.java import find_java
from headrace.control.launchers import process_group, spark_submit_command
from headrace.control.launchers.base import (
    DriverExit,
    DriverStatus,
    Handle,
    LaunchRequest,
    launch_name,
)
from headrace.control.launchers.bootstrap_files import BootstrapFiles
from headrace.control.launchers.cluster_managers import ClusterManager, stop_application
from headrace.control.launchers.driver_package import build_driver_package
from headrace.control.launchers.environment import inherited_environment
from headrace.control.launchers.kubernetes import Kubernetes, namespace_of
from headrace.control.launchers.process_group import ChildGroups, Driver, Group, describe_exit
from headrace.control.launchers.standalone import Standalone
from headrace.control.launchers.yarn import Yarn
from headrace.errors import BackendUnreachable, HeadraceError, LaunchFailed, ResultsUnavailable
from headrace.model.messages import Bootstrap
from headrace.private_files import write_private
from headrace.settings import Profile
from headrace.spark_log import find_last_exception, read_tail
from headrace.storage import handoff


@dataclass(frozen=True, slots=True)
class _Begun:
    """What this node remembers of a spark-submit that it started."""

    cluster: bool
    log: Path
    log_start: int


class SparkSubmitLauncher:
    """Beside each bootstrap file lies the properties file of its launch, both of mode 0600."""

    backend = "spark-submit"

    def __init__(self, home: Path, results: str) -> None:
        """`results` is the results location, for what a driver elsewhere is told."""
        self._folder = home / "submitted"
        self._results = results
        self._bootstraps = BootstrapFiles(self._folder)
        self._children = ChildGroups()
        self._begun: dict[str, _Begun] = {}
        self._failures: dict[str, str] = {}
        self._lock = threading.Lock()

    def start(self, request: LaunchRequest) -> Handle:
        name = request.name
        properties = spark_submit_command.properties_text(spark_submit_command.conf(request))
        driver = (request.bootstrap.session_id, request.bootstrap.epoch)
        log = request.log
        begun = _Begun(request.profile.deploy_mode == "cluster", log, _size(log))
        with self._lock:
            self._begun[name] = begun
        try:
            write_private(self._properties(name), properties)
            told = self._hand_over(request)
            command = spark_submit_command.command(
                request, self._properties(name), build_driver_package(self._folder), told
            )
            group = self._children.start(
                driver, command, log=request.log, env=_environment(request.profile)
            )
        except (HeadraceError, OSError) as error:
            with self._lock:
                self._begun.pop(name)
            self._clean_up(name)
            known = isinstance(error, HeadraceError)
            raise error if known else LaunchFailed(f"spark-submit: {error}") from error
        return self._handle(name, request.profile, group)

    def find(self, name: str, profile: Profile) -> Handle | None:
        # spark-submit has the one among its arguments, the driver under it the other.
        marks = {str(self._properties(name)), str(self._bootstraps.file(name))}
        group = process_group.find(marks)
        handle = self._handle(name, profile, group)
        if group is not None:
            return handle
        cluster = _cluster(handle)
        application = None if cluster is None else cluster.find(name)
        return handle if application is not None and application.alive else None

    def poll(self, handle: Handle) -> DriverStatus:
        here = _here(handle)
        group = self._children.poll(handle) if here else None
        cluster = _cluster(handle)
        application = None if cluster is None else cluster.find(handle["name"])
        in_cluster = handle["deploy_mode"] == "cluster"
        if application is not None:
            alive = application.alive or (not in_cluster and group is not None and group.alive)
            log = application.log if in_cluster else None
            return DriverStatus(alive=alive, words=application.words, log=log)
        if group is not None:
            return DriverStatus(alive=group.alive, words=self._words(handle, group))
        if handle["pid"] is None:
            return DriverStatus(alive=False, words="the cluster does not know it")
        host = handle["host"]
        if in_cluster:
            return DriverStatus(alive=True, words=f"{host} may still be submitting it")
        raise BackendUnreachable(f"The driver {handle['name']} is a process of {host}.")

    def kill(self, handle: Handle) -> None:
        name = handle["name"]
        if _here(handle):
            process_group.kill(handle)
        # A driver that comes up hereafter finds no bootstrap, and can do nothing.
        self._clean_up(name)
        with self._lock:
            self._failures.pop(name, None)
        cluster = _cluster(handle)
        if cluster is not None:
            stop_application(cluster, name)
        elif handle["pid"] is not None and not _here(handle):
            raise BackendUnreachable(f"The driver {name} is a process of {handle['host']}.")

    def exits(self) -> list[DriverExit]:
        found = []
        for driver, status in self._children.ended():
            ended = self._ended(driver, status)
            if ended is not None:
                found.append(ended)
        return found

    def announce(self, addresses: list[str]) -> None:
        self._bootstraps.announce(addresses)

    def _ended(self, driver: Driver, status: int) -> DriverExit | None:
        """A spark-submit that is over. In cluster mode a good end means that the driver begins."""
        name = launch_name(*driver)
        with self._lock:
            begun = self._begun.pop(name)
        self._properties(name).unlink(missing_ok=True)
        if begun.cluster and status == 0:
            return None
        told = self._with_last_words(name, begun, describe_exit(status))
        self._clean_up(name)
        with self._lock:
            self._failures[name] = told
        return DriverExit(session_id=driver[0], epoch=driver[1], reason=told)

    def _words(self, handle: Handle, group: DriverStatus) -> str:
        name = handle["name"]
        in_cluster = handle["deploy_mode"] == "cluster"
        if group.alive:
            return "it is being submitted" if in_cluster else group.words
        with self._lock:
            failure, begun = self._failures.get(name), self._begun.get(name)
        if failure is None and begun is not None:
            failure = self._with_last_words(name, begun, group.words)
        return failure or group.words

    def _with_last_words(self, name: str, begun: _Begun, told: str) -> str:
        """What spark-submit said last, unless a driver has spoken since."""
        if not begun.cluster and not self._untouched(name):
            return told
        words = find_last_exception(read_tail(begun.log, begun.log_start))
        return f"{told}: {words}" if words else told

    def _hand_over(self, request: LaunchRequest) -> list[str]:
        """Leaves the bootstrap where the driver will be; the arguments that tell it where."""
        if request.profile.deploy_mode == "client":
            return [str(self._bootstraps.write(request.name, request.bootstrap))]
        # Spark's own configuration comes with the application: the driver must not set it again.
        conf = request.bootstrap.conf
        rest = {key: one for key, one in conf.items() if not key.startswith("spark.")}
        bootstrap = request.bootstrap.model_copy(update={"conf": rest})
        content = bootstrap.model_dump_json().encode()
        try:
            return ["--handoff", handoff.write_handoff(self._results, request.name, content)]
        except Exception as error:
            raise LaunchFailed(
                f"What the driver must know could not be left in {self._results}: {error}"
            ) from error

    def _untouched(self, name: str) -> bool:
        """Whether the driver never began: it would have taken its token."""
        try:
            file = self._bootstraps.file(name)
            return Bootstrap.model_validate_json(file.read_text()).token is not None
        except (OSError, ValueError):
            return False

    def _clean_up(self, name: str) -> None:
        self._properties(name).unlink(missing_ok=True)
        self._bootstraps.remove(name)
        with contextlib.suppress(ResultsUnavailable):
            handoff.delete_handoffs(self._results, name)

    def _properties(self, name: str) -> Path:
        return self._folder / f"{name}.properties"

    def _handle(self, name: str, profile: Profile, group: Group | None) -> Handle:
        return {
            "backend": self.backend,
            "name": name,
            "master": profile.master,
            "deploy_mode": profile.deploy_mode,
            "cluster_url": profile.cluster_url,
            "namespace": namespace_of(profile.conf),
            "host": socket.gethostname() if group else None,
            **(group or {"pid": None, "created": None}),
        }


def _cluster(handle: dict[str, Any]) -> ClusterManager | None:
    """The cluster manager that is asked; None where only this host knows."""
    master, url = handle["master"], handle["cluster_url"]
    if master.startswith("k8s://") and handle["deploy_mode"] == "cluster":
        profile = Profile(backend="spark-submit", master=master)
        submit = spark_submit_command.spark_home(profile) / "bin" / "spark-submit"
        return Kubernetes(submit, master, handle["namespace"], _environment(profile))
    if url is None:
        return None
    return Yarn(url) if master == spark_submit_command.YARN else Standalone(url)


def _environment(profile: Profile) -> dict[str, str]:
    return {
        **inherited_environment(),
        "JAVA_HOME": str(find_java().path),
        "SPARK_HOME": str(spark_submit_command.spark_home(profile)),
        **profile.env,
    }


def _here(handle: Handle) -> bool:
    return handle["pid"] is not None and handle["host"] == socket.gethostname()


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
