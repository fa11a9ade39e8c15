"""A short version of `make chaos-cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.chaos_cluster.run import run_cluster
from tests.faults.hosts import missing_for_hosts

_SEED = "17"
_SECONDS = 30.0
_FAULTS = 3


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.nginx
@pytest.mark.timeout(900)
# The supervisor of the metastore outlives the object that has started it.
@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")
def test_a_cluster_keeps_its_promises_while_nodes_drivers_and_hosts_fail(tmp_path: Path) -> None:
    missing = missing_for_hosts()
    if missing is not None:
        pytest.skip(missing)

    report = run_cluster(tmp_path, _SEED, _SECONDS, min_faults=_FAULTS)
    report.print()

    assert report.violations == []
    assert sum(report.faults.values()) >= _FAULTS
    assert report.results > 0
