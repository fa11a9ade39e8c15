"""The user who deploys jobs, changes them, rolls them back, stops and starts them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.faults.chaos_cluster.load import UserSession, Worker
from tests.faults.chaos_cluster.record import LoadRecord
from tests.support.waiting import wait_until

from headrace.client.http import Json
from headrace.errors import HeadraceError, NodeUnreachable, StoreUnavailable

COPYING = "copying"
"""A job without state: its sink of files has each number once, also after a changed query."""
COUNTING = "counting"
"""A job with state. Its table has the counts of the last batch."""
DIGITS = 10
_WAIT_SECONDS = 240.0
_QUERIES = [
    "SELECT n FROM job_numbers",
    "SELECT n FROM job_numbers WHERE n >= 0",
    "SELECT n + 0 AS n FROM job_numbers",
]
"""Queries with the same rows and without state."""
_CONFLICTS = {"job_busy", "job_state_conflict", "plan_not_applicable"}
_BROKEN = "SELECT IF(n >= 0, raise_error('no'), n) AS n FROM job_numbers"


class JobUser(Worker):
    """Changes two jobs of the streaming session, and checks each job after its change."""

    def __init__(
        self, session: UserSession, record: LoadRecord, seed: str, *, source: str, folder: Path
    ) -> None:
        """Create the user.

        Args:
            source: The CREATE STREAM of the numbers.
            folder: Folder of the sink of the copying job.
        """
        super().__init__(session, record, seed)
        self._definitions = (
            f"{source.replace('numbers', 'job_numbers', 1)};\n"
            f"CREATE SINK job_files TO parquet OPTIONS ('path' = '{folder}');\n"
            f"CREATE TABLE IF NOT EXISTS {COUNTING} (k BIGINT, c BIGINT) USING parquet;\n"
        )
        self._client = session.client
        common = {
            "session": self._client.session(session.id)["name"],
            "trigger": "2 seconds",
            "metadata-columns": False,
            "on-query-change": "keep-compatible",
            "spark-properties": {"spark.sql.shuffle.partitions": "1"},
        }
        self._manifests: dict[str, Json] = {
            COPYING: {**common, "name": COPYING, "target-table": "job_files", "sql": _QUERIES[0]},
            COUNTING: {
                **common,
                "name": COUNTING,
                "target-table": COUNTING,
                "output-mode": "complete",
                "sql": f"SELECT n % {DIGITS} AS k, count(*) AS c FROM job_numbers"
                f" GROUP BY n % {DIGITS}",
            },
        }
        self._changes = 0

    def begin(self) -> None:
        """Deploy both jobs."""
        self._deploy()

    def end(self) -> None:
        """Stop both jobs."""
        for name in self._manifests:
            self._stop(name)

    def take_turn(self) -> None:
        turns = {
            "new configuration": self._change_configuration,
            "new query": self._change_query,
            "rollback": self._roll_back,
            "stop and start": self._stop_and_start,
            "savepoint": self._save_state,
            "version that cannot run": self._deploy_broken,
        }
        # A version that cannot run takes long, because its query is started three times.
        turn = self._chance.choices(list(turns), [3, 3, 3, 3, 1, 1])[0]
        turns[turn]()
        for name in self._manifests:
            self._check_runs_once(name)
        self._record.count(f"job: {turn}")
        self._stopping.wait(self._chance.uniform(1.0, 5.0))

    # Turns

    def _change_configuration(self) -> None:
        names = list(self._manifests)
        self._reconfigure(self._chance.sample(names, k=self._chance.randint(1, len(names))))

    def _change_query(self) -> None:
        self._manifests[COPYING]["sql"] = self._chance.choice(_QUERIES)
        self._deploy()

    def _roll_back(self) -> None:
        """Return to the version deployed before. If there is none, deploy a change first."""
        name = self._choose()
        versions = self._client.job_versions(name)["items"]
        if sum(version["outcome"] == "deployed" for version in versions) < 2:
            self._reconfigure([name])
        self._act(name, lambda: self._client.act_on_job(name, "rollback", {}), "running")

    def _stop_and_start(self) -> None:
        name = self._choose()
        self._stop(name)
        assert not self._list_live(name), f"the job {name} is stopped, and has a live query"
        self._act(name, lambda: self._client.act_on_job(name, "start", {}), "running")

    def _save_state(self) -> None:
        name = self._choose()
        self._act(name, lambda: self._client.act_on_job(name, "savepoint"), "running")

    def _deploy_broken(self) -> None:
        """Deploy a version whose query fails at each batch: the version before must continue."""
        working = self._manifests[COPYING]
        self._manifests[COPYING] = {**working, "sql": _BROKEN}
        try:
            self._deploy(end="failed")
        finally:
            self._manifests[COPYING] = working

    # Steps of the turns

    def _reconfigure(self, names: list[str]) -> None:
        """Deploy a new configuration of some jobs."""
        for name in names:
            self._changes += 1
            self._manifests[name] |= {
                "description": f"change {self._changes}",
                "trigger": f"{self._chance.randint(1, 3)} seconds",
            }
        self._deploy()

    def _choose(self) -> str:
        return self._chance.choice(list(self._manifests))

    def _deploy(self, *, end: str = "applied") -> None:
        """Deploy both manifests, and wait for an end of the deployment."""
        body = {
            "manifests": [
                {"path": f"{name}.yaml", "text": json.dumps(manifest)}
                for name, manifest in self._manifests.items()
            ],
            "definitions": [{"path": "job.sql", "text": self._definitions}],
        }
        planned = self._send(lambda: self._client.plan_jobs(body))
        assert planned is not None
        planned = self._wait_deployment(planned["id"], {"planned", "rejected"})
        assert planned["state"] == "planned", planned
        if end == "failed":
            with self._record.writing():
                self._record.broken_deployments.add(planned["id"])
        self._send(lambda: self._client.apply_plan(planned["id"]))
        ended = self._wait_deployment(planned["id"], {"applied", "failed"})
        assert ended["state"] == end, ended

    def _stop(self, name: str) -> None:
        savepoint = self._chance.random() < 0.5
        self._act(name, lambda: self._client.stop_job(name, savepoint=savepoint), "stopped")

    def _act(self, name: str, call: Callable[[], Json], state: str) -> None:
        """Act on a job, and wait until the job has a state. Repeat the call if it had no effect."""
        while True:
            deployment = self._send(call)
            if deployment is not None:
                ended = self._wait_deployment(deployment["id"], {"applied", "failed"})
                assert ended["state"] == "applied", ended
            if self._wait_unchanged(name)["state"] == state:
                return
            assert deployment is None, self._client.job(name)

    def _send(self, call: Callable[[], Json]) -> Json | None:
        """Send a request until a node answers; return the answer.

        Return None if an earlier request, whose answer was lost, makes this one a conflict.
        """
        is_repeated = False
        while True:
            try:
                return call()
            except (NodeUnreachable, StoreUnavailable):
                is_repeated = True
            except HeadraceError as error:
                if not (is_repeated and error.code in _CONFLICTS):
                    raise
                return None

    def _wait_deployment(self, deployment_id: str, states: set[str]) -> Json:
        def reached() -> Json | None:
            deployment = self._client.deployment(deployment_id)
            return deployment if deployment["state"] in states else None

        what = f"{deployment_id} is {' or '.join(sorted(states))}"
        deployment = wait_until(reached, seconds=_WAIT_SECONDS, what=what, every=0.3)
        assert deployment is not None
        return deployment

    def _wait_unchanged(self, name: str) -> Json:
        """Wait until no deployment changes a job, and return the job."""

        def at_rest() -> Json | None:
            job = self._client.job(name)
            return job if job["deployment"] is None else None

        what = f"no deployment changes the job {name}"
        job = wait_until(at_rest, seconds=_WAIT_SECONDS, what=what, every=0.3)
        assert job is not None
        return job

    def _check_runs_once(self, name: str) -> None:
        state = self._wait_unchanged(name)["state"]
        live = self._list_live(name)
        assert state == "running", f"the job {name} was to run, but is {state}"
        assert len(live) == 1, f"the job {name} has {len(live)} live queries: {live}"

    def _list_live(self, name: str) -> list[Json]:
        queries: list[Json] = self._client.streams(live=True)["items"]
        return [query for query in queries if query["scope"] == name]
