"""Spark's standalone master, through its web UI."""

from __future__ import annotations

from urllib.parse import urlencode

from headrace.control.launchers.cluster_managers import Application, ManagerHttp

_OVER = {"FINISHED", "FAILED", "KILLED"}


class Standalone:
    """Applications carry the name of their launch as their own."""

    def __init__(self, address: str) -> None:
        """`address` is that of the web UI, not of the master."""
        self._web = ManagerHttp(address)

    def find(self, name: str) -> Application | None:
        told = self._web.json("/json/")
        for one in [*told["activeapps"], *told["completedapps"]]:
            if one["name"] == name:
                state = one["state"]
                return Application(id=one["id"], alive=state not in _OVER, words=state)
        return None

    def kill(self, application: Application) -> None:
        form = urlencode({"id": application.id, "terminate": "true"})
        self._web.call(
            "POST",
            "/app/kill/",
            body=form,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            redirect=False,
        )
