"""Batch jobs that are planned and deployed together by HTTP."""

from __future__ import annotations

import json
from typing import Any

from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode
from tests.support.waiting import wait_until

from headrace.store.jobs import triggers


class Project:
    """Manifests of batch jobs that follow each other."""

    def __init__(self, node: InProcessNode) -> None:
        self.node = node

    def plan(self, *, prune: bool = False, **after: Any) -> Any:
        """Plan jobs by name, with the jobs that each follows, or with keys of its manifest.

        A job `NAME=None` is manual.
        """
        manifests = [
            {
                "path": f"{name}.yaml",
                "text": json.dumps(
                    {"name": name, **given}
                    if isinstance(given, dict)
                    else {
                        "name": name,
                        "script": "SELECT 1",
                        "schedule": "manual" if given is None else {"after": given},
                    }
                ),
            }
            for name, given in after.items()
        ]
        body = {"manifests": manifests, "prune": prune}
        return self.node.http.post("/api/v1/deployments", json=body)

    def deploy(self, **after: Any) -> Any:
        planned = self.plan(**after)
        assert planned.status_code == 201, planned.text
        return self.apply(planned.json()["id"])

    def apply(self, deployment_id: str) -> Any:
        path = f"/api/v1/deployments/{deployment_id}"
        wait_until(lambda: self.node.http.get(path).json()["state"] != "checking")
        applied = self.node.http.post(f"/api/v1/deployments/{deployment_id}/apply")
        assert applied.status_code == 202, applied.text
        return self.await_end(deployment_id)

    def await_end(self, deployment_id: str) -> Any:
        path = f"/api/v1/deployments/{deployment_id}"
        wait_until(lambda: self.node.http.get(path).json()["state"] in {"applied", "failed"})
        ended = self.node.http.get(path).json()
        assert ended["state"] == "applied", ended
        return ended

    def refuse(self, **after: Any) -> Any:
        answer = self.plan(**after)
        assert answer.status_code == 400, answer.text
        [problem] = answer.json()["problems"]
        return problem

    def act(self, name: str, action: str) -> None:
        answer = self.node.http.post(f"/api/v1/jobs/{name}/{action}", json={})
        assert answer.status_code == 202, answer.text
        self.await_end(answer.json()["id"])

    def followers(self, name: str) -> list[str]:
        with self.node.database.read() as tx:
            return triggers.list_followers(tx, LOCAL_CALLER.owner, name)
