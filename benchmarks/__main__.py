"""`python -m benchmarks`: measures, prints the table of ratios, writes benchmarks/RESULTS.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import load, report
from benchmarks.backend_calls import calls_for_status_reads
from benchmarks.claims import FEW, MANY, claim_times
from benchmarks.measure import interleaved, memory_growth
from benchmarks.peers.connect import spark_connect
from benchmarks.peers.headrace_node import Node, headrace_node
from benchmarks.peers.in_process import InProcess, in_process
from benchmarks.peers.thrift import thrift_server
from benchmarks.report import Report
from benchmarks.warm import new_sessions

RESULTS = Path(__file__).with_name("RESULTS.md")
PARTS = ("select", "rows", "ctas", "load", "claims", "warm", "backend")

SELECT_WARM_UP, SELECT_ROUNDS = 100, 60
ROWS_WARM_UP, ROWS_ROUNDS = 3, 30
SELECT = "SELECT 1"
ONE_JOB = "SELECT sum(id), max(id) FROM range(1000)"
MANY_ROWS = "SELECT id, CAST(id % 1000 AS INT) AS k, id / 7 AS x FROM range(5000000)"
WARM_ROUNDS = 30
CTAS_WARM_UP, CTAS_ROUNDS = 3, 30
CTAS = (
    "CREATE TABLE {table} USING parquet AS"
    " SELECT id, id % 1000 AS k, id / 7 AS x, CAST(id AS STRING) AS s FROM range(10000000)"
)
MEMORY_LIMIT = 200 * 2**20


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "--only", choices=PARTS, action="append", help="measure this part; no file is written"
    )
    only = parser.parse_args().only
    wanted = set(only or PARTS)
    found = Report(versions=report.versions({}))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        if wanted & {"select", "rows", "ctas", "load"}:
            _with_spark(found, folder, wanted)
        if "claims" in wanted:
            say("claims: filling stores with finished statements")
            _claims(found, folder)
        if "warm" in wanted:
            say(f"new sessions on warm drivers: {2 * WARM_ROUNDS} drivers, one after the other")
            _warm(found, folder)
        if "backend" in wanted:
            say("calls of the backend")
            calls = calls_for_status_reads(folder)
            found.add(report.BACKEND_CALLS, "0", f"{calls:g}", reached=calls == 0)
    sys.stdout.write(f"\n{found.table()}\n\n" + "\n\n".join(found.details) + "\n")
    if only is None:
        found.write(RESULTS)
    return 0


def _with_spark(found: Report, folder: Path, wanted: set[str]) -> None:
    with in_process(folder / "in-process") as spark, headrace_node(folder) as node:
        found.versions |= spark.versions
        if "select" in wanted:
            _select(found, folder, spark, node)
        if "rows" in wanted:
            _rows(found, spark, node)
        if "ctas" in wanted:
            _ctas(found, folder, node)
        if "load" in wanted:
            _load(found, node)


def _select(found: Report, folder: Path, spark: InProcess, node: Node) -> None:
    say("SELECT 1: starting Spark Connect and the Spark Thrift Server")
    with ExitStack() as stack:
        connect = stack.enter_context(spark_connect(folder))
        thrift = stack.enter_context(thrift_server(folder))
        say(f"SELECT 1: {SELECT_WARM_UP} rounds to warm up, {SELECT_ROUNDS} measured")
        samples = interleaved(
            {
                "PySpark in process, `toArrow()`": partial(spark.rows_by_to_arrow, SELECT),
                "PySpark in process, `collect()`": partial(spark.rows_by_collect, SELECT),
                "Headrace over HTTP": partial(node.rows, SELECT),
                "Spark Connect, `toArrow()`": connect.select_one,
                "Spark Thrift Server, PyHive": thrift.select_one,
            },
            warm_up=SELECT_WARM_UP,
            rounds=SELECT_ROUNDS,
        )
    arrow, collect, ours, *peers = samples
    reference = min(arrow, collect, key=lambda name: samples[name].median)
    ratio = samples[ours].median / samples[reference].median
    fastest_peer = min(samples[name].median for name in peers)
    found.add(report.SELECT_ONE, "≤ 1.20×", f"{ratio:.2f}×", reached=ratio <= 1.2)
    found.add(
        report.BELOW_PEERS,
        "below both",
        f"{samples[ours].median / fastest_peer:.2f}× of the faster one",
        reached=samples[ours].median < fastest_peer,
    )
    found.details.append(
        f"## SELECT 1\nMedian of {SELECT_ROUNDS} rounds after {SELECT_WARM_UP}; each system in "
        "processes of its own with the same Spark configuration, all of them up, one asked at a "
        "time. The reference is the faster of the two in-process ways. Headrace: `POST "
        "/api/v1/statements` with `wait_timeout`, the rows in its answer, one connection kept "
        "alive, SQLite as the store. Headrace computes a `SELECT` without FROM while it plans it; "
        f"the others run a Spark job for it.\n\n{report.in_ms(samples, reference)}"
    )
    _one_job(found, spark, node)


def _one_job(found: Report, spark: InProcess, node: Node) -> None:
    """The same with a query that costs a job everywhere."""
    say("a small query with a job")
    samples = interleaved(
        {
            "PySpark in process, `toArrow()`": partial(spark.rows_by_to_arrow, ONE_JOB),
            "PySpark in process, `collect()`": partial(spark.rows_by_collect, ONE_JOB),
            "Headrace over HTTP": partial(node.rows, ONE_JOB),
        },
        warm_up=SELECT_WARM_UP,
        rounds=SELECT_ROUNDS,
    )
    arrow, collect, ours = samples
    reference = min(arrow, collect, key=lambda name: samples[name].median)
    ratio = samples[ours].median / samples[reference].median
    found.add(report.ONE_JOB, "≤ 1.50×", f"{ratio:.2f}×", reached=ratio <= 1.5)
    found.details.append(
        f"## A small query with a job\n`{ONE_JOB}`, as above.\n\n{report.in_ms(samples, reference)}"
    )


def _rows(found: Report, spark: InProcess, node: Node) -> None:
    say(f"5 million rows: {ROWS_ROUNDS} rounds")
    with memory_growth(node.process) as growth:
        samples = interleaved(
            {
                "PySpark in process, `toArrow()`": lambda: spark.to_arrow(MANY_ROWS),
                "Headrace, Arrow over HTTP": lambda: node.to_arrow(MANY_ROWS),
            },
            warm_up=ROWS_WARM_UP,
            rounds=ROWS_ROUNDS,
        )
    reference, ours = samples
    ratio = samples[ours].median / samples[reference].median
    found.add(report.ROWS, "≤ 1.25×", f"{ratio:.2f}×", reached=ratio <= 1.25)
    found.add(
        report.NODE_MEMORY,
        "< 200 MiB",
        f"{growth.bytes / 2**20:.0f} MiB",
        reached=growth.bytes < MEMORY_LIMIT,
    )
    found.details.append(
        f"## 5 million rows\n`{MANY_ROWS}`, from the submit until the client holds an Arrow "
        f"table. Median of {ROWS_ROUNDS} rounds.\n\n{report.in_ms(samples, reference)}"
    )


def _ctas(found: Report, folder: Path, node: Node) -> None:
    say(f"CTAS of 10 million rows: {CTAS_ROUNDS} rounds")
    # Both are of one metastore and one warehouse.
    places = ("spark.hadoop.hive.metastore.uris", "spark.sql.warehouse.dir")
    conf = {place: node.run(f"SET {place}")["rows"][0][1] for place in places}
    with in_process(folder / "hive", conf | {"spark.sql.catalogImplementation": "hive"}) as spark:

        def plain() -> float:
            seconds = spark.rows_by_collect(CTAS.format(table="bench_plain"))
            spark.rows_by_collect("DROP TABLE bench_plain")
            return seconds

        def headrace() -> float:
            began = time.perf_counter()
            made = node.run(CTAS.format(table="bench_ctas"))
            seconds = time.perf_counter() - began
            assert made["atomic"]
            node.run("DROP TABLE bench_ctas")
            return seconds

        ways = {"PySpark in process": plain, "Headrace over HTTP, atomic": headrace}
        samples = interleaved(ways, warm_up=CTAS_WARM_UP, rounds=CTAS_ROUNDS)
    reference, ours = samples
    ratio = samples[ours].median / samples[reference].median
    found.add(report.CTAS, "≤ 1.05×", f"{ratio:.2f}×", reached=ratio <= 1.05)
    found.details.append(
        f"## CTAS\n`{CTAS}`, both on one Hive metastore and one warehouse, interleaved. Median of "
        f"{CTAS_ROUNDS} rounds after {CTAS_WARM_UP}.\n\n{report.in_ms(samples, reference)}"
    )


def _load(found: Report, node: Node) -> None:
    say("status reads and submits")
    for what, reach, least, sample in (
        (report.READS, "≥ 1,000/s", 1000, load.status_reads(node)),
        (report.SUBMITS, "≥ 300/s", 300, load.submits(node)),
    ):
        found.add(what, reach, f"{sample.median:,.0f}/s", reached=sample.median >= least)
    found.details.append(
        f"## Load\n{load.THREADS} connections from one Python process on the node's own machine, "
        f"so the two share its cores; medians of windows of {load.WINDOW_SECONDS:g} s. Submits are "
        "durable in SQLite (full sync) when they are answered."
    )


def _claims(found: Report, folder: Path) -> None:
    times = claim_times(folder)
    ratios = {store: sizes[MANY].median / sizes[FEW].median for store, sizes in times.items()}
    found.add(
        report.CLAIMS,
        "≤ 1.2×",
        ", ".join(f"{store} {ratio:.2f}×" for store, ratio in ratios.items()),
        reached=max(ratios.values()) <= 1.2,
    )
    lines = ["| store | with 1,000 | with 1,000,000 |", "|---|--:|--:|"]
    for store, sizes in times.items():
        few, many = (f"{sizes[size].median * 1000:.2f} ms" for size in (FEW, MANY))
        lines.append(f"| {store} | {few} | {many} |")
    found.details.append("## Claims\nOne transaction each.\n\n" + "\n".join(lines))


def _warm(found: Report, folder: Path) -> None:
    samples = new_sessions(folder, WARM_ROUNDS)
    first = next(iter(samples))
    found.add(
        report.WARM,
        "≤ 1 s",
        ", ".join(f"{name} {sample.median:.2f} s" for name, sample in samples.items()),
        reached=samples[first].median <= 1,
    )
    found.details.append(
        "## A new session on a warm driver\n`POST /api/v1/statements` without a session, on a node "
        "with `warm = 1`, as soon as the spare driver says that it has warmed up; medians of "
        f"{WARM_ROUNDS} sessions each. The driver that replaces the one taken starts at the same "
        f"time on the same cores.\n\n{report.in_ms(samples, first)}"
    )


def say(text: str) -> None:
    sys.stderr.write(f"==> {text}\n")


if __name__ == "__main__":
    sys.exit(main())
