"""YARN, through the ResourceManager's REST interface."""

from __future__ import annotations

import json
from urllib.parse import quote

from headrace.control.launchers.cluster_managers import Application, ManagerHttp

_APPS = "/ws/v1/cluster/apps"
_OVER = {"FINISHED", "FAILED", "KILLED"}
_WORDS = 1000
"""Of a container that failed, YARN tells the end of its log as well."""


class Yarn:
    """Applications carry the name of their launch as a tag."""

    def __init__(self, address: str) -> None:
        self._web = ManagerHttp(address)

    def find(self, name: str) -> Application | None:
        told = self._web.json(f"{_APPS}?applicationTags={quote(name)}")
        found = [_application(one) for one in (told.get("apps") or {}).get("app", [])]
        return max(found, key=lambda one: one.alive, default=None)

    def kill(self, application: Application) -> None:
        self._web.call(
            "PUT",
            f"{_APPS}/{application.id}/state",
            body=json.dumps({"state": "KILLED"}),
            headers={"Content-Type": "application/json"},
        )


def _application(told: dict[str, str]) -> Application:
    state = told["state"]
    # A failure is told by the final status alone where the application reported it itself.
    shown = told["finalStatus"] if state == "FINISHED" else state
    why = told.get("diagnostics", "").strip()[:_WORDS]
    return Application(
        id=told["id"],
        alive=state not in _OVER,
        words=f"{shown}: {why}" if why else shown,
        log=told.get("amContainerLogs"),
    )
