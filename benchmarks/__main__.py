"""`python -m benchmarks`: measure, print the table of ratios, write benchmarks/RESULTS.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import (
    cold_start,
    load,
    one_job,
    open_clients,
    plans,
    postgres_node,
    report,
    saturation,
    scheduled_flights,
    schedules,
    sign_in,
    small_statements,
    streams,
    table_writes,
    takeovers,
    tools,
)
from benchmarks.backend_calls import calls_for_status_reads
from benchmarks.claims import FEW, MANY, claim_times
from benchmarks.measure import MEDIAN_OF, Sample, interleaved, memory_growth
from benchmarks.peers.connect import spark_connect
from benchmarks.peers.headrace_node import SESSION, NodeClient, headrace_node
from benchmarks.peers.in_process import InProcess, in_process
from benchmarks.peers.thrift import thrift_server
from benchmarks.report import Report
from benchmarks.warm import new_sessions

RESULTS = Path(__file__).with_name("RESULTS.md")
PARTS = (
    *(
        "select",
        "job",
        "sign-in",
        "small",
        "rows",
        "ctas",
        "insert",
        "load",
        "claims",
        "cold",
        "warm",
        "backend",
        "streams",
        "plans",
    ),
    *("backfill", "clients", "idle", "saturation", "schedules", "takeovers", "tools"),
)

SELECT_WARM_UP, SELECT_ROUNDS = 100, 60
SIGN_IN_WARM_UP, SIGN_IN_ROUNDS = 200, 400
JOB_WARM_UP, JOB_ROUNDS = 1000, 600
ROWS_WARM_UP, ROWS_ROUNDS = 3, 30
SMALL_WARM_UP, SMALL_ROUNDS = 10, 30
RATE_ROUNDS = 10
SELECT = "SELECT 1"
MANY_ROWS = "SELECT id, CAST(id % 1000 AS INT) AS k, id / 7 AS x FROM range(5000000)"
COLD_WARM_UP, COLD_ROUNDS = 1, 10
WARM_ROUNDS = 30
CTAS_WARM_UP, CTAS_ROUNDS = 3, 30
STREAMS_WARM_UP, STREAMS_ROUNDS = 4, 30
PLAN_ROUNDS = 30
BACKFILL_WARM_UP, BACKFILL_ROUNDS = 2, 5
TOOL_ROUNDS = 10
DBT_ROUNDS = 5
MEMORY_LIMIT = 200 * 2**20


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "--only",
        choices=PARTS,
        action="append",
        help="measure only this part, and write no file; repeatable",
    )
    only = parser.parse_args().only
    parts = set(only or PARTS)
    results = Report(versions=report.versions({}))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        if parts & {"select", "small", "rows", "ctas", "insert", "load"}:
            _with_spark(results, folder, parts)
        for part, (text, measure) in ALONE.items():
            if part in parts:
                say(text)
                measure(results, folder)
    sys.stdout.write(f"\n{results.table()}\n\n" + "\n\n".join(results.details) + "\n")
    if only is None:
        results.write(RESULTS)
    return 0


def _with_spark(results: Report, folder: Path, parts: set[str]) -> None:
    with in_process(folder / "in-process") as spark, headrace_node(folder) as node:
        results.versions |= spark.versions
        if "select" in parts:
            _select(results, folder, spark, node)
        if "small" in parts:
            _small(results, folder, node)
        if "rows" in parts:
            _rows(results, spark, node)
        if "ctas" in parts:
            _ctas(results, folder, node)
        if "insert" in parts:
            _inserts(results, folder, node)
        if "load" in parts:
            _load(results, folder, node)


def _select(results: Report, folder: Path, spark: InProcess, node: NodeClient) -> None:
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
    results.add(report.SELECT_ONE, "≤ 1.20×", f"{ratio:.2f}×", reached=ratio <= 1.2)
    results.add(
        report.BELOW_PEERS,
        "below both",
        f"{samples[ours].median / fastest_peer:.2f}× of the faster one",
        reached=samples[ours].median < fastest_peer,
    )
    results.details.append(
        f"## SELECT 1\nMedian of {SELECT_ROUNDS} rounds after {SELECT_WARM_UP}; each system in "
        "processes of its own with the same Spark configuration. All systems run; one query is "
        "sent at a time. The reference is the faster of the two in-process methods. Headrace: "
        "`POST /api/v1/statements` with `wait_timeout`, rows in the response, one connection kept "
        "alive, SQLite as the store. Headrace evaluates a `SELECT` without FROM in the planner; "
        f"the other systems run a Spark job for it.\n\n{report.in_ms(samples, reference)}"
    )


def _small(results: Report, folder: Path, node: NodeClient) -> None:
    rows = [
        "| statement | plain ms (p90) | Headrace ms (p90) | ratio | Connect ms | Thrift ms |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    measured: dict[str, list[dict[str, Sample]]] = {}
    with small_statements.on_one_warehouse(folder, node) as systems:
        for name, limit, statements in (
            (report.SMALL_READS, 1.0, small_statements.READS),
            (report.SMALL_WRITES, 1.25, small_statements.WRITES),
            (report.SMALL_DEFINITIONS, 1.1, small_statements.DEFINITIONS),
        ):
            measured[name] = _small_rows(results, rows, systems, name, limit, statements)
        rates = _small_rates(results, systems)
    with small_statements.on_lakes(folder, node) as systems:
        for name, limit, statements in (
            (report.LAKE_READS, 1.0, small_statements.LAKE_READS),
            (report.LAKE_WRITES, 1.25, small_statements.LAKE_WRITES),
        ):
            measured[name] = _small_rows(results, rows, systems, name, limit, statements)
    reads = measured[report.SMALL_READS] + measured[report.LAKE_READS]
    faster = sum(map(small_statements.is_faster_than_servers, reads))
    text = f"{faster} of {len(reads)}"
    results.add(report.SMALL_SERVERS, "all", text, reached=faster == len(reads))
    results.details.append(
        "## Small statements\nAll systems on one Hive metastore and one warehouse, interleaved."
        f" Median of {SMALL_ROUNDS} rounds after {SMALL_WARM_UP}. Plain Spark: `collect()`.\n\n"
        + "\n".join(rows)
        + "\n\n"
        + "\n".join(rates)
    )


def _small_rows(
    results: Report,
    rows: list[str],
    systems: Mapping[str, small_statements.System],
    name: str,
    limit: float,
    statements: Sequence[small_statements.Statement],
) -> list[dict[str, Sample]]:
    """Measure statements, add their rows and the worst ratio, and return their samples."""
    measured = []
    for statement in statements:
        say(f"{statement.name}: {SMALL_ROUNDS} rounds")
        samples = small_statements.measure(
            systems, statement, warm_up=SMALL_WARM_UP, rounds=SMALL_ROUNDS
        )
        measured.append(samples)
        plain, ours, *servers = samples.values()
        cells = [
            f"{each.median * 1000:.0f} ({each.spread[1] * 1000:.0f})" for each in (plain, ours)
        ]
        cells.append(f"{small_statements.ratio(samples):.2f}×")
        cells += [f"{each.median * 1000:.0f}" for each in servers]
        rows.append(f"| {statement.name} | {' | '.join(cells)} |")
        say(rows[-1])
    worst = max(map(small_statements.ratio, measured))
    results.add(name, f"≤ {limit:.2f}×", f"{worst:.2f}×", reached=worst <= limit)
    return measured


def _small_rates(results: Report, systems: Mapping[str, small_statements.System]) -> list[str]:
    """Measure the rates of eight clients, and return their table."""
    rates = ["| eight at once | plain | Headrace | ratio | Connect | Thrift |"]
    rates.append("|---|--:|--:|--:|--:|--:|")
    ratios = []
    for statement in small_statements.TOGETHER:
        say(f"{statement.name}, eight at once")
        samples = small_statements.measure_rates(systems, statement, warm_up=1, rounds=RATE_ROUNDS)
        ratios.append(small_statements.ratio(samples))
        plain, ours, *servers = (f"{sample.median:.1f}/s" for sample in samples.values())
        cells = [plain, ours, f"{ratios[-1]:.2f}×", *servers]
        rates.append(f"| {statement.name} | {' | '.join(cells)} |")
        say(rates[-1])
    lowest = min(ratios)
    results.add(report.AT_ONCE, "≥ 0.95×", f"{lowest:.2f}×", reached=lowest >= 0.95)
    return rates


def _one_job(results: Report, folder: Path) -> None:
    """Measure a small query for which every system runs a Spark job."""
    samples = one_job.query_times(folder, warm_up=JOB_WARM_UP, rounds=JOB_ROUNDS)
    by_to_arrow, by_collect, ours = samples
    reference = min(by_to_arrow, by_collect, key=lambda name: samples[name].median)
    ratio = samples[ours].median / samples[reference].median
    results.add(report.ONE_JOB, "≤ 1.30×", f"{ratio:.2f}×", reached=ratio <= 1.3)
    results.details.append(
        f"## A small query with a job\n`{one_job.QUERY}`, measured like `SELECT 1`. Median of"
        f" {JOB_ROUNDS} rounds after {JOB_WARM_UP}. Each of the three systems has a JVM of its own,"
        f" which has run this query as often as the others.\n\n{report.in_ms(samples, reference)}"
    )


def _sign_in(results: Report, folder: Path) -> None:
    """Measure what it costs to find out who calls."""
    samples = sign_in.select_times(folder, warm_up=SIGN_IN_WARM_UP, rounds=SIGN_IN_ROUNDS)
    medians = {name: sample.median for name, sample in samples.items()}
    token = medians[sign_in.OWN_TOKEN] / medians[sign_in.NODE_TOKEN]
    # Group and user have drivers of their own: their tokens are the references there.
    member = token * medians[sign_in.ACCESS_TOKEN] / medians[sign_in.GROUP_TOKEN]
    person = token * medians[sign_in.PASSWORD] / medians[sign_in.PERSONAL_TOKEN]
    ratios = (token, member, person)
    text = ", ".join(f"{ratio:.3f}×" for ratio in ratios)
    reached = max(ratios) <= 1.02
    results.add(report.SIGNED_IN, "≤ 1.02×", text, reached=reached)
    results.details.append(
        f"## Sign-in\n`SELECT 1` over HTTP at one node. Median of {SIGN_IN_ROUNDS} rounds after"
        f" {SIGN_IN_WARM_UP}. Each two rows that follow each other are of one session."
        f"\n\n{report.in_ms(samples, sign_in.NODE_TOKEN)}"
    )


def _rows(results: Report, spark: InProcess, node: NodeClient) -> None:
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
    results.add(report.ROWS, "≤ 1.25×", f"{ratio:.2f}×", reached=ratio <= 1.25)
    results.add(
        report.NODE_MEMORY,
        "< 200 MiB",
        f"{growth.bytes / 2**20:.0f} MiB",
        reached=growth.bytes < MEMORY_LIMIT,
    )
    results.details.append(
        f"## 5 million rows\n`{MANY_ROWS}`, from the submit until the client has an Arrow "
        f"table. Median of {ROWS_ROUNDS} rounds.\n\n{report.in_ms(samples, reference)}"
    )


def _ctas(results: Report, folder: Path, node: NodeClient) -> None:
    say(f"CTAS of 10 million rows: {CTAS_ROUNDS} rounds")
    samples = table_writes.measure_ctas(folder, node, warm_up=CTAS_WARM_UP, rounds=CTAS_ROUNDS)
    ratio = table_writes.ratio(samples)
    results.add(report.CTAS, "≤ 1.05×", f"{ratio:.2f}×", reached=ratio <= 1.05)
    results.details.append(
        f"## CTAS\n`{table_writes.CTAS}`, both systems on one Hive metastore and one warehouse,"
        f" interleaved. Median of {CTAS_ROUNDS} rounds after {CTAS_WARM_UP}.\n\n"
        f"{report.in_ms(samples, table_writes.PLAIN)}"
    )


def _inserts(results: Report, folder: Path, node: NodeClient) -> None:
    for name, clause, limit in (
        (report.INSERT, "", 1.05),
        (report.PARTITIONED_INSERT, table_writes.PARTITIONED, 1.1),
    ):
        say(f"{name}: {CTAS_ROUNDS} rounds")
        samples = table_writes.measure_inserts(
            folder, node, clause, warm_up=CTAS_WARM_UP, rounds=CTAS_ROUNDS
        )
        ratio, table = table_writes.ratio(samples), f"USING parquet {clause}".strip()
        results.add(name, f"≤ {limit:.2f}×", f"{ratio:.2f}×", reached=ratio <= limit)
        results.details.append(
            f"## {name}\n`{table_writes.INSERT}` into a new table (`{table}`), as"
            f" above. Median of {CTAS_ROUNDS} rounds after {CTAS_WARM_UP}.\n\n"
            f"{report.in_ms(samples, table_writes.PLAIN)}"
        )


def _load(results: Report, folder: Path, node: NodeClient) -> None:
    say("status reads and submits")
    reads = load.status_reads(node, folder, load.run_statements(node))
    load.occupy_session(node)
    submits = load.submits(node, folder, SESSION)
    for name, target, minimum, sample in (
        (report.READS, "≥ 1,000/s", 1000, reads),
        (report.SUBMITS, "≥ 300/s", 300, submits),
    ):
        results.add(name, target, f"{sample.median:,.0f}/s", reached=sample.median >= minimum)
    results.details.append(
        f"## Load\n{load.CONNECTIONS} connections of wrk on the machine of the node; medians of "
        f"{MEDIAN_OF} windows of {load.WINDOW_SECONDS} s. A submit is durable in SQLite (full sync)"
        " before the node responds."
    )


def _claims(results: Report, folder: Path) -> None:
    times = claim_times(folder)
    ratios = {store: sizes[MANY].median / sizes[FEW].median for store, sizes in times.items()}
    results.add(
        report.CLAIMS,
        "≤ 1.2×",
        ", ".join(f"{store} {ratio:.2f}×" for store, ratio in ratios.items()),
        reached=max(ratios.values()) <= 1.2,
    )
    lines = ["| store | 1,000 finished | 1,000,000 finished |", "|---|--:|--:|"]
    for store, sizes in times.items():
        few, many = (f"{sizes[size].median * 1000:.2f} ms" for size in (FEW, MANY))
        lines.append(f"| {store} | {few} | {many} |")
    results.details.append(
        "## Claims\nTime of one claim, which is one transaction.\n\n" + "\n".join(lines)
    )


def _cold(results: Report, folder: Path) -> None:
    samples, starts = cold_start.cold_starts(folder, warm_up=COLD_WARM_UP, rounds=COLD_ROUNDS)
    ratio = samples[cold_start.KEPT_HOME].median / samples[cold_start.BARE].median
    results.add(report.COLD, "≤ 0.65×", f"{ratio:.2f}×", reached=ratio <= 0.65)
    phases = "\n".join(
        f"| {name} | {sample.median:.2f} |" for name, sample in starts.phases.items()
    )
    results.details.append(
        "## Cold start\nFrom the start of the process to the row on its standard output. The bare "
        "process creates a session with the defaults of PySpark. `headrace sql` starts a node, a "
        "driver and a metastore; an archive of Spark's classes exists. Each home is stopped before "
        f"the next round. Median of {COLD_ROUNDS} rounds after {COLD_WARM_UP}.\n\n"
        f"{report.in_ms(samples, cold_start.BARE)}\n\nPhases on the home that was used before:\n\n"
        f"| phase | median s |\n|---|--:|\n{phases}"
    )


def _warm(results: Report, folder: Path) -> None:
    samples = new_sessions(folder, WARM_ROUNDS)
    first = next(iter(samples))
    results.add(
        report.WARM,
        "≤ 1 s",
        ", ".join(f"{name} {sample.median:.2f} s" for name, sample in samples.items()),
        reached=samples[first].median <= 1,
    )
    results.details.append(
        "## A new session on a warm driver\n`POST /api/v1/statements` without a session, on a node "
        "with `warm = 1`, submitted as soon as the log of the warm driver reports that it is warm. "
        f"Medians of {WARM_ROUNDS} sessions each. The next warm driver starts at the same time on "
        f"the same cores.\n\n{report.in_ms(samples, first)}"
    )


def _streams(results: Report, folder: Path) -> None:
    samples = streams.stream_rates(folder, warm_up=STREAMS_WARM_UP, rounds=STREAMS_ROUNDS)
    ratio = samples[streams.SUPERVISED].median / samples[streams.BARE].median
    results.add(report.STREAMS, "≥ 0.98×", f"{ratio:.3f}×", reached=ratio >= 0.98)
    results.details.append(
        f"## Streams\n{streams.ROWS:,} JSON rows in {streams.FILES} files, copied to Parquet in "
        f"{streams.BATCHES} batches; from the start of the first batch to the commit of the last "
        "one, as Spark reports them. Headrace: a node with SQLite as the store, a streaming "
        f"session. Median of {STREAMS_ROUNDS} rounds after {STREAMS_WARM_UP}.\n\n"
        f"{report.in_rows_per_second(samples, streams.BARE)}"
    )


def _postgres(results: Report, folder: Path) -> None:
    reads, submits = postgres_node.capacity(folder)
    for name, target, minimum, sample in (
        (report.POSTGRES_READS, "≥ 1,000/s", 1000, reads),
        (report.POSTGRES_SUBMITS, "≥ 300/s", 300, submits),
    ):
        results.add(name, target, f"{sample.median:,.0f}/s", reached=sample.median >= minimum)
    idle = postgres_node.idle_load(folder)
    added = idle.with_sessions - idle.without_sessions
    results.add(report.IDLE, "< 50/s", f"{added:.0f}/s", reached=added < 50)
    results.details.append(
        "## One node with PostgreSQL\nWithout Spark; client, node and PostgreSQL share the machine."
        f" Load as above. Idle: PostgreSQL counts {idle.without_sessions:.0f} transactions per"
        f" second for the node alone, and {idle.with_sessions:.0f} with"
        f" {postgres_node.SESSIONS:,} sessions whose drivers poll, over"
        f" {postgres_node.WINDOW_SECONDS:.0f} s each. The renewals of leases are not included."
    )


def _open_clients(results: Report, folder: Path) -> None:
    stores = {"SQLite": "sqlite", "PostgreSQL": "postgresql"}
    outcomes = {name: open_clients.measure(folder, store) for name, store in stores.items()}
    for row, kind in ((report.BESIDE_READS, "reads"), (report.BESIDE_SUBMITS, "submits")):
        ratios = {name: outcome.rates(kind).ratio for name, outcome in outcomes.items()}
        measured = ", ".join(f"{name} {ratio:.2f}×" for name, ratio in ratios.items())
        results.add(row, "≥ 0.9×", measured, reached=min(ratios.values()) >= 0.9)
    lines = ["| store | requests | alone | beside the clients | ratio |", "|---|---|--:|--:|--:|"]
    for name, outcome in outcomes.items():
        for kind in ("reads", "submits"):
            rates = outcome.rates(kind)
            alone, beside = (f"{each.median:,.0f}/s" for each in (rates.alone, rates.beside))
            lines.append(f"| {name} | {kind} | {alone} | {beside} | {rates.ratio:.2f}× |")
    sent = ", ".join(
        f"{name} {outcome.bytes_per_second / 1e6:.1f} MB/s" for name, outcome in outcomes.items()
    )
    results.details.append(
        f"## Open clients\n{open_clients.STREAMS} event streams that follow all events, and"
        f" {open_clients.DRIVERS} drivers, each with an open poll and a renewal every 5 s, in a"
        f" process of their own on the machine of the node; load as above, without Spark. Medians"
        f" of {MEDIAN_OF} windows of {load.WINDOW_SECONDS} s, in turn without and with"
        f" the clients. The streams received: {sent}.\n\n" + "\n".join(lines)
    )


def _tools(results: Report, folder: Path) -> None:
    with tools.servers(folder / "tools") as ports:
        measured = {
            report.PYHIVE: tools.select_one(ports, warm_up=SELECT_WARM_UP, rounds=SELECT_ROUNDS),
            **{
                name: tools.million_rows(ports, version, warm_up=2, rounds=TOOL_ROUNDS)
                for name, version in ((report.HIVE_JDBC_2, "2.3"), (report.HIVE_JDBC_4, "4.0"))
            },
            report.ADBC: tools.arrow_rows(ports, folder, MANY_ROWS, warm_up=2, rounds=TOOL_ROUNDS),
            report.DBT: tools.dbt_builds(ports, folder, warm_up=1, rounds=DBT_ROUNDS),
        }
    limits = {report.PYHIVE: 0.8, report.ADBC: 1.15}
    tables = []
    for name, samples in measured.items():
        reference = next(iter(samples))
        ratio, limit = (
            samples[tools.HEADRACE].median / samples[reference].median,
            limits.get(name, 1.0),
        )
        results.add(name, f"≤ {limit:.2f}×", f"{ratio:.2f}×", reached=ratio <= limit)
        rounds = len(samples[reference].values)
        tables.append(f"{name}, {rounds} rounds:\n\n{report.in_ms(samples, reference)}")
    results.details.append(
        "## Tools that people have\nEach with its own driver, against a node with SQLite and"
        " against a server of the same Spark configuration that runs beside it, interleaved."
        " PyHive keeps one connection; the other drivers connect in each round, which is not"
        f" measured. Hive's drivers ask for {int(tools.PAGE):,} rows at a time. dbt runs four"
        " threads, with `--full-refresh`; the time is that of the whole command.\n\n"
        + "\n\n".join(tables)
    )


def _saturation(results: Report, folder: Path) -> None:
    names = ["nodes", "drivers", "cores allowed", "asked for", "statements/s"]
    names += ["median ms", "95 % ms"]
    names += ["cores of PostgreSQL", "core ms for a statement", "log MB/s"]
    lines = [f"| {' | '.join(names)} |", "|--:" * len(names) + "|"]
    for number, case in enumerate(saturation.possible_loads()):
        outcome = saturation.simulate(folder / f"saturation-{number}", case)
        rate = "as many as possible" if case.rate is None else f"{case.rate:g}"
        cores = "all" if case.cores is None else f"{case.cores:g}"
        cells = [str(case.nodes), f"{case.drivers:,}", cores, rate, *outcome.describe()]
        lines.append(f"| {' | '.join(cells)} |")
    results.details.append(
        "## Saturation of PostgreSQL\nNodes without HTTP and Spark, each in a process of its own,"
        " on the machine of PostgreSQL, which flushes its log to the disk. A statement is four"
        " transactions and a poll; each driver renews its lease every 5 s.\n\n" + "\n".join(lines)
    )


def _takeovers(results: Report, folder: Path) -> None:
    sample = takeovers.takeover_times(folder)
    limit = takeovers.LEASE_SECONDS + 2
    results.add(
        report.TAKEOVER,
        "≤ lease + 2 s",
        f"{sample.median:.2f} s with a lease of {takeovers.LEASE_SECONDS:g} s",
        reached=sample.median <= limit,
    )
    results.details.append(
        f"## A node is killed\nTwo nodes with PostgreSQL; one of them owns {takeovers.SESSIONS} "
        "sessions, whose drivers run without Spark. From the SIGKILL until a statement of every "
        "session, submitted at the other node, has ended. "
        f"{takeovers.ROUNDS} rounds: {min(sample.values):.2f} to {max(sample.values):.2f} s."
    )


def _schedules(results: Report, folder: Path) -> None:
    """Measure how late runs are if many jobs are due at once."""
    lateness = schedules.measure_lateness(folder)
    late = schedules.find_p99(lateness.stored)
    results.add(report.SCHEDULES, "≤ 5 s", f"{late:.1f} s", reached=late <= 5.0)
    results.details.append(
        f"## {schedules.JOBS:,} jobs that are due at once\n{schedules.NODES} nodes with PostgreSQL"
        f" and one driver share the machine. Each job runs `SELECT 1` once: each has one run, which"
        f" has succeeded. Write transactions for each run, apart from those of its statement:"
        f" {lateness.transactions:.2f}.\n\n{lateness.describe()}"
    )


def _backfill(results: Report, folder: Path) -> None:
    """Measure the example of a scheduled project against a script with the same statements."""
    samples = scheduled_flights.measure_backfill(
        folder / "flights", warm_up=BACKFILL_WARM_UP, rounds=BACKFILL_ROUNDS
    )
    script, backfill = samples[scheduled_flights.SCRIPT], samples[scheduled_flights.BACKFILL]
    ratio = backfill.median / script.median
    results.add(report.BACKFILL, "≤ 1.10×", f"{ratio:.2f}×", reached=ratio <= 1.1)
    results.details.append(
        f"## A backfill\n{scheduled_flights.DAYS} days of the flights of `examples/flights`: load,"
        " clean, aggregate, view, on one Hive metastore. The script runs the statements one after"
        " the other, without expectations and lineage."
        f" Median of {BACKFILL_ROUNDS} rounds after {BACKFILL_WARM_UP}.\n\n"
        f"{report.in_ms(samples, scheduled_flights.SCRIPT)}"
    )


def _plans(results: Report, folder: Path) -> None:
    sample = plans.plan_times(folder, rounds=PLAN_ROUNDS)
    first, last = sample.spread
    results.add(report.PLANS, "≤ 2 s", f"{sample.median:.2f} s", reached=sample.median <= 2)
    results.details.append(
        f"## Plans\nThe plan of {plans.JOBS:,} manifests with a template and table definitions,"
        " which are deployed and have not changed; in one process, SQLite as the store. Median of"
        f" {PLAN_ROUNDS}: {sample.median:.2f} s, 10th to 90th percentile {first:.2f} to"
        f" {last:.2f} s."
    )


def _backend(results: Report, folder: Path) -> None:
    calls = calls_for_status_reads(folder)
    results.add(report.BACKEND_CALLS, "0", f"{calls:g}", reached=calls == 0)


def say(text: str) -> None:
    sys.stderr.write(f"==> {text}\n")


ALONE: dict[str, tuple[str, Callable[[Report, Path], None]]] = {
    "job": (f"a small query with a job: {JOB_WARM_UP + JOB_ROUNDS} rounds", _one_job),
    "sign-in": (f"sign-in: {SIGN_IN_WARM_UP + SIGN_IN_ROUNDS} rounds", _sign_in),
    "claims": ("claims: inserting finished statements into the stores", _claims),
    "cold": (f"starts from nothing: {COLD_WARM_UP + COLD_ROUNDS} rounds", _cold),
    "warm": (f"new sessions on warm drivers: {2 * WARM_ROUNDS} drivers in succession", _warm),
    "backend": ("calls to the backend", _backend),
    "streams": (f"streaming queries: {STREAMS_WARM_UP + STREAMS_ROUNDS} rounds", _streams),
    "plans": (f"plans of {plans.JOBS:,} manifests: {PLAN_ROUNDS} rounds", _plans),
    "clients": (
        f"{open_clients.STREAMS} event streams, {open_clients.DRIVERS} drivers: two stores",
        _open_clients,
    ),
    "idle": (f"a node with PostgreSQL: load, {postgres_node.SESSIONS:,} idle sessions", _postgres),
    "saturation": (f"saturation of PostgreSQL: {len(saturation.LOADS)} loads", _saturation),
    "backfill": (
        f"a backfill of {scheduled_flights.DAYS} days: {BACKFILL_WARM_UP + BACKFILL_ROUNDS} rounds",
        _backfill,
    ),
    "schedules": (
        f"{schedules.JOBS:,} jobs that are due at once: {schedules.NODES} nodes",
        _schedules,
    ),
    "takeovers": (f"a node is killed: {takeovers.ROUNDS} rounds", _takeovers),
    "tools": (f"drivers of people's tools: {DBT_ROUNDS} to {SELECT_ROUNDS} rounds", _tools),
}
"""The parts that need no session of a node beside others, with what they measure."""


if __name__ == "__main__":
    sys.exit(main())
