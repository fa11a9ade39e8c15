"""A job over a folder of files, deployed through the API of a real node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.node_client import NodeClient
from tests.support.waiting import wait_until

Json = dict[str, Any]


class CountingJob:
    """A stateful job that counts the numbers it has ever read.

    Each input file has ten numbers. The test removes a file once the job has read it, so that the
    count tells whether the state was kept: a job without state cannot know the removed files.
    """

    def __init__(
        self,
        node: NodeClient,
        folder: Path,
        *,
        name: str = "counts",
        state_location: str | None = None,
    ) -> None:
        self.node = node
        self.name = name
        self.folder = folder
        self.state_location = state_location or str(folder / "state")
        self.table = name
        self.manifest: Json = {
            "name": name,
            "description": "Counts of numbers",
            "target-table": name,
            "output-mode": "complete",
            "trigger": "1 second",
            "sql": f"SELECT count(*) AS c FROM {name}_numbers",
            "metadata-columns": False,
            "spark-properties": {"spark.sql.shuffle.partitions": "1"},
        }
        self._files = 0
        (folder / "input").mkdir(parents=True)

    @property
    def definitions(self) -> str:
        """The stream of the numbers, and the table of the count."""
        return (
            f"CREATE STREAM {self.name}_numbers (n INT) FROM json"
            f" OPTIONS ('path' = '{self.folder}/input');\n"
            f"CREATE TABLE IF NOT EXISTS {self.table} (c BIGINT);\n"
        )

    def request(self, **fields: Any) -> Json:
        """Return the body of a plan of this job alone."""
        return {
            "manifests": [{"path": f"{self.name}.yaml", "text": json.dumps(self.manifest)}],
            "definitions": [{"path": "definitions.sql", "text": self.definitions}],
            "state_location": self.state_location,
            **fields,
        }

    def replace_file(self) -> None:
        """Remove the input, and add a file with ten other numbers."""
        for file in (self.folder / "input").glob("*.json"):
            file.unlink()
        self._files += 1
        rows = "\n".join(json.dumps({"n": n}) for n in range(10))
        hidden = self.folder / "input" / f".{self._files}"
        hidden.write_text(rows)
        hidden.rename(self.folder / "input" / f"{self._files}.json")

    def plan(self, **fields: Any) -> Json:
        """Plan the deployment, and return it when drivers have checked it."""
        return self.wait_for_plan(self.begin_plan(**fields))

    def begin_plan(self, **fields: Any) -> Json:
        response = self.node.http.post("/api/v1/deployments", json=self.request(**fields))
        assert response.status_code == 201, response.text
        answer: Json = response.json()
        return answer

    def wait_for_plan(self, deployment: Json) -> Json:
        return self._wait(deployment["id"], {"planned", "rejected"})

    def deploy(self, **fields: Any) -> Json:
        """Plan and apply; return the planned job with its last step."""
        planned = self.plan(**fields)
        assert planned["state"] == "planned", planned
        applied = self.apply(planned)
        return next(job for job in applied["jobs"] if job["name"] == self.name)

    def apply(self, planned: Json) -> Json:
        """Apply a plan, and return the deployment when it has ended."""
        self.begin_apply(planned)
        return self.wait_for_end(planned["id"])

    def begin_apply(self, planned: Json) -> None:
        response = self.node.http.post(f"/api/v1/deployments/{planned['id']}/apply")
        assert response.status_code == 202, response.text

    def wait_for_end(self, deployment_id: str) -> Json:
        return self._wait(deployment_id, {"applied", "failed"})

    def act(self, action: str, **options: Any) -> Json:
        """Act on the job, and return the deployment when it has ended."""
        path = f"/api/v1/jobs/{self.name}/{action}"
        response = self.node.http.post(path, json=options) if options else self.node.http.post(path)
        assert response.status_code == 202, response.text
        return self.wait_for_end(response.json()["id"])

    def show(self) -> Json:
        """Return the job."""
        answer: Json = self.node.http.get(f"/api/v1/jobs/{self.name}").json()
        return answer

    def count(self, session: str) -> int | None:
        """Return the count in the table; None if the table is empty or is being replaced."""
        ended = self.node.run(f"SELECT max(c) FROM {self.table}", session)
        if ended["state"] != "success":
            return None
        [[value]] = self.node.result(ended["id"])["rows"]
        return None if value is None else int(value)

    def wait_for_count(self, session: str, expected: int) -> None:
        what = f"the count of {self.name} is {expected}"
        wait_until(lambda: self.count(session) == expected, seconds=90, what=what)

    def list_checkpoints(self) -> list[str]:
        """Return `version/run` of every checkpoint directory."""
        root = self.folder / "state" / "checkpoints" / self.name
        return sorted(f"{run.parent.name}/{run.name}" for run in root.glob("*/*"))

    def _wait(self, deployment_id: str, states: set[str]) -> Json:
        found: Json = {}

        def has_state() -> bool:
            found.update(self.node.http.get(f"/api/v1/deployments/{deployment_id}").json())
            return found["state"] in states

        wait_until(has_state, seconds=180, what=f"the deployment is {' or '.join(states)}")
        return found
