"""Launcher of the backend `spark-submit`, for every master that Spark supports.

In client mode the driver is a process of this host, in the process group of spark-submit. In
cluster mode spark-submit only submits the application, and the cluster chooses the host of the
driver. The page docs/guides/backends.md lists the files that each mode sends to the driver.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.config.extras import install_command
from headrace.config.profiles import Profile, SparkSubmitProfile
from headrace.control.host.child_environment import child_environment
from headrace.control.host.java import find_java
from headrace.control.launchers import process_group
from headrace.control.launchers.base import (
    DriverExit,
    DriverStatus,
    Handle,
    LauncherHost,
    LaunchRequest,
    launch_name,
)
from headrace.control.launchers.bootstrap_files import BootstrapFiles, TemporaryFolders
from headrace.control.launchers.cluster_managers import (
    ClusterManager,
    Kubernetes,
    Standalone,
    Yarn,
    pod_name,
    pod_namespace,
    stop_application,
)
from headrace.control.launchers.process_group import (
    HOST_RESTARTED,
    ChildGroups,
    ProcessGroup,
    describe_exit,
)
from headrace.control.launchers.remote_artifacts import (
    DriverPackage,
    HandoffDeletion,
    build_driver_package,
)
from headrace.errors import DriverOnOtherHost, HeadraceError, LaunchFailed
from headrace.files import locations
from headrace.files.spark_files import find_last_exception, read_tail, write_properties
from headrace.model.messages import Bootstrap
from headrace.model.session import DriverLease

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
    profile = SparkSubmitProfile.of(request.profile)
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
        *(("--proxy-user", request.run_as) if request.run_as and profile.master == YARN else ()),
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
    profile = SparkSubmitProfile.of(request.profile)
    if profile.master != YARN:
        return {}
    tags = [tag for tag in (bootstrap_conf.get("spark.yarn.tags"), request.name) if tag]
    conf = {"spark.yarn.tags": ",".join(tags)}
    if profile.deploy_mode == "cluster":
        python = profile.python or sys.executable
        conf |= {
            "spark.yarn.submit.waitAppCompletion": "false",
            # A second attempt could not start: the first one has read and deleted the bootstrap.
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
        }
    return conf


def _kubernetes_conf(request: LaunchRequest) -> dict[str, str]:
    profile = SparkSubmitProfile.of(request.profile)
    if not profile.master.startswith("k8s://"):
        return {}
    if profile.deploy_mode == "client":
        return {"spark.kubernetes.executor.label.headrace-launch": request.name}
    return {
        # A session cannot choose its namespace: `find` searches the namespace of the profile.
        "spark.kubernetes.namespace": pod_namespace(profile.conf),
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.driver.pod.name": pod_name(request.name),
        "spark.kubernetes.driver.label.headrace-launch": request.name,
        "spark.kubernetes.executor.label.headrace-launch": request.name,
    }


@dataclass(frozen=True, slots=True)
class _Submission:
    """A spark-submit process that this node started."""

    in_cluster_mode: bool
    log: Path
    log_start: int
    """Size of the log before the process started: earlier drivers of the session wrote to it."""


class SparkSubmitLauncher:
    """Starts spark-submit with a properties file and, in client mode, a bootstrap file."""

    backend = "spark-submit"

    def __init__(self, host: LauncherHost) -> None:
        self._folder = host.layout.submitted
        self._results = host.results
        self._bootstraps = BootstrapFiles(self._folder)
        self._temporary = TemporaryFolders(host.layout.temporary)
        self._handoffs = HandoffDeletion()
        self._working_directory = host.working_directory
        self._children = ChildGroups()
        self._submissions: dict[str, _Submission] = {}
        self._failures: dict[str, str] = {}
        self._lock = threading.Lock()

    def start(self, request: LaunchRequest) -> Handle:
        name, profile = request.name, SparkSubmitProfile.of(request.profile)
        properties_file = self._bootstraps.properties_path(name)
        properties = build_conf(request)
        if profile.deploy_mode == "client":
            properties = {**self._temporary.spark_conf(name), **properties}
        with self._lock:
            self._submissions[name] = _Submission(
                profile.deploy_mode == "cluster", request.log, _file_size(request.log)
            )
        try:
            self._temporary.create(name)
            write_properties(properties_file, properties)
            driver_arguments = self._write_bootstrap(request)
            command = build_command(
                request, properties_file, build_driver_package(self._folder), driver_arguments
            )
            group = self._children.start(
                request.lease,
                command,
                log=request.log,
                env=self._temporary.environment(name, _environment(profile), profile.env),
                cwd=self._working_directory,
            )
        except (HeadraceError, OSError) as error:
            with self._lock:
                self._submissions.pop(name)
            self._remove_launch_files(name, profile.deploy_mode)
            if isinstance(error, HeadraceError):
                raise
            raise LaunchFailed(f"spark-submit could not be started: {error}") from error
        return self._handle(name, profile, group)

    def find(self, name: str, profile: Profile) -> Handle | None:
        # spark-submit has the properties file among its arguments, the driver the bootstrap file.
        group = process_group.find(self._bootstraps.arguments(name))
        handle = self._handle(name, SparkSubmitProfile.of(profile), group)
        if group is not None:
            return handle
        cluster = _cluster_manager(handle)
        application = None if cluster is None else cluster.find(name)
        return handle if application is not None and application.alive else None

    def poll(self, handle: Handle) -> DriverStatus:
        process, elsewhere = self._poll_process(handle)
        cluster = _cluster_manager(handle)
        application = None if cluster is None else cluster.find(handle["name"])
        in_cluster_mode = handle["deploy_mode"] == "cluster"
        # In client mode, the driver can outlive its application, and write without it.
        is_known = elsewhere is None or in_cluster_mode
        if application is not None and (application.alive or is_known):
            alive = application.alive or (
                not in_cluster_mode and process is not None and process.alive
            )
            log = application.log if in_cluster_mode else None
            return DriverStatus(alive=alive, message=application.message, log=log)
        if process is not None:
            return DriverStatus(alive=process.alive, message=self._describe(handle, process))
        if elsewhere is not None:
            raise elsewhere
        return DriverStatus(alive=False, message="the cluster has no application of this name")

    def kill(self, handle: Handle) -> None:
        name = handle["name"]
        elsewhere = None
        if handle["pid"] is not None:
            group = ProcessGroup.from_handle(handle)
            try:
                if not self._bootstraps.host_has_restarted(name, group.host):
                    process_group.kill(group)
            except DriverOnOtherHost as error:
                elsewhere = error
        # Remove the bootstrap before the application: a driver that starts later cannot act.
        self._remove_launch_files(name, handle["deploy_mode"])
        with self._lock:
            self._failures.pop(name, None)
        cluster = _cluster_manager(handle)
        if cluster is not None:
            stop_application(cluster, name)
        if elsewhere is not None and (cluster is None or handle["deploy_mode"] == "client"):
            raise elsewhere

    def exits(self) -> list[DriverExit]:
        exits = []
        for lease, status in self._children.collect_exits():
            driver_exit = self._driver_exit(lease, status)
            if driver_exit is not None:
                exits.append(driver_exit)
        return exits

    def watch(self, lease: DriverLease, handle: Handle) -> None:
        # In cluster mode, spark-submit ends when it has submitted the application.
        if handle["deploy_mode"] == "client" and handle["pid"] is not None:
            self._children.watch(lease, ProcessGroup.from_handle(handle))

    def announce(self, addresses: list[str]) -> None:
        self._bootstraps.announce(addresses)

    def _driver_exit(self, lease: DriverLease, status: int | None) -> DriverExit | None:
        """Return the exit of a driver whose spark-submit has ended.

        Returns None in cluster mode if spark-submit succeeded: the driver then runs in the cluster.
        """
        name = launch_name(lease)
        with self._lock:
            submission = self._submissions.pop(name, None)
        if submission is None:
            # Another process has started the driver.
            return DriverExit(lease=lease, reason=describe_exit(status))
        self._bootstraps.properties_path(name).unlink(missing_ok=True)
        if submission.in_cluster_mode and status == 0:
            return None
        reason = self._describe_end(name, submission, describe_exit(status))
        with self._lock:
            self._failures[name] = reason
        return DriverExit(lease=lease, reason=reason)

    def _describe(self, handle: Handle, process: DriverStatus) -> str:
        """Return the message for a driver whose spark-submit process has the given status."""
        name = handle["name"]
        if process.alive:
            in_cluster_mode = handle["deploy_mode"] == "cluster"
            return "spark-submit is submitting it" if in_cluster_mode else process.message
        with self._lock:
            failure, submission = self._failures.get(name), self._submissions.get(name)
        if failure is None and submission is not None:
            failure = self._describe_end(name, submission, process.message)
        return failure or process.message

    def _describe_end(self, name: str, submission: _Submission, exit_text: str) -> str:
        """Return the exit text, with the last exception in the log if spark-submit logged it."""
        # A driver that has started writes to the same log in client mode.
        if not submission.in_cluster_mode and not self._has_unread_token(name):
            return exit_text
        exception = find_last_exception(read_tail(submission.log, submission.log_start))
        return f"{exit_text}: {exception}" if exception else exit_text

    def _write_bootstrap(self, request: LaunchRequest) -> list[str]:
        """Write the bootstrap to a location that the driver can read.

        Returns the arguments of the driver, which name that location. Raises LaunchFailed, OSError.
        """
        if not request.profile.is_remote:
            return [str(self._bootstraps.write(request.name, request.bootstrap))]
        # spark-submit sends Spark's configuration with the application: the driver must not set it.
        conf = {
            key: value
            for key, value in request.bootstrap.conf.items()
            if not key.startswith("spark.")
        }
        bootstrap = request.bootstrap.model_copy(update={"conf": conf})
        content = bootstrap.model_dump_json().encode()
        try:
            return ["--handoff", locations.write_handoff(self._results, request.name, content)]
        except Exception as error:
            raise LaunchFailed(
                f"The bootstrap of the driver could not be written to the results location"
                f" {self._results}: {error}"
            ) from error

    def _has_unread_token(self, name: str) -> bool:
        """Return whether the token is in the bootstrap file. A driver removes it when it starts."""
        try:
            file = self._bootstraps.path(name)
            return Bootstrap.model_validate_json(file.read_text()).token is not None
        except (OSError, ValueError):
            return False

    def _remove_launch_files(self, name: str, deploy_mode: str) -> None:
        self._bootstraps.remove(name)
        if deploy_mode == "cluster":
            self._handoffs.run(locations.delete_handoffs, self._results, name)
        self._temporary.remove(name)

    def _poll_process(self, handle: Handle) -> tuple[DriverStatus | None, DriverOnOtherHost | None]:
        """Return the status of the process on this host, or the reason why it is not known."""
        if handle["pid"] is None:
            return None, None
        group = ProcessGroup.from_handle(handle)
        if self._bootstraps.host_has_restarted(handle["name"], group.host):
            return HOST_RESTARTED, None
        try:
            return self._children.poll(group), None
        except DriverOnOtherHost as error:
            return None, error

    def _handle(self, name: str, profile: SparkSubmitProfile, group: ProcessGroup | None) -> Handle:
        """Return the handle of a driver, whose group is None if no process runs on this host."""
        return {
            "backend": self.backend,
            "name": name,
            "master": profile.master,
            "deploy_mode": profile.deploy_mode,
            "cluster_url": profile.cluster_url,
            "namespace": pod_namespace(profile.conf),
            **(group.to_record() if group else {"pid": None}),
        }


def _cluster_manager(handle: Handle) -> ClusterManager | None:
    """Return the client of the driver's cluster manager.

    Returns None if the process on the host of the node is the only source of the driver's state.
    """
    master, url = handle["master"], handle["cluster_url"]
    if master.startswith("k8s://") and handle["deploy_mode"] == "cluster":
        profile = SparkSubmitProfile(master=master)
        spark_submit = find_spark_home(profile) / "bin" / "spark-submit"
        return Kubernetes(spark_submit, master, handle["namespace"], _environment(profile))
    if url is None:
        return None
    return Yarn(url) if master == YARN else Standalone(url)


def _environment(profile: Profile) -> dict[str, str]:
    return {
        **child_environment(profile.inherit_env),
        "JAVA_HOME": str(find_java().path),
        "SPARK_HOME": str(find_spark_home(profile)),
        # On a cluster, executors on other hosts call the driver.
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if profile.master.startswith("local") else {}),
        **profile.env,
    }


def _file_size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
