"""The launcher contract: how a node starts, polls and kills drivers on a backend.

A launch is claimed in the store before `start` is called, and what is started carries the name
`headrace-<session>-<epoch>`. A handle is a JSON object that the store keeps; every node that may
reach the backend can use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headrace.model.messages import Bootstrap
from headrace.settings import Profile

Handle = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One driver to start."""

    name: str
    bootstrap: Bootstrap
    profile: Profile
    log: Path
    """Where the driver's stdout and stderr are appended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """A driver that this process started and has seen end."""

    session_id: str
    epoch: int
    reason: str
    """In words, e.g. `exit status 1` or `killed by SIGKILL`."""


class Launcher(Protocol):
    """Implementations: local.py; counted.py wraps them."""

    backend: str
    """The backend's name in a profile."""

    def start(self, request: LaunchRequest) -> Handle:
        """Starts the driver and returns at once. Raises LaunchFailed with the backend's words."""

    def alive(self, handle: Handle) -> bool:
        """Whether the driver still runs. A call to the backend."""

    def kill(self, handle: Handle) -> None:
        """Ends the driver and its JVM: when this returns, neither can do anything any more.

        Killing what is gone already is no error. Raises LaunchFailed when they do not die.
        """

    def exits(self) -> list[Exit]:
        """Drivers seen to end since the last call. No call to the backend."""

    def announce(self, addresses: list[str]) -> None:
        """Tells drivers that look for a node where to find one, where the backend has a way."""
