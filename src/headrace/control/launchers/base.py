"""The launcher contract: how a node starts, finds, polls and kills drivers on a backend.

A launch is claimed in the store before `start` is called, and what is started carries the name
`headrace-<session>-<epoch>`, so that it can be found when nobody had the time to keep its handle.
A handle is a JSON object that the store keeps; its `backend` says whose it is, and every node that
may reach that backend can use it. Every call but `exits` and `announce` may raise
BackendUnreachable: nothing is known then, and nothing may be concluded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headrace.model.messages import Bootstrap
from headrace.settings import Profile

Handle = dict[str, Any]


def launch_name(session_id: str, epoch: int) -> str:
    """The name of a launch."""
    return f"headrace-{session_id}-{epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One driver to start."""

    name: str
    bootstrap: Bootstrap
    profile: Profile
    log: Path
    """Where the stdout and stderr of what this host starts are appended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStatus:
    """What a backend says of a driver."""

    alive: bool
    """Whether it, or anything that belongs to it, may still do something."""
    words: str
    """In the backend's own words, e.g. `exit status 1`, `ACCEPTED: waiting for a container`."""
    log: str | None = None
    """A URL of the driver's log, where that is not the request's: the driver runs elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverExit:
    """A driver that this process started and has seen end."""

    session_id: str
    epoch: int
    reason: str
    """In words, e.g. `exit status 1` or `killed by SIGKILL`."""


class Launcher(Protocol):
    """Implementations: a module each in this package; backends.py picks one by a profile."""

    backend: str
    """The backend's name in a profile."""

    def start(self, request: LaunchRequest) -> Handle:
        """Starts the driver and returns at once. Raises LaunchFailed with the backend's words."""

    def find(self, name: str, profile: Profile) -> Handle | None:
        """What was started under a name and has not ended; None when there is nothing."""

    def poll(self, handle: Handle) -> DriverStatus:
        """How a driver is. A call to the backend."""

    def kill(self, handle: Handle) -> None:
        """Ends the driver and its JVM: when this returns, neither can do anything any more.

        Killing what is gone already is no error. Raises LaunchFailed when they do not die.
        """

    def exits(self) -> list[DriverExit]:
        """Drivers seen to end since the last call. No call to the backend."""

    def announce(self, addresses: list[str]) -> None:
        """Tells drivers that look for a node where to find one, where the backend has a way."""
