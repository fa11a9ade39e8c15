"""The managed catalog: a Hive metastore for one home, run from PySpark's jars.

The metastore outlives the node and its drivers. A supervisor process (`metastore_supervisor.py`)
keeps it running while it has users. A user is a process that holds a shared lock on
`metastore/users.lock`; the kernel releases the lock of a process that dies. The supervisor ends
when the metastore has had no user for a while.

This module opens the socket on which the metastore listens. The supervisor holds the socket, so
that no other process can use the port, and the connections of drivers wait while a metastore
starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import psutil

from headrace.config.home import HomeLayout
from headrace.config.settings import Settings
from headrace.control.host.child_environment import CHILD_UMASK, child_environment
from headrace.control.host.class_archive import ClassArchives
from headrace.control.host.java import find_java
from headrace.control.host.metastore_supervisor import kill_orphaned_metastores
from headrace.control.host.process_identity import start_time
from headrace.files.file_locks import exclusive_lock
from headrace.files.private_files import create_private_folder, open_private_log, write_private
from headrace.model.transaction import MANAGED_CATALOG_KEY

_LOG = logging.getLogger("headrace.metastore")
_CONNECT_ATTEMPTS = 120
"""Attempts to connect, one a second, while there is no supervisor."""
_BACKLOG = 128
_STOP_SECONDS = 10


@dataclass(frozen=True, slots=True)
class SupervisorRecord:
    """The supervisor of a home, as recorded in `metastore/metastore.json`."""

    pid: int
    created: float | None
    """Start time of the process. A later process with the same id has another one."""
    port: int
    """Port of the metastore."""


class Metastore:
    """The metastore of one home, or of several homes of one host."""

    def __init__(
        self,
        layout: HomeLayout,
        *,
        warehouse: str,
        linger_seconds: float,
        archives: ClassArchives | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start nothing.

        Args:
            folder: Folder that the homes of several nodes share; None: the folder of the home.
        """
        self.folder = folder.absolute() if folder else layout.metastore
        self._is_shared = folder is not None
        self._warehouse = warehouse
        self._linger_seconds = linger_seconds
        self._archives = archives or ClassArchives(None)
        self._lock_descriptor: int | None = None
        self._guard = threading.Lock()

    @classmethod
    def of_settings(cls, settings: Settings, archives: ClassArchives | None = None) -> Self | None:
        """Return the metastore of the managed catalog; None for any other kind of catalog."""
        if settings.catalog.kind != "managed":
            return None
        return cls(
            settings.layout,
            warehouse=settings.warehouse,
            linger_seconds=settings.embedded.linger.total_seconds(),
            archives=archives,
            folder=settings.catalog.folder,
        )

    @property
    def users_lock(self) -> Path:
        """File whose shared lock keeps the metastore running."""
        return self.folder / "users.lock"

    @property
    def wanted_file(self) -> Path:
        """File whose creation starts a metastore that waits until it is wanted."""
        return self.folder / "wanted"

    def ensure(self, *, when_wanted: bool = False) -> dict[str, str]:
        """Start the metastore unless it runs, without waiting for it.

        Args:
            when_wanted: Whether to delay its start until a driver creates `wanted_file`. The start
                of a driver would compete with this one for the processors, and needs no tables.

        Returns the Spark configuration that selects the metastore. Raises JavaMissing, and OSError
        if the supervisor cannot be started.
        """
        self.hold()
        with exclusive_lock(self.folder / "start.lock"):
            supervisor = self._live_supervisor()
            if supervisor is None:
                with self._listen() as listener:
                    supervisor = self._start_supervisor(listener, when_wanted=when_wanted)
            catalog_id = self._read_catalog_id()
        address = f"thrift://127.0.0.1:{supervisor.port}"
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": address,
            MANAGED_CATALOG_KEY: f"{catalog_id} {address}",
            "spark.hadoop.hive.metastore.connect.retries": str(_CONNECT_ATTEMPTS),
            "spark.hadoop.hive.metastore.client.connect.retry.delay": "1s",
        }

    def hold(self) -> None:
        """Make this process a user of the metastore, until `release` or the end of the process."""
        with self._guard:
            if self._lock_descriptor is None:
                create_private_folder(self.folder)
                self._lock_descriptor = os.open(self.users_lock, os.O_RDONLY | os.O_CREAT, 0o600)
                fcntl.flock(self._lock_descriptor, fcntl.LOCK_SH)

    def release(self) -> None:
        """End the use of the metastore by this process."""
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def stop(self) -> None:
        """End the metastore, even if it has other users. An embedded node does so when it stops.

        A metastore that other homes share only loses a user.
        """
        self.release()
        if self._is_shared:
            return
        supervisor = self._live_supervisor()
        if supervisor is not None:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(supervisor.pid)
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=_STOP_SECONDS)

    def load_catalog_id(self) -> str:
        """Return the id of the catalog. Nodes with equal ids use the same catalog."""
        create_private_folder(self.folder)
        with exclusive_lock(self.folder / "start.lock"):
            return self._read_catalog_id()

    def find_catalog_id(self) -> str | None:
        """Return the id of the catalog; None if no node has created it yet. Nothing is created."""
        try:
            return self._id_file.read_text().strip()
        except FileNotFoundError:
            return None

    def _read_catalog_id(self) -> str:
        """Return the id of the catalog. It stays with the metastore's data, whatever its port."""
        if not self._id_file.exists():
            write_private(self._id_file, secrets.token_hex(16))
        return self._id_file.read_text().strip()

    @property
    def _id_file(self) -> Path:
        return self.folder / "catalog-id"

    def _live_supervisor(self) -> SupervisorRecord | None:
        """Return the record of the supervisor if its process is alive, else None."""
        record = self._read_record()
        if record is None:
            return None
        is_alive = record.created is not None and start_time(record.pid) == record.created
        return record if is_alive else None

    def _read_record(self) -> SupervisorRecord | None:
        """Return the record of the last supervisor, alive or not, or None if there is none."""
        try:
            return SupervisorRecord(**json.loads((self.folder / "metastore.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def _listen(self) -> socket.socket:
        """Listen at the last port, at which running drivers expect the metastore, or a free one."""
        record = self._read_record()
        if record is not None:
            with contextlib.suppress(OSError):
                return _listen_at(record.port)
            # The metastore of a supervisor that was killed still has the port.
            kill_orphaned_metastores(self.folder)
            with contextlib.suppress(OSError):
                return _listen_at(record.port)
            _LOG.warning(
                "the metastore gets another port, because a process uses port %d; drivers that run"
                " can use no table",
                record.port,
            )
        return _listen_at(0)

    def _start_supervisor(self, listener: socket.socket, *, when_wanted: bool) -> SupervisorRecord:
        java = find_java()
        wait = ["--wait-for", str(self.wanted_file)] if when_wanted else []
        self.wanted_file.unlink(missing_ok=True)
        options = [f"--jvm-option={option}" for option in self._archives.jvm_options(java)]
        with open_private_log(self.folder / "metastore.log") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "headrace.control.host.metastore_supervisor"),
                    *("--folder", str(self.folder), "--warehouse", self._warehouse),
                    *("--linger", str(self._linger_seconds), *wait, *options),
                ],
                stdin=listener.fileno(),
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**child_environment(), "JAVA_HOME": str(java.path)},
                umask=CHILD_UMASK,
            )
        port = int(listener.getsockname()[1])
        record = SupervisorRecord(process.pid, start_time(process.pid), port)
        write_private(self.folder / "metastore.json", json.dumps(asdict(record)))
        return record


def _listen_at(port: int) -> socket.socket:
    """Return a socket that listens on the loopback interface. Raises OSError."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
