"""A small query for which every system runs a Spark job.

A JVM becomes faster for thousands of jobs. Each system therefore has a JVM of its own, which runs
only this query: all of them have run the same number of jobs.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.measure import Sample, interleaved
from benchmarks.peers.headrace_node import headrace_node
from benchmarks.peers.in_process import in_process

QUERY = "SELECT sum(id), max(id) FROM range(1000)"


def query_times(folder: Path, *, warm_up: int, rounds: int) -> dict[str, Sample]:
    """Return the times by system: both methods of PySpark in process, then Headrace."""
    with (
        in_process(folder / "to-arrow") as to_arrow,
        in_process(folder / "collect") as collect,
        headrace_node(folder / "one-job") as node,
    ):
        return interleaved(
            {
                "PySpark in process, `toArrow()`": partial(to_arrow.rows_by_to_arrow, QUERY),
                "PySpark in process, `collect()`": partial(collect.rows_by_collect, QUERY),
                "Headrace over HTTP": partial(node.rows, QUERY),
            },
            warm_up=warm_up,
            rounds=rounds,
        )
