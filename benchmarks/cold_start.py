"""Time of the first `SELECT 1` on a home where nothing runs, against a bare PySpark process."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.measure import Sample, interleaved
from benchmarks.peers.processes import environment
from headrace.client.http import Client
from headrace.config.home import HomeLayout
from headrace.config.node_file import read_node_file

BARE = "a bare PySpark process"
KEPT_HOME = "`headrace sql`, a home that was used before"
NEW_HOME = "`headrace sql`, a new home"

_BARE_PROGRAM = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
print(spark.sql("SELECT 1").collect(), flush=True)
"""
_PHASES = (
    "command, until it starts the node",
    "node, until it starts the driver",
    "driver, until it starts the JVM",
    "JVM, until the session runs",
    "statement",
    "rows to the terminal",
)


class ColdStarts:
    """Starts from nothing, below one folder. The values of `phases` are seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rounds = 0
        self.phases = {name: Sample() for name in _PHASES}

    def bare(self) -> float:
        """Return the seconds until a bare PySpark process has printed the row."""
        start = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-c", _BARE_PROGRAM],
            cwd=self._folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            return time.perf_counter() - start

    def on_kept_home(self) -> float:
        """Return the seconds of `headrace sql` on the home of the rounds before."""
        return self._headrace(self._folder / "kept", self.phases)

    def on_new_home(self) -> float:
        """Return the seconds of `headrace sql` on a home that it creates."""
        self._rounds += 1
        return self._headrace(self._folder / f"new-{self._rounds}")

    def _headrace(self, home: Path, phases: dict[str, Sample] | None = None) -> float:
        home.mkdir(exist_ok=True)
        began = time.time()
        start = time.perf_counter()
        rows = _run(home, "sql", "--format", "csv", "SELECT 1")
        seconds = time.perf_counter() - start
        assert rows.splitlines()[-1] == "1", rows
        if phases is not None:
            times = [began, *_phase_ends(home), began + seconds]
            for sample, (first, last) in zip(phases.values(), pairwise(times), strict=True):
                sample.values.append(last - first)
        _run(home, "stop")
        return seconds


def cold_starts(folder: Path, *, warm_up: int, rounds: int) -> tuple[dict[str, Sample], ColdStarts]:
    """Measure all starts in interleaved rounds. Return the samples by name, and the phases."""
    starts = ColdStarts(folder)
    samples = interleaved(
        {BARE: starts.bare, KEPT_HOME: starts.on_kept_home, NEW_HOME: starts.on_new_home},
        warm_up=warm_up,
        rounds=rounds,
    )
    return samples, starts


def _run(home: Path, *arguments: str) -> str:
    """Run the program `headrace` and return its output."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("headrace")), *arguments],
        cwd=home,
        env={**environment(), "HEADRACE_HOME": str(home / "home")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def _phase_ends(home: Path) -> list[float]:
    """Return when each phase but the last ended, in seconds since the epoch."""
    node_file = read_node_file(HomeLayout.at(home / "home"))
    assert node_file is not None
    node = psutil.Process(node_file.pid)
    (driver,) = (each for each in node.children() if "headrace.driver" in each.cmdline())
    (jvm,) = (each for each in driver.children() if "SparkSubmit" in " ".join(each.cmdline()))
    with Client(node_file.address, node_file.token) as client:
        statement = client.statements(limit=1)["items"][0]
        session = client.session(statement["session_id"])
    ends = [session["started_at"], statement["ended_at"]]
    return [
        *(_start_time(process) for process in (node, driver, jvm)),
        *(datetime.fromisoformat(end).timestamp() for end in ends),
    ]


def _start_time(process: psutil.Process) -> float:
    """Return when a process started, in seconds since the epoch.

    `create_time` adds the uptime at the start to the time of the boot, which is in whole seconds.
    """
    uptime_at_start = process.create_time() - psutil.boot_time()
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - uptime_at_start)
