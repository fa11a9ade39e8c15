"""A node with drivers that run jobs without Spark, and a job to deploy in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.deployed_job import DeployedJob
from tests.support.in_process_node import make_settings, serve_node
from tests.support.simulated_jobs import SimulatedJobs


@pytest.fixture
def deployed_job(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DeployedJob]:
    """Return a job to deploy. A parameter of the fixture has further settings `jobs`."""
    for module in ("planning", "job_changer"):
        monkeypatch.setattr(f"headrace.control.jobs.{module}._POLL_SECONDS", 0.02)
    drivers = SimulatedJobs()
    jobs = {"proof_timeout": "5m", **getattr(request, "param", {})}
    settings = make_settings(tmp_path / "home", jobs=jobs)
    with serve_node(settings, drivers) as node:
        yield DeployedJob(node, drivers, tmp_path / "state")
