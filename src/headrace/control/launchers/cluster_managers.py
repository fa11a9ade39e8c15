"""The cluster managers that spark-submit starts applications on, as a node looks at them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import urllib3

from headrace.errors import BackendUnreachable, LaunchFailed

_CALL_SECONDS = 5.0
_DYING_SECONDS = 60.0
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What a cluster manager says of one application."""

    id: str
    alive: bool
    words: str
    """State and reason, as the manager puts them."""
    log: str | None = None
    """A URL of the driver's log, where the cluster keeps it."""


class ClusterManager(Protocol):
    """Every call may raise BackendUnreachable."""

    def find(self, name: str) -> Application | None:
        """The application that carries the name of a launch; one that is alive, if any is."""

    def kill(self, application: Application) -> None:
        """Asks for its end."""


def stop_application(cluster: ClusterManager, name: str) -> None:
    """Returns when the cluster says that nothing of this name is left.

    Raises BackendUnreachable, LaunchFailed.
    """
    deadline = time.monotonic() + _DYING_SECONDS
    asked = set()
    while (found := cluster.find(name)) is not None and found.alive:
        if found.id not in asked:
            cluster.kill(found)
            asked.add(found.id)
        if time.monotonic() > deadline:
            raise LaunchFailed(f"The application {found.id} does not end: {found.words}.")
        time.sleep(_LOOK_SECONDS)


class ManagerHttp:
    """The HTTP side of a cluster manager."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._pool = urllib3.PoolManager(retries=False, timeout=_CALL_SECONDS)

    def call(self, method: str, path: str, **content: Any) -> urllib3.BaseHTTPResponse:
        """An answer that is no error. Raises BackendUnreachable with its words else."""
        url = f"{self._address}{path}"
        try:
            answer = self._pool.request(method, url, **content)
        except urllib3.exceptions.HTTPError as error:
            raise BackendUnreachable(f"{self._address} does not answer: {error}") from error
        if answer.status >= 400:
            told = answer.data.decode(errors="replace").strip()[:1000]
            raise BackendUnreachable(f"{method} {url} is answered {answer.status}: {told}")
        return answer

    def json(self, path: str) -> Any:
        """What a GET answers. Raises BackendUnreachable."""
        answer = self.call("GET", path, headers={"Accept": "application/json"})
        try:
            return answer.json()
        except ValueError as error:
            raise BackendUnreachable(f"{self._address}{path} answers no JSON: {error}") from error
