"""Bootstrap files of the drivers on this host: one file `<launch name>.json` each, mode 0600.

Beside it, `<launch name>.properties` gives Spark's configuration to spark-submit while it starts. A
driver that runs as another user of the host has a folder `<launch name>` of its own for both.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import subprocess
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from headrace.control.host.process_identity import HostIdentity, this_host
from headrace.control.host.system_user import SystemUser
from headrace.control.worker_pool import WorkerPool
from headrace.errors import ResultsUnavailable
from headrace.files.private_files import create_private_folder, write_private
from headrace.files.spark_files import properties_file
from headrace.model.messages import Bootstrap

_FILE = re.compile(r"\.?(headrace-[^.]+)(?:\.(?:json|properties)(?:\.[0-9a-f]+)?)?")
_writing = threading.Lock()
"""Held while this process removes or replaces a file of a launch."""


class BootstrapFiles:
    """The bootstrap files in one folder. A driver reads its file again when no node answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """Return the path of the file of a launch, which need not exist."""
        own_folder = self._folder / name
        return (own_folder if own_folder.is_dir() else self._folder) / f"{name}.json"

    def properties_path(self, name: str) -> Path:
        """Return the path of the properties file of a launch, which need not exist."""
        return properties_file(self.path(name))

    def arguments(self, name: str) -> set[str]:
        """Return arguments of which each process of a launch has one: driver and JVM."""
        return {str(self.path(name)), str(self.properties_path(name))}

    def write(self, name: str, bootstrap: Bootstrap, user: SystemUser | None = None) -> Path:
        """Write the file of a launch and return its path. Raises LaunchFailed and OSError.

        Args:
            user: User who runs the driver; None: that of this process.
        """
        if user is not None:
            user.create_folder(self._folder / name)
        file = self.path(name)
        owner = None if user is None else (user.uid, user.gid)
        write_private(file, bootstrap.model_dump_json(), owner=owner)
        return file

    def names(self) -> list[str]:
        """Return the names of the launches that have a file."""
        if not self._folder.is_dir():
            return []
        matches = (_FILE.fullmatch(file.name) for file in self._folder.iterdir())
        return sorted({match[1] for match in matches if match is not None})

    def remove(self, name: str) -> None:
        """Delete the files of a launch if they exist."""
        with _writing:
            self.path(name).unlink(missing_ok=True)
            self.properties_path(name).unlink(missing_ok=True)
            # A driver that was killed while it replaced a file.
            for file in self._folder.glob(f".{name}.*"):
                file.unlink(missing_ok=True)
            if (own_folder := self._folder / name).is_dir():
                delete_tree(own_folder)

    def host_has_restarted(self, name: str, host: HostIdentity) -> bool:
        """Return whether the host of a launch has restarted, which ended all its processes.

        The files of the launch show that the host has this home, on a disk of its own.
        """
        return self.path(name).exists() and this_host().is_restart_of(host)

    def announce(self, addresses: list[str]) -> None:
        """Write the node addresses into every file. Unreadable files are skipped."""
        for file in map(self.path, self.names()):
            # Otherwise a file that another thread removes between the two steps would come back.
            with _writing, contextlib.suppress(OSError, ValueError):
                text, owner = _read_of_driver(file)
                bootstrap = Bootstrap.model_validate_json(text)
                if bootstrap.nodes == addresses:
                    continue
                updated = bootstrap.model_copy(update={"nodes": addresses})
                write_private(file, updated.model_dump_json(), owner=owner)


def _read_of_driver(file: Path) -> tuple[bytes, tuple[int, int]]:
    """Return the content of a file, and the ids of its user and group. Raises OSError.

    A driver that runs as another user can replace its file by a link to files that only this
    process can read. The file must therefore belong to the user of its folder.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != file.parent.stat().st_uid:
            raise PermissionError(f"{file} is not the file of its driver")
        content = stream.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise PermissionError(f"{file} is larger than any bootstrap")
        return content, (status.st_uid, status.st_gid)


_LOG = logging.getLogger("headrace.launch")
_MAX_BYTES = 64 * 1024 * 1024
_DELETE_SECONDS = 10.0
_DELETE_THREADS = 4


def delete_tree(folder: Path) -> None:
    """Delete a folder of a driver. What cannot be deleted remains.

    A program of the system does it: a driver can nest its folders more deeply than Python's
    recursion goes.
    """
    subprocess.run(
        ["/bin/rm", "-rf", "--one-file-system", "--", str(folder)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )


class TemporaryFolders:
    """The folders of all launches, below one folder of the home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._deletions = WorkerPool(
            "temporary-folders", threads=_DELETE_THREADS, seconds=_DELETE_SECONDS, storage="home"
        )

    def path(self, name: str) -> Path:
        """Return the path of the folder of a launch, which need not exist."""
        return self._folder / name

    def create(self, name: str, user: SystemUser | None = None) -> None:
        """Create the folder of a launch, for its owner only. Raises LaunchFailed and OSError.

        Args:
            user: User who runs the driver; None: that of this process.
        """
        if user is None:
            create_private_folder(self.path(name))
        else:
            user.create_folder(self.path(name))

    def remove(self, name: str) -> None:
        """Delete the folder of a launch. Files that cannot be deleted remain.

        The folder may hold all shuffle files of a driver. The call returns after at most 10 s, and
        a longer deletion continues in its thread.
        """
        try:
            self._deletions.call(delete_tree, self.path(name))
        except ResultsUnavailable:
            _LOG.warning("the deletion of the temporary files of %s takes long", name)

    def names(self) -> list[str]:
        """Return the names of the launches that have a folder."""
        if not self._folder.is_dir():
            return []
        return sorted(folder.name for folder in self._folder.iterdir())

    def environment(
        self,
        name: str,
        inherited: Mapping[str, str],
        profile: Mapping[str, str],
        jvm_options: Iterable[str] = (),
    ) -> dict[str, str]:
        """Return an environment whose Python and JVMs use the folder of a launch.

        Args:
            inherited: Variables that the driver inherits from the node.
            profile: Variables of the profile, which override all others.
            jvm_options: Further options of the driver's JVM, which those of the profile override.
        """
        folder = self.path(name)
        # Unlike spark.driver.extraJavaOptions, the variable reaches spark-submit in every mode.
        own_options = [
            f"-Djava.io.tmpdir={folder}",
            f"-Dderby.stream.error.file={folder / 'derby.log'}",
            *jvm_options,
        ]
        environment = {**inherited, "TMPDIR": str(folder), **profile}
        further_options = environment.get("SPARK_SUBMIT_OPTS", "")
        options = " ".join([*map(_quote, own_options), further_options]).strip()
        return {**environment, "SPARK_SUBMIT_OPTS": options}

    def spark_conf(self, name: str) -> dict[str, str]:
        """Return the configuration that makes Spark's block manager use the folder of a launch."""
        return {"spark.local.dir": str(self.path(name))}


def _quote(option: str) -> str:
    """Return an option in the syntax of CommandBuilderUtils.parseOptionString, Spark's parser."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
