"""The table of measured ratios and their targets, and RESULTS.md."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks.measure import Sample
from headrace import __version__


@dataclass(frozen=True)
class RatioRow:
    """A row of the table of ratios."""

    name: str
    target: str
    measured: str
    reached: bool | None = None
    """None if it was not measured."""


@dataclass
class Report:
    """Results of one run of the benchmarks."""

    versions: dict[str, str] = field(default_factory=dict)
    rows: list[RatioRow] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    """Sections in Markdown."""

    def add(self, name: str, target: str, measured: str, *, reached: bool) -> None:
        self.rows.append(RatioRow(name, target, measured, reached))
        sys.stderr.write(f"    {name}: {measured} (target: {target})\n")

    def table(self) -> str:
        """Return the ratios as a Markdown table."""
        lines = ["| measurement | target | measured | |", "|---|---|---|---|"]
        measured = {row.name for row in self.rows}
        for row in [*self.rows, *(row for row in UNMEASURED if row.name not in measured)]:
            verdict = {True: "reached", False: "**missed**", None: ""}[row.reached]
            lines.append(f"| {row.name} | {row.target} | {row.measured} | {verdict} |")
        return "\n".join(lines)

    def write(self, file: Path) -> None:
        """Write the report, with the machine and the versions, to a file."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        parts = [
            "# Benchmark results",
            (
                "Written by `make bench`; do not edit. Every figure is a median. The ratios "
                "compare measurements of one run, in interleaved rounds."
            ),
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC. {describe_machine()}. {versions}.",
            self.table(),
            *self.details,
        ]
        file.write_text("\n\n".join(parts) + "\n")


def describe_machine() -> str:
    """Return cores, memory, system and load of this machine."""
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[2]
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}, "
        f"load average of the last 15 minutes {load:.1f}"
    )


def versions(peers: dict[str, str]) -> dict[str, str]:
    """Return the versions of the measured software, by name."""
    return {
        "Headrace": __version__,
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        **peers,
    }


def in_ms(samples: dict[str, Sample], reference: str) -> str:
    """Return medians, spreads and ratios as a Markdown table."""
    base = samples[reference].median
    lines = ["| | median ms | 10 % to 90 % | ratio |", "|---|--:|--:|--:|"]
    for name, sample in samples.items():
        low, high = sample.spread
        spread = f"{low * 1000:.1f} to {high * 1000:.1f}"
        ratio = f"{sample.median / base:.2f}×"
        lines.append(f"| {name} | {sample.median * 1000:.1f} | {spread} | {ratio} |")
    return "\n".join(lines)


def in_rows_per_second(samples: dict[str, Sample], reference: str) -> str:
    """Return medians, spreads and ratios of rates as a Markdown table."""
    base = samples[reference].median
    lines = ["| | median rows/s | 10 % to 90 % | ratio |", "|---|--:|--:|--:|"]
    for name, sample in samples.items():
        low, high = sample.spread
        ratio = f"{sample.median / base:.3f}×"
        lines.append(f"| {name} | {sample.median:,.0f} | {low:,.0f} to {high:,.0f} | {ratio} |")
    return "\n".join(lines)


SELECT_ONE = "`SELECT 1`, HTTP submit to rows, warm session, against in-process PySpark"
BELOW_PEERS = "the same, against Spark Connect and the Spark Thrift Server"
SIGNED_IN = "`SELECT 1` with a token, a JWT, a password: against the token of the node"
ONE_JOB = "a small query with a Spark job, the same way"
SMALL_READS = "small reads of tables, against in-process PySpark, the slowest"
SMALL_WRITES = "`INSERT` and `INSERT OVERWRITE` of a row, the slowest"
LAKE_READS = "1 row of Delta and of Iceberg, against in-process PySpark, the slowest"
LAKE_WRITES = "`INSERT` of a row into Delta and Iceberg, the slowest"
SMALL_SERVERS = "small reads that are faster than by Spark Connect and the Thrift Server"
SMALL_DEFINITIONS = "CTAS of a row and other small statements, the slowest"
AT_ONCE = "small reads, eight at once in one session, rate against eight threads, the lowest"
ROWS = "5 million rows to an Arrow client, against in-process `toArrow()`"
NODE_MEMORY = "growth of the node's memory meanwhile"
READS = "status reads on one node"
SUBMITS = "submits on one node"
POSTGRES_READS = "status reads on one node with PostgreSQL"
POSTGRES_SUBMITS = "submits on one node with PostgreSQL"
BESIDE_READS = "status reads beside 200 event streams and 500 drivers, against alone"
BESIDE_SUBMITS = "submits beside 200 event streams and 500 drivers, against alone"
IDLE = "reads of the store for 1,000 idle sessions"
CLAIMS = "claim with 1,000,000 finished statements, against 1,000"
COLD = "first `SELECT 1` where nothing runs, against a bare PySpark process"
WARM = "new session on a warm driver, submit to rows"
BACKEND_CALLS = "backend calls for 1,000 status reads of a running batch query"
STREAMS = "streaming rows/s under supervision, against a bare `writeStream`"
PLANS = "plan of 1,000 manifests"
TAKEOVER = "SIGKILL of a node, until another node serves all that it owned"
BACKFILL = "backfill of 31 days through four jobs, against a plain PySpark script"
SCHEDULES = "1,000 jobs due at once on three nodes, until their runs are stored, p99"
CTAS = "CTAS of 10 million rows, against plain Spark CTAS"
INSERT = "INSERT of 10 million rows, against plain Spark"
PARTITIONED_INSERT = "INSERT of 10 million rows into 50 partitions, against plain Spark"

PYHIVE = "`SELECT 1` by PyHive, against the Spark Thrift Server"
HIVE_JDBC_2 = "1 million rows by Hive's JDBC driver 2.3, against the Spark Thrift Server"
HIVE_JDBC_4 = "the same by its driver 4.0"
ADBC = "5 million rows by ADBC, against in-process `toArrow()`"
DBT = "`dbt build` of 20 models, against the Spark Thrift Server"

UNMEASURED = [
    RatioRow(SELECT_ONE, "≤ 1.20×", "not in this run"),
    RatioRow(BELOW_PEERS, "below both", "not in this run"),
    RatioRow(SIGNED_IN, "≤ 1.02×", "not in this run"),
    RatioRow(ONE_JOB, "≤ 1.30×", "not in this run"),
    RatioRow(SMALL_READS, "≤ 1.00×", "not in this run"),
    RatioRow(SMALL_WRITES, "≤ 1.25×", "not in this run"),
    RatioRow(SMALL_DEFINITIONS, "≤ 1.10×", "not in this run"),
    RatioRow(LAKE_READS, "≤ 1.00×", "not in this run"),
    RatioRow(LAKE_WRITES, "≤ 1.25×", "not in this run"),
    RatioRow(SMALL_SERVERS, "all", "not in this run"),
    RatioRow(AT_ONCE, "≥ 0.95×", "not in this run"),
    RatioRow(ROWS, "≤ 1.25×", "not in this run"),
    RatioRow(NODE_MEMORY, "< 200 MiB", "not in this run"),
    RatioRow(CTAS, "≤ 1.05×", "not in this run"),
    RatioRow(INSERT, "≤ 1.05×", "not in this run"),
    RatioRow(PARTITIONED_INSERT, "≤ 1.10×", "not in this run"),
    RatioRow(READS, "≥ 1,000/s", "not in this run"),
    RatioRow(SUBMITS, "≥ 300/s", "not in this run"),
    RatioRow(CLAIMS, "≤ 1.2×", "not in this run"),
    RatioRow(COLD, "≤ 0.65×", "not in this run"),
    RatioRow(WARM, "≤ 1 s", "not in this run"),
    RatioRow(BACKEND_CALLS, "0", "not in this run"),
    RatioRow(STREAMS, "≥ 0.98×", "not in this run"),
    RatioRow(TAKEOVER, "≤ lease + 2 s", "not in this run"),
    RatioRow(SCHEDULES, "≤ 5 s", "not in this run"),
    RatioRow(BACKFILL, "≤ 1.10×", "not in this run"),
    RatioRow(POSTGRES_READS, "≥ 1,000/s", "not in this run"),
    RatioRow(POSTGRES_SUBMITS, "≥ 300/s", "not in this run"),
    RatioRow(BESIDE_READS, "≥ 0.9×", "not in this run"),
    RatioRow(BESIDE_SUBMITS, "≥ 0.9×", "not in this run"),
    RatioRow(IDLE, "< 50/s", "not in this run"),
    RatioRow(PLANS, "≤ 2 s", "not in this run"),
    RatioRow(PYHIVE, "≤ 0.80×", "not in this run"),
    RatioRow(HIVE_JDBC_2, "≤ 1.00×", "not in this run"),
    RatioRow(HIVE_JDBC_4, "≤ 1.00×", "not in this run"),
    RatioRow(ADBC, "≤ 1.15×", "not in this run"),
    RatioRow(DBT, "≤ 1.00×", "not in this run"),
]
