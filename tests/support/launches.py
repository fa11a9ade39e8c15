"""Backends for the launcher tests, and small programs that run instead of drivers."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from fsspec.core import url_to_fs

from headrace.config.home import HomeLayout
from headrace.config.profiles import Profile
from headrace.control.host.class_archive import ClassArchives
from headrace.control.launchers.base import (
    DriverStatus,
    Handle,
    Launcher,
    LauncherHost,
    LaunchRequest,
    launch_name,
)
from headrace.model.messages import Bootstrap
from headrace.model.session import DriverLease

READY = "the test program is ready"
TOKEN = "a-token-that-only-the-driver-may-read"
SECRET = "a-key-that-no-argument-may-hold"


def make_host(home: Path, working_directory: Path | None = None) -> LauncherHost:
    """Return what the launcher of a home uses, without archives of classes."""
    results = str(home / "results")
    return LauncherHost(HomeLayout.at(home), results, ClassArchives(None), working_directory)


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A launcher, and profiles with which it starts small programs instead of drivers."""

    make_launcher: Callable[[Path], Launcher]
    """Returns the launcher of another node, with a home at this path."""
    running: Profile
    """Profile that starts a program which writes READY and then waits."""
    failing: Profile
    """Profile that starts a program which ends at once, or which `fail` ends."""
    failure_message: str
    """Part of the launcher's message about that end."""
    applications: Callable[[], list[str]] = field(default=list)
    """Returns the names of the applications that run on the cluster."""
    has_cluster: bool = False
    processes_lag: bool = False
    """Whether processes may outlive the end of their application by a heartbeat."""
    unreachable: Profile | None = None
    """Profile of a cluster that does not answer."""
    results: str | None = None
    """Results location; None: a folder of the test."""
    fail: Callable[[Handle], None] | None = None
    """Makes the service report a failure, for a service that runs no programs."""

    @property
    def runs_programs(self) -> bool:
        return self.fail is None

    def token_locations(self, folder: Path) -> list[str]:
        """Return the files below a folder, and the objects among the results, that hold TOKEN."""
        files = [file for file in folder.rglob("*") if file.is_file()]
        holders = [str(file) for file in files if TOKEN in file.read_text(errors="replace")]
        if self.results is not None:
            system, path = url_to_fs(self.results)
            system.invalidate_cache()
            holders += [
                name for name in system.find(path) if TOKEN.encode() in system.cat_file(name)
            ]
        return holders


def make_request(folder: Path, profile: Profile, results: str | None = None) -> LaunchRequest:
    """Return a launch of epoch 1 of a new session, because clusters remember launch names."""
    lease = DriverLease(f"se_{secrets.token_hex(8)}", 1)
    name = launch_name(lease)
    conf = {**profile.conf, "spark.app.name": name, "spark.master": profile.master}
    bootstrap = Bootstrap(
        session_id=lease.session_id,
        epoch=lease.epoch,
        token=TOKEN,
        nodes=["http://127.0.0.1:1"],
        conf={**conf, "spark.hadoop.fs.s3a.secret.key": SECRET},
        results=results or str(folder / "results"),
        inline_limit=1,
        chunk_limit=1,
        lease_seconds=1,
        renew_seconds=1,
        orphan_seconds=1,
    )
    log = folder / "logs" / f"{lease.session_id}.log"
    return LaunchRequest(name=name, bootstrap=bootstrap, profile=profile, log=log)


def read_log(request: LaunchRequest, status: DriverStatus) -> str:
    """Return the text of the log that the status names, or else of the log of the request."""
    if status.log is None:
        return request.log.read_text()
    page = httpx.get(f"{status.log}/stdout?start=0", follow_redirects=True, timeout=60)
    return page.text


def write_interpreter(file: Path, *lines: str) -> str:
    """Write a program that runs these lines and ignores its arguments; return its path."""
    file.write_text("\n".join([f"#!{sys.executable}", "import os, sys, time", *lines, ""]))
    file.chmod(0o755)
    return str(file)


def write_waiting_interpreter(file: Path) -> str:
    """Write a program that starts a child in its own process group, as PySpark does, and waits."""
    child = "subprocess.Popen(['sleep', '600'], process_group=0)"
    return write_interpreter(file, "import subprocess", child, *_print_ready_and_wait())


def write_spark_interpreter(file: Path) -> str:
    """Write a program that creates a SparkContext in the JVM that started it, and waits."""
    spark = ["from pyspark import SparkContext", "context = SparkContext()"]
    return write_interpreter(file, *spark, *_print_ready_and_wait())


def write_failing_interpreter(file: Path) -> str:
    """Write a program that ends at once with exit status 3."""
    return write_interpreter(file, "sys.exit(3)")


def _print_ready_and_wait() -> list[str]:
    return [f"print({READY!r}, flush=True)", "time.sleep(600)"]
