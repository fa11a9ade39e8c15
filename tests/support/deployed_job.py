"""A job that is deployed to a node whose drivers run jobs without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
from tests.support.in_process_node import InProcessNode
from tests.support.simulated_jobs import SimulatedJobs
from tests.support.waiting import wait_until

Json = dict[str, Any]


class DeployedJob:
    """A job that reads a stream and appends to files, deployed through the API."""

    def __init__(self, node: InProcessNode, drivers: SimulatedJobs, state: Path) -> None:
        self.node = node
        self.drivers = drivers
        self.state = str(state)
        self.manifest: Json = {
            "name": "job",
            "description": "A job",
            "target-table": "files",
            "sql": "SELECT value FROM numbers",
            "metadata-columns": False,
        }
        self.text: str | None = None
        """Text of the manifest file; None: that of `manifest`."""
        self.definitions = "CREATE STREAM numbers FROM rate;\nCREATE SINK files TO json;"

    def deploy(self, **manifest: Any) -> Json:
        """Change the manifest, plan and apply; return the planned job with its last step."""
        return self.apply(self.plan_change(**manifest))

    def plan_change(self, **manifest: Any) -> Json:
        """Change the manifest and plan; return the plan, which can be applied."""
        self.manifest |= manifest
        planned = self.plan()
        assert planned["state"] == "planned", planned
        return planned

    def begin_plan(self) -> httpx.Response:
        """Request a plan, and return the response."""
        manifest = {"path": "job.yaml", "text": self.text or json.dumps(self.manifest)}
        body = {
            "manifests": [manifest],
            "definitions": [{"path": "definitions.sql", "text": self.definitions}],
            "state_location": self.state,
        }
        return self.node.http.post("/api/v1/deployments", json=body)

    def plan(self) -> Json:
        """Plan the deployment, and return it when drivers have checked it."""
        response = self.begin_plan()
        assert response.status_code == 201, response.text
        return self._wait(response.json()["id"], {"planned", "rejected"})

    def apply(self, planned: Json) -> Json:
        self.begin_apply(planned)
        return self.await_end(planned)

    def begin_apply(self, planned: Json) -> None:
        response = self.node.http.post(f"/api/v1/deployments/{planned['id']}/apply")
        assert response.status_code == 202, response.text

    def await_end(self, planned: Json) -> Json:
        """Wait until a deployment has ended, and return its job."""
        [job] = self._wait(planned["id"], {"applied", "failed"})["jobs"]
        return dict(job)

    def act(self, action: str, query: str = "", **options: Any) -> Json:
        """Act on the job, and return it with its last step when the action has ended."""
        path = f"/api/v1/jobs/{self.manifest['name']}/{action}{query}"
        response = self.node.http.post(path, json=options) if options else self.node.http.post(path)
        assert response.status_code == 202, response.text
        [job] = self._wait(response.json()["id"], {"applied", "failed"})["jobs"]
        return dict(job)

    def show(self) -> Json:
        """Return the job."""
        answer: Json = self.node.http.get(f"/api/v1/jobs/{self.manifest['name']}").json()
        return answer

    def advance(self, batches: int) -> None:
        """Let the queries commit batches, and wait until the node knows them."""
        wait_until(self._are_running, what="the queries run")
        for _number in range(batches):
            self.drivers.advance()
        newest = max(self.drivers.checkpoints[each] for each in self.running_checkpoints())
        wait_until(lambda: self.show()["last_batch"] == newest, what="the batches are reported")

    def _are_running(self) -> bool:
        """Return whether the drivers have begun the live queries of the job."""
        live = self._list_live()
        # The checkpoint of a query says less: an earlier query may have made it.
        return bool(live) and all(self.drivers.is_running(each["id"]) for each in live)

    def running_checkpoints(self) -> list[str]:
        """Return the checkpoints of the queries of the job that are live."""
        return [each["checkpoint"] for each in self._list_live()]

    def _list_live(self) -> list[Json]:
        streams = self.node.http.get("/api/v1/streams", params={"live": True}).json()["items"]
        return [each for each in streams if each["scope"] == self.manifest["name"]]

    def _wait(self, deployment_id: str, states: set[str]) -> Json:
        found: Json = {}

        def has_state() -> bool:
            found.update(self.node.http.get(f"/api/v1/deployments/{deployment_id}").json())
            return found["state"] in states

        wait_until(has_state, what=f"the deployment is {' or '.join(states)}")
        return found
