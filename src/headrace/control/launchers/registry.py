"""All backends of a node behind one launcher, which counts the calls to them: they shall be few."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from prometheus_client import CollectorRegistry, Counter

from headrace.control.launchers.base import (
    DriverExit,
    DriverStatus,
    Handle,
    Launcher,
    LaunchRequest,
)
from headrace.errors import LaunchFailed
from headrace.settings import Profile


class LauncherRegistry:
    """Passes each call to the launcher of a profile's or handle's backend.

    `headrace_backend_calls_total` says how many there were.
    """

    def __init__(self, launchers: Iterable[Launcher], registry: CollectorRegistry) -> None:
        self._launchers = {launcher.backend: launcher for launcher in launchers}
        self._calls = Counter(
            "headrace_backend_calls",
            "Calls of this node to the backends that drivers run on.",
            ["backend", "op"],
            registry=registry,
        )
        for backend in self._launchers:
            for op in ("start", "find", "poll", "kill"):
                self._calls.labels(backend, op)

    def start(self, request: LaunchRequest) -> Handle:
        return self._called(request.profile.backend, "start").start(request)

    def find(self, name: str, profile: Profile) -> Handle | None:
        return self._called(profile.backend, "find").find(name, profile)

    def poll(self, handle: Handle) -> DriverStatus:
        return self._called(handle["backend"], "poll").poll(handle)

    def kill(self, handle: Handle) -> None:
        self._called(handle["backend"], "kill").kill(handle)

    def exits(self) -> list[DriverExit]:
        return list(chain.from_iterable(one.exits() for one in self._launchers.values()))

    def announce(self, addresses: list[str]) -> None:
        for launcher in self._launchers.values():
            launcher.announce(addresses)

    def _called(self, backend: str, op: str) -> Launcher:
        launcher = self._launchers.get(backend)
        if launcher is None:
            known = ", ".join(sorted(self._launchers))
            raise LaunchFailed(f"This node has no backend {backend!r}; it has: {known}.")
        self._calls.labels(backend, op).inc()
        return launcher
