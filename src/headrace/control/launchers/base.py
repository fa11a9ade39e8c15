"""The launcher contract: how a node starts, finds, polls and kills drivers on a backend.

A node claims a launch in the store before it calls `start`. Everything that a launcher starts
carries the name `headrace-<session>-<epoch>`, so that a driver can be found even if its node ended
before it stored the handle. Every node that can reach the backend can use a handle.

Every call except `exits` and `announce` may raise BackendUnreachable. The state of the driver is
then unknown, and the caller must not draw any conclusion from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headrace.config.home import HomeLayout
from headrace.config.profiles import Profile
from headrace.config.settings import Settings
from headrace.control.host.class_archive import ClassArchives
from headrace.model.messages import Bootstrap
from headrace.model.session import DriverLease

Handle = dict[str, Any]
"""JSON object in the store by which a launcher identifies a driver. The key `backend` names the
launcher; the other keys belong to that launcher."""


def launch_name(lease: DriverLease) -> str:
    """Return the name that everything started for a driver carries."""
    return f"headrace-{lease.session_id}-{lease.epoch}"


@dataclass(frozen=True, slots=True)
class LauncherHost:
    """What a launcher uses of the host of its node: each launcher is created with it."""

    layout: HomeLayout
    results: str
    """Results location, through which drivers on other hosts get their bootstraps."""
    archives: ClassArchives
    """Archives of classes for the drivers of this host."""
    working_directory: Path | None
    """Folder in which drivers and spark-submit run, and in which Spark resolves relative paths;
    None: the working directory of this process."""
    smallest_uid: int = 1000
    """Smallest uid as which a driver may run."""

    @classmethod
    def of_settings(
        cls,
        settings: Settings,
        archives: ClassArchives | None = None,
        working_directory: Path | None = None,
    ) -> LauncherHost:
        """Return the host of a node; without archives, the launchers neither use nor create any."""
        return cls(
            settings.layout,
            settings.results_location,
            archives or ClassArchives(None),
            working_directory,
            settings.auth.system_users.smallest_uid,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One driver to start."""

    name: str
    bootstrap: Bootstrap
    profile: Profile
    log: Path
    """File to which stdout and stderr of the processes on this host are appended."""
    run_as: str | None = None
    """Name under which the system knows the owner of the session, if the driver runs as the owner
    (`run_as` of the profile); None: it runs as the node."""
    folders: tuple[Path, ...] = ()
    """Folders on this host in which only the user of `run_as` keeps files."""
    optimize_later: bool = False
    """Whether the JVM compiles less at its start, and reaches its full speed later.

    Only the launcher `local` reads it.
    """

    @property
    def lease(self) -> DriverLease:
        """Session and epoch of the driver."""
        return DriverLease(self.bootstrap.session_id, self.bootstrap.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStatus:
    """State of a driver, as its backend reports it."""

    alive: bool
    """Whether the driver, or any process that belongs to it, may still act."""
    message: str
    """State and reason, e.g. `exit status 1` or `ACCEPTED: waiting for a container`."""
    log: str | None = None
    """URL of the driver's log if the driver runs elsewhere; None: the log of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverExit:
    """End of a driver that this process has started or watches."""

    lease: DriverLease
    reason: str
    """For example `exit status 1` or `killed by SIGKILL`."""


class Launcher(Protocol):
    """Starts, finds, polls and kills drivers on one backend.

    The profile of the backend names the class, which is called with a LauncherHost.
    """

    backend: str
    """Name of the backend in profiles and handles."""

    def start(self, request: LaunchRequest) -> Handle:
        """Start a driver and return without waiting for it.

        Raises LaunchFailed, with the message of the backend, if the driver cannot be started.
        """

    def find(self, name: str, profile: Profile) -> Handle | None:
        """Return the handle of the live driver with this launch name, or None."""

    def poll(self, handle: Handle) -> DriverStatus:
        """Ask the backend for the state of a driver."""

    def kill(self, handle: Handle) -> None:
        """End a driver and its JVM. When this returns, neither can act any more.

        The files of the driver are deleted too. A slow file system delays this call by a few
        seconds only. A driver that has already ended is no error. Raises LaunchFailed if the driver
        does not end.
        """

    def exits(self) -> list[DriverExit]:
        """Return the exits observed since the last call.

        This is called in every sweep, so it calls no backend and deletes no files. The takeover of
        each session calls `kill`.
        """

    def watch(self, lease: DriverLease, handle: Handle) -> None:
        """Report the end of a driver that another process has started among the `exits`.

        Do nothing unless the end of a process of this host is the end of the driver.
        """

    def announce(self, addresses: list[str]) -> None:
        """Give drivers the current node addresses, if the backend has a way to do that."""
