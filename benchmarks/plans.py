"""Time to plan the manifests of a thousand deployed jobs of which none has changed.

The planner reads, merges, compiles and fingerprints every manifest, and compares it with the store.
No driver is needed, because nothing has changed.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.measure import Sample
from headrace.config.settings import Settings
from headrace.control.context import NodeContext
from headrace.control.jobs.drafts import PlanRequest, SourceText, read_drafts
from headrace.control.jobs.planning import JobPlanner
from headrace.model.job import JobDecision
from headrace.model.lifecycle import JobState
from headrace.store.database import Database
from headrace.store.jobs import job_changes, jobs

JOBS = 1000
_OWNER = "bench"
_MANIFEST = """\
name: job-{number}
description: Orders of shop {number}
target-table: orders_{number}
sql: |
  SELECT id, amount, `time` -- only large orders
  FROM `kafka`.`orders`
  WHERE amount > {number}
    AND shop = 'shop {number}'
"""
_TEMPLATE = """\
trigger: 5 seconds
spark-properties:
  spark.sql.shuffle.partitions: "4"
"""
_DEFINITIONS = """\
CREATE STREAM `kafka`.`orders` (id BIGINT, amount INT, shop STRING, `time` TIMESTAMP) FROM kafka
  OPTIONS ('kafka.bootstrap.servers' = 'localhost:9092', 'subscribe' = 'orders');
"""


def plan_times(folder: Path, *, rounds: int) -> Sample:
    """Measure the plan, in seconds."""
    settings = Settings(home=folder / "plans")
    settings.layout.create()
    database = Database.open(settings.store_url)
    database.migrate()
    try:
        planner = JobPlanner(NodeContext(database, settings, "no_bench", "http://localhost"))
        request = _make_request(folder)
        _insert_jobs(database, settings, request)
        planner.begin(_OWNER, request)
        times = []
        for _round in range(rounds):
            start = time.perf_counter()
            deployment_id = planner.begin(_OWNER, request)
            times.append(time.perf_counter() - start)
            _check(database, deployment_id)
    finally:
        database.close()
    return Sample(times)


def _make_request(folder: Path) -> PlanRequest:
    manifests = [
        SourceText(f"{number}.yaml", _MANIFEST.format(number=number)) for number in range(JOBS)
    ]
    return PlanRequest(
        manifests=manifests,
        template=SourceText("job-template.yaml", _TEMPLATE),
        definitions=[SourceText("tables.sql", _DEFINITIONS)],
        state_location=str(folder / "state"),
    )


def _insert_jobs(database: Database, settings: Settings, request: PlanRequest) -> None:
    """Insert every job as it is after its deployment."""
    drafts, _notes = read_drafts(request, settings)
    with database.write("bench") as tx:
        for draft in drafts:
            job = jobs.insert_job(tx, _OWNER, draft.name, str(request.state_location), actor=_OWNER)
            version = jobs.insert_version(
                tx,
                job,
                draft.spec,
                version=1,
                query_id="00000000-0000-0000-0000-000000000000",
                decision=JobDecision.START_CLEAN,
                reason="The job is new.",
                deployment_id="dp_bench",
            )
            deployed = jobs.Deployed(version.id, "run")
            jobs.transition(tx, job, JobState.RUNNING, actor=_OWNER, deployed=deployed)


def _check(database: Database, deployment_id: str) -> None:
    with database.read() as tx:
        deployment = job_changes.get_deployment(tx, deployment_id)
    assert deployment is not None
    decisions = [job.decision for job in deployment.plan.jobs]
    assert decisions == [JobDecision.NONE] * JOBS
