"""Deployments that are applied at one instant: jobs follow each other in no cycle."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.batch_jobs import insert_batch_job

from headrace.config.settings import Settings
from headrace.control.jobs.applying import apply_plan
from headrace.errors import PlanNotApplicable
from headrace.model.deployment import DeploymentPlan, JobAction, PlannedJob
from headrace.model.job import JobDecision
from headrace.model.lifecycle import DeploymentState, JobState
from headrace.model.run import FiringRules
from headrace.model.schedule import Schedule
from headrace.store.clock import read_clock
from headrace.store.database import Database
from headrace.store.jobs import job_changes, schedules
from headrace.store.jobs import jobs as store_jobs


class Deployer:
    """Two jobs, and deployments of them that are planned."""

    def __init__(self, store: Database, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        with store.read() as tx:
            now = read_clock(tx.connection)
        self.ids = {
            name: insert_batch_job(store, FiringRules(), cursor=now, name=name) for name in "ab"
        }
        with store.write("test") as tx:
            for job_id in self.ids.values():
                job, schedule = store_jobs.get(tx, job_id), schedules.find(tx, job_id)
                assert job is not None
                assert schedule is not None
                deployed = store_jobs.Deployed(schedule.version_id, None)
                store_jobs.transition(tx, job, JobState.RUNNING, actor="ada", deployed=deployed)

    def plan(self, name: str, after: str | None) -> str:
        """Plan a version of a job that follows another; None: its deletion. Return the id."""
        with self.store.write("test") as tx:
            job = store_jobs.get(tx, self.ids[name])
            assert job is not None
            version = store_jobs.get_version(tx, job.version_id)
            assert version is not None
            spec = None
            if after is not None:
                assert version.spec.batch is not None
                rules = FiringRules(schedule=Schedule(after=[after]))
                batch = version.spec.batch.model_copy(update={"rules": rules})
                spec = version.spec.model_copy(update={"batch": batch})
            planned = PlannedJob(
                name=name,
                decision=JobDecision.STOP if spec is None else JobDecision.UPDATE,
                reason="",
                spec=spec,
                job_id=job.id,
                generation=job.generation,
            )
            plan = DeploymentPlan(state_location="/state", jobs=[planned])
            action = JobAction.DELETE if spec is None else JobAction.DEPLOY
            deployment_id = job_changes.insert_deployment(tx, "ada", action, plan, actor="ada")
            deployment = job_changes.lock_deployment(tx, deployment_id)
            assert deployment is not None
            job_changes.move_deployment(tx, deployment, DeploymentState.PLANNED, actor="ada")
        return deployment_id

    def apply(self, deployment_id: str, meeting: threading.Barrier) -> str:
        """Apply a plan beside another. Return the error, or nothing."""
        try:
            with self.store.write("test") as tx:
                deployment = job_changes.lock_deployment(tx, deployment_id)
                assert deployment is not None
                # A SQLite store has one writer: the other one does not come.
                with suppress(threading.BrokenBarrierError):
                    meeting.wait(timeout=1)
                apply_plan(tx, self.settings, deployment, actor="ada")
        except PlanNotApplicable as error:
            return error.message
        return ""

    def apply_at_once(self, *deployment_ids: str) -> list[str]:
        """Apply plans at one instant. Return the errors."""
        meeting = threading.Barrier(len(deployment_ids))
        with ThreadPoolExecutor(len(deployment_ids)) as pool:
            applied = [pool.submit(self.apply, each, meeting) for each in deployment_ids]
            return sorted(each.result() for each in applied)


@pytest.fixture
def deployer(store: Database, tmp_path: Path) -> Deployer:
    return Deployer(store, Settings(home=tmp_path))


def test_deployments_that_are_applied_at_one_instant_form_no_cycle(deployer: Deployer) -> None:
    plans = deployer.plan("a", "b"), deployer.plan("b", "a")
    first, second = deployer.apply_at_once(*plans)
    assert first == ""
    assert second.startswith("The jobs follow each other in a cycle: ")


def test_a_job_is_not_followed_while_it_is_deleted(deployer: Deployer) -> None:
    plans = deployer.plan("a", None), deployer.plan("b", "a")
    first, second = deployer.apply_at_once(*plans)
    assert first == ""
    assert second == "b follows the job a, which does not exist."
