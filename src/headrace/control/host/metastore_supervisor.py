"""The supervisor that keeps the Hive metastore of a home running.

The supervisor is a process of its own, so that the metastore depends neither on a node nor on a
driver. It restarts a metastore that ends while it has users. When the metastore has had no user for
`--linger` seconds, the supervisor ends it and itself.

Standard input is the socket on which the metastore listens, and the metastore inherits it. The
connections of drivers wait in its backlog while a metastore starts.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.util
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from xml.sax.saxutils import escape

import psutil

from headrace.config.extras import install_command
from headrace.control.host.child_environment import CHILD_UMASK
from headrace.files.file_locks import exclusive_lock
from headrace.files.private_files import create_private_folder, write_private

FOLDER_OPTION = "-Dheadrace.metastore="
"""JVM option with the folder of the metastore, by which its process can be found."""
_KILL_SECONDS = 10


def kill_orphaned_metastores(folder: Path) -> None:
    """Kill the metastores of a folder, which has no supervisor.

    They would keep the files of Derby locked, and the port in use.
    """
    for process in psutil.process_iter(["cmdline"]):
        if f"{FOLDER_OPTION}{folder}" in (process.info["cmdline"] or []):
            _LOG.warning("killing process %d, a metastore without a supervisor", process.pid)
            process.kill()
            process.wait(timeout=_KILL_SECONDS)


_LOG = logging.getLogger("headrace.metastore")
_POLL_SECONDS = 0.5
_RESTART_SECONDS = 2.0
_START_SECONDS = 120.0
_MAX_FAILED_STARTS = 3
"""Failed starts in a row after which the supervisor closes the connections that wait."""
_LISTENER_FD = 0
_WANTED_SECONDS = 10.0
"""Longest delay of the first start. A driver may end before Spark is up."""
_WANTED_POLL_SECONDS = 0.02
_STOP_SECONDS = 5
_SERVER = Path(__file__).with_name("LoopbackMetastore.java")
_LOG_CONF = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{2}: %m%n%ex
"""


def main() -> int:
    """Run until the metastore has no user any more, or until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    parser = argparse.ArgumentParser(description="Keep the Hive metastore of a home running.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--warehouse", required=True)
    parser.add_argument("--linger", type=float, required=True)
    parser.add_argument("--wait-for", type=Path, help="start when this file exists")
    parser.add_argument("--jvm-option", action="append", default=[], dest="jvm_options")
    arguments = parser.parse_args()
    os.umask(CHILD_UMASK)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stop.set())
    signal.signal(signal.SIGINT, _ignore_interrupt)
    _write_hive_site(arguments.folder, arguments.warehouse)
    command = _metastore_command(arguments.folder, arguments.jvm_options)
    with socket.socket(fileno=_LISTENER_FD) as listener:
        if arguments.wait_for is not None:
            _wait_until_wanted(arguments.wait_for, listener, stop)
            if stop.is_set() or _give_up_record(arguments.folder):
                return 0
        _supervise(arguments.folder, command, listener, arguments.linger, stop)
    return 0


def _wait_until_wanted(file: Path, listener: socket.socket, stop: threading.Event) -> None:
    """Wait until a driver has created the file or connects, or for the time of a slow start."""
    deadline = time.monotonic() + _WANTED_SECONDS
    while not (file.exists() or stop.is_set()) and time.monotonic() < deadline:
        if select.select([listener], [], [], _WANTED_POLL_SECONDS)[0]:
            return


def _supervise(
    folder: Path,
    command: list[str],
    listener: socket.socket,
    linger: float,
    stop: threading.Event,
) -> None:
    """Keep the metastore running; end it when it has had no user for `linger` seconds."""
    # Another supervisor of the folder may still be ending its metastore, which has Derby's files.
    with exclusive_lock(folder / "run.lock"):
        kill_orphaned_metastores(folder)
        if not stop.is_set():
            _run_metastore(folder, command, listener, linger, stop)


def _run_metastore(
    folder: Path,
    command: list[str],
    listener: socket.socket,
    linger: float,
    stop: threading.Event,
) -> None:
    ready = _ready_file(folder)
    metastore, started = _start_metastore(folder, command, listener), time.monotonic()
    failed_starts = 0
    idle_since: float | None = None
    try:
        while not stop.wait(_POLL_SECONDS):
            if _has_users(folder / "users.lock"):
                idle_since = None
            else:
                idle_since = idle_since or time.monotonic()
                if time.monotonic() - idle_since >= linger and _give_up_record(folder):
                    _LOG.info("the metastore has had no user for %g s and is stopped", linger)
                    return
            if not ready.exists() and time.monotonic() - started > _START_SECONDS:
                _LOG.warning("the metastore has not started within %g s", _START_SECONDS)
                metastore.kill()
                metastore.wait()
                failed_starts = _MAX_FAILED_STARTS
            if metastore.poll() is not None:
                _LOG.warning(
                    "the metastore ended with exit status %s and is restarted",
                    metastore.returncode,
                )
                failed_starts = 0 if ready.exists() else failed_starts + 1
                if failed_starts >= _MAX_FAILED_STARTS:
                    _close_pending_connections(listener)
                if failed_starts:
                    stop.wait(_RESTART_SECONDS)
                metastore, started = _start_metastore(folder, command, listener), time.monotonic()
    finally:
        metastore.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            metastore.wait(timeout=_STOP_SECONDS)
        metastore.kill()
        metastore.wait()


def _give_up_record(folder: Path) -> bool:
    """Delete the record of this supervisor, so that the next node starts another one.

    Return False, and keep the record, if the metastore has a user.
    """
    with exclusive_lock(folder / "start.lock"):
        if _has_users(folder / "users.lock"):
            return False
        (folder / "metastore.json").unlink(missing_ok=True)
        return True


def _close_pending_connections(listener: socket.socket) -> None:
    """Close the connections that no metastore has accepted.

    Hive's clients would wait ten minutes for an answer to the call that they have sent.
    """
    # The next metastore shares this mode of the socket, so that it must be restored.
    listener.setblocking(False)
    try:
        while True:
            listener.accept()[0].close()
    except BlockingIOError:
        pass
    except OSError as error:
        _LOG.warning("connections that wait for the metastore stay open: %s", error)
    finally:
        listener.setblocking(True)


def _ignore_interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Ignore SIGINT: Ctrl-C in the terminal is meant for the command that started the node."""


def _has_users(users_lock: Path) -> bool:
    """Return whether a process holds the shared lock of the metastore's users."""
    with users_lock.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _write_hive_site(folder: Path, warehouse: str) -> None:
    properties = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'db'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        # PySpark has no jar of Hive's default pool, BoneCP, without which DROP DATABASE fails.
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": warehouse,
        "hive.async.log.enabled": "false",
        "hive.metastore.server.min.threads": "4",
        # Hadoop's file systems ignore the umask of the process.
        "fs.permissions.umask-mode": "077",
    }
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    conf = folder / "conf"
    write_private(
        conf / "hive-site.xml", "\n".join(["<configuration>", *lines, "</configuration>", ""])
    )
    write_private(conf / "log4j2.properties", _LOG_CONF)


def _metastore_command(folder: Path, jvm_options: list[str]) -> list[str]:
    """Return the command of the metastore, whose temporary files are in `folder / "tmp"`."""
    jars = _spark_home() / "jars"
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    opens = [
        f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "net", "util")
    ]
    return [
        # The C1 compiler alone: the start of a driver competes with this one for the processors.
        *(str(java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *(*opens, *jvm_options),
        f"-Dderby.stream.error.file={folder / 'derby.log'}",
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Dlog4j2.configurationFile={folder / 'conf' / 'log4j2.properties'}",
        f"{FOLDER_OPTION}{folder}",
        *("-cp", _class_path(jars, folder / "conf")),
        # Janino compiles the server and calls its main method.
        *("org.codehaus.janino.SimpleCompiler", str(_SERVER), _SERVER.stem),
        str(_ready_file(folder)),
    ]


def _ready_file(folder: Path) -> Path:
    """Return the file that the metastore creates when it accepts connections."""
    return folder / "ready"


def _start_metastore(
    folder: Path, command: list[str], listener: socket.socket
) -> subprocess.Popen[bytes]:
    temporary = folder / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    create_private_folder(temporary)
    _ready_file(folder).unlink(missing_ok=True)
    _set_incomplete_database_aside(folder)
    return subprocess.Popen(
        command,
        stdin=listener.fileno(),
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def _set_incomplete_database_aside(folder: Path) -> None:
    """Rename a database whose creation was interrupted, for example by the end of the host.

    Derby would refuse to open it for ever. Derby writes `service.properties` when the database is
    complete, so that no table can be in it before. A copy of the file exists while it is replaced.
    """
    database, aside = folder / "db", folder / "db.incomplete"
    if database.exists() and not any(database.glob("service.properties*")):
        shutil.rmtree(aside, ignore_errors=True)
        database.rename(aside)
        _LOG.warning(
            "the creation of the database %s was interrupted; it is created again, and the"
            " incomplete one is now %s",
            database,
            aside,
        )


def _class_path(jars: Path, conf: Path) -> str:
    """Return Spark's jars in the order of its own launcher, then the configuration.

    JVMs whose class paths begin alike can share an archive of classes (JEP 350).
    """
    first = sorted(jars.glob("slf4j-api-*.jar"))
    return ":".join([*map(str, first), f"{jars}/*", str(conf)])


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit(
            f"The metastore needs PySpark, which is not installed: {install_command('spark')}"
        )
    return Path(spec.origin).parent


if __name__ == "__main__":
    sys.exit(main())
