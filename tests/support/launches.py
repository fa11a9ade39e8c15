"""What the suite of launchers needs to know of each: what it starts, and how that is seen."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from fsspec.core import url_to_fs

from headrace.control.launchers.base import (
    DriverStatus,
    Handle,
    Launcher,
    LaunchRequest,
    launch_name,
)
from headrace.model.messages import Bootstrap
from headrace.settings import Profile

READY = "the stand-in is ready"
TOKEN = "a-token-that-only-the-driver-may-read"
SECRET = "a-key-that-no-argument-may-hold"


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A launcher, and programs in the place of drivers that it can start."""

    make: Callable[[Path], Launcher]
    """The launcher of one more node with a home."""
    stays: Profile
    """Starts what writes READY and then waits."""
    fails: Profile
    """Starts what ends at once, or what `fail` ends."""
    words: str
    """What the launcher says of that, among other things."""
    applications: Callable[[], list[str]] = field(default=list)
    """Names of what runs on the cluster; none where there is no cluster."""
    on_cluster: bool = False
    lags: bool = False
    """Its hosts end the containers of an application a heartbeat after its manager said so."""
    unreachable: Profile | None = None
    """Its cluster does not answer."""
    results: str | None = None
    """Where drivers would leave results; None for a folder of the test's."""
    fail: Callable[[Handle], None] | None = None
    """Has the backend say that a driver failed: a service that keeps launches, and runs none."""

    @property
    def runs_programs(self) -> bool:
        return self.fail is None

    def tokens(self, folder: Path) -> list[str]:
        """Where the token lies: files of a test's folder, and objects among the results."""
        files = [one for one in folder.rglob("*") if one.is_file()]
        found = [str(one) for one in files if TOKEN in one.read_text(errors="replace")]
        if self.results is not None:
            system, inner = url_to_fs(self.results)
            system.invalidate_cache()
            found += [one for one in system.find(inner) if TOKEN.encode() in system.cat_file(one)]
        return found


def request(folder: Path, profile: Profile, results: str | None = None) -> LaunchRequest:
    """A launch of epoch 1 of a session of its own: clusters remember the names of the past."""
    session = f"se_{secrets.token_hex(8)}"
    name = launch_name(session, 1)
    conf = {**profile.conf, "spark.app.name": name, "spark.master": profile.master}
    bootstrap = Bootstrap(
        session_id=session,
        epoch=1,
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
    log = folder / "logs" / f"{session}.log"
    return LaunchRequest(name=name, bootstrap=bootstrap, profile=profile, log=log)


def log_of(asked: LaunchRequest, status: DriverStatus) -> str:
    """The text that is found where the log is said to be."""
    if status.log is None:
        return asked.log.read_text()
    page = httpx.get(f"{status.log}/stdout?start=0", follow_redirects=True, timeout=10)
    return page.text


def program(file: Path, *lines: str) -> str:
    """An interpreter that does these things, whatever it is asked to run."""
    file.write_text("\n".join([f"#!{sys.executable}", "import os, sys, time", *lines, ""]))
    file.chmod(0o755)
    return str(file)


def standing_by(file: Path) -> str:
    """An interpreter that starts no Spark, but a child in a group of its own, as PySpark does."""
    child = "subprocess.Popen(['sleep', '600'], process_group=0)"
    return program(file, "import subprocess", child, *_ready_and_waiting())


def spark_standing_by(file: Path) -> str:
    """An interpreter that makes Spark's context, under the JVM that started it, and no more."""
    spark = ["from pyspark import SparkContext", "context = SparkContext()"]
    return program(file, *spark, *_ready_and_waiting())


def failing(file: Path) -> str:
    """An interpreter that ends at once."""
    return program(file, "sys.exit(3)")


def _ready_and_waiting() -> list[str]:
    return [f"print({READY!r}, flush=True)", "time.sleep(600)"]
