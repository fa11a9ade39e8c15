"""A launcher whose calls to its backend are counted: they shall be few."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from headrace.control.launchers.contract import Exit, Handle, Launcher, LaunchRequest


class CountedLauncher:
    """Passes every call on; `headrace_backend_calls_total` says how many there were."""

    def __init__(self, launcher: Launcher, registry: CollectorRegistry) -> None:
        self.backend = launcher.backend
        self._launcher = launcher
        self._calls = Counter(
            "headrace_backend_calls",
            "Calls of this node to the backends that drivers run on.",
            ["backend", "op"],
            registry=registry,
        )
        for op in ("start", "alive", "kill"):
            self._calls.labels(self.backend, op)

    def start(self, request: LaunchRequest) -> Handle:
        self._count("start")
        return self._launcher.start(request)

    def alive(self, handle: Handle) -> bool:
        self._count("alive")
        return self._launcher.alive(handle)

    def kill(self, handle: Handle) -> None:
        self._count("kill")
        self._launcher.kill(handle)

    def exits(self) -> list[Exit]:
        return self._launcher.exits()

    def announce(self, addresses: list[str]) -> None:
        self._launcher.announce(addresses)

    def _count(self, op: str) -> None:
        self._calls.labels(self.backend, op).inc()
