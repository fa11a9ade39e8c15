"""The steps of histories that deploy jobs. Whatever fails meanwhile, each deployment ends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.faults.history_client import HistoryClient

_DEFINITIONS = "CREATE STREAM beat FROM rate; CREATE SINK nowhere TO noop;"
_PLANNED = {"planned", "rejected"}
_ENDED = {"applied", "failed"}
_AT_REST = {"running", "stopped", "failed", "deleted"}


class JobSteps(HistoryClient):
    """Each public method without arguments is a step of recipes.py."""

    def job(self) -> None:
        """Deploy a job, change its configuration twice, roll it back, and stop it."""
        name = f"j{self._new_mark()}"
        for seconds in (1, 2, 3):
            deployment = self._plan(name, f"{seconds} seconds")
            if self._get_deployment(deployment)["state"] != "planned":
                return
            self._apply(deployment)
        answer = self._request("POST", f"/jobs/{name}/rollback", json={})
        if answer.is_success:
            self._wait_deployment(answer.json()["id"], _ENDED)
        self._stop_job(name)

    def batch_job(self) -> None:
        """Deploy a batch job that fires each second, run it again, and delete it."""
        name = f"b{self._new_mark()}"
        manifest = {"name": name, "schedule": {"every": "1s"}, "script": "SELECT :run_time"}
        deployment = self._begin_plan(json.dumps(manifest))
        if self._get_deployment(deployment)["state"] != "planned":
            return
        self._apply(deployment)
        if self._get_deployment(deployment)["state"] == "applied":
            self._wait_until(lambda: bool(self._list_runs(name)), f"{name} has fired")
            self._run_again(name)
        self._request("DELETE", f"/jobs/{name}")
        self._wait_until(lambda: self._have_runs_ended(name), f"the runs of {name} have ended")

    def _run_again(self, name: str) -> None:
        """Request each kind of run, and cancel some. Each may be refused: the job runs."""
        times = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:05Z"}
        backfill = self._request("POST", f"/jobs/{name}/backfills", json=times)
        run = self._request("POST", f"/jobs/{name}/runs", json={"at": "2026-01-02T00:00:00Z"})
        if run.is_success:
            self._request("POST", f"/runs/{run.json()['id']}/cancel")
            self._request("POST", f"/runs/{run.json()['id']}/repair", json={})
        if backfill.is_success:
            self._request("POST", f"/backfills/{backfill.json()['id']}/cancel")

    def _list_runs(self, name: str) -> list[dict[str, Any]]:
        answer = self._request("GET", "/runs", params={"job": name})
        runs: list[dict[str, Any]] = answer.json()["items"] if answer.is_success else []
        return runs

    def _have_runs_ended(self, name: str) -> bool:
        return all(run["ended_at"] is not None for run in self._list_runs(name))

    def bounced_job(self) -> None:
        """Restart every node with SIGTERM while a job is deployed."""
        name = f"j{self._new_mark()}"
        deployment = self._plan(name, "1 second")
        if self._get_deployment(deployment)["state"] != "planned":
            return
        self._request("POST", f"/deployments/{deployment}/apply")
        for node in self._lane.nodes:
            node.stop()
            node.ensure()
        self._wait_deployment(deployment, _ENDED)
        self._stop_job(name)

    def old_plan(self) -> None:
        """Wait for the expiry of a plan that is not applied."""
        if not self._lane.kind.default_times:
            self._wait_deployment(self._plan(f"j{self._new_mark()}", "1 second"), ["expired"])

    def _wait_operations(self) -> None:
        """Wait until no node and no driver works on a deployment."""
        self._wait_until(
            lambda: all(row["ended_at"] is not None for row in self._lane.read_rows().operations),
            "all operations have ended",
        )

    def _plan(self, name: str, trigger: str) -> str:
        """Plan a job in the lane's session, and return the id of the deployment."""
        manifest = {
            "name": name,
            "target-table": "nowhere",
            "session": self._get_session(self._ensure_base())["name"],
            "trigger": trigger,
            "output-mode": "update",
            "sql": "SELECT value % 3 AS k, count(*) AS c FROM beat GROUP BY value % 3",
            "spark-properties": {"spark.sql.shuffle.partitions": "1"},
        }
        return self._begin_plan(json.dumps(manifest))

    def _begin_plan(self, manifest: str) -> str:
        """Plan a manifest, and return the id of the deployment, which is planned or has failed."""
        body = {
            "manifests": [{"path": "job.yaml", "text": manifest}],
            "definitions": [{"path": "beat.sql", "text": _DEFINITIONS}],
            "state_location": str(self._lane.folder / "jobs"),
        }
        answer = self._request("POST", "/deployments", json=body)
        assert answer.is_success, answer.text
        deployment = str(answer.json()["id"])
        self._wait_deployment(deployment, {*_PLANNED, "expired"})
        return deployment

    def _apply(self, deployment: str) -> None:
        self._request("POST", f"/deployments/{deployment}/apply")
        self._wait_deployment(deployment, {*_ENDED, "expired", "rejected"})

    def _stop_job(self, name: str) -> None:
        """Stop a job, if it exists, and wait until it is at rest."""
        self._request("POST", f"/jobs/{name}/stop")
        self._wait_until(lambda: self._is_job_at_rest(name), f"the job {name} is at rest")

    def _is_job_at_rest(self, name: str) -> bool:
        answer = self._request("GET", f"/jobs/{name}")
        if not answer.is_success:
            return True
        job: dict[str, Any] = answer.json()
        if job["state"] == "running":
            # The answer to the first request may have been a refusal: the job was busy.
            self._request("POST", f"/jobs/{name}/stop")
            return False
        return job["state"] in _AT_REST and job["deployment"] is None

    def _get_deployment(self, deployment: str) -> dict[str, Any]:
        return dict(self._request("GET", f"/deployments/{deployment}").json())

    def _wait_deployment(self, deployment: str, states: Iterable[str]) -> None:
        expected = set(states)
        self._wait_until(
            lambda: self._get_deployment(deployment)["state"] in expected,
            f"{deployment} is {' or '.join(sorted(expected))}",
        )
