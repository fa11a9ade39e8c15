"""The layout of HEADRACE_HOME, the folder that holds the state of one host."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.files.private_files import create_private_folder

DEFAULT_HOME = Path(".headrace")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of files that Headrace can create again, shared by all homes of the user.

    Raises RuntimeError if the user has no home directory.
    """
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "headrace"


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of what the shell remembers for the user: the history of the prompt.

    A relative XDG_STATE_HOME is ignored, as its specification requires. Raises RuntimeError if the
    user has no home directory.
    """
    state = Path(environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "headrace"


def logins_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file with the user's logins at servers."""
    return state_folder(environ) / "logins.json"


@dataclass(frozen=True, slots=True)
class HomeLayout:
    """Paths of everything that Headrace keeps in a home."""

    path: Path
    """The home itself, absolute."""

    @classmethod
    def at(cls, home: Path) -> HomeLayout:
        """Return the layout of a home, given by an absolute or relative path."""
        return cls(home.absolute())

    def create(self) -> None:
        """Create the home, or restrict it to its owner. Raises OSError.

        Headrace never changes a folder that belongs to another user, or that all users share.
        Other users may pass through a home with drivers that run as their owners.
        """
        create_private_folder(self.path)
        status = self.path.stat()
        is_shared = status.st_uid != os.getuid() or status.st_mode & stat.S_ISVTX
        if status.st_mode & 0o066 and not is_shared:
            self.path.chmod(0o700)

    @property
    def store_file(self) -> Path:
        """SQLite store of an embedded or single node."""
        return self.path / "headrace.db"

    @property
    def results(self) -> Path:
        """Default results location."""
        return self.path / "results"

    @property
    def warehouse(self) -> Path:
        """Default location of managed tables."""
        return self.path / "warehouse"

    @property
    def jobs(self) -> Path:
        """Manifests, savepoints and checkpoints of jobs, by owner."""
        return self.path / "jobs"

    @property
    def checkpoints(self) -> Path:
        """Default location of the write-ahead logs of streaming queries."""
        return self.path / "checkpoints"

    @property
    def streams(self) -> Path:
        """Default location of the rows that streaming queries write to files."""
        return self.path / "streams"

    @property
    def metastore(self) -> Path:
        """Database, configuration and log of the managed Hive metastore."""
        return self.path / "metastore"

    @property
    def drivers(self) -> Path:
        """Bootstrap files of local drivers, mode 0600."""
        return self.path / "drivers"

    @property
    def submitted(self) -> Path:
        """Driver packages, and bootstrap and properties files of spark-submit, mode 0600."""
        return self.path / "submitted"

    @property
    def temporary(self) -> Path:
        """Temporary files of the drivers on this host: one folder for each launch."""
        return self.path / "tmp"

    @property
    def node_id_file(self) -> Path:
        """Id of the node, stable across restarts."""
        return self.path / "node-id"

    @property
    def node_file(self) -> Path:
        """Address and token of the running node, mode 0600."""
        return self.path / "node.json"

    @property
    def token_file(self) -> Path:
        """Token that a node creates if none is configured, mode 0600. Commands of the home use it.

        The token is stable across restarts of the node.
        """
        return self.path / "token"

    @property
    def node_lock(self) -> Path:
        """Lock that the node of the home holds while it runs."""
        return self.path / "node.lock"

    @property
    def commands_lock(self) -> Path:
        """Lock that every command holds shared while it uses the embedded node."""
        return self.path / "commands.lock"

    @property
    def start_lock(self) -> Path:
        """Lock that is held exclusively while a node of the home starts."""
        return self.path / "start.lock"

    @property
    def node_log(self) -> Path:
        """Output of the embedded node, and of a node that `serve --background` starts."""
        return self.path / "logs" / "node.log"

    @property
    def session_logs(self) -> Path:
        """Folder of the logs of drivers."""
        return self.path / "logs"

    def session_log(self, session_id: str) -> Path:
        """Return the file with the output of a session's drivers."""
        return self.session_logs / f"{session_id}.log"
