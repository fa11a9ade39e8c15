"""Number of backend calls during a thousand status reads of a running query."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.support.aws import account, moto_server
from tests.support.emr_job import EmrJob

from benchmarks.peers.headrace_node import NodeClient, node_process
from benchmarks.peers.processes import wait_for

READS = 1_000
_LONG_QUERY = "SELECT reflect('java.lang.Thread', 'sleep', 600000L)"


def calls_for_status_reads(folder: Path) -> float:
    """Return the calls to EMR Serverless (served by moto) during READS reads of a batch query."""
    # Moto's server logs each request at level INFO.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    with moto_server() as address:
        aws = account(address)
        settings = {
            "HEADRACE_PROFILES": json.dumps({"default": aws.profile()}),
            "HEADRACE_RESULTS__LOCATION": aws.results,
            "HEADRACE_CATALOG__KIND": "memory",
        }
        with node_process(folder / "emr", **settings) as (node, process):
            body = {"statement": _LONG_QUERY, "kind": "batch"}
            path = f"/api/v1/statements/{node.call('POST', '/api/v1/statements', body)['id']}"

            def is_running() -> bool:
                state: str = node.call("GET", path)["state"]
                return state == "running"

            wait_for(lambda: bool(aws.job_runs()), process, "the job run")
            with EmrJob(aws.job_runs()[0], folder / "job"):
                wait_for(is_running, process, "the batch query")
                before = _count_calls(node)
                for _ in range(READS):
                    assert is_running()
                return _count_calls(node) - before


def _count_calls(node: NodeClient) -> float:
    families = text_string_to_metric_families(node.text("/metrics"))
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "headrace_backend_calls_total"
    )
