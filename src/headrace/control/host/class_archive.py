"""The archives of classes with which the JVMs of a host start in less time (JEP 350).

An archive belongs to one Java and one set of Spark's jars. A process of low priority creates it
once, beside the first driver (`headrace.driver.class_archive`); a host keeps it for all homes of a
user. A JVM that cannot use an archive, for example because a session adds jars to the class path,
starts without it.

`python -m headrace.control.host.class_archive` creates the archive of this host and waits for it.
What the JVM prints goes to a log, which the program shows if the archive was not created.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO

from headrace.config.extras import install_command
from headrace.config.settings import load
from headrace.control.host.child_environment import CHILD_UMASK, child_environment
from headrace.control.host.java import JavaHome, find_java
from headrace.errors import HeadraceError
from headrace.files.private_files import open_private_log

_LOG = logging.getLogger("headrace.launch")
_QUIET = "-Xlog:cds*=off"
"""By default, a JVM that cannot use its archive says so on standard output."""
_NICE = 19
_RETRY_SECONDS = 86_400
_UNUSED_SECONDS = 30 * 86_400


class ClassArchives:
    """The archives below one folder."""

    def __init__(self, folder: Path | None) -> None:
        """Keep the folder; nothing is read or created before a method is called.

        Args:
            folder: Folder of the archives; None: JVMs start without archives.
        """
        self._folder = folder
        self._guard = threading.Lock()
        self._creation: tuple[subprocess.Popen[bytes], Path] | None = None

    def jvm_options(self, java: JavaHome) -> list[str]:
        """Return the options with which a JVM uses the archive; none if there is no archive."""
        archive = self.find(java)
        if archive is None or not os.access(archive, os.R_OK):
            return []
        with contextlib.suppress(OSError):
            os.utime(archive)
        return [f"-XX:SharedArchiveFile={archive}", _QUIET]

    def share(self, java: JavaHome) -> None:
        """Let other users read the archive: it holds nothing but Spark's classes.

        A JVM that still cannot reach it, because of a folder above it, starts without it.
        """
        archive = self.find(java)
        with contextlib.suppress(OSError):
            if archive is not None and archive.stat().st_uid == os.geteuid():
                archive.chmod(0o644)
                archive.parent.chmod(archive.parent.stat().st_mode & 0o777 | 0o011)

    def create(self, java: JavaHome) -> None:
        """Start to create the archive in the background, unless it exists or is being created.

        After a failure, whose log remains, nothing happens for a day.
        """
        archive = self.find(java)
        if archive is None or os.access(archive, os.R_OK):
            return
        log = archive.with_suffix(".log")
        with self._guard:
            if self._creation is not None or _has_failed_recently(log):
                return
            try:
                if archive.exists():
                    return
                _delete_unused(archive.parent)
                with open_private_log(log) as stream:
                    process = _start_creation(archive, java, stream)
                self._creation = process, log
                # Users' statements come first.
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
            except OSError as error:
                _LOG.warning("no archive of classes can be created in %s: %s", self._folder, error)

    def stop(self) -> None:
        """End the creation of an archive, which the next node begins again."""
        with self._guard:
            if self._creation is None or self._creation[0].poll() is not None:
                return
            process, log = self._creation
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.unlink(missing_ok=True)

    def find(self, java: JavaHome) -> Path | None:
        """Return the path of the archive for a Java and Spark's jars.

        Returns None if there is no Spark or no folder of archives.
        """
        jars = _spark_jars()
        if jars is None or self._folder is None:
            return None
        # A JVM ignores an archive of jars with another size or modification time, in seconds.
        listing = sorted(_describe(jar) for jar in jars.glob("*.jar"))
        key = repr((str(java.path), java.version, str(jars), listing))
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def _start_creation(archive: Path, java: JavaHome, log: BinaryIO) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "headrace.driver.class_archive", str(archive)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env={**child_environment(), "JAVA_HOME": str(java.path)},
        umask=CHILD_UMASK,
    )


def _describe(jar: Path) -> tuple[str, int, int]:
    status = jar.stat()
    return jar.name, status.st_size, int(status.st_mtime)


def _spark_jars() -> Path | None:
    """Return the folder of Spark's jars, found as PySpark finds it, or None."""
    home = os.environ.get("SPARK_HOME")
    if home is not None:
        return Path(home) / "jars"
    spec = importlib.util.find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "jars"


def _delete_unused(folder: Path) -> None:
    """Delete the archives that no JVM has used for a month: they are some 200 MB each."""
    oldest = time.time() - _UNUSED_SECONDS
    for archive in folder.glob("*.jsa"):
        if archive.stat().st_mtime < oldest:
            archive.unlink(missing_ok=True)


def _has_failed_recently(log: Path) -> bool:
    try:
        return log.stat().st_mtime > time.time() - _RETRY_SECONDS
    except OSError:
        return False


def main() -> int:
    """Create the archive of this host unless it exists, and wait for it. Returns the exit code."""
    argparse.ArgumentParser(description="Create the archive of Spark's classes.").parse_args()
    try:
        java = find_java()
        archive = ClassArchives(load().class_archive_folder).find(java)
    except HeadraceError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    if archive is None:
        sys.stderr.write(
            f"There is no archive without PySpark ({install_command('spark')}), or with the "
            "setting class_archives off.\n"
        )
        return 1
    return 0 if archive.exists() else _create_and_wait(archive, java)


def _create_and_wait(archive: Path, java: JavaHome) -> int:
    """Create an archive. Print its log if that fails. Return the exit code."""
    log = archive.with_suffix(".log")
    sys.stderr.write(f"==> archiving Spark's classes in {archive} (log: {log})\n")
    try:
        with open_private_log(log) as stream:
            begin = stream.seek(0, os.SEEK_END)
            code = _start_creation(archive, java, stream).wait()
    except OSError as error:
        sys.stderr.write(f"The archive cannot be created in {archive.parent}: {error}\n")
        return 1
    if code:
        sys.stderr.write(log.read_bytes()[begin:].decode(errors="replace"))
        sys.stderr.write(f"The archive was not created. The lines above are also in {log}.\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
