"""The launchers that a node has, and the registry that picks one for each call."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from itertools import chain
from pkgutil import resolve_name
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from headrace.config.extras import install_command
from headrace.config.profiles import BACKENDS, Profile
from headrace.config.settings import Settings
from headrace.control.host.process_identity import HostIdentity, this_host
from headrace.control.host.system_user import find_missing_requirement
from headrace.control.launchers.base import (
    DriverExit,
    DriverStatus,
    Handle,
    Launcher,
    LauncherHost,
    LaunchRequest,
)
from headrace.control.launchers.local import LocalLauncher
from headrace.errors import DriverOnOtherHost, InvalidSetting, LaunchFailed
from headrace.files.places import local_path
from headrace.model.session import DriverLease


class LauncherRegistry:
    """Passes each call to the launcher of the backend, and counts the calls.

    The metric `headrace_backend_calls_total` shows that a node asks backends only when it must.
    """

    def __init__(self, launchers: Iterable[Launcher], metrics_registry: CollectorRegistry) -> None:
        self._launchers = {launcher.backend: launcher for launcher in launchers}
        self._calls = Counter(
            "headrace_backend_calls",
            "Calls of this node to the backends that drivers run on.",
            ["backend", "op"],
            registry=metrics_registry,
        )
        for backend in self._launchers:
            for operation in ("start", "find", "poll", "kill"):
                self._calls.labels(backend, operation)

    @property
    def backends(self) -> list[str]:
        """Names of the backends that this node can call."""
        return sorted(self._launchers)

    def start(self, request: LaunchRequest) -> Handle:
        if (request.run_as is None) != (request.profile.run_as == "node"):
            raise LaunchFailed("The driver has no owner as whom it runs.")
        return self._select(request.profile.backend, "start").start(request)

    def find(
        self, name: str, profile: Profile, host: dict[str, Any] | None = None
    ) -> Handle | None:
        """Return the handle of the live driver with this launch name, or None.

        Args:
            host: Identity of the host of the node that launched the driver. Raises
                DriverOnOtherHost if the driver is a process of that host and not of this one.
        """
        if host is not None and not profile.is_remote:
            launched_on = HostIdentity.from_record(host)
            if not this_host().shares_processes_with(launched_on):
                raise DriverOnOtherHost(
                    f"The driver {name} was launched on the host {launched_on.name}. Only a node"
                    " on that host can find its process."
                )
        return self._select(profile.backend, "find").find(name, profile)

    def poll(self, handle: Handle) -> DriverStatus:
        return self._select(handle["backend"], "poll").poll(handle)

    def kill(self, handle: Handle) -> None:
        self._select(handle["backend"], "kill").kill(handle)

    def exits(self) -> list[DriverExit]:
        return list(chain.from_iterable(launcher.exits() for launcher in self._launchers.values()))

    def watch(self, lease: DriverLease, handle: Handle) -> None:
        self._launchers[handle["backend"]].watch(lease, handle)

    def announce(self, addresses: list[str]) -> None:
        for launcher in self._launchers.values():
            launcher.announce(addresses)

    def _select(self, backend: str, operation: str) -> Launcher:
        """Return the launcher of a backend and count the call. Raises LaunchFailed."""
        launcher = self._launchers.get(backend)
        if launcher is None:
            raise LaunchFailed(
                f"This node has no launcher for the backend {backend!r}."
                f" Its backends: {', '.join(sorted(self._launchers))}.",
                hint="Give all nodes of a store the same profiles",
            )
        self._calls.labels(backend, operation).inc()
        return launcher


def build_launchers(settings: Settings, host: LauncherHost, local: LocalLauncher) -> list[Launcher]:
    """Return the launchers of the profiles of a node, and those that need no further library.

    Args:
        local: Launcher of the drivers on this host.

    Raises InvalidSetting if a backend lacks a library or a setting on this node.
    """
    backends = {name: kind for name, kind in BACKENDS.items() if kind.library is None}
    for name, profile in settings.profiles.items():
        _check_requirements(settings, name, profile)
        backends[profile.backend] = type(profile)
    launchers: list[Launcher] = [local]
    del backends[local.backend]
    # The names of the classes are resolved here: a library of a launcher can be missing elsewhere.
    return launchers + [resolve_name(kind.launcher)(host) for kind in backends.values()]


def _check_requirements(settings: Settings, name: str, profile: Profile) -> None:
    """Raise InvalidSetting if a node lacks what the launcher of a profile needs."""
    is_of_other_users = profile.run_as == "owner" and profile.backend == LocalLauncher.backend
    if is_of_other_users and (missing := find_missing_requirement()):
        raise InvalidSetting(f"Setting 'profiles.{name}.run_as': owner needs {missing}.")
    requirement = f"Setting 'profiles.{name}.backend': {profile.backend} needs"
    if profile.library is not None:
        module, extra = profile.library
        if importlib.util.find_spec(module) is None:
            raise InvalidSetting(f"{requirement} {module} on the node: {install_command(extra)}.")
    if profile.needs_shared_results and local_path(settings.results_location) is not None:
        raise InvalidSetting(
            f"{requirement} a results.location that its drivers can reach, for example"
            f" s3://bucket/results. The current location is {settings.results_location}."
        )
