"""Starts the JVM of a driver while Python still imports the driver's modules.

PySpark starts a JVM only after it has been imported itself, and waits for the JVM. Here, a driver
starts the JVM first, and connects PySpark to it later. The protocol is that of Spark's class
`PythonGatewayServer`, which writes its port and its secret to a file, and ends with its standard
input.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from headrace.files.spark_files import properties_file, read_tail, write_properties
from headrace.model.messages import Assignment, Bootstrap

_LOG = Path("/dev/fd/2")
_POLL_SECONDS = 0.01
_CONNECTION_VARIABLES = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
_SHELL_SIGNAL_BASE = 128
"""A shell adds it to the number of the signal that has ended its program."""
_NO_COMMAND = re.compile(r"spark-class: line \d+: CMD: bad array subscript$")
"""What the script spark-class reports if its launcher has printed nothing."""
_NOTE = re.compile(r"(NOTE: )?Picked up J\w+_OPTIONS: ")
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the short-lived JVM in which spark-submit puts the command of the JVM together."""


class JvmStart:
    """The start of a JVM that will run Spark in client mode."""

    def __init__(self, conf: Mapping[str, str], bootstrap_file: Path) -> None:
        """Start the process, and do not wait for it. `wait` raises an error of the start.

        PySpark passes the configuration as arguments, which every user of the host can read. Here,
        a properties file next to the bootstrap file holds it until `wait` returns.
        """
        self._properties = properties_file(bootstrap_file)
        self._log_start = _measure_log()
        self._folder = Path(tempfile.mkdtemp())
        self._connection = self._folder / "connection"
        self._process: subprocess.Popen[bytes] | None = None
        self._error: OSError | None = None
        try:
            self._process = self._start(conf)
        except OSError as error:
            self._error = error

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the JVM, after a start without an error."""
        assert self._process is not None
        return self._process

    def _start(self, conf: Mapping[str, str]) -> subprocess.Popen[bytes]:
        spark_conf = {key: value for key, value in conf.items() if key.startswith("spark.")}
        write_properties(self._properties, spark_conf)
        spark_submit = Path(os.environ.get("SPARK_HOME") or _pyspark_home()) / "bin/spark-submit"
        return subprocess.Popen(
            [
                *(str(spark_submit), "--load-spark-defaults"),
                *("--properties-file", str(self._properties)),
                *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")),
            ],
            stdin=subprocess.PIPE,
            env={
                "SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS,
                **os.environ,
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection),
            },
        )

    def wait(self) -> None:
        """Wait until PySpark can connect, and put the connection into this process's environment.

        Raises RuntimeError if the JVM ends before, and OSError if there is no spark-submit.
        """
        try:
            if self._error is not None:
                raise self._error
            while not self._connection.exists():
                if self.process.poll() is not None:
                    self.process.communicate()
                    raise RuntimeError("The JVM ended before Spark could be started.")
                time.sleep(_POLL_SECONDS)
            content = self._connection.read_bytes()
        finally:
            self._remove_files()
        port, length = struct.unpack_from(">ii", content)
        secret = content[8 : 8 + length].decode()
        os.environ.update(zip(_CONNECTION_VARIABLES, (str(port), secret), strict=True))

    def read_log(self) -> str:
        """Return what this driver has written to its log since the start of the JVM."""
        return read_tail(_LOG, self._log_start)

    def find_kill(self, *, exit_seconds: float) -> str | None:
        """Return how the JVM was killed, for example `killed by SIGKILL`; None if it was not.

        Args:
            exit_seconds: How long to wait for the end of the process.
        """
        if self._process is None:
            return None
        try:
            code = self._process.wait(timeout=exit_seconds)
        except subprocess.TimeoutExpired:
            return None
        # The script spark-class exits like a shell if its own JVM is killed.
        number = -code if code < 0 else code - _SHELL_SIGNAL_BASE
        if number in set(signal.Signals):
            return f"killed by {signal.Signals(number).name}"
        # The script does not know why its launcher has ended, which would report an error of Java.
        lines = [line for line in self.read_log().splitlines() if not _NOTE.match(line)]
        if len(lines) == 1 and _NO_COMMAND.search(lines[0]):
            return "killed before it could start Spark"
        return None

    def _remove_files(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._properties.unlink(missing_ok=True)


def _measure_log() -> int:
    """Return the size of the driver's log in bytes. Earlier drivers of the session wrote to it."""
    status = os.fstat(2)
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def remove_connection() -> None:
    """Remove the connection from the environment, which child processes would inherit."""
    for variable in _CONNECTION_VARIABLES:
        os.environ.pop(variable, None)


def _pyspark_home() -> Path:
    """Return the folder of PySpark, which contains Spark, without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("PySpark is not installed, and SPARK_HOME is not set.")
    return Path(spec.origin).parent


_LONGEST_DELAY_SECONDS = 1.0
_NEEDS_CATALOG = re.compile(r"\b(from|table|show|describe|desc|explain)\b", re.IGNORECASE)


class MetastoreStart:
    """Tells the supervisor of the metastore when to start it. Thread-safe.

    The first use of the catalog waits for the metastore. Without a driver that wants it, the
    metastore starts by itself after some seconds.
    """

    def __init__(self, bootstrap: Bootstrap) -> None:
        self._file = None if bootstrap.wanted is None else Path(bootstrap.wanted)
        self._started = threading.Event()

    def start(self) -> None:
        """Let the metastore start now, unless this driver has called the method before."""
        if self._file is None or self._started.is_set():
            return
        self._started.set()
        with contextlib.suppress(OSError):
            self._file.touch(mode=0o600)

    def start_soon(self) -> None:
        """Let the metastore start within a second, whatever the first statement is."""
        if self._file is None:
            return
        timer = threading.Timer(_LONGEST_DELAY_SECONDS, self.start)
        timer.daemon = True
        timer.start()

    def start_for(self, assignment: Assignment) -> None:
        """Let the metastore start now if a statement may need it.

        A wrong guess only costs time: a query may call a function of the catalog without naming a
        table, and starts then when the second of `start_soon` is over.
        """
        if not assignment.is_query or _NEEDS_CATALOG.search(assignment.text):
            self.start()


class JvmProcess(Protocol):
    """The process of a JVM, which may end at any time."""

    def is_alive(self, exit_seconds: float) -> bool:
        """Return whether the process runs, after waiting up to `exit_seconds` for its end."""

    def kill(self) -> None:
        """Kill the process, and return when it has ended."""


class ChildJvm:
    """The JVM that this process has started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def is_alive(self, exit_seconds: float) -> bool:
        try:
            self._process.wait(timeout=exit_seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class ParentJvm:
    """The JVM that started this process: spark-submit, or the application master of YARN.

    When it ends, the operating system gives this process another parent.
    """

    def __init__(self) -> None:
        self._pid = os.getppid()

    def is_alive(self, exit_seconds: float) -> bool:
        deadline = time.monotonic() + exit_seconds
        while os.getppid() == self._pid:
            if time.monotonic() >= deadline:
                return True
            time.sleep(_POLL_SECONDS)
        return False

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if os.getppid() == self._pid:
                os.kill(self._pid, signal.SIGKILL)
        while os.getppid() == self._pid:
            time.sleep(_POLL_SECONDS)
